"""A naive scan of rules and routes, beside which the engine and the judge are held."""

from typing import NamedTuple

from hostrouting.model.prefix import IPV4
from hostrouting.model.route import REFUSING, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot

NOT_JUDGED = ("not-judged", None)


class Packet(NamedTuple):
    """What rules select by; the packet has no mark."""

    address: int
    user: int
    source: int
    """-1 is in no block: an IPv6 packet that has no source yet."""
    iif: str


def scanned(
    snapshot: Snapshot,
    family: int,
    address: int,
    *,
    user: int = 0,
    source: int | None = None,
    iif: str = "lo",
) -> tuple[str, Route | None]:
    """What becomes of a packet of this user, or of a pod, by each rule and route."""
    if source is None:
        source = 0 if family == IPV4 else -1
    packet = Packet(address, user, source, iif)
    rules = [rule for rule in snapshot.rules if rule.family == family]
    for rule in sorted(rules, key=lambda rule: rule.priority):
        if is_selected(rule, packet):
            decision = decided(snapshot, rule, address)
            if decision is not None:
                return decision
    return "no-route", None


def is_selected(rule: Rule, packet: Packet) -> bool:
    meets = [
        rule.dst is None or rule.dst.first <= packet.address <= rule.dst.last,
        rule.src is None or rule.src.first <= packet.source <= rule.src.last,
        rule.iif is None or rule.iif == packet.iif,
        rule.fwmark & rule.fwmask == 0,
    ]
    for _, users in rule.others:  # all of them are `uidrange`
        first, last = map(int, users.split("-"))
        meets.append(first <= packet.user <= last)
    return all(meets) is not rule.invert


def decided(snapshot: Snapshot, rule: Rule, address: int) -> tuple[str, Route | None] | None:
    """What the rule decides; None if the next rule is asked."""
    if rule.action in REFUSING:
        return rule.action, None
    if rule.action == "goto":
        return NOT_JUDGED
    route = best_route(snapshot, rule.table, address)
    if route is None:
        return None
    if route.source:
        return NOT_JUDGED
    if route.type == "throw":
        return None
    if route.type not in REFUSING:  # only these can be suppressed
        longest = rule.suppress_prefixlength
        if longest is not None and route.prefix.length <= longest:
            return None
        if rule.suppress_ifgroup is not None:
            return NOT_JUDGED
    return route.type, route


def best_route(snapshot: Snapshot, table: int, address: int) -> Route | None:
    """The longest prefix; then one for some sources, and then the lowest metric."""
    inside = [
        route
        for route in snapshot.routes
        if route.table == table and route.prefix.first <= address <= route.prefix.last
    ]
    return min(
        inside,
        key=lambda route: (-route.prefix.length, not route.source, route.metric),
        default=None,
    )
