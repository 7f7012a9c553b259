"""What protects a host now, and another configuration would take away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import collapse_addresses

from hostrouting.config.settings import HostRoutingConfig, Network, StaticRoute, gated_units
from hostrouting.errors import Fault
from hostrouting.gate.unit_names import template_of
from hostrouting.text import spoken


def find_losses(installed: HostRoutingConfig, config: HostRoutingConfig) -> Iterator[Fault]:
    """The protection that goes: routes, STRICT, CIDRs, gated units and the guard.

    What only changes how the host is judged, or what else hostrouting does for it, is not a loss:
    other devices or rules that are allowed, the rewrite of probes, and manageForeign.
    """
    old = installed.route_overlap
    new = config.route_overlap
    routes = _lost_routes(installed, config)
    if routes:
        rule = f"{spoken(routes)} would lose the route that is installed"
        yield Fault("staticRoutes.routes", "", rule)
    cidrs = outside(new.cidrs, old.cidrs)
    if cidrs:
        rule = f"{spoken(cidrs)} would no longer be checked"
        yield Fault("routeOverlap.expectedCidrs", "", rule)
    pods = outside(new.pod_cidrs, old.pod_cidrs)
    if old.cidrs and new.cidrs and pods:  # without CIDRs, packets of pods are not checked either
        rule = f"packets from {spoken(pods)} would no longer be checked"
        yield Fault("routeOverlap.podCidrs", "", rule)
    if old.is_strict and new.cidrs and not new.is_strict:  # without CIDRs, that is said above
        rule = "STRICT is installed; with WARN, units start even if addresses escape"
        yield Fault("routeOverlap.mode", "", rule)
    units = _freed_units(installed, config)
    if units:
        yield Fault("gate.units", "", f"{spoken(units)} would no longer wait for the gate")
    if installed.guard.enabled and not config.guard.enabled:
        yield Fault("guard.enabled", "", "the guard that repairs routes would be removed")


def _lost_routes(installed: HostRoutingConfig, config: HostRoutingConfig) -> list[str]:
    """The destinations that lose their route.

    Routes to longer prefixes can replace it. A shorter prefix or a higher metric cannot: another
    program's route may take precedence over it.
    """
    kept = config.static_routes.routes
    lost: list[str] = []
    for route in installed.static_routes.routes:
        as_strong = [other.destination for other in kept if _is_as_strong(other, route)]
        lost += outside(as_strong, [route.destination])
    return lost


def _is_as_strong(route: StaticRoute, other: StaticRoute) -> bool:
    """Whether this route takes precedence wherever the other one does, inside its destination."""
    length = route.destination.prefixlen
    if length == other.destination.prefixlen:
        return route.key.metric <= other.key.metric
    return length > other.destination.prefixlen


def _freed_units(installed: HostRoutingConfig, config: HostRoutingConfig) -> list[str]:
    """The units that would be gated no longer. The drop-in of a template gates its instances."""
    gated = set(gated_units(config))
    units = sorted(gated_units(installed))
    return [unit for unit in units if gated.isdisjoint({unit, template_of(unit)})]


def outside(networks: Sequence[Network], cidrs: Iterable[Network]) -> list[str]:
    """Those of the CIDRs that these networks, taken together, do not cover."""
    return [str(cidr) for cidr in cidrs if not _covers(networks, cidr)]


def _covers(networks: Iterable[Network], cidr: Network) -> bool:
    of_family = (network for network in networks if network.version == cidr.version)
    return any(cidr.subnet_of(whole) for whole in collapse_addresses(of_family))  # type: ignore[type-var,arg-type]  # all of one family
