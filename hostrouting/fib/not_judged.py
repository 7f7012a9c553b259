"""What the engine does not look at, named one by one, so that readers of a verdict know what it
does not cover.

A rare shape is named, and not modelled. A verdict that such a shape could change is UNDECIDED.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.model.prefix import Prefix

if TYPE_CHECKING:
    from hostrouting.fib.engine import Fib
    from hostrouting.model.route import Route

KEEPS_DESTINATION = {"encap ip", "encap ip6", "encap mpls"}
"""The encapsulations after which packets leave through the device of their route."""


def not_judged(fib: Fib) -> Iterator[tuple[str, Prefix]]:
    """Each rule and route that the engine does not look at, and the addresses that it is about.

    Of the rules, those that select plain packets. Other packets, such as marked ones, have an
    outcome of their own (`Fib.outcomes`), which is not-judged if such a rule decides about them.
    """
    for applied in fib.applied:
        rule = applied.rule
        is_unjudged = rule.action == "goto" or rule.suppress_ifgroup is not None
        if is_unjudged and (applied.is_met_by_plain or applied.invert):
            about = Prefix(fib.family, 0, 0)
            if applied.to is not None and not applied.invert:
                about = applied.to
            yield f"rule {rule}", about
    for route in fib.routes:
        reason = why_not_judged(route)
        if reason:
            yield f"route {route} ({reason})", route.prefix


def why_not_judged(route: Route) -> str:
    """Why the engine does not look at this route; empty if it does."""
    if route.tos:
        return f"for packets with tos {route.tos:#x}"
    if route.source is not None:
        return f"for packets from {route.source}"
    if route.type == "unicast" and not route.devs:
        return "its next hops are not listed"
    if not KEEPS_DESTINATION.issuperset(route.unread):
        return "an encapsulation that may change the destination"
    return ""
