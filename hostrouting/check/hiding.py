"""What would be fine elsewhere than at the uplink, if the routes that hide it were gone.

For example, Flannel leads to all pods by [10.244.0.0/16 dev flannel.1], and a stale [10.244.2.0/24
dev ib0] catches the packets to some of them. This hiding route makes 10.244.2.0/24 a hidden part: a
route by the uplink would only lose its packets in another way. So the hiding routes are taken out
of the tables, to see where the packets would go. A hidden part has to be repaired by a deletion.

A route that refuses packets, and may be left over from a CNI, hides what is right in the same way.

All hiding routes are taken out together. Not judged: a rule that suppresses one of them for other
packets, and finds a refusal instead when it is gone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.check.results import Grade, Part, Why
from hostrouting.fib.engine import Decision, Fib
from hostrouting.model.route import REFUSING

if TYPE_CHECKING:
    from hostrouting.check.judge import Judge
    from hostrouting.model.route import Route


class HiddenParts(NamedTuple):
    """The hidden parts of a host."""

    reasons: dict[int, Why]
    """By their first addresses: why no route by the uplink is right, and what to delete instead."""
    fib_without: Fib
    """The tables without the routes by which something escapes."""


def find_hidden(judge: Judge, escapes: Sequence[Part]) -> HiddenParts:
    """Take the routes of these escapes out of the tables, then those that catch the packets next.

    A route by which some packets escape is right for no others, because the judge looks at the
    route alone: so all such routes go at once. What is expected stays what the whole host expects.
    """
    hiding: dict[int, list[Route]] = {}
    fib = judge.fib
    if _may_hide(judge, escapes):
        hiding, fib = _without_hiding_routes(judge, escapes)
    reasons: dict[int, Why] = {}
    for part in escapes:
        # By the uplink, packets would miss them, too.
        if judge.devices.routes_to_pods.around(part.first):
            to_delete = tuple(hiding.get(part.first, ()))
            cause = f"[{part.decision}] hides pods of this node"
            reasons[part.first] = Why("below-a-cni", cause, to_delete)
            continue
        left = part.decision.route
        if left is None or not _is_fine_without(judge, left, part.first):
            continue
        cni = judge.refusals.left_by(left)
        if cni:
            cause = f"[{left}] may be left over from {cni}, and hides what is right"
            reasons[part.first] = Why("below-a-cni", cause, (left,))
    for first, routes in hiding.items():
        decision, _ = fib.outcomes(first)
        if judge.opinion(decision).is_fine_elsewhere:
            # In place of what is said above: to delete these routes helps.
            hides = f"[{routes[0]}] hides [{decision.route}]"
            cause = f"{hides}, which these packets would take without it"
            reasons[first] = Why("below-a-cni", cause, tuple(routes))
    return HiddenParts(reasons, fib)


def _is_fine_without(judge: Judge, route: Route, address: int) -> bool:
    """Whether plain packets to this address are fine without this route, which refuses them."""
    if route.type not in REFUSING:
        return False
    decision, _ = judge.fib.without_routes([route]).outcomes(address)
    return judge.opinion(decision).grade is Grade.FINE


def _without_hiding_routes(
    judge: Judge, escapes: Iterable[Part]
) -> tuple[dict[int, list[Route]], Fib]:
    """By the first address of each part: the routes by which it escapes, one after the other. And
    the tables without these routes. Each turn has fewer routes, so this ends.
    """
    fib = judge.fib
    hiding: dict[int, list[Route]] = {}
    while True:
        removed: list[Route] = []
        for part in escapes:
            decision, _ = fib.outcomes(part.first)
            if decision.route is not None and judge.opinion(decision).grade is Grade.ESCAPE:
                hiding.setdefault(part.first, []).append(decision.route)
                removed.append(decision.route)
        if not removed:
            return hiding, fib
        fib = fib.without_routes(removed)


def _may_hide(judge: Judge, escapes: Sequence[Part]) -> bool:
    """Whether a route to one of these addresses is right elsewhere than at the uplink.

    Most hosts have none, and need not be taken apart. Without this question, a node with eight
    InfiniBand devices in one network is judged in 5 ms and not in 1: each hides the next.
    """
    firsts = [part.first for part in escapes]
    for route in judge.fib.routes:
        place = bisect_left(firsts, route.prefix.first)
        is_around = place < len(firsts) and firsts[place] <= route.prefix.last
        if is_around and judge.opinion(Decision(route.type, route)).is_fine_elsewhere:
            return True
    return False
