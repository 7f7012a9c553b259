"""A task that brings a configuration onto a host: what is common to `Configure` and to a task about
one section, and what the latter is. `install` has what such a task does, in order.

The gate is what holds units back: it runs inside the start of each gated unit, and makes the same
routing right before (`node.start`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import HostError, NotReady
from hostrouting.finding import Finding, Remedy
from hostrouting.host.effects import Effects, effects_of
from hostrouting.host.host import Host
from hostrouting.install.install import install, parts_of_run
from hostrouting.install.installed import Wanted, installed_or_none, read_installed
from hostrouting.install.losses import find_losses
from hostrouting.install.part import Part
from hostrouting.install.plan import Plan
from hostrouting.install.preflight import plan_install
from hostrouting.install.undo import (
    Before,
    add_routes,
    require_readable,
    routes_to_add_again,
)
from phases.arguments import must_be, must_be_number
from phases.context import derived
from phases.execution import warn_of_lost_verbs

if TYPE_CHECKING:
    from hostrouting.kernel.base import RouteRequest
    from hostrouting.model.route import Route


def _is(kind: type[object], rule: str) -> Callable[[object, Any, Any], None]:
    """A validator of attrs that requires this kind, when a task is made: it would fail later, and
    not say why.
    """
    return lambda _task, field, value: must_be(kind, value, field.name, rule)


IS_CONFIG = _is(
    HostRoutingConfig, "a HostRoutingConfig; HostRoutingConfig.from_mapping and .load read one"
)
IS_HOST = _is(
    Host,
    "a Host: Host.local() is this computer, Host.offline(root) an image, FakeHost(kernel=…) one in "
    "memory",
)


def _is_duration(_task: object, _field: object, value: Any) -> None:
    """Raise ValueError for a number of seconds that nobody would wait."""
    must_be_number(value, "wait", most=86_400)


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

    config: HostRoutingConfig = attrs.field(validator=IS_CONFIG)
    host: Host = attrs.field(factory=Host.local, validator=IS_HOST, kw_only=True)
    wait: float = attrs.field(default=60.0, validator=_is_duration, kw_only=True)
    """The seconds that each part waits for what it needs, such as the default route."""
    allow_removal: bool = attrs.field(
        default=True, validator=_is(bool, "True or False"), kw_only=True
    )
    """Whether the configuration may take away what protects the host now. If not, a ConfigError
    names it.
    """
    before: dict[str, Before] = attrs.field(factory=dict, init=False, eq=False, repr=False)
    """By the id of a run that has changed something: what undo needs of it. Undone runs are taken
    out.
    """
    runs: set[str] = attrs.field(factory=set, init=False, eq=False, repr=False)
    """The ids of all runs of this object."""

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
        warn_of_lost_verbs(self, ctx)
        self.runs.add(ctx.run_id)
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
            keep=partial(self.keep, ctx.run_id),
            nothing=self.reason_to_skip,
        )

    def keep(
        self, run: str, former: HostRoutingConfig | None, changes: Iterable[RouteRequest]
    ) -> None:
        """Keep what was installed before this run, which may have several attempts, and these
        changes. From now on, there is something to undo.
        """
        self.before.setdefault(run, Before(former)).changes.extend(changes)

    def undo(self, ctx: phases.Context) -> Effects | phases.Skip:
        """Install again what was installed before the run that is undone, or before the first one
        if none is named. A task about one section restores that section. Where nothing was
        installed, nothing is left. A warning names what protected the host and is taken away.

        Routes of hostrouting that no configuration had, and that a run has deleted, are added
        again. HostError if what was installed could not be read, if another run has installed
        something else since, or if the run that is undone was another object's.
        """
        undone = dict(self.before)
        if ctx.ran is not None and ctx.root is not None:  # the undo of a report: of its run only
            run = ctx.root.run
            if run not in self.runs:
                sentence = (
                    "another object made that run, so this one does not know what was there before"
                )
                remedy = "undo with the tasks of that run, or, to remove everything, run Remove"
                raise HostError(f"{sentence}; {remedy}", what="file")
            undone = {each: before for each, before in undone.items() if each == run}
        if not undone:
            return phases.Skip("it has changed nothing, or that is undone")
        result = self._restore([*undone.values()], ctx)
        for run in undone:
            del self.before[run]
        return result

    def _restore(self, runs: list[Before], ctx: phases.Context) -> Effects | phases.Skip:
        """Install what was installed before these runs, the earliest of which comes first."""
        former = require_readable(runs)
        restoring = attrs.evolve(self, config=former, wait=0, allow_removal=True)
        ctx = derived(ctx, why_left_out=lambda _path: "")
        try:
            result = restoring.install(ctx, partial(self._wanted_again, restoring))
        finally:  # also after a failure: these routes were there before
            added = self._add_again(routes_to_add_again(runs), former, ctx)
        if added.changed:
            effects = effects_of(result)
            return attrs.evolve(effects, changes=(*effects.changes, *added.changes))
        return result

    def _add_again(
        self, routes: list[Route], former: HostRoutingConfig, ctx: phases.Context
    ) -> Effects:
        """Add these routes, unless another run has installed something else since."""
        if not routes:
            return Effects()
        with self.host.locked(ctx):
            installed = installed_or_none(self.host)
            if installed is not None and self.own_part(installed) != self.own_part(former):
                return Effects()
            return add_routes(self.host, routes)

    def _wanted_again(self, restoring: InstallTask) -> Wanted:
        """What the undo wants, whose former configuration `restoring` has. HostError if another run
        has installed something else of this task's own part since, which stays.
        """
        wanted = restoring.wanted()
        # `wanted` of this task has the configuration as its run has installed it, without idle
        # settings.
        replaceable = (self.own_part(self.wanted().config), self.own_part(restoring.config))
        if wanted.former is not None and self.own_part(wanted.former) not in replaceable:
            sentence = "another run has installed a different configuration since, which stays"
            raise HostError(sentence, what="file")
        config = wanted.config
        had_work = wanted.former is not None and wanted.former.has_work
        if config.has_work and not had_work:
            # The undone run has taken away all that there was to guard, and with it the guard.
            config = config._replace(guard=restoring.config.guard)
        notes = tuple(_taken_away(wanted.former or HostRoutingConfig(), config))
        return attrs.evolve(wanted, config=config, is_undo=True, notes=notes)


def _taken_away(installed: HostRoutingConfig, former: HostRoutingConfig) -> Iterator[Finding]:
    """The warnings of an undo about what has protected the host since the run."""
    for loss in find_losses(installed, former):
        sentence = f"this undo takes protection away: {loss}"
        yield Finding("removal", "warning", sentence, loss.path)


def _gate_not_installed(task: str) -> Finding:
    """The warning that a task about one section leaves out what the configuration says."""
    sentence = f"{task} does not install gate: its units are not gated, and its steps do not run"
    remedy = Remedy("to install it, run the task Configure")
    return Finding("unit-not-gated", "warning", sentence, "gate", remedy)


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
            notes = (_gate_not_installed(self.name),)
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
