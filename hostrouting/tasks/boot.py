"""What every task of ours is to the others, and how it is carried out: with the host locked, and behind the gate.

Here: the order. Not here: what a task does (a module for each), and how the gate changes (`gate`).
"""

from __future__ import annotations

import errno
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import attrs

import phases
from hostrouting.config import needs_config
from hostrouting.effects import effects_of, having_changed, tell_effects
from hostrouting.errors import FileError, HostRoutingError, UnitFailed
from hostrouting.gate import Gate, paths_of
from hostrouting.host import Host, needs_host
from hostrouting.render import DEFAULT_WAIT
from hostrouting.tasks.results import Preview

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Self

    from hostrouting.config import HostRoutingConfig
    from hostrouting.gate import Part
    from hostrouting.tasks.results import Standing

__all__ = ["HostTask", "locked", "preview", "run_once", "valid_wait"]

_A_DAY = 86_400
_GRACE = 90.0  # seconds for a unit beyond its own waiting

ResultT = TypeVar("ResultT")


def valid_wait(instance: object, _attribute: object, value: Any) -> None:
    """For a task: TypeError for what is not a number, ValueError when nobody can wait for so many seconds."""
    if not isinstance(value, int | float):
        raise TypeError(f"{type(instance).__name__}: wait={value!r} is not a number of seconds; write wait=30")
    if not 0 <= value <= _A_DAY:
        raise ValueError(f"{type(instance).__name__}: wait={value} is not between 0 and {_A_DAY} seconds")


@contextmanager
def locked(host: Host, ctx: phases.Context, parts: Sequence[Part]) -> Iterator[Host]:
    """The host, locked. If the lock fails on a running host, the gate is still put up, then the error is raised."""
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
class HostTask(Generic[ResultT]):
    """A task with a part in the gate. A new one says what its part is, when it is wanted, and what it does besides.

    Whatever it does comes after the gate: a failure leaves the gate with what the configuration asks for.
    """

    name: ClassVar[str]
    nothing: ClassVar[str]
    """What the task says when it is neither wanted nor here."""
    config: HostRoutingConfig = attrs.field(validator=needs_config)
    host: Host = attrs.field(factory=Host.local, validator=needs_host, kw_only=True)
    wait: float = attrs.field(default=DEFAULT_WAIT, validator=valid_wait, kw_only=True)
    """How many seconds are waited for what is needed of the host, now and, but no more than 60, at every boot."""

    @property
    def part(self) -> Part:
        """What it has on the host."""
        raise NotImplementedError

    @property
    def is_wanted(self) -> bool:
        """Whether the configuration asks for it."""
        raise NotImplementedError

    def paths(self) -> tuple[str, ...]:
        """The paths of its files that are on the host."""
        return self.part.present(self.host.files)

    @property
    def has_files(self) -> bool:
        """Whether files of it are on the host, or a gate without any step."""
        return bool(self.paths()) or Gate(self.host).is_left

    def is_here(self) -> bool:
        """Whether anything of it is on the host."""
        return self.has_files

    def settled(self, ctx: phases.Context) -> Self:  # noqa: ARG002  most tasks have nothing to ask
        """The task with the answers to what it has to ask before it is known what it needs on the host."""
        return self

    def standing(self) -> Standing | None:
        """How its work stands on the host now; None where that is told otherwise, or it has none there."""
        return None

    def prepare(self, ctx: phases.Context) -> None:
        """What comes before the gate is changed, as a rule nothing."""

    def install(self, ctx: phases.Context, changed: tuple[str, ...]) -> ResultT:
        """Do the work. The gate is as it should be; these paths were changed for it."""
        raise NotImplementedError

    def remove(self, ctx: phases.Context, changed: tuple[str, ...]) -> ResultT:
        """Take the work back. Its part of the gate is gone; these paths were changed for it."""
        raise NotImplementedError

    def look(self, *, up: bool) -> Preview:
        """What `install` or `remove` would do; changes nothing."""
        raise NotImplementedError

    def do(self, ctx: phases.Context) -> ResultT | phases.Skip:
        """See the class."""
        if not self.is_wanted and not self.is_here():
            return phases.Skip(self.nothing)
        task = self.settled(ctx)
        with locked(self.host, ctx, (task.part,) if task.is_wanted else ()) as host:
            return attrs.evolve(task, host=host)._behind_its_gate(ctx, up=task.is_wanted)

    def undo(self, ctx: phases.Context) -> ResultT:
        """Take away what the task installs, whatever the configuration says."""
        with self.host.locked(ctx) as host:
            return attrs.evolve(self, host=host)._behind_its_gate(ctx, up=False)

    def plan(self, ctx: phases.Context) -> Preview:
        """What do() would do on this host as it is now; changes nothing. FileError where it could not write."""
        return preview(self.host, (self.settled(ctx),)) if self.is_wanted or self.is_here() else Preview()

    def behind_gate(self, ctx: phases.Context, changed: tuple[str, ...]) -> ResultT | phases.Skip:
        """Do what is to be done when the gate has been changed already, together with that of other tasks."""
        if self.is_wanted:
            return self.install(ctx, changed)
        return self.remove(ctx, changed) if changed or self.is_here() else phases.Skip(self.nothing)

    def _behind_its_gate(self, ctx: phases.Context, *, up: bool) -> ResultT:
        part = self.part
        if up:
            self.prepare(ctx)
        changed = Gate(self.host).change(ctx, *(((part,), ()) if up else ((), (part,)))).get(part.name, ())
        with having_changed(files=changed):
            return self.install(ctx, changed) if up else self.remove(ctx, changed)


def preview(host: Host, tasks: Sequence[HostTask[Any]], *, up: bool = True) -> Preview:
    """What these tasks would do together, or, with `up` false, what it would take to undo them.

    FileError where a file cannot be written.
    """
    gate = Gate(host)
    rising = tuple(task.part for task in tasks if up and task.is_wanted)
    falling = tuple(task.part for task in tasks if not (up and task.is_wanted))
    if rising:
        gate.require_installable(rising)
    found = Preview(None, gate.changes(rising, falling))
    for task in tasks:
        found += task.look(up=up and task.is_wanted)
    if not found.files and (rising or gate.present()):
        found += Preview(unread=gate.is_unread((*rising, *falling)))
    return found


def run_once(ctx: phases.Context, host: Host, unit: str, *, wait: float, is_new: bool) -> bool:
    """Run the unit that the next boot depends on once now, when its script is new or its last run failed."""
    manager = host.manager if host.manager is not None and host.manager.is_running() else None
    if manager is None or not (is_new or not manager.state(unit).ok):
        return False
    try:
        with ctx.on_cancel(lambda: manager.stop(unit)):
            manager.start(unit, timeout=wait + _GRACE)
    except HostRoutingError as error:
        if isinstance(error, UnitFailed):
            ctx.check()  # a unit that was stopped because we were told to has not failed
        raise
    return True
