"""Configure brings a whole configuration onto a host, and Remove takes everything away; both as
`install.install` describes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.host import Host
from hostrouting.install.install import InstallTask
from hostrouting.install.installed import installed_or_none
from hostrouting.install.wanted import Wanted
from hostrouting.tasks.overlap_check import CheckResult, CheckRouteOverlap
from hostrouting.tasks.probe_rewrite import RewriteProbeSource
from hostrouting.tasks.static_routes import ConfigureStaticRoutes

if TYPE_CHECKING:
    from hostrouting.host.effects import Effects
    from hostrouting.install.plan import Plan
    from hostrouting.install.task import SectionTask

TASKS: tuple[type[SectionTask], ...] = (
    ConfigureStaticRoutes,
    RewriteProbeSource,
    CheckRouteOverlap,
)
"""In the order in which they run: the check comes last, because it looks at what the others did."""


class Configure(InstallTask):
    """Make the host what the configuration asks for: files first, then routes, the table for
    probes, the check.

    Idempotent. What the host lacks is found before the first write. From the moment the files are
    installed, a gated unit starts only if the gate lets it; a running unit is never touched. `wait`
    is how many seconds each step waits for what it needs, such as the default route. Without
    `allow_removal`, the run fails before its first write if it would take away what protects the
    host.
    """

    name = "configure-host-routing"
    reason_to_skip: ClassVar[str] = "nothing is configured, and nothing is installed"
    has_steps: ClassVar[bool] = True

    @property
    def subtasks(self) -> tuple[SectionTask, ...]:
        """The steps that `skip` can name."""
        return self.parts()

    def parts(self) -> tuple[SectionTask, ...]:
        """See InstallTask."""
        return tuple(kind(self.config, host=self.host, wait=self.wait) for kind in TASKS)

    def wanted(self) -> Wanted:
        """See InstallTask. The installed configuration need not be readable, because this one takes
        its place.
        """
        return Wanted(self.config, installed_or_none(self.host), self.allow_removal)

    def own_part(self, config: HostRoutingConfig) -> object:
        """See InstallTask."""
        return config

    def do(self, ctx: phases.Context) -> CheckResult | phases.Skip:
        """See InstallTask. The result has the report of the check, if one was made."""
        result = super().do(ctx)
        if isinstance(result, CheckResult | phases.Skip):
            return result
        return CheckResult(result.changes, result.files, result.operations, result.warnings)


@attrs.frozen
class Remove:
    """Remove everything of hostrouting and nothing else: drop-ins, units, program, routes, probe
    table, markers.

    A running unit is not touched; units that start from now on do not wait any more.
    """

    name = "remove-host-routing"
    host: Host = attrs.field(factory=Host.local, kw_only=True)

    def plan(self, _ctx: phases.Context | None = None) -> Plan:
        """What would be removed; changes nothing."""
        return self._configure().plan()

    def do(self, ctx: phases.Context) -> Effects | phases.Skip:
        configure = self._configure()
        return configure.install(ctx, configure.wanted)

    def _configure(self) -> Configure:
        return Configure(HostRoutingConfig(), host=self.host, allow_removal=True)
