"""The configuration that repairs a host for good: what is configured, and the routes that it lacks.

`apply` deletes the routes of hostrouting that its configuration does not have, and so do the gate
and the guard. What counts is therefore the host as it will be after `apply`: a route that somebody
has typed may be the only reason why nothing escapes now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from hostrouting.check.check import check_snapshot
from hostrouting.check.sentences import how_to_configure, not_configured
from hostrouting.config.settings import StaticRoute, StaticRoutesConfig
from hostrouting.errors import ConfigError
from hostrouting.fib.engine import FROM_HOST, pieces
from hostrouting.finding import Finding, Remedy
from hostrouting.model.prefix import Prefix, extent
from hostrouting.model.route import DEFAULT_METRIC, PROTOCOL_BOOT, TABLE_MAIN
from hostrouting.routes.plan import plan_static_routes
from hostrouting.text import spoken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hostrouting.check.results import CheckReport, Escape, FamilyReport
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.model.route import Route
    from hostrouting.model.snapshot import Snapshot
    from hostrouting.routes.steps import RoutePlan, Step

_Range: TypeAlias = tuple[int, int, int]
"""A family, and the first and the last address."""
_MOST_BY_HAND = 32
"""Nobody types more routes than this: a program has added them, and will again."""


class Proposal(NamedTuple):
    """A configuration that repairs a host, as far as routes can, and what it was made from."""

    config: HostRoutingConfig
    report: CheckReport
    """The check of the host after the given configuration was applied. Its repair is proposed."""
    left_out: tuple[Finding, ...] = ()
    """The conflicts of configured routes that are left out, because `apply` would fail."""
    unconfigured: tuple[Finding, ...] = ()
    """The routes of ours that are only on the host, and without which addresses escape."""
    taken_over: tuple[StaticRoute, ...] = ()
    """The routes that were added by hand, and that the configuration has now."""


def propose_configuration(
    config: HostRoutingConfig, snapshot: Snapshot, *, deleter: str = "the next boot deletes"
) -> Proposal:
    """The given configuration, with the routes that repair the host once it is applied, and those
    that were added by hand and are needed even then.

    A configured route stays, unless something escapes and another program's route has its place:
    then what escapes gets other routes. For `deleter`, see find_unconfigured. Raises ConfigError if
    no CIDRs are expected.
    """
    # The host as the given configuration makes it, and its repair.
    plan = plan_static_routes(config, snapshot)
    applied = check_snapshot(plan.apply_to(snapshot), config)
    repaired = applied
    if applied.routes:
        repaired = check_snapshot(applied.snapshot.with_routes(applied.resolved), config)

    # The configured routes, without those that a route of the repair replaces and, where something
    # escapes, those that cannot be set.
    conflicts: tuple[Step, ...] = ()
    if applied.escapes:
        conflicts = plan.conflicts
    replaced = {step.route.key for step in conflicts}
    replaced |= {route.key for route in applied.routes}
    kept = [route for route in config.static_routes.routes if route.key not in replaced]

    # The routes that were added by hand, and that the repaired host still needs.
    by_hand = _routes_by_hand(kept, repaired)
    taken_over = _take_over(by_hand, config, repaired)

    routes = (*kept, *applied.routes, *taken_over)
    proposed = config._replace(static_routes=StaticRoutesConfig(bool(routes), routes))
    left_out = tuple(step.finding for step in conflicts)
    unconfigured = find_unconfigured(plan, snapshot, config, after=applied, deleter=deleter)
    return Proposal(proposed, applied, left_out, tuple(unconfigured), tuple(taken_over))


def find_unconfigured(
    plan: RoutePlan,
    snapshot: Snapshot,
    config: HostRoutingConfig,
    *,
    after: CheckReport,
    deleter: str,
) -> Iterator[Finding]:
    """The routes of ours that the plan deletes although addresses escape without them.

    `after` is the check of the host after the plan was carried out. The sentence begins with
    `deleter`: what deletes the routes, and the verb.
    """
    deleted = dict.fromkeys(step.route.prefix for step in plan.deletions.steps)
    if not deleted or not after.escapes:
        return
    lost = _newly_escaping(check_snapshot(snapshot, config), after)
    needed = [str(prefix) for prefix in deleted if _overlaps(prefix, lost)]
    if needed:
        claim = f"{deleter} routes that are not in the configuration"
        remedy = how_to_configure(after.routes)
        yield _needed(claim, needed, lost, remedy, after.routes)


def find_by_hand(
    config: HostRoutingConfig, *, now: CheckReport, pipeline: str
) -> Iterator[Finding]:
    """That somebody has added routes with `ip route add`, without which addresses escape:
    hostrouting does not set them at the next boot.

    `now` is the check of the host, and `pipeline` the line to type that configures them. Nothing is
    deleted for that: `apply` leaves a route that is as configured, whoever added it.
    """
    if now.escapes:  # that is repaired first, and the repair has these routes, too
        return
    by_hand = _routes_by_hand(config.static_routes.routes, now)
    needed = [str(static.destination) for static in _take_over(by_hand, config, now)]
    if needed:
        claim = "routes were added by hand that hostrouting does not set at boot"
        # Without all of them: the next boot also lacks those that stand in for the needed ones.
        lost = _escaping_without(by_hand, config, now)
        yield _needed(claim, needed, lost, Remedy("to keep them", pipeline))


def _needed(
    claim: str,
    needed: Sequence[str],
    lost: Iterable[_Range],
    remedy: Remedy | None,
    repair: Sequence[StaticRoute] = (),
) -> Finding:
    """That the routes to the needed destinations keep these ranges from escaping, after what is
    wrong with them. The routes of the repair would do the same.
    """
    ranges = [extent(*each) for each in lost]
    sentence = f"{claim} ({spoken(needed)}); without them, {spoken(ranges)} would escape"
    return not_configured(sentence, needed, remedy, ranges=ranges, repair=repair)


def _routes_by_hand(configured: Iterable[StaticRoute], report: CheckReport) -> list[Route]:
    """The routes that a person may have added where a configuration would have one of ours, and
    that are not configured.

    Many programs add routes with protocol boot, too: Flannel, for example, leads to the pods of
    other nodes by its own device, or by the addresses of the nodes. So the route has to lead by the
    next hops of a default route, as ours would.
    """
    keys = {route.key for route in configured}
    by_hand: list[Route] = []
    for family in report.families:
        ways = {route.way for route in report.snapshot.default_routes(family.family)}
        for route in report.snapshot.routes:
            if route.key in keys or route.way not in ways:
                continue
            if _may_be_by_hand(route, family):
                by_hand.append(route)
    return by_hand


def _may_be_by_hand(route: Route, family: FamilyReport) -> bool:
    """Whether `ip route add` makes such a route, and it leads to expected CIDRs."""
    if (route.table, route.protocol, route.type) != (TABLE_MAIN, PROTOCOL_BOOT, "unicast"):
        return False
    if route.prefix.length == 0:
        return False
    return any(route.prefix.overlaps(cidr) for cidr in family.cidrs)


def _take_over(
    by_hand: Sequence[Route], config: HostRoutingConfig, report: CheckReport
) -> list[StaticRoute]:
    """The needed ones of the routes that were added by hand, as a configuration has them.

    The report is about the host that has all of them. One after the other is taken away, and put
    back only if addresses escape without it: of two that stand in for each other, one is needed.
    """
    if len(by_hand) > _MOST_BY_HAND:
        return []
    needed: list[StaticRoute] = []
    spare: list[Route] = []
    for route in by_hand:
        if not _escaping_without([*spare, route], config, report):
            spare.append(route)
            continue
        static = _as_configured(route, config, report.snapshot)
        if static is not None:
            needed.append(static)
    return needed


def _as_configured(
    route: Route, config: HostRoutingConfig, snapshot: Snapshot
) -> StaticRoute | None:
    """The configured route for which `apply` would leave this one in its place; None if there is
    none. It names the device and the gateway only if it has to.
    """
    metric = route.metric
    if metric == DEFAULT_METRIC[route.prefix.family]:
        metric = 0
    try:
        by_default = StaticRoute(route.prefix.to_network(), metric=metric)
        if _would_stay(by_default, config, snapshot):
            return by_default
        hop = route.next_hops[0]
        by_hop = by_default._replace(gateway=hop.gateway, dev=hop.dev)
    except ConfigError:  # a reserved range, or a name that no configuration can have
        return None
    if _would_stay(by_hop, config, snapshot):
        return by_hop
    return None


def _would_stay(static: StaticRoute, config: HostRoutingConfig, snapshot: Snapshot) -> bool:
    """Whether `apply` of this route alone would leave the one that is there in its place."""
    alone = config._replace(static_routes=StaticRoutesConfig(enabled=True, routes=(static,)))
    steps = plan_static_routes(alone, snapshot).steps
    actions = {step.action for step in steps if step.route.key == static.key}
    return actions == {"keep"}


# What escapes on a changed host.


def _escaping_without(
    routes: list[Route], config: HostRoutingConfig, report: CheckReport
) -> list[_Range]:
    """The ranges that would escape if these routes of the host were deleted."""
    kept = tuple(route for route in report.snapshot.routes if route not in routes)
    after = check_snapshot(report.snapshot._replace(routes=kept), config)
    return _newly_escaping(report, after)


def _newly_escaping(before: CheckReport, after: CheckReport) -> list[_Range]:
    """The ranges that escape afterwards and do not escape before, each once, even if packets of
    several kinds escape there.
    """
    lost: dict[_Range, None] = {}
    for old, new in zip(before.families, after.families, strict=True):
        for escape in new.escapes:
            for first, last in _outside(old.escapes, escape):
                lost[new.family, first, last] = None
    return [*lost]


def _outside(known: Iterable[Escape], escape: Escape) -> Iterator[tuple[int, int]]:
    """The ranges of this escape that are in none of the known ones of the same packets, or of plain
    packets: where plain packets escape, a report may not name others.

    Cut where a known one begins or ends, each piece is in it as a whole, or not at all.
    """
    alike = [each for each in known if each.packet in {FROM_HOST, escape.packet}]
    borders: set[int] = set()
    for each in alike:
        borders |= {each.first, each.last + 1}
    for first, last in pieces(escape.first, escape.last, sorted(borders)):
        if not any(each.first <= first <= each.last for each in alike):
            yield first, last


def _overlaps(prefix: Prefix, ranges: Iterable[_Range]) -> bool:
    """Whether the prefix has an address in one of these ranges."""
    for family, first, last in ranges:
        if family == prefix.family and prefix.first <= last and first <= prefix.last:
            return True
    return False
