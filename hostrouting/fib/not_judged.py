"""The rules and routes that the engine does not evaluate. They are rare, and a verdict that one of
them could change is UNDECIDED and names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.model.prefix import IPV6, Prefix
from hostrouting.model.route import TABLE_MAIN
from hostrouting.model.rule import default_rules

if TYPE_CHECKING:
    from hostrouting.fib.engine import Fib
    from hostrouting.model.route import Route

KEEPS_DESTINATION = {"encap ip", "encap ip6", "encap mpls"}
"""The encapsulations after which packets leave through the device of their route."""


def not_judged(fib: Fib) -> Iterator[tuple[str, Prefix]]:
    """Yield each rule and route whose effect on plain packets the engine does not evaluate: as
    text, with the addresses to which it applies. A check has a doubt about these addresses.

    A rule that selects only other packets, such as marked ones, is left out here, because
    `Fib.ends` has the decision not-judged for these packets.
    """
    for applied in fib.applied:
        rule = applied.rule
        is_not_evaluated = rule.action == "goto" or rule.suppress_ifgroup is not None
        # With `not`, a rule selects the packets that do not meet it, plain ones or not.
        may_select_plain = applied.is_met_by_plain or applied.invert
        if is_not_evaluated and may_select_plain:
            addresses = Prefix(fib.family, 0, 0)  # also for `not to …`, which selects nearly all
            if applied.to is not None and not applied.invert:
                addresses = applied.to
            yield f"rule {rule}", addresses
    # Until somebody adds the first IPv6 rule, Linux does not look at these rules: it looks up the
    # tables local and main, even if their rules were deleted. A rule that is no default one shows
    # that one was added. If only the rule for table local is left, nothing shows that.
    rule_for_local = default_rules(fib.family)[0]
    may_use_main_without_rule = {rule_for_local}.issuperset(fib.rules)
    has_routes = any(route.table == TABLE_MAIN for route in fib.routes)
    if fib.family == IPV6 and may_use_main_without_rule and has_routes:
        yield "IPv6 without the rule for table main", Prefix(IPV6, 0, 0)
    for route in fib.routes:
        reason = why_not_judged(route)
        if reason:
            yield f"route {route} ({reason})", route.prefix


def why_not_judged(route: Route) -> str:
    """Say why the engine does not evaluate this route; empty if it does."""
    if route.tos:
        return f"for packets with tos {route.tos:#x}"
    if route.source is not None:
        return f"for packets from {route.source}"
    if route.type == "unicast" and not route.devs:  # it has only the number of a nexthop object
        return "its next hops are not listed"
    if not KEEPS_DESTINATION.issuperset(route.unread):  # `unread` names the encapsulations
        return "an encapsulation that may change the destination"
    return ""
