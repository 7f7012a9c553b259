"""Configure brings a whole configuration onto a host, and Remove takes everything away; both as
`install.install` describes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.host import Host
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.probe_rewrite import RewriteProbeSource
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.tasks.task import InstallTask

if TYPE_CHECKING:
    import phases
    from hostrouting.install.plan import Plan
    from hostrouting.install.results import CheckResult

TASKS: tuple[type[InstallTask], ...] = (
    ConfigureStaticRoutes,
    RewriteProbeSource,
    CheckRouteOverlap,
)
"""The tasks for one section each, in the order in which `Configure` makes their parts."""


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

    @property
    def subtasks(self) -> tuple[InstallTask, ...]:
        """The tasks for one section each, so that the `skip` of a run can name parts of this task.
        They are not run: `Configure` itself does their work, in steps of these names.
        """
        return tuple(kind(self.config) for kind in TASKS)


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
        return self._as_configure().plan()

    def do(self, ctx: phases.Context) -> CheckResult | phases.Skip:
        return self._as_configure().do(ctx)

    def _as_configure(self) -> Configure:
        return Configure(HostRoutingConfig(), host=self.host, allow_removal=True)
