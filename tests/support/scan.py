"""A naive scan of rules and routes, beside which the engine and the judge are held."""

from hostrouting.model.prefix import IPV4
from hostrouting.model.route import REFUSING, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot

NOT_JUDGED = ("not-judged", None)


def scanned(
    snapshot: Snapshot,
    family: int,
    address: int,
    *,
    user: int = 0,
    mark: int = 0,
    source: int | None = None,
) -> tuple[str, Route | None]:
    """What becomes of a packet of this host, by each rule and route."""
    if source is None:
        source = 0 if family == IPV4 else -1  # an IPv6 packet without a source is in no block
    rules = [rule for rule in snapshot.rules if rule.family == family]
    for rule in sorted(rules, key=lambda rule: rule.priority):
        if is_selected(rule, address, user, mark, source):
            decision = decided(snapshot, rule, address)
            if decision is not None:
                return decision
    return "no-route", None


def is_selected(rule: Rule, address: int, user: int, mark: int, source: int) -> bool:
    meets = [
        rule.dst is None or rule.dst.first <= address <= rule.dst.last,
        rule.src is None or rule.src.first <= source <= rule.src.last,
        rule.iif in {None, "lo"},
        (rule.fwmark ^ mark) & rule.fwmask == 0,
    ]
    for _, users in rule.others:  # all of them are `uidrange`
        first, last = map(int, users.split("-"))
        meets.append(first <= user <= last)
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
