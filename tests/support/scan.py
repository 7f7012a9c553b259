"""A naive scan of rules and routes, beside which the engine and the judge are held."""

from hostrouting.model.prefix import IPV4
from hostrouting.model.route import REFUSING, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot


def scanned(
    snapshot: Snapshot,
    family: int,
    address: int,
    *,
    user: int = 0,
    source: int | None = None,
    iif: str = "lo",
) -> tuple[str, Route | None]:
    """What happens to a packet of this user, or of a pod, by the words of the rules and each route
    of a table.
    """
    if (
        source is None
    ):  # IPv4 then looks up with 0.0.0.0, and IPv6 with no source, which is in no block
        source = 0 if family == IPV4 else -1
    for rule in sorted(
        (rule for rule in snapshot.rules if rule.family == family), key=lambda rule: rule.priority
    ):
        if is_selected(rule, address, user, source, iif):
            if rule.action in REFUSING:
                return rule.action, None
            if rule.action == "goto":
                return "not-judged", None
            inside = [
                route
                for route in snapshot.routes
                if route.table == rule.table and route.prefix.first <= address <= route.prefix.last
            ]
            best = min(
                inside,
                key=lambda route: (-route.prefix.length, not route.source, route.metric),
                default=None,
            )
            suppressed = -1 if rule.suppress_prefixlength is None else rule.suppress_prefixlength
            if best is None or (best.type == "throw" and not best.source):
                continue
            if best.type not in REFUSING and best.prefix.length <= suppressed:
                continue
            is_unknown = best.source or (
                best.type not in REFUSING and rule.suppress_ifgroup is not None
            )
            return ("not-judged", None) if is_unknown else (best.type, best)
    return "no-route", None


def is_selected(rule: Rule, address: int, user: int, source: int, iif: str) -> bool:
    """Whether the rule selects this packet, which has no mark; a source of -1 is in no block."""
    meets = [rule.dst is None or rule.dst.first <= address <= rule.dst.last]
    meets += [
        rule.src is None or rule.src.first <= source <= rule.src.last,
        rule.iif in {None, iif},
    ]
    meets.append(not rule.fwmark & rule.fwmask)
    for _, users in rule.others:  # all of them are `uidrange`
        first, last = map(int, users.split("-"))
        meets.append(first <= user <= last)
    return all(meets) is not rule.invert
