"""The base class of the tasks, and the order in which each is carried out: lock the host, change the gate, do the work.

Not here: what a task does (a module for each), and how the gate is changed (`boot.gate`).
"""

from __future__ import annotations

import errno
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

import attrs

import phases
from hostrouting.boot import DEFAULT_WAIT
from hostrouting.boot.gate import Gate, paths_of
from hostrouting.config import needs_config
from hostrouting.errors import FileError, HostRoutingError, UnitFailed
from hostrouting.finding import of_severity
from hostrouting.host.effects import effects_of, having_changed, tell_effects
from hostrouting.host.fileset import Changes
from hostrouting.host.host import Host, needs_host
from hostrouting.tasks.guard.look import Look
from hostrouting.tasks.results import Change, removal
from phases.errors import add_note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from typing_extensions import Self

    from hostrouting.boot.gate import Changed, Part
    from hostrouting.config import HostRoutingConfig
    from hostrouting.finding import Finding
    from hostrouting.host import Manager
    from hostrouting.tasks.guard.look import Repair
    from hostrouting.tasks.results import Standing

__all__ = [
    "Alive",
    "Fallback",
    "HostTask",
    "MayRepair",
    "install",
    "locked",
    "preview",
    "removals_of",
    "run_once",
    "start_unit",
    "valid_wait",
]

MayRepair: TypeAlias = "Callable[[Repair], bool]"
"""Whether this repair may be made now; another program may keep undoing it."""

Alive: TypeAlias = "Callable[[], object]"
"""Called by work that may take long: it goes on, and does not hang."""

_A_DAY = 86_400
_GRACE = 90.0  # seconds that a unit may take in addition to its own timeout

ResultT = TypeVar("ResultT")


def valid_wait(instance: object, _attribute: object, value: Any) -> None:
    """A validator for tasks: TypeError if `value` is not a number, ValueError if it is outside 0 to one day."""
    if not isinstance(value, int | float):
        raise TypeError(f"{type(instance).__name__}: wait={value!r} is not a number of seconds; write wait=30")
    if not 0 <= value <= _A_DAY:
        raise ValueError(f"{type(instance).__name__}: wait={value} is not between 0 and {_A_DAY} seconds")


@contextmanager
def locked(host: Host, ctx: phases.Context, parts: Sequence[Part]) -> Iterator[Host]:
    """Lock the host. If that fails on a running host, still install the gate, then raise the error."""
    with ExitStack() as stack:
        try:
            inside = stack.enter_context(host.locked(ctx))
        except FileError as error:
            if parts and host.manager is not None and error.errno not in {errno.EACCES, errno.EPERM}:
                try:
                    tell_effects(error, files=paths_of(Gate(host).change(ctx, parts)))
                except HostRoutingError as other:
                    tell_effects(error, files=effects_of(other).files)
            raise
        yield inside


@attrs.frozen
class Fallback:
    """A part of the gate as it was before a run, which is put back if the task fails and has changed nothing else."""

    part: Part
    listed: str | None
    """The list of the gate's steps before the run."""
    is_unchanged: Callable[[], bool]
    """Whether what the task works on is as it was before the run."""


