"""The base class of the tasks: what a task says about itself, and how every task is carried out.

A task is a class with four hooks. Three of them only read; what they return is data.

part        its files on a host: the script and the step before each start of a gated unit, and its unit
is_wanted   whether the configuration asks for it
change      what would be done now to the kernel, as a Change: its operations or route plan, and what prevents them
carry_out   does what a Change says, and returns its Effects

How the data goes through it, in a run:

1. In `settled`, a task that is configured wrongly raises its ConfigError. Nothing is locked yet.
2. The host is locked. If this process may not change the kernel and `change` would, that is an error now. `prepare`
   raises what else must fail before a file is changed, and `removals` says what the host loses.
3. The gate changes the files of all parts at once. From now on, no gated unit starts without the new steps.
4. `change` reads the host again, and `carry_out` gets its answer. If the part has a unit to run now, it is run, and
   `change` is asked once more: a run of the old script may have ended meanwhile.
5. What was changed is in the result or on the error, in both cases with the paths of step 3. If a task fails that was
   installed before and nothing was changed, its part is put back.

A dry run is `change` with the paths of step 3 and 4. To undo is the same with `up=False`: the gate first, then
`carry_out`, then the files that say what is to be undone. The guard calls `keep` after each event.

Four hooks are enough for a task that changes rules, routes or settings. Five more methods have a default that suits
such a task. Each is replaced where a hook cannot do it:

settled     faults that only a look at the host finds
prepare     a failure that is known before the gate is changed, so that the installed script stays in force
removals    what is lost, read from the installed scripts alone: an image has no kernel to ask for a `change`
keep        what the guard repairs, or a verdict with nothing to repair
standing    what `status` shows, such as counters

Not here: what each task does (a module for each), and how the gate is changed (`boot.gate`).
"""

from __future__ import annotations

import errno
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

import attrs

import phases
from hostrouting.boot.gate import Changed, Gate, Part, paths_of
from hostrouting.boot.scripts import DEFAULT_WAIT, MOST_WAIT
from hostrouting.config.settings import HostRoutingConfig, needs_config
from hostrouting.errors import BackendError, FileError, HostRoutingError, UnitFailed
from hostrouting.finding import Finding, of_severity
from hostrouting.host.effects import Effects, effects_of, having_changed, tell_effects
from hostrouting.host.fileset import Changes
from hostrouting.host.host import Host, needs_host
from hostrouting.tasks.results import Change, Look, Repair, Standing, removal
from hostrouting.text import spoken
from phases.errors import add_note

if TYPE_CHECKING:
    from typing_extensions import Self

    from hostrouting.host.systemd import Manager
    from hostrouting.kernel.base import RouteBackend

MayRepair: TypeAlias = "Callable[[Repair], bool]"
"""Whether this repair may be made now; another program may keep undoing it."""

Alive: TypeAlias = "Callable[[], object]"
"""Called by work that may take long: it goes on, and does not hang."""

_A_DAY = 86_400
_GRACE = 90.0  # seconds that a unit may take in addition to its own timeout

ResultT = TypeVar("ResultT", bound=Effects)


def valid_wait(instance: object, _attribute: object, value: Any) -> None:
    """A validator for tasks: TypeError if `value` is not a number, ValueError if it is outside 0 to one day."""
    if not isinstance(value, int | float):
        raise TypeError(f"{type(instance).__name__}: wait={value!r} is not a number of seconds; write wait=30")
    if not 0 <= value <= _A_DAY:
        raise ValueError(f"{type(instance).__name__}: wait={value} is not between 0 and {_A_DAY} seconds")


@contextmanager
def locked(host: Host, ctx: phases.Context, parts: Sequence[Part], config: HostRoutingConfig) -> Iterator[Host]:
    """Lock the host. If that fails on a running host, still install the gate of these units, then raise the error."""
    with ExitStack() as stack:
        try:
            inside = stack.enter_context(host.locked(ctx))
        except FileError as error:
            if parts and host.manager is not None and error.errno not in {errno.EACCES, errno.EPERM}:
                try:
                    tell_effects(error, files=paths_of(Gate(host, config).change(ctx, parts)))
                except HostRoutingError as other:
                    tell_effects(error, files=effects_of(other).files)
            raise
        yield inside


