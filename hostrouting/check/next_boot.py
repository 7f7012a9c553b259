"""The host after its next boot: without the routes that no configuration has, and with those that
the installed one sets.

A route that somebody has typed may be the only reason why nothing escapes now. So a repair is made
for the host after its next boot, and a check says what will escape then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from hostrouting.check.check import check_snapshot
from hostrouting.check.sentences import lost_at_boot
from hostrouting.fib.engine import FROM_HOST, pieces
from hostrouting.model.prefix import IPV4, IPV6, extent
from hostrouting.model.route import OURS, PROTOCOL_BOOT, TABLE_MAIN
from hostrouting.routes.plan import plan_static_routes, reply_routes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from hostrouting.check.results import CheckReport
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.finding import Finding, Remedy
    from hostrouting.model.prefix import IP
    from hostrouting.model.route import Route
    from hostrouting.model.snapshot import Snapshot

Range: TypeAlias = tuple[int, int, int]
"""A family, and the first and the last address."""
_Way: TypeAlias = "tuple[tuple[str | None, IP | None], ...]"
"""The device and the gateway of each next hop."""


def after_next_boot(snapshot: Snapshot, config: HostRoutingConfig) -> Snapshot:
    """The host as it will be after its next boot, with this configuration installed."""
    lost = set(_unconfigured(snapshot, config))
    kept = tuple(route for route in snapshot.routes if route not in lost)
    booted = snapshot._replace(routes=kept)
    return plan_static_routes(config, booted).apply_to(booted)


def find_lost_at_boot(
    now: CheckReport, config: HostRoutingConfig, installed: HostRoutingConfig, remedy: Remedy
) -> Iterator[Finding]:
    """What will escape after the next boot and does not escape now, because routes are not
    configured. `now` is the check of the host for `config`.
    """
    lost = _unconfigured(now.snapshot, installed)
    if not lost:
        return
    after = check_snapshot(after_next_boot(now.snapshot, installed), config)
    escapes = find_new_escapes(now, after)
    destinations: dict[str, None] = {}
    for family, first, last in escapes:
        for prefix in (route.prefix for route in lost):
            if prefix.family == family and prefix.first <= last and first <= prefix.last:
                destinations[str(prefix)] = None
    if destinations:
        yield lost_at_boot([*destinations], [extent(*each) for each in escapes], remedy)


def _unconfigured(snapshot: Snapshot, config: HostRoutingConfig) -> list[Route]:
    """The routes of hostrouting that are not configured, and those that `ip route add` has made
    where we would set ours: by the next hops of a default route.

    Other programs add routes of the same protocol, too: Flannel, for example, leads to the pods of
    other nodes by its own device, or by the addresses of the nodes.
    """
    configured = {route.key for route in (*config.static_routes.routes, *reply_routes(config))}
    ways: set[_Way] = set()
    for family in (IPV4, IPV6):
        ways.update(map(_way, snapshot.default_routes(family)))
    unconfigured: list[Route] = []
    for route in snapshot.routes:
        is_gone = route.protocol == OURS or _may_be_typed(route, ways)
        if is_gone and route.key not in configured:
            unconfigured.append(route)
    return unconfigured


def _may_be_typed(route: Route, ways: Collection[_Way]) -> bool:
    """Whether `ip route add` makes such a route, and it leads by one of these ways."""
    if (route.protocol, route.table, route.type) != (PROTOCOL_BOOT, TABLE_MAIN, "unicast"):
        return False
    is_default = route.prefix.length <= 1  # or one of its halves, as a VPN sets them
    return not is_default and _way(route) in ways


def _way(route: Route) -> _Way:
    return tuple((hop.dev, hop.gateway) for hop in route.next_hops)


# What escapes on a changed host and does not escape now.


def find_new_escapes(before: CheckReport, after: CheckReport) -> list[Range]:
    """The ranges that escape afterwards and do not escape before, each once, even if packets of
    several kinds escape there.

    Cut where an escape from before begins or ends, each piece is in it as a whole, or not at all.
    """
    ranges: dict[Range, None] = {}
    for old, new in zip(before.families, after.families, strict=True):
        borders = {known.first for known in old.escapes}
        borders |= {known.last + 1 for known in old.escapes}
        for escape in new.escapes:
            # Where plain packets escape, a report may not name others.
            known = [each for each in old.escapes if each.packet in {FROM_HOST, escape.packet}]
            for first, last in pieces(escape.first, escape.last, sorted(borders)):
                if not any(each.first <= first <= each.last for each in known):
                    ranges[new.family, first, last] = None
    return [*ranges]
