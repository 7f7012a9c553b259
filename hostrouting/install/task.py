"""A task that brings a configuration onto a host: what is common to `Configure` and to a task about
one section, and what the latter is. `run` has what such a task does, in order.

The gate is what holds units back: it runs inside the start of each gated unit, and makes the same
routing right before (`node.start`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Generic

import attrs

import phases
from hostrouting.errors import NotReady
from hostrouting.host.effects import Effects, effects_of, having_changed
from hostrouting.host.host import Host
from hostrouting.install.arguments import IS_CONFIG, IS_FLAG, IS_HOST, is_duration
from hostrouting.install.installed import read_installed
from hostrouting.install.run import Before, R, TaskRun
from hostrouting.install.undo import Undo, require_own_run
from hostrouting.install.wanted import Wanted

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.install.plan import Plan
    from hostrouting.model.snapshot import Snapshot

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
    undone: set[str] = attrs.field(factory=set, init=False, eq=False, repr=False)
    """The ids of those runs."""

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

        Routes that somebody had typed, and that a run has deleted, are added again. The errors of
        the undone runs no longer say that the gate holds units back. HostError if what was
        installed could not be read, if another run has installed something else since, or if
        another object made the run that is undone.
        """
        runs = [*self.before]
        nothing_to_do = (
            "this object has not run, or has changed nothing; to remove everything, run Remove"
        )
        if ctx.ran is not None and ctx.root is not None:  # the undo of a report: of its run only
            runs = [run for run in runs if run == ctx.root.run]
            nothing_to_do = "it changed nothing in that run, or that is undone"
            if not runs and ctx.root.run not in self.undone:
                require_own_run(self, ctx.root, ctx.path)
        if not runs:
            return phases.Skip(nothing_to_do)
        result = Undo.of(self, [self.before[run] for run in runs]).do(ctx)
        for run in runs:
            for error in self.before.pop(run).held:
                vars(error).pop("consequence", None)  # that gate is no longer there
            self.undone.add(run)
        return result


class SectionTask(InstallTask[Effects]):
    """A task about one section of the configuration. Alone, it keeps all other sections as they are
    installed.

    A subclass says what its work on the kernel is: `planned` says what would change, and
    `carry_out` changes it.
    """

    section: ClassVar[str]
    """The attribute of the configuration that the task is about."""
    checks_the_result: ClassVar[bool] = False
    """Whether the task judges what the others have done, so that a dry run judges the host as it
    would be.
    """
    needed: ClassVar[tuple[type[SectionTask], ...]] = ()
    """The tasks whose work is part of this task's work: when this task runs alone, it does their
    work first.
    """

    @abstractmethod
    def planned(self, wanted: Wanted, read_snapshot: Callable[[], Snapshot]) -> Plan:
        """What would be done to the kernel.

        All parts of a run get the same snapshot, which is read when the first of them needs it.
        """

    @abstractmethod
    def carry_out(self, ctx: phases.Context, wanted: Wanted) -> Effects | phases.Skip:
        """Wait for what the task needs, then change the kernel. The files are installed already."""

    @abstractmethod
    def holds_units_back(self, config: HostRoutingConfig) -> bool:
        """Whether no gated unit starts while this work cannot be done."""

    def wanted(self) -> Wanted:
        """See InstallTask. The installed configuration with this section replaced."""
        installed = read_installed(self.host)
        return Wanted(installed.replaced(self.section, self.config), installed)

    def parts(self) -> tuple[SectionTask, ...]:
        """See InstallTask."""
        needed = [kind(self.config, host=self.host, wait=self.wait) for kind in self.needed]
        return (*needed, self)

    def own_part(self, config: HostRoutingConfig) -> object:
        """See InstallTask."""
        return getattr(config, self.section)

    def do_parts(self, run: TaskRun[Effects], effects: Effects) -> Effects | phases.Skip:
        """See InstallTask. All parts do their work in the step of this task."""
        result: Effects | phases.Skip = effects
        for part in run.chosen_parts:
            with having_changed(effects.changes, effects.files, effects.operations):
                result = run.do_part(part, run.ctx)
            effects += effects_of(result)
        if isinstance(result, phases.Skip) and not effects.changed:
            return result  # of the last part, which is this task itself
        return effects

    @contextmanager
    def changing(self, ctx: phases.Context, wanted: Wanted) -> Iterator[HostRoutingConfig]:
        """Hold the lock while the kernel is changed; yields the configuration that is installed
        then.
        """
        with self.host.locked(ctx):
            yield self.require_installed(wanted)

    def require_installed(self, wanted: Wanted) -> HostRoutingConfig:
        """The installed configuration; NotReady if another run has replaced this section of it."""
        installed = read_installed(self.host)
        if self.own_part(installed) != self.own_part(wanted.config):
            sentence = "another run has installed a different configuration in the meantime"
            raise NotReady(
                f"{sentence}; run this again if this configuration is the right one", kind="busy"
            )
        return installed
