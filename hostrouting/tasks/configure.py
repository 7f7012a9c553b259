"""Configure and Remove: install and remove everything that belongs to hostrouting, task by task.

Here: `TASKS`, the tasks that install something, in their order; a new one is a module in this room and a line there.
Not here: what each of them does, and the gate before every start of a unit (`boot.gate`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, NamedTuple

import attrs

import phases
from hostrouting.boot.gate import Changed, Gate, paths_of
from hostrouting.boot.scripts import DEFAULT_WAIT
from hostrouting.config.settings import HostRoutingConfig, needs_config
from hostrouting.errors import ConfigError, Fault, HostRoutingError
from hostrouting.host.effects import tell_effects
from hostrouting.host.fileset import Changes
from hostrouting.host.host import Host, needs_host
from hostrouting.tasks.base import Fallback, HostTask, locked, preview, removals_of, valid_wait, work
from hostrouting.tasks.guard.service import InstallGuard
from hostrouting.tasks.keeping import KeepForeign
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.probe_rewrite.task import RewriteProbeSource
from hostrouting.tasks.results import Change, refusals
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from phases.errors import ExceptionGroup

TASKS: tuple[type[HostTask[Any]], ...] = (
    KeepForeign,
    ConfigureStaticRoutes,
    CheckRouteOverlap,
    RewriteProbeSource,
    InstallGuard,
)
"""The tasks that install something on the host, in the order in which they run."""


def make_tasks(config: HostRoutingConfig, host: Host, *, wait: float = DEFAULT_WAIT) -> tuple[HostTask[Any], ...]:
    """A task of each class."""
    made: list[HostTask[Any]] = []
    for task in TASKS:
        made.append(task(config, host=host, wait=wait, _before=tuple(made)))
    return tuple(made)


@attrs.frozen
class Configure:
    """Run the tasks in the order of `TASKS`: first what keeps routes and rules, last the guard.

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
        return make_tasks(self.config, self.host, wait=self.wait)

    def do(self, ctx: phases.Context) -> tuple[object, ...]:
        """See the class."""
        left_out = {task.name for task in self.subtasks if ctx.leaves_out(task, ctx.path)}
        settled = self._settled(ctx, left_out)
        # A first installation that failed may have left the gate alone. If nothing is here, no task looks again:
        # without the lock, it could remove its part of what another run installs meanwhile.
        if not (any(map(_is_concerned, settled)) or Gate(self.host).present()):
            return phases.serial(*map(_Absent, self.subtasks), name=self.name).do(ctx)
        chosen = [task for task in settled if task.name not in left_out]
        up = [task.part for task in chosen if task.is_wanted]
        down = [task.part for task in chosen if not task.is_wanted]
        self._require_allowed(self.host, chosen)  # before the wait for the lock
        with locked(self.host, ctx, up, self.config) as host:
            self._require_allowed(host, chosen)  # another run may have installed something meanwhile
            tasks = [attrs.evolve(task, host=host) for task in settled]
            for task in chosen:
                task.require_rights(up=task.is_wanted)
            failures, fallbacks = _prepared(ctx, chosen)
            left = [task for task in chosen if task.name not in failures]
            for gone in removals_of(host, left):
                ctx.log.warning("%s", gone.sentence)
            weakened = {task.name for task in chosen if task.takes_protection_away}
            failed = {task.part.name for task in chosen if task.name in failures}
            up, down = ([part for part in parts if part.name not in failed] for parts in (up, down))
            gate = Gate(host, self.config)
            later = {task.part.name for task in chosen if task.name in weakened}
            if later:  # else the gate asks for what it changes now
                gate.require_reload(gate.changes(up, down), (*up, *down))
            up, down = ([part for part in parts if part.name not in later] for parts in (up, down))
            changed = gate.change(ctx, up, down) if up or down else {}
            begun = set(left_out)
            behind = [
                _BehindGate(
                    task,
                    changed,
                    begun,
                    failures.get(task.name),
                    fallbacks.get(task.name),
                    has_part_to_change=task.name in weakened,
                )
                for task in tasks
                if task.name in failures or changed.get(task.part.name) or _is_concerned(task)
            ]
            try:
                return phases.serial(*behind, name=self.name).do(ctx)
            except BaseException as error:
                if isinstance(error, phases.TaskFailed) and not ctx.cancelled:
                    for gated in behind:
                        gated.do_all_the_same(ctx)
                tell_effects(error, files=paths_of(changed))  # without what a task has put back
                raise

    def undo(self, ctx: phases.Context) -> object:
        """Remove everything of hostrouting, for any configuration; the same as Remove."""
        return Remove(self.config, host=self.host).do(ctx)

    def _settled(self, ctx: phases.Context, left_out: Iterable[str] = ()) -> list[HostTask[Any]]:
        """The tasks with their answers; a ConfigError with the faults of all of them."""
        found: list[HostTask[Any]] = []
        faults: list[Fault] = []
        for task in self.subtasks:
            try:
                found.append(task if task.name in left_out else task.settled(ctx))
            except ConfigError as error:
                faults += error.faults
        if faults:
            raise ConfigError(faults)
        return found

    def _require_allowed(self, host: Host, tasks: Sequence[HostTask[Any]]) -> None:
        if not self.allow_removal and (refused := refusals(removals_of(host, tasks))):
            raise ConfigError(refused)

    def preview(self, ctx: phases.Context | None = None) -> Change:
        """What all tasks would do together; changes nothing. FileError if a file cannot be written."""
        ctx = ctx or phases.Context(observers=[])
        return preview(self.host, self._settled(ctx))


