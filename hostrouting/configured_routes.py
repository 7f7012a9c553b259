"""The static routes of a configuration: as `plan_routes` takes them, and the plan that leads to them from a snapshot.

Here: functions from values to values. Not here: how a route is planned (`plan`), and how the routes are installed
(`tasks.static_routes`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.model import Prefix
from hostrouting.plan import plan_routes
from hostrouting.uplink import DesiredRoute

if TYPE_CHECKING:
    from collections.abc import Iterable
    from ipaddress import IPv6Address

    from hostrouting.config import HostRoutingConfig, StaticRoutesConfig
    from hostrouting.model import Snapshot
    from hostrouting.plan import RoutePlan

__all__ = ["plan_static_routes", "reply_destinations", "wanted_routes", "wanted_routes_of"]


def wanted_routes(config: HostRoutingConfig) -> tuple[DesiredRoute, ...]:
    """The static routes of a configuration, as `plan_routes` takes them."""
    return wanted_routes_of(config.static_routes)


def wanted_routes_of(static: StaticRoutesConfig) -> tuple[DesiredRoute, ...]:
    """The same for this section of a configuration."""
    return tuple(
        DesiredRoute(Prefix.of(it.destination), gateway=it.gateway, dev=it.dev, metric=it.metric)
        for it in (static.routes if static.enabled else ())
    )


def reply_destinations(config: HostRoutingConfig, *, former: Iterable[IPv6Address] = ()) -> frozenset[Prefix]:
    """The destinations of the routes that the probe rewrite adds: they carry our protocol, but are not static routes.

    `former` are the addresses of earlier configurations.
    """
    return frozenset(map(Prefix.of, (config.probe_rewrite.global_address, *former)))


def plan_static_routes(config: HostRoutingConfig, snapshot: Snapshot) -> RoutePlan:
    """The plan that leads from this snapshot to the static routes of a configuration."""
    return plan_routes(wanted_routes(config), snapshot, protocol=config.protocol, spared=reply_destinations(config))