@attrs.frozen
class HostTask(Generic[ResultT]):
    """A task with a part in the gate. A subclass says what its part is, when it is wanted, and what else it does.

    The gate is changed before the task does its work, so the gate matches the configuration if the work then fails.
    The exception is a task that has worked before: if it fails and has changed nothing, its part stays as it was.

    1. `prepare` raises what makes the work fail before anything is changed. Then the part is not touched.
    2. If `install` fails later and what it changed was undone, the part is put back by a second change of the gate. A
       run that is killed before that leaves the new part: the next start of a machine uses it, or is refused by it.
    3. In both cases the parts of all other tasks are those of the new configuration: a stricter check is in force. In
       Configure, a part that would take protection away comes later, after the success of all tasks before it.
    4. A task that has never worked on this host has no part to keep: its new part is installed, which then refuses
       every machine.
    """

    name: ClassVar[str]
    nothing: ClassVar[str]
    """The reason for skipping the task if it is neither wanted nor installed."""
    config: HostRoutingConfig = attrs.field(validator=needs_config)
    host: Host = attrs.field(factory=Host.local, validator=needs_host, kw_only=True)
    wait: float = attrs.field(default=DEFAULT_WAIT, validator=valid_wait, kw_only=True)
    """The timeout in seconds for whatever the task waits for, now and at every boot; at boot it is at most 60."""
    _before: tuple[HostTask[Any], ...] = attrs.field(default=(), alias="_before", kw_only=True, eq=False, repr=False)
    """The tasks before this one in the same Configure: of several that write one file, only the first plans it."""

    @property
    def part(self) -> Part:
        """What the task installs on the host."""
        raise NotImplementedError

    @property
    def is_wanted(self) -> bool:
        """Whether the configuration asks for the task."""
        raise NotImplementedError

    def paths(self) -> tuple[str, ...]:
        """The paths of the task's files that exist on the host."""
        return self.part.present(self.host.files)

    @property
    def has_files(self) -> bool:
        """Whether the host has files of the task, or a gate without steps."""
        return bool(self.paths()) or Gate(self.host).is_left

    def is_here(self) -> bool:
        """Whether the host has anything that the task installed."""
        return self.has_files

    def settled(self, ctx: phases.Context) -> Self:  # noqa: ARG002  most tasks need no answers
        """The task with the answers that it needs before its part is known, such as that of the instance metadata."""
        return self

    def standing(self) -> Standing | None:
        """The state of the task's work on the host now; None if the task reports it elsewhere or has done nothing."""
        return None

    def removals(self) -> tuple[Finding, ...]:
        """What the host loses by this configuration, because that does not ask for it; the gate is not included."""
        return ()

    @property
    def takes_protection_away(self) -> bool:
        """Whether the host loses what keeps its machines or routes right."""
        return any(of_severity(self.removals(), "error"))

    def keep(self, ctx: phases.Context, may_repair: MayRepair, alive: Alive = lambda: None) -> Look:  # noqa: ARG002  not every task has something to keep
        """Look at what the task installed, and repair what can be repaired now; wait for nothing.

        The host is locked. `may_repair` is asked before each repair; `alive` is called between the steps of a long one.
        """
        return Look()

    def require_rights(self, *, up: bool) -> None:
        """Raise BackendError if `install` (or, if not `up`, `remove`) would have to change the kernel, and may not.

        It is called before a file is changed: the kernel's refusal would come after that.
        """
        rights = self.host.rights()
        if self.host.backend is not None and not rights.changes_network and self.look(up=up).changes_kernel:
            rights.require_network()

    def prepare(self, ctx: phases.Context) -> Fallback | None:  # noqa: ARG002  most tasks prepare nothing
        """Do what has to come before the gate is changed. If it raises, the task's part of the gate stays as it is."""
        return None

    def install(self, ctx: phases.Context, changed: tuple[str, ...]) -> ResultT:
        """Do the work. The task's part of the gate is installed; `changed` are the paths written for it."""
        raise NotImplementedError

    def remove(self, ctx: phases.Context, changed: tuple[str, ...]) -> ResultT:
        """Undo the work. The task's part of the gate is removed; `changed` are the paths removed for it."""
        raise NotImplementedError

    def despite_failure(self, ctx: phases.Context, changed: tuple[str, ...]) -> None:
        """Do what must be done even though an earlier task has failed; `changed` as in `install`. For most, nothing."""

    def look(self, *, up: bool) -> Change:
        """What `install` (if `up`) or `remove` would do; changes nothing."""
        raise NotImplementedError

    def do(self, ctx: phases.Context) -> ResultT | phases.Skip:
        """See the class."""
        if not self.is_wanted and not self.is_here():
            return phases.Skip(self.nothing)
        task = self.settled(ctx)
        with locked(self.host, ctx, (task.part,) if task.is_wanted else ()) as host:
            task = attrs.evolve(task, host=host)
            return task._behind_its_gate(ctx, up=task.is_wanted, removals=removals_of(host, (task,)))

    def undo(self, ctx: phases.Context) -> ResultT:
        """Remove what the task installs, whatever the configuration says."""
        with self.host.locked(ctx) as host:
            return attrs.evolve(self, host=host)._behind_its_gate(ctx, up=False)

    def plan(self, ctx: phases.Context) -> Change:
        """What do() would do on this host now; changes nothing. FileError if do() could not write a file."""
        if not (self.is_wanted or self.is_here()):
            return Change()
        found = preview(self.host, (self.settled(ctx),))
        above = ctx.path[:-1]
        if any(task.is_wanted and task.part.step and not ctx.leaves_out(task, above) for task in self._before):
            # That task changes the gate's own files for all of them.
            return attrs.evolve(found, files=found.files.without(Gate(self.host).own_paths))
        return found

    def _behind_its_gate(self, ctx: phases.Context, *, up: bool, removals: Sequence[Finding] = ()) -> ResultT:
        part = self.part
        self.require_rights(up=up)
        fallback = self.prepare(ctx) if up else None
        for gone in removals:
            ctx.log.warning("%s", gone.sentence)
        changed = Gate(self.host).change(ctx, *(((part,), ()) if up else ((), (part,))))
        if up:
            return install(ctx, self, changed, fallback)
        with having_changed(files=paths_of(changed)):
            return self.remove(ctx, changed.get(part.name, ()))