class Fallback(NamedTuple):
    """The former part of the gate, put back if the task fails before it has changed anything else."""

    part: Part
    listed: str | None
    """The list of the gate's steps before the run."""
    is_unchanged: Callable[[], bool]
    """Whether what the task works on is as it was before the run."""


@attrs.frozen
class HostTask(Generic[ResultT]):
    """A task with a part in the gate. A subclass has the four hooks; this module's text says when each is called.

    The gate is changed before the task does its work, so the gate matches the configuration if the work then fails.
    The exception is a task that is installed already: if it fails and has changed nothing, its part stays as it was.

    1. `prepare` raises what makes the work fail before anything is changed. Then the part is not touched.
    2. If `carry_out` fails later and what it changed was undone, the part is put back by a second change of the gate. A
       run that is killed before that leaves the new part: the next start of a gated unit uses it, or is refused by it.
    3. In both cases the parts of all other tasks are those of the new configuration: a stricter check is in force. In
       Configure, a part that would take protection away comes later, after the success of all tasks before it.
    4. A task that is not installed has no part to keep: its new part is installed, which then refuses every gated unit.
    """

    name: ClassVar[str]
    nothing: ClassVar[str] = "it is neither configured nor installed"
    """The reason for skipping the task if it is neither wanted nor installed."""
    section: ClassVar[str] = ""
    """The part of the configuration that asks for the task."""
    loss: ClassVar[str] = ""
    """What the host loses with the task, in a few words; its name if empty."""
    is_protection: ClassVar[bool] = False
    """Whether that keeps units back or routes right: then a run is refused that may not take protection away."""
    is_always_carried_out: ClassVar[bool] = False
    """Whether the work is done even if an earlier task has failed."""
    config: HostRoutingConfig = attrs.field(validator=needs_config)
    host: Host = attrs.field(factory=Host.local, validator=needs_host, kw_only=True)
    wait: float = attrs.field(default=DEFAULT_WAIT, validator=valid_wait, kw_only=True)
    """The timeout in seconds for whatever the task waits for, now and at every boot; at boot it is at most 60."""
    _before: tuple[HostTask[Any], ...] = attrs.field(default=(), alias="_before", kw_only=True, eq=False, repr=False)
    """The tasks before this one in the same Configure: of several that write one file, only the first plans it."""

    # The hooks.

    @property
    def part(self) -> Part:
        """What the task installs on the host. Also called when nothing is wanted: then only the paths matter."""
        raise NotImplementedError

    @property
    def is_wanted(self) -> bool:
        """Whether the configuration asks for the task."""
        raise NotImplementedError

    def change(self, *, up: bool) -> Change:  # noqa: ARG002  the files may be all
        """What would be done now, apart from the files of the part; with `up` false, to undo the work.

        The host has a kernel: for an image, this is not asked.
        """
        return Change()

    def carry_out(self, ctx: phases.Context, change: Change, *, up: bool) -> ResultT:
        """Do what the change says. The files of the part were changed before this call.

        If it fails, the error has what was done (`hostrouting.host.effects`).
        """
        raise NotImplementedError

    # What few tasks replace; the text of this module says why each cannot be one of the hooks.

    def settled(self, ctx: phases.Context) -> Self:  # noqa: ARG002  most tasks look at nothing
        """The task itself. Raises ConfigError if it is configured wrongly."""
        return self

    def prepare(self, ctx: phases.Context) -> Fallback | None:  # noqa: ARG002  most tasks prepare nothing
        """Do what must come before the change of the gate. If it raises, the task's part of the gate stays."""
        return None

    def removals(self) -> tuple[Finding, ...]:
        """What the host loses because the configuration does not ask for it; the gate is not included."""
        part, files = self.part, self.host.files
        # What a run has left, such as the figures of a guard that was started by hand, is not a loss.
        if self.is_wanted or not (part.files.present(files) or part.left(files)):
            return ()
        sentence = f"installed, but not in this configuration: {self.loss or self.name}"
        return (removal(self.section_path, sentence, is_protection=self.is_protection),)

    def keep(self, ctx: phases.Context, may_repair: MayRepair, alive: Alive = lambda: None) -> Look:  # noqa: ARG002  not every task has something to repair
        """Look at the task's work, and repair what can be repaired now, without waiting.

        The host is locked and has a kernel, and the task is wanted. `may_repair` is asked before each repair; `alive`
        is called between the steps of a long one.
        """
        return Look()

    def standing(self) -> Standing | None:
        """The present state of the task's work; None if there is none, or if it is reported elsewhere."""
        return None

    # What follows.

    @property
    def boot_wait(self) -> int:
        """The seconds that the task's script waits at boot."""
        return min(math.ceil(self.wait), MOST_WAIT)

    def kernel(self) -> RouteBackend:
        """The kernel's routing, for a `with` block. An image has none, and is not asked for a `change`."""
        if self.host.backend is None:
            raise BackendError("an image has no kernel", kind="unavailable")
        return self.host.backend()

    def planned(self, *, up: bool) -> Change:
        """What would be done now, without the files of the part; for an image, nothing."""
        return Change() if self.host.backend is None else self.change(up=up)

    @property
    def section_path(self) -> str:
        """The path of the task's section in the configuration, for the faults in it."""
        return self.config.path(self.section)

    def paths(self) -> tuple[str, ...]:
        """The paths of the task's files that exist on the host."""
        part, files = self.part, self.host.files
        return (*part.present(files), *part.left(files))

    @property
    def has_files(self) -> bool:
        """Whether the host has files of the task, its step in the gate's list, or a gate without steps.

        An installation that failed may have left the step and nothing else of the task.
        """
        gate, name = Gate(self.host), self.part.name
        return bool(self.paths()) or gate.is_left or any(step.name == name for step in gate.steps)

    def is_here(self) -> bool:
        """Whether the host has anything that the task has installed or done."""
        return self.has_files or not self.planned(up=False).is_empty

    @property
    def takes_protection_away(self) -> bool:
        """Whether the host loses what gates its units or keeps its routes right."""
        return any(of_severity(self.removals(), "error"))

    def require_rights(self, *, up: bool) -> None:
        """Raise BackendError if `carry_out` has to change the kernel and this process may not.

        It is called before a file is changed: the kernel's refusal would come after that.
        """
        rights = self.host.rights()
        if self.host.backend is not None and not rights.changes_network and self.change(up=up).changes_kernel:
            rights.require_network()

    def do(self, ctx: phases.Context) -> ResultT | phases.Skip:
        """See the class."""
        if not self.is_wanted and not self.is_here():
            return phases.Skip(self.nothing)
        task = self.settled(ctx)
        with locked(self.host, ctx, (task.part,) if task.is_wanted else (), self.config) as host:
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
            return attrs.evolve(found, files=found.files.without(Gate(self.host, self.config).own_paths))
        return found

    def _behind_its_gate(self, ctx: phases.Context, *, up: bool, removals: Sequence[Finding] = ()) -> ResultT:
        part = self.part
        self.require_rights(up=up)
        fallback = self.prepare(ctx) if up else None
        for gone in removals:
            ctx.log.warning("%s", gone.sentence)
        changed = Gate(self.host, self.config).change(ctx, *(((part,), ()) if up else ((), (part,))))
        return work(ctx, self, changed, up=up, fallback=fallback)


