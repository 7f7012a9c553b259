"""A task that brings a configuration onto a host: what is common to `Configure` and to a task about
one section. `run` has what such a task does, in order.

The gate is what holds units back: a script that runs inside the start of each gated unit, and lets
it start only after its steps have succeeded. Each step does the work of one task at boot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic

import attrs

import phases
from hostrouting.host.host import Host
from hostrouting.install.arguments import IS_CONFIG, IS_FLAG, IS_HOST, is_duration
from hostrouting.install.run import Before, R, TaskRun
from hostrouting.install.undo import Undo

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.effects import Effects
    from hostrouting.install.plan import Plan
    from hostrouting.install.section import SectionTask
    from hostrouting.install.wanted import Wanted

own_constructor = attrs.define(slots=False, eq=False, on_setattr=attrs.setters.frozen)
"""Above each class of tasks, which then has an __init__ of its own: the error of a wrong call names
that class, and not the one from which it would inherit __init__.
"""


# Not attrs.frozen, whose __init__ fails in a subclass that has no slots.
@attrs.define(unsafe_hash=True, on_setattr=attrs.setters.frozen)
class InstallTask(ABC, Generic[R]):
    """A task that brings a configuration onto a host, as the module describes."""

    name = ""  # not a ClassVar, which pyright would not accept for a phases.Task
    reason_to_skip: ClassVar[str]
    """That nothing is configured, and nothing of ours is there."""

    config: HostRoutingConfig = attrs.field(validator=IS_CONFIG)
    host: Host = attrs.field(factory=Host.local, validator=IS_HOST, kw_only=True)
    wait: float = attrs.field(default=60.0, validator=is_duration, kw_only=True)
    """The seconds that each part waits for what it needs, such as the default route."""
    allow_removal: bool = attrs.field(default=True, validator=IS_FLAG, kw_only=True)
    """Whether the configuration may take away what protects the host now. If not, a ConfigError
    names it, or a RequirementError the routes that somebody has typed.
    """
    before: dict[str, Before] = attrs.field(factory=dict, init=False, eq=False, repr=False)
    """By the id of a run: what undo needs of it. Undone runs are taken out."""

    @abstractmethod
    def wanted(self) -> Wanted:
        """The configuration that the host is to have, and the one that it has."""

    @abstractmethod
    def parts(self) -> tuple[SectionTask, ...]:
        """The tasks that do the work on the kernel, in order."""

    @abstractmethod
    def own_part(self, config: HostRoutingConfig) -> object:
        """What this task is about in a configuration: one section, or all of it."""

    @abstractmethod
    def do_parts(self, run: TaskRun[R], effects: Effects) -> R | phases.Skip:
        """Have the parts do their work, one after the other. The result also has these effects,
        which are those of the run so far.
        """

    def plan(self, ctx: phases.Context | None = None) -> Plan:
        """What do() would do on this host now, and what would make it fail; changes nothing.

        It is the plan of root: a process without its rights can make a plan, and not carry it out.
        If a part judges what the others have done, the plan also has that check of the host as it
        would be; a run does it at its end.
        """
        run = TaskRun(self, ctx or phases.Context(observers=[]), self.wanted)
        return run.make_plan(is_dry_run=True)

    def do(self, ctx: phases.Context) -> R | phases.Skip:
        return TaskRun(self, ctx, self.wanted).do()

    def undo(self, ctx: phases.Context) -> object:
        """Install again what was installed before the run that is undone, or before the first one
        if none is named. A task about one section restores that section. Where nothing was
        installed, nothing is left.

        Routes that somebody had typed, and that a run has deleted, are added again. HostError if
        what was installed could not be read, or if another run has installed something else since.
        """
        undone = [*self.before]
        if ctx.ran is not None and ctx.root is not None:  # the undo of a report: of its run only
            undone = [run for run in undone if run == ctx.root.run]
        if not undone:
            return phases.Skip(
                "this object has not run, or has changed nothing; to remove everything, run Remove"
            )
        result = Undo.of(self, [self.before[run] for run in undone]).do(ctx)
        for run in undone:
            del self.before[run]
        return result
