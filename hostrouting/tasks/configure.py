"""Configure and Remove: install and remove everything that belongs to hostrouting, task by task.

Here: `TASKS`, the tasks that install something, in their order; a new one is a module in this room and a line there.
Not here: what each of them does, and the gate before every start of a machine (`boot.gate`).
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

import phases
from hostrouting.boot import DEFAULT_WAIT
from hostrouting.boot.gate import Gate, paths_of
from hostrouting.config import needs_config
from hostrouting.errors import ConfigError, HostRoutingError
from hostrouting.host.effects import tell_effects
from hostrouting.host.host import Host, needs_host
from hostrouting.tasks.base import HostTask, install, locked, preview, removals_of, valid_wait
from hostrouting.tasks.guard.service import InstallGuard
from hostrouting.tasks.keeping import KeepForeign, KeepKernelRules
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.probe_rewrite.task import RewriteProbeSource
from hostrouting.tasks.results import refusals
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from phases.errors import ExceptionGroup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hostrouting.boot.gate import Changed
    from hostrouting.config import HostRoutingConfig
    from hostrouting.tasks.base import Fallback
    from hostrouting.tasks.results import Change

__all__ = ["TASKS", "Configure", "Remove"]


TASKS: tuple[type[HostTask[Any]], ...] = (
    KeepForeign,
    KeepKernelRules,
    ConfigureStaticRoutes,
    CheckRouteOverlap,
    RewriteProbeSource,
    InstallGuard,
)
"""The tasks that install something on the host, in the order in which they run."""


@attrs.frozen
class Configure:
    """Run the tasks in order: what is to be kept, the static routes, their check, the probe rewrite, and the guard.

    The gate is changed once, before the first task does its work. `HostTask` says what the gate is if a task fails.
    A part whose change takes protection away, such as STRICT, is changed after the tasks before it have succeeded.
    """

    name: ClassVar[str] = "configure"
    config: HostRoutingConfig = attrs.field(validator=needs_config)
    host: Host = attrs.field(factory=Host.local, validator=needs_host, kw_only=True)
    wait: float = attrs.field(default=DEFAULT_WAIT, validator=valid_wait, kw_only=True)
    """The timeout in seconds for whatever each task waits for, now and at every boot; at boot it is at most 60."""
    allow_removal: bool = attrs.field(default=True, kw_only=True)
    """Whether the configuration may take away the gate, what STRICT protects or the guard; else a ConfigError."""

    @property
    def subtasks(self) -> tuple[HostTask[Any], ...]:
        """The tasks, as they appear in plans and reports."""
        tasks: list[HostTask[Any]] = []
        for make in TASKS:
            tasks.append(make(self.config, host=self.host, wait=self.wait, _before=tuple(tasks)))
        return tuple(tasks)

    def do(self, ctx: phases.Context) -> tuple[object, ...]:
        """See the class."""
        if not any(task.is_wanted or task.has_files for task in self.subtasks):
            return phases.serial(*self.subtasks, name=self.name).do(ctx)
        left_out = {task.name for task in self.subtasks if ctx.leaves_out(task, ctx.path)}
        settled = [task if task.name in left_out else task.settled(ctx) for task in self.subtasks]
        chosen = [task for task in settled if task.name not in left_out]
        up = [task.part for task in chosen if task.is_wanted]
        down = [task.part for task in chosen if not task.is_wanted]
        self._require_allowed(self.host, chosen)  # before the wait for the lock
        with locked(self.host, ctx, up) as host:
            self._require_allowed(host, chosen)  # another run may have installed something meanwhile
            tasks = [attrs.evolve(task, host=host) for task in settled]
            for task in chosen:
                task.require_rights(up=task.is_wanted)
            failures: dict[str, HostRoutingError] = {}
            fallbacks: dict[str, Fallback | None] = {}
            for task in chosen:
                if task.is_wanted:
                    try:
                        fallbacks[task.name] = task.prepare(ctx)
                    except HostRoutingError as error:
                        failures[task.name] = error
                        up.remove(task.part)
            for gone in removals_of(host, [task for task in chosen if task.name not in failures]):
                ctx.log.warning("%s", gone.sentence)
            weakened = {task.name for task in chosen if task.takes_protection_away}
            up, down = ([part for part in parts if part.name not in weakened] for parts in (up, down))
            changed = Gate(host).change(ctx, up, down) if up or down else {}
            begun = set(left_out)
            behind = [
                _BehindGate(
                    task,
                    changed,
                    begun,
                    failures.get(task.name),
                    fallbacks.get(task.name),
                    has_part_to_change=task.part.name in weakened,
                )
                for task in tasks
                if task.name in failures or changed.get(task.part.name) or _is_concerned(task)
            ]
            try:
                return phases.serial(*behind, name=self.name).do(ctx)
            except BaseException as error:
                for gated in behind:
                    if isinstance(error, phases.TaskFailed) and gated.name not in begun and not ctx.cancelled:
                        with suppress(HostRoutingError, phases.Cancelled):
                            gated.task.despite_failure(ctx, gated.paths)
                tell_effects(error, files=paths_of(changed))  # without what a task has put back
                raise

    def undo(self, ctx: phases.Context) -> object:
        """Remove everything of hostrouting, for any configuration; the same as Remove."""
        return Remove(self.config, host=self.host).do(ctx)

    def _require_allowed(self, host: Host, tasks: Sequence[HostTask[Any]]) -> None:
        if not self.allow_removal and (refused := refusals(removals_of(host, tasks))):
            raise ConfigError(refused)

    def preview(self, ctx: phases.Context | None = None) -> Change:
        """What all tasks would do together; changes nothing. FileError if a file cannot be written."""
        ctx = ctx or phases.Context(observers=[])
        return preview(self.host, [task.settled(ctx) for task in self.subtasks])


def _is_concerned(task: HostTask[Any]) -> bool:
    """Whether the task is wanted, or here; otherwise a report does not name it."""
    try:
        return task.is_wanted or task.is_here()
    except HostRoutingError:
        return True  # the error is that of the task


@attrs.frozen
class _BehindGate:
    """A task whose part of the gate was changed together with that of the others."""

    task: HostTask[Any]
    changed: Changed
    begun: set[str]
    """The names of the tasks that have begun, or are left out."""
    failure: HostRoutingError | None
    """Why the task's part was left as it was."""
    fallback: Fallback | None
    has_part_to_change: bool
    """Whether the task's part of the gate is changed when the task runs."""

    @property
    def name(self) -> str:
        return self.task.name

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that were changed for the task."""
        return self.changed.get(self.task.part.name, ())

    def do(self, ctx: phases.Context) -> object:
        self.begun.add(self.name)
        if self.failure is not None:
            raise self.failure
        if self.has_part_to_change:
            parts = (self.task.part,), ()
            self.changed.update(Gate(self.task.host).change(ctx, *(parts if self.task.is_wanted else parts[::-1])))
        if self.task.is_wanted:
            return install(ctx, self.task, self.changed, self.fallback)
        return (
            self.task.remove(ctx, self.paths) if self.paths or self.task.is_here() else phases.Skip(self.task.nothing)
        )


@attrs.frozen
class Remove:
    """Remove everything of hostrouting, and nothing else: routes, units, scripts, the gate, markers.

    Directories that only hostrouting uses go if they are empty. The lock files under /run stay until the next boot:
    another run may be waiting for them.
    A running machine is not touched; machines that start from now on no longer wait for hostrouting.
    """

    name: ClassVar[str] = "remove-host-routing"
    config: HostRoutingConfig = attrs.field(validator=needs_config)
    host: Host = attrs.field(factory=Host.local, validator=needs_host, kw_only=True)

    def do(self, ctx: phases.Context) -> tuple[str, ...]:
        """Remove as much as possible: continue after a failure, then raise all failures. Returns the removed paths."""
        failures: list[Exception] = []
        gone: list[str] = []
        with self.host.locked(ctx) as host:
            tasks = Configure(self.config, host=host).subtasks[::-1]
            changed: Changed = {}
            with _collected(failures):
                changed = Gate(host).change(ctx, down=[task.part for task in tasks])
            for task in tasks:
                # Routes stay if a file of the task remains that could install them again.
                if not task.part.present(host.files):
                    with _collected(failures):
                        gone += task.remove(ctx, changed.get(task.part.name, ())).files
            for folder in host.layout.own_folders:
                host.files.remove_empty(folder)
        if failures:
            raise failures[0] if len(failures) == 1 else ExceptionGroup("not everything could be removed", failures)
        return tuple(gone)

    def plan(self, _ctx: phases.Context) -> Change:
        """The routes and files that would be deleted; changes nothing."""
        return preview(self.host, Configure(self.config, host=self.host).subtasks[::-1], up=False)


@contextmanager
def _collected(failures: list[Exception]) -> Iterator[None]:
    try:
        yield
    except HostRoutingError as error:
        failures.append(error)
    except ExceptionGroup as several:
        failures += several.exceptions