def _prepared(
    ctx: phases.Context, tasks: Iterable[HostTask[Any]]
) -> tuple[dict[str, HostRoutingError], dict[str, Fallback | None]]:
    """For each task: the error that keeps its part as it is, and the part to put back if it fails later."""
    failures: dict[str, HostRoutingError] = {}
    fallbacks: dict[str, Fallback | None] = {}
    for task in tasks:
        if task.is_wanted:
            try:
                fallbacks[task.name] = task.prepare(ctx)
            except HostRoutingError as error:
                failures[task.name] = error
    return failures, fallbacks


def _is_concerned(task: HostTask[Any]) -> bool:
    """Whether the task is wanted or installed; reports leave out all others."""
    try:
        return task.is_wanted or task.is_here()
    except HostRoutingError:
        return True  # the error is that of the task


class _Absent(NamedTuple):
    """A task that is not wanted, and has nothing on the host."""

    task: HostTask[Any]

    @property
    def name(self) -> str:
        return self.task.name

    def do(self, _ctx: phases.Context) -> phases.Skip:
        return phases.Skip(self.task.nothing)


class _BehindGate(NamedTuple):
    """A task whose part of the gate was changed together with those of the others."""

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

    def do_all_the_same(self, ctx: phases.Context) -> None:
        """Carry out the task although another has failed, if it is always carried out and has not begun."""
        if self.task.is_always_carried_out and self.task.is_wanted and self.name not in self.begun:
            with suppress(HostRoutingError, phases.Cancelled):
                change = attrs.evolve(self.task.planned(up=True), files=Changes(self.paths))
                self.task.carry_out(ctx, change, up=True)

    def do(self, ctx: phases.Context) -> object:
        self.begun.add(self.name)
        if self.failure is not None:
            raise self.failure
        if self.has_part_to_change:
            parts = (self.task.part,), ()
            gate = Gate(self.task.host, self.task.config)
            self.changed.update(gate.change(ctx, *(parts if self.task.is_wanted else parts[::-1])))
        if self.task.is_wanted or self.paths or self.task.is_here():
            return work(ctx, self.task, self.changed, up=self.task.is_wanted, fallback=self.fallback)
        return phases.Skip(self.task.nothing)


@attrs.frozen
class Remove:
    """Remove everything of hostrouting and nothing else: routes, units, scripts, the gate, markers.

    Directories that only hostrouting uses go if they are empty. The lock files under /run stay until the next boot:
    another run may be waiting for them.
    A running unit is not touched; units that start from now on no longer wait for hostrouting.
    """

    name: ClassVar[str] = "remove-host-routing"
    config: HostRoutingConfig = attrs.field(validator=needs_config)
    host: Host = attrs.field(factory=Host.local, validator=needs_host, kw_only=True)

    def do(self, ctx: phases.Context) -> tuple[str, ...]:
        """Remove as much as possible: continue after a failure, then raise all failures. Returns the removed paths."""
        failures: list[Exception] = []
        gone: list[str] = []
        with self.host.locked(ctx) as host:
            tasks = self._usable(host, failures)
            changed: Changed = {}
            with _collected(failures):
                changed = Gate(host).change(ctx, down=[task.part for task in tasks])
            for task in tasks:
                # Routes stay if a file of the task remains that could install them again.
                if not task.part.present(host.files):
                    with _collected(failures):
                        gone += work(ctx, task, changed, up=False).files
            for folder in host.layout.own_folders:
                host.files.remove_empty(folder)
        if failures:
            raise failures[0] if len(failures) == 1 else ExceptionGroup("not everything could be removed", failures)
        return tuple(gone)

    def plan(self, _ctx: phases.Context) -> Change:
        """The routes and files that would be deleted; changes nothing."""
        failures: list[Exception] = []
        tasks = self._usable(self.host, failures)
        errors = [finding for error in failures if isinstance(error, HostRoutingError) for finding in error.findings]
        return preview(self.host, tasks, up=False) + Change(others=tuple(errors))

    def _usable(self, host: Host, failures: list[Exception]) -> tuple[HostTask[Any], ...]:
        """The tasks, last first, without those that cannot say what they have installed."""
        found: list[HostTask[Any]] = []
        for task in make_tasks(self.config, host)[::-1]:
            with _collected(failures):
                _ = task.part
                found.append(task)
        return tuple(found)


@contextmanager
def _collected(failures: list[Exception]) -> Iterator[None]:
    try:
        yield
    except HostRoutingError as error:
        failures.append(error)
    except ExceptionGroup as several:
        failures += several.exceptions