def work(
    ctx: phases.Context, task: HostTask[ResultT], changed: Changed, *, up: bool, fallback: Fallback | None = None
) -> ResultT:
    """Carry out the task behind its gate; the result or the error gets `changed`, the gate's paths, too.

    If it fails and has changed nothing, its part is put back, and its paths are no longer `changed`.
    """
    written = changed.get(task.part.name, ())
    try:
        return (_work if up else _undo)(ctx, task, written)
    except BaseException as error:
        is_ours = isinstance(error, HostRoutingError | phases.Cancelled)
        if is_ours and fallback is not None and fallback.is_unchanged():
            files, path = task.host.files, task.host.layout.gate_steps_path
            try:
                with ctx.shielded() as safe:
                    Gate(task.host, task.config).change(safe, (fallback.part,))
            except HostRoutingError as other:
                add_note(error, str(other))
            else:
                back = {*fallback.part.all_files.paths, *([path] if files.read(path) == fallback.listed else [])}
                changed |= {name: tuple(one for one in paths if one not in back) for name, paths in changed.items()}
        tell_effects(error, files=paths_of(changed))
        raise


def _work(ctx: phases.Context, task: HostTask[ResultT], written: Sequence[str]) -> ResultT:
    """Do the work, and run the unit that the next boot depends on."""
    part, host = task.part, task.host
    result = task.carry_out(ctx, attrs.evolve(task.planned(up=True), files=Changes(written)), up=True)
    with having_changed(result.changes, result.files, result.operations):
        started = part.is_run_now and run_once(ctx, host, part.unit, wait=task.wait, is_new=bool(written))
        if started:
            # A run of the old script may have ended between the plan and this run, and changed something.
            task.carry_out(ctx, task.planned(up=True), up=True)
        return attrs.evolve(result, files=(*written, *result.files), started=result.started or started)


