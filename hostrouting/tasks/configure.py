"""Configure brings a whole configuration onto a host, Remove takes everything away: both by the road of `install`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import attrs

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.effects import Effects, having_changed
from hostrouting.host.host import Host
from hostrouting.tasks.install import DEFAULT_WAIT, WAIT, SectionTask, begin, installed_or_nothing, planned
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.probe_rewrite import RewriteProbeSource
from hostrouting.tasks.static_routes import ConfigureStaticRoutes

if TYPE_CHECKING:
    from hostrouting.tasks.results import Plan

TASKS: tuple[type[SectionTask], ...] = (ConfigureStaticRoutes, RewriteProbeSource, CheckRouteOverlap)
"""In the order in which they run: the check comes last, because it looks at what the others did."""


class _Step(NamedTuple):
    """A step of the report: the changed files, or a task's work on the kernel."""

    name: str
    do: Callable[[phases.Context], Effects | phases.Skip]


@attrs.frozen
class Configure:
    """Make the host what the configuration asks for: files first, then routes, the table for probes, the check.

    Idempotent. Whatever must fail, fails before the first write. From the moment the files are installed, a gated unit
    starts only after its steps have succeeded; a running unit is never touched.
    """

    name: ClassVar[str] = "configure-host-routing"
    config: HostRoutingConfig
    host: Host = attrs.field(factory=Host.local, kw_only=True)
    wait: float = attrs.field(default=DEFAULT_WAIT, validator=WAIT, kw_only=True)
    """The seconds that each task waits for what it needs, such as the default route."""
    _replaced: list[HostRoutingConfig] = attrs.field(factory=list, init=False, eq=False, repr=False)
    """What was installed before each run of this task, for undo()."""

    @property
    def subtasks(self) -> tuple[SectionTask, ...]:
        """The tasks, as they appear in plans and reports."""
        return tuple(kind(self.config, host=self.host, wait=self.wait) for kind in TASKS)

    def parts(self) -> tuple[SectionTask, ...]:
        """The tasks, which know what was installed, if that can be read: this configuration takes its place."""
        former = installed_or_nothing(self.host)
        return tuple(attrs.evolve(task, former=former) for task in self.subtasks)

    def plan(self, _ctx: phases.Context | None = None) -> Plan:
        """What do() would do now; changes nothing."""
        return planned(self.host, self.config, self.parts())

    def do(self, ctx: phases.Context) -> object:
        """See the class."""
        self._replaced.append(installed_or_nothing(self.host))
        if (begun := begin(ctx, self.host, self.parts)) is None:
            return phases.Skip("nothing is configured, and nothing is installed")
        effects, parts = begun
        done = phases.Skip("the files are as they should be") if effects == Effects() else effects
        steps = [_Step("install-files", lambda _ctx: done), *(_Step(part.name, part.work) for part in parts)]
        with having_changed(files=effects.files):
            return phases.serial(*steps, name=self.name).do(ctx)

    def undo(self, ctx: phases.Context) -> object:
        """Install what was there before the task first ran, or remove everything if nothing was."""
        if not self._replaced:
            return phases.Skip("it did not run")
        result = Configure(self._replaced[0], host=self.host, wait=0).do(ctx)
        self._replaced.clear()
        return result


@attrs.frozen
class Remove:
    """Remove everything of hostrouting and nothing else: drop-ins, units, scripts, routes, probe table, markers.

    A running unit is not touched; units that start from now on do not wait any more. Scripts that somebody else has put
    into gate.d hold units back, too, so the removal is refused while there are any.
    """

    name: ClassVar[str] = "remove-host-routing"
    host: Host = attrs.field(factory=Host.local, kw_only=True)

    def plan(self, _ctx: phases.Context | None = None) -> Plan:
        """What would be removed; changes nothing."""
        return Configure(HostRoutingConfig(), host=self.host).plan()

    def do(self, ctx: phases.Context) -> object:
        """See the class."""
        return Configure(HostRoutingConfig(), host=self.host, wait=0).do(ctx)
