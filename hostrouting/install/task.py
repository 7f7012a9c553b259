"""A task that brings a configuration onto a host: what is common to `Configure` and to a task about
one section, and what the latter is. `install` has what such a task does, in order.

The gate is what holds units back: it runs inside the start of each gated unit, and makes the same
routing right before (`node.start`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import attrs

import phases
from hostrouting.errors import HostError, NotReady
from hostrouting.finding import Finding
from hostrouting.host.host import Host
from hostrouting.install.install import install, parts_of_run
from hostrouting.install.installed import read_installed
from hostrouting.install.part import Part
from hostrouting.install.plan import Plan
from hostrouting.install.preflight import plan_install
from hostrouting.install.wanted import Wanted
from phases.context import derived

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.effects import Effects

own_constructor = attrs.define(slots=False, eq=False, on_setattr=attrs.setters.frozen)
"""Above each class of tasks, which then has an __init__ of its own: the error of a wrong call names
that class, and not the one from which it would inherit __init__.
"""


# Not attrs.frozen, whose __init__ fails in a subclass that has no slots.
@attrs.define(unsafe_hash=True, on_setattr=attrs.setters.frozen)
class InstallTask(ABC):
    """A task that brings a configuration onto a host, as the module describes."""

    name = ""  # not a ClassVar, which pyright would not accept for a phases.Task
    reason_to_skip: ClassVar[str]
    """That nothing is configured, and nothing of ours is there."""
    has_steps: ClassVar[bool] = False
    """Whether each part is a step of its own; or all do their work in the step of this task."""

    config: HostRoutingConfig = attrs.field()
    host: Host = attrs.field(factory=Host.local, kw_only=True)
    wait: float = attrs.field(default=60.0, kw_only=True)
    """The seconds that each part waits for what it needs, such as the default route."""
    allow_removal: bool = attrs.field(default=False, kw_only=True)
    """Whether the configuration may take away what protects the host now: a gated unit, an expected
    CIDR, STRICT or the guard. If not, a ConfigError names it.
    """

    before: dict[str, HostRoutingConfig | None] = attrs.field(
        factory=dict, init=False, eq=False, repr=False
    )
    """By the id of a run that has changed something: what was installed before it; None if that
    could not be read. Undone runs are taken out.
    """

    @abstractmethod
    def wanted(self) -> Wanted:
        """The configuration that the host is to have, and the one that it has."""

    @abstractmethod
    def parts(self) -> tuple[SectionTask, ...]:
        """The tasks that do the work on the kernel, in order."""

    @abstractmethod
    def own_part(self, config: HostRoutingConfig) -> object:
        """What this task is about in a configuration: one section, or all of it."""

    def plan(self, ctx: phases.Context | None = None) -> Plan:
        """What do() would do on this host now, and what would make it fail; changes nothing.

        It is the plan of root: a process without its rights can make a plan, and not carry it out.
        If a part judges what the others have done, the plan also has that check of the host as it
        would be, also by the earlier tasks of this dry run; a run does it at its end.
        """
        ctx = ctx or phases.Context()
        steps = [] if ctx.root is None else ctx.root.walk()
        earlier = [step.result for step in steps if isinstance(step.result, Plan)]
        parts = parts_of_run(self.parts(), ctx)
        return plan_install(self.host, self.wanted(), parts, is_dry_run=True, earlier=earlier)

    def do(self, ctx: phases.Context) -> Effects | phases.Skip:
        return self.install(ctx, self.wanted)

    def install(
        self, ctx: phases.Context, read_wanted: Callable[[], Wanted]
    ) -> Effects | phases.Skip:
        """Make the host what is wanted; see the function."""
        return install(
            self.host,
            read_wanted,
            self.parts(),
            ctx,
            as_steps=self.has_steps,
            keep=partial(self.before.setdefault, ctx.run_id),
            nothing=self.reason_to_skip,
        )

    def undo(self, ctx: phases.Context) -> Effects | phases.Skip:
        """Install again what was installed before the run that failed, or before the first run if
        none has just failed. A task about one section restores that section. Where nothing was
        installed, nothing is left.


        HostError if that could not be read, or if another run has installed something else since.
        """
        undone = dict(self.before)
        if ctx.ran is not None:  # the undo of a run that has failed: of that run only
            undone = {run: former for run, former in undone.items() if run == ctx.run_id}
        if not undone:
            return phases.Skip("it has changed nothing, or that is undone")
        former, *_ = undone.values()
        if former is None:
            sentence = (
                "what was installed before could not be read, so it cannot be installed again"
            )
            raise HostError(f"{sentence}; to remove everything, run Remove", what="file")
        restoring = attrs.evolve(self, config=former, wait=0, allow_removal=True)
        ctx = derived(ctx, skip=frozenset())
        result = restoring.install(ctx, partial(self._wanted_again, restoring))
        for run in undone:
            del self.before[run]
        return result

    def _wanted_again(self, restoring: InstallTask) -> Wanted:
        wanted = restoring.wanted()
        # `wanted` of this task has the configuration as its run has installed it.
        replaceable = (self.own_part(self.wanted().config), self.own_part(restoring.config))
        if wanted.former is not None and self.own_part(wanted.former) not in replaceable:
            sentence = "another run has installed a different configuration since, which stays"
            raise HostError(sentence, what="file")
        config = wanted.config
        had_work = wanted.former is not None and wanted.former.has_work
        if config.has_work and not had_work:
            # The undone run has taken away all that there was to guard, and with it the guard.
            config = config._replace(guard=restoring.config.guard)
        return attrs.evolve(wanted, config=config, is_undo=True)


class SectionTask(InstallTask, Part):
    """A task about one section of the configuration, whose work on the kernel is a part of an
    installation (`install.part`). Alone, it keeps all other sections as they are installed.
    """

    section: ClassVar[str]
    """The attribute of the configuration that the task is about."""
    needed: ClassVar[tuple[type[SectionTask], ...]] = ()
    """The tasks whose work is part of this task's work: when this task runs alone, it does their
    work first.
    """

    def wanted(self) -> Wanted:
        """See InstallTask. The installed configuration with this section replaced."""
        installed = read_installed(self.host)
        config = installed.replaced(self.section, self.config)
        notes: tuple[Finding, ...] = ()
        if self.config.gate not in {None, config.gate}:
            sentence = f"{self.name} does not install gate: that does the task Configure"
            notes = (Finding("unit-not-gated", "warning", sentence, "gate"),)
        return Wanted(config, installed, self.allow_removal, notes=notes)

    def parts(self) -> tuple[SectionTask, ...]:
        """See InstallTask."""
        needed = [kind(self.config, host=self.host, wait=self.wait) for kind in self.needed]
        return (*needed, self)

    def own_part(self, config: HostRoutingConfig) -> object:
        """See InstallTask."""
        return getattr(config, self.section)

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