def _undo(ctx: phases.Context, task: HostTask[ResultT], written: Sequence[str]) -> ResultT:
    """Undo the work, then remove the files that record what to undo."""
    part, files = task.part, task.host.files
    result = task.carry_out(ctx, attrs.evolve(task.planned(up=False), files=Changes(removes=written)), up=False)
    with having_changed(result.changes, result.files, result.operations):
        return attrs.evolve(result, files=(*written, *result.files, *part.program.remove(files)))


def preview(host: Host, tasks: Sequence[HostTask[Any]], *, up: bool = True) -> Change:
    """What these tasks would do together; with `up` false, what undoing them would do.

    FileError if a file cannot be written.
    """
    gate = Gate(host, tasks[0].config if tasks else None)
    looks = [(task, task.planned(up=up and task.is_wanted)) for task in tasks]
    would_fail = up and any(look.routes and (look.routes.conflicts or look.routes.pending) for _, look in looks)
    weakened = [task.part for task in tasks if would_fail and task.takes_protection_away]
    rising = tuple(task.part for task, look in looks if up and task.is_wanted and not look.keeps_script)
    falling = tuple(task.part for task in tasks if not (up and task.is_wanted))
    rising, falling = (tuple(part for part in parts if part not in weakened) for parts in (rising, falling))
    if rising:
        for obstacle in gate.obstacles(rising):
            raise obstacle
    found = Change(None, gate.changes(rising, falling) if rising or falling else Changes())
    for task, look in looks:
        found += look
        if not (up and task.is_wanted):
            found += Change(files=Changes(removes=task.part.left(host.files)))
    if up:
        found += Change(removals=removals_of(host, tasks))
    if not found.files and (rising or gate.present()):
        found += Change(unread=gate.is_unread((*rising, *falling)))
    return found


def removals_of(host: Host, tasks: Sequence[HostTask[Any]]) -> tuple[Finding, ...]:
    """What these tasks and the gate take away together although no removal was asked for; the gate comes first."""
    found = tuple(gone for task in tasks for gone in task.removals())
    gate, falling = Gate(host), {task.part.name: task for task in tasks if not task.is_wanted}
    rising = any(task.is_wanted and task.part.step for task in tasks)
    if rising:
        leaving = [unit for unit in gate.gated if unit not in tasks[0].config.gate.units]
        return (*(_of_unit(unit, tasks[0].config.path("gate", "units")) for unit in leaving), *found)
    if not gate.steps or not {step.name for step in gate.steps} <= falling.keys():
        return found
    sections = [falling[step.name].section_path for step in gate.steps]
    sentence = "nothing in this configuration needs the gate, so the gate would be removed, and "
    sentence += f"{spoken(gate.gated)} would start unchecked"
    gone = removal(sections[-1], sentence, is_protection=True, remedy=f"add {spoken(sections, last='or')}")
    return (gone, *(other for other in found if other.target != gone.target))


def _of_unit(unit: str, path: str) -> Finding:
    """The removal of a unit that is gated now and not named at this path of the configuration."""
    sentence = f"{unit} is gated now, but not by this configuration, so it would start unchecked"
    return removal(path, sentence, is_protection=True, remedy=f'add "{unit}" to {path}')


def run_once(ctx: phases.Context, host: Host, unit: str, *, wait: float, is_new: bool) -> bool:
    """Run the unit that the next boot depends on, if its script is new or its last run failed.

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