def install(ctx: phases.Context, task: HostTask[ResultT], changed: Changed, fallback: Fallback | None) -> ResultT:
    """Do the task's work. If it fails and has changed nothing, put back its part, which then no longer is `changed`.

    The error carries the paths that are still changed.
    """
    files, path = task.host.files, task.host.layout.gate_steps_path
    try:
        return task.install(ctx, changed.get(task.part.name, ()))
    except BaseException as error:
        is_ours = isinstance(error, HostRoutingError | phases.Cancelled)
        if is_ours and fallback is not None and fallback.is_unchanged():
            try:
                with ctx.shielded() as safe:
                    Gate(task.host).change(safe, (fallback.part,))
            except HostRoutingError as other:
                add_note(error, str(other))
            else:
                back = {*fallback.part.all_files.paths, *([path] if files.read(path) == fallback.listed else [])}
                changed |= {name: tuple(one for one in paths if one not in back) for name, paths in changed.items()}
        tell_effects(error, files=paths_of(changed))
        raise


def preview(host: Host, tasks: Sequence[HostTask[Any]], *, up: bool = True) -> Change:
    """What these tasks would do together, or, if `up` is false, what undoing them would do.

    FileError if a file cannot be written.
    """
    gate = Gate(host)
    looks = [(task, task.look(up=up and task.is_wanted)) for task in tasks]
    would_fail = up and any(look.routes and (look.routes.conflicts or look.routes.pending) for _, look in looks)
    weakened = [task.part for task in tasks if would_fail and task.takes_protection_away]
    rising = tuple(task.part for task, look in looks if up and task.is_wanted and not look.keeps_script)
    falling = tuple(task.part for task in tasks if not (up and task.is_wanted))
    rising, falling = (tuple(part for part in parts if part not in weakened) for parts in (rising, falling))
    if rising:
        gate.require_installable(rising)
    found = Change(None, gate.changes(rising, falling) if rising or falling else Changes())
    for _, look in looks:
        found += look
    if up:
        found += Change(removals=removals_of(host, tasks))
    if not found.files and (rising or gate.present()):
        found += Change(unread=gate.is_unread((*rising, *falling)))
    return found


def removals_of(host: Host, tasks: Sequence[HostTask[Any]]) -> tuple[Finding, ...]:
    """The removals that these tasks make together without being asked to remove; the gate first."""
    found = tuple(gone for task in tasks for gone in task.removals())
    gate, falling = Gate(host), {task.part.name for task in tasks if not task.is_wanted}
    rising = any(task.is_wanted and task.part.step for task in tasks)
    if rising or not gate.steps or not {step.name for step in gate.steps} <= falling:
        return found
    told = "this configuration has no routes and no check, so the gate would go and machines would start unchecked"
    gone = removal("routeOverlap", told, is_protection=True, remedy="add staticRoutes or routeOverlap")
    return (gone, *(other for other in found if other.target != gone.target))


def run_once(ctx: phases.Context, host: Host, unit: str, *, wait: float, is_new: bool) -> bool:
    """Run the unit that the next boot depends on once now, if its script is new or its last run failed.

    Returns whether it was run. If `ctx` is cancelled, the unit is stopped and the cancellation is raised.
    """
    manager = host.manager if host.manager is not None and host.manager.is_running() else None
    if manager is None or not (is_new or not manager.state(unit).ok):
        return False
    start_unit(ctx, manager, unit, timeout=wait + _GRACE)
    return True


def start_unit(ctx: phases.Context, manager: Manager, unit: str, *, timeout: float) -> None:
    """Start the unit. If `ctx` is cancelled, the unit is stopped and the cancellation is raised."""
    try:
        with ctx.on_cancel(lambda: manager.stop(unit)):
            manager.start(unit, timeout=timeout)
    except UnitFailed:
        ctx.check()  # a unit that we stopped because the run was cancelled has not failed
        raise
