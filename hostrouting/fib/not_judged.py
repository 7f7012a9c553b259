"""What the engine does not look at, named one by one, so that readers of a verdict know what it
does not cover.

A rare shape is named, and not modelled. A verdict that such a shape could change is UNDECIDED.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from hostrouting.fib.engine import FROM_HOST, selects_plain
from hostrouting.model.prefix import IPV4, IPV6, Prefix
from hostrouting.model.route import SCOPE_HOST

if TYPE_CHECKING:
    from hostrouting.fib.engine import Fib, PacketKind
    from hostrouting.model.route import Route
    from hostrouting.model.rule import Rule

KEEPS_DESTINATION = {"encap ip", "encap ip6", "encap mpls"}
"""The encapsulations after which packets leave through the device of their route."""
NOT_LISTED = "its next hops are not listed"
ENCAPSULATED = "an encapsulation that may change the destination"
NO_SOURCE = "its device has no address, so Linux finds no source for packets of this host"
NO_RULE_FOR_MAIN = (
    "the lack of a rule for table main: until a rule is added, IPv6 uses the table all the same"
)
RIVAL = "while its gateway does not answer, an equal route through another device is used"


def not_judged(
    fib: Fib, packets: Collection[PacketKind] = (FROM_HOST,)
) -> Iterator[tuple[str, Prefix]]:
    """Each rule and route that the engine does not look at, and the addresses that it is about.

    Of the rules, those that select these packets. Other packets, such as marked ones, have an
    outcome of their own (`Fib.outcomes`), which is not-judged if such a rule decides about them.
    """
    for rule in unjudged_rules(fib, packets):
        about = Prefix(fib.family, 0, 0)
        if rule.dst is not None and not rule.invert:
            about = rule.dst
        yield f"rule {rule}", about
    if fib.lacks_main:
        yield NO_RULE_FOR_MAIN, Prefix(fib.family, 0, 0)
    for route in fib.routes:
        reason = _why_not_judged(fib, route)
        if reason:
            yield f"route {route} ({reason})", route.prefix


def unjudged_rules(fib: Fib, packets: Collection[PacketKind] = (FROM_HOST,)) -> list[Rule]:
    """The rules that the engine does not look at, and that select one of these packets, at least to
    some addresses: those that jump to another rule, and those that suppress a route by the group of
    its device, which a snapshot does not have.
    """
    rules: list[Rule] = []
    for rule in fib.rules:
        is_unjudged = rule.action == "goto" or rule.suppress_ifgroup is not None
        if is_unjudged and any(selects_plain(rule, packet) for packet in packets):
            rules.append(rule)
    return rules


def _why_not_judged(fib: Fib, route: Route) -> str:
    """Why the engine does not look at this route; empty if it does."""
    if route.tos:
        return f"for packets with tos {route.tos:#x}"
    if route.source is not None:
        return f"for packets from {route.source}"
    if route.type == "unicast" and not route.devs:
        return NOT_LISTED
    if may_change_destination(route):
        return ENCAPSULATED
    if lacks_a_source(fib, route):
        return NO_SOURCE
    if _has_rival(fib, route):
        return RIVAL
    return ""


def lacks_a_source(fib: Fib, route: Route) -> bool:
    """Whether Linux finds only 127.0.0.1 as the source of packets by this route, and refuses them.

    It takes that address of lo only for a route of scope host, and only if the device of the route
    has no address. Field state: cni-ptp-lost-its-address.
    """
    if route.scope != SCOPE_HOST:  # IPv6 has no scopes
        return False
    if route.type != "unicast" or route.prefsrc is not None:
        return False
    for address in fib.snapshot.addresses:
        if address.ip.version == IPV4 and address.dev in route.devs:
            return False
    return True


def _has_rival(fib: Fib, route: Route) -> bool:
    """Whether Linux uses this IPv6 route, but may use an equal one through another device instead.

    A host that does not forward passes over a gateway that does not answer. If no equal route is
    left, it goes on to one with a worse metric or a shorter prefix. These are not named: almost
    every route has one, and that of a repair the one that it repairs (docs/limits.md). Nor are
    default routes: `check.expected` asks which of several equal ones is intended.
    """
    if fib.family != IPV6 or fib.snapshot.ipv6_forwarding or route.prefix.length == 0:
        return False
    if not route.has_gateway:
        return False
    alike = fib.tables[route.table].routes_to(route.prefix)
    if route not in alike[:1]:
        return False
    for other in alike[1:]:
        is_elsewhere = not set(other.devs) <= set(route.devs)
        if other.metric == route.metric and is_elsewhere:
            return True
    return False


def may_change_destination(route: Route) -> bool:
    """Whether an encapsulation may give packets another destination, so that the device of the
    route says nothing.
    """
    return not KEEPS_DESTINATION.issuperset(route.unread)
