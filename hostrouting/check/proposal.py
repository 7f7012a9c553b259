"""The configuration that repairs a host for good: what is configured, and the routes that it lacks.

What counts is the host as it will be after its next boot (`next_boot`) with that configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.check import check_snapshot
from hostrouting.check.next_boot import after_next_boot
from hostrouting.config.settings import StaticRoutesConfig
from hostrouting.routes.plan import plan_static_routes

if TYPE_CHECKING:
    from hostrouting.check.results import CheckReport
    from hostrouting.config.settings import HostRoutingConfig, StaticRoute
    from hostrouting.finding import Finding
    from hostrouting.model.snapshot import Snapshot
    from hostrouting.routes.steps import Step


class Proposal(NamedTuple):
    """A configuration that repairs a host, as far as routes can, and what it was made from."""

    config: HostRoutingConfig
    report: CheckReport
    """The check of the host after its next boot with the given configuration. Its repair is
    proposed.
    """
    left_out: tuple[Finding, ...] = ()
    """The conflicts of configured routes that are left out, because `apply` would fail."""


def propose_configuration(config: HostRoutingConfig, snapshot: Snapshot) -> Proposal:
    """The given configuration, with the routes that repair the host once it is applied, also after
    the next boot.

    A configured route stays, unless something escapes and another program's route has its place:
    then what escapes gets other routes. One by a device that is lost stays without that. Raises
    ConfigError if no CIDRs are expected.
    """
    booted = after_next_boot(snapshot, config)
    report = check_snapshot(booted, config)

    # The configured routes, without those that a route of the repair replaces and, where something
    # escapes, those that cannot be set.
    conflicts: tuple[Step, ...] = ()
    if report.escapes:
        conflicts = plan_static_routes(config, booted).conflicts
    replaced = {step.route.key for step in conflicts}
    replaced |= {route.key for route in report.routes}
    remaining = [route for route in config.static_routes.routes if route.key not in replaced]
    kept = [_without_lost_device(route, config, snapshot) for route in remaining]

    routes = (*kept, *report.routes)
    proposed = _with_routes(config, routes)
    # A route that is gone after the next boot may itself lead addresses elsewhere until then.
    now = check_snapshot(plan_static_routes(proposed, snapshot).apply_to(snapshot), proposed)
    if now.routes:
        until_boot = {route.key for route in now.routes}
        others = [route for route in routes if route.key not in until_boot]
        proposed = _with_routes(config, (*others, *now.routes))
    return Proposal(proposed, report, tuple(step.finding for step in conflicts))


def _without_lost_device(
    route: StaticRoute, config: HostRoutingConfig, snapshot: Snapshot
) -> StaticRoute:
    """The route, without a device that this host does not have and does not expect, while it
    expects others: a card has got another name, for example.
    """
    expected = config.route_overlap.expected_devs
    if not expected or route.dev in expected or route.dev in snapshot.links_by_name:
        return route
    return route._replace(dev=None)


def _with_routes(config: HostRoutingConfig, routes: tuple[StaticRoute, ...]) -> HostRoutingConfig:
    return config._replace(static_routes=StaticRoutesConfig(bool(routes), routes))
