"""What the engine does not look at, named one by one: whoever reads a verdict knows what it does not cover.

A shape that is rare is named and not modelled. A verdict that such a shape could change is UNDECIDED.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.model.prefix import Prefix

if TYPE_CHECKING:
    from hostrouting.fib.engine import Fib
    from hostrouting.model.route import Route

_BY_DEVICE = {"encap ip", "encap ip6", "encap mpls"}
"""The encapsulations after which packets leave by the device of their route."""


class NotJudged(NamedTuple):
    """One thing that is not looked at, and the addresses that it is about."""

    name: str
    """What it is, such as `rule 50: goto 100`."""
    prefix: Prefix
    """The whole address space, if it can be about any address."""


def may_change_destination(route: Route) -> bool:
    """Whether packets may get another destination by an encapsulation, so that the device of the route says nothing."""
    return any(word.startswith("encap") and word not in _BY_DEVICE for word in route.unread)


def not_judged(fib: Fib) -> Iterator[NotJudged]:
    """Each rule and route of this host that the engine does not look at."""
    every = Prefix(fib.family, 0, 0)
    for rule in fib.rules:
        if rule.action == "goto":
            yield NotJudged(f"rule {rule}", every)
        elif rule.suppress_ifgroup is not None:
            yield NotJudged(f"rule {rule}", every if rule.dst is None else rule.dst)
    for route in fib.routes:
        if route.tos:
            yield NotJudged(f"route {route} (a type of service)", route.prefix)
        elif route.source is not None:
            yield NotJudged(f"route {route} (for packets from {route.source})", route.prefix)
        elif route.type == "unicast" and not route.devs:
            yield NotJudged(f"route {route} (its next hops are not listed)", route.prefix)
        elif may_change_destination(route):
            yield NotJudged(f"route {route} (an encapsulation that may change the destination)", route.prefix)
