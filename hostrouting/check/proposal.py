"""The configuration that repairs a host for good: what is configured, and the routes that it lacks.

`apply` deletes the routes of hostrouting that its configuration does not have, and so do the gate
and the guard. What counts is therefore the host as it will be after `apply`: a route that somebody
has typed may be the only reason why nothing escapes now.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.check import check_snapshot
from hostrouting.config.settings import StaticRoutesConfig
from hostrouting.finding import Finding, Remedy
from hostrouting.model.prefix import extent
from hostrouting.model.route import PROTOCOL_BOOT, deletion_command
from hostrouting.routes.plan import plan_static_routes
from hostrouting.text import spoken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hostrouting.check.results import CheckReport
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.model.route import Route, RouteKey
    from hostrouting.model.snapshot import Snapshot
    from hostrouting.routes.plan import RoutePlan


class Proposal(NamedTuple):
    """A configuration that repairs a host, as far as routes can, and what it was made from."""

    config: HostRoutingConfig
    report: CheckReport
    """The check of the host after the given configuration was applied. Its repair is proposed."""
    left_out: tuple[Finding, ...] = ()
    """The conflicts of configured routes that are left out, because `apply` would fail."""
    unconfigured: tuple[Finding, ...] = ()
    """The routes that are only on the host, and without which addresses escape."""


def propose_configuration(config: HostRoutingConfig, snapshot: Snapshot) -> Proposal:
    """The given configuration, with the routes that repair the host once it is applied.

    A configured route stays, unless something escapes and another program's route has its place:
    then what escapes gets other routes. Raises ConfigError if no CIDRs are expected.
    """
    plan = plan_static_routes(config, snapshot)
    report = check_snapshot(plan.apply_to(snapshot), config)
    conflicts = plan.conflicts if report.escapes else ()
    replaced = {route.key for route in report.routes}
    replaced |= {step.route.key for step in conflicts}
    kept = [route for route in config.static_routes.routes if route.key not in replaced]
    routes = (*kept, *report.routes)
    proposed = config._replace(static_routes=StaticRoutesConfig(bool(routes), routes))
    left_out = tuple(step.finding for step in conflicts)
    unconfigured = tuple(find_unconfigured(plan, snapshot, config, after=report))
    return Proposal(proposed, report, left_out, unconfigured)


def find_unconfigured(
    plan: RoutePlan, snapshot: Snapshot, config: HostRoutingConfig, *, after: CheckReport
) -> Iterator[Finding]:
    """The routes of ours that the plan deletes although addresses escape without them.

    `after` is the check of the host after the plan was carried out.
    """
    deleted = _unconfigured(plan)
    if not deleted or not after.escapes:
        return
    lost = _newly_escaping(check_snapshot(snapshot, config), after)
    if not lost:
        return
    destinations = [str(route.prefix) for route in deleted]
    subject = f"the routes to {spoken(destinations)} are"
    pronoun = "them"
    if len(destinations) == 1:
        subject = f"the route to {destinations[0]} is"
        pronoun = "it"
    escape = "escapes" if len(lost) == 1 else "escape"
    sentence = (
        f"{subject} not in the configuration, and will be gone after the next boot; "
        f"without {pronoun} {spoken(lost)} {escape}"
    )
    routes = [route.to_mapping() for route in after.routes]
    remedy = None
    if routes:
        remedy = Remedy(f"add to staticRoutes.routes: {json.dumps(routes)}")
    facts = {"unconfigured": destinations, "ranges": lost, "routes": routes}
    yield Finding("route-not-configured", "warning", sentence, spoken(destinations), remedy, facts)


def find_by_hand(
    snapshot: Snapshot, config: HostRoutingConfig, *, now: CheckReport, pipeline: str
) -> Iterator[Finding]:
    """The routes that somebody has added with `ip route add`, and without which addresses escape:
    nothing sets them at the next boot.

    `now` is the check of this snapshot, and `pipeline` the line to type that repairs the host.
    """
    cidrs = [cidr for family in now.families for cidr in family.cidrs]
    by_hand = [route for route in snapshot.routes if route.protocol == PROTOCOL_BOOT]
    added = [route for route in by_hand if any(route.prefix in cidr for cidr in cidrs)]
    if not added or now.escapes:
        return
    kept = tuple(route for route in snapshot.routes if route not in added)
    lost = _newly_escaping(now, check_snapshot(snapshot._replace(routes=kept), config))
    if not lost:
        return
    destinations = [str(route.prefix) for route in added]
    subject = f"the routes to {spoken(destinations)} were"
    pronoun = "them"
    if len(added) == 1:
        subject = f"the route to {destinations[0]} was"
        pronoun = "it"
    sentence = (
        f"{subject} added by hand, and nothing adds {pronoun} at boot; "
        f"without {pronoun} {spoken(lost)} would escape"
    )
    commands = [*map(deletion_command, added), pipeline]
    remedy = Remedy(f"to configure {pronoun} instead", " && ".join(commands))
    facts = {"unconfigured": destinations, "ranges": lost, "routes": []}
    yield Finding("route-not-configured", "note", sentence, spoken(destinations), remedy, facts)


def _unconfigured(plan: RoutePlan) -> list[Route]:
    """The routes that are deleted and not replaced, each destination once."""
    stays = {step.route.key for step in plan.steps if step.action != "delete"}
    stays |= {waiting.route.key for waiting in plan.waiting}
    deleted: dict[RouteKey, Route] = {}
    for step in plan.changes:
        if step.action == "delete" and step.route.key not in stays:
            deleted[step.route.key] = step.route
    return [*deleted.values()]


def _newly_escaping(before: CheckReport, after: CheckReport) -> list[str]:
    """The ranges that escape afterwards and do not escape before."""
    known: dict[int, list[tuple[int, int]]] = {4: [], 6: []}
    for escape in before.escapes:
        known[escape.cidr.family].append((escape.first, escape.last))
    lost: dict[str, None] = {}
    for escape in after.escapes:
        family = escape.cidr.family
        for first, last in _without(escape.first, escape.last, known[family]):
            lost[extent(family, first, last)] = None
    return [*lost]


def _without(first: int, last: int, others: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The parts of a range that are in none of the others."""
    for other_first, other_last in sorted(others):
        if other_first > first:
            end = min(last, other_first - 1)
            if end >= first:
                yield first, end
        first = max(first, other_last + 1)
    if first <= last:
        yield first, last
