"""The configuration that repairs a host for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.check import check_snapshot
from hostrouting.config.settings import StaticRoutesConfig
from hostrouting.routes.plan import plan_static_routes

if TYPE_CHECKING:
    from hostrouting.check.results import CheckReport
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.model.snapshot import Snapshot


class Proposal(NamedTuple):
    """A configuration that repairs a host as far as static routes can, and the check behind it."""

    config: HostRoutingConfig
    report: CheckReport
    """The check of the host as it would be with the given configuration: its repair is proposed."""


def propose_configuration(config: HostRoutingConfig, snapshot: Snapshot) -> Proposal:
    """Add to the configuration the routes that the host still needs for an OK once the
    configuration is applied (`report.routes`).

    If packets to an expected CIDR would still leave the wrong way (escape), the configured routes
    that cannot be set (`conflicts`) are left out, because the proposed routes replace them. If
    nothing would escape, these routes stay. ConfigError if no CIDRs are expected.
    """
    plan = plan_static_routes(config, snapshot)
    report = check_snapshot(plan.apply_to(snapshot), config)
    replaced = {route.key for route in report.routes}
    if report.escapes:
        replaced |= {step.route.key for step in plan.conflicts}
    kept = [route for route in config.static_routes.routes if route.key not in replaced]
    routes = (*kept, *report.routes)
    return Proposal(config._replace(static_routes=StaticRoutesConfig(bool(routes), routes)), report)
