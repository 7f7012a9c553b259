"""Default routes between which Linux alternates: IPv4's choice among equal ones.

Here: the routes that may be used instead of the one that a lookup found. Not here: which one a lookup finds (`table`).

A lookup finds the first default route in its table. While the neighbour behind its gateway is not known to be
reachable, Linux goes on to the next default route of the same metric, and from there to the next: two devices with DHCP
are enough, and each then carries half of the packets. Neighbour state changes all the time and is not in a snapshot, so
any of these routes may decide. (The kernel's `fib_select_default`; it does not run if the route found first has several
next hops.)
"""

from collections.abc import Callable, Sequence

from hostrouting.model import NextHop, Route

__all__ = ["taken_in_turn"]


def taken_in_turn(routes: Sequence[Route], place: int, *, is_dead: Callable[[NextHop], bool]) -> tuple[Route, ...]:
    """The other routes that may be used if a lookup finds the one at this place.

    `routes` are all IPv4 default routes of one table, in the order in which the kernel prefers them. A route that has
    lost its carrier may be used, even if a lookup would not find it; a route that `is_dead` may not.
    """
    found, others = routes[place], list[Route]()
    if found.type != "unicast" or len(found.legs) != 1 or found.legs[0].gateway is None:
        return ()
    metric, tos, met = found.metric, 0, False
    for route in routes:
        if route.table != found.table or route.tos not in {0, found.tos}:
            continue
        if route.metric > metric and route.tos == tos:
            if tos:
                continue
            break
        if route.legs and all(map(is_dead, route.legs)):
            continue
        metric, tos = route.metric, route.tos
        if route.scope != found.scope or route.type != "unicast" or not route.legs or route.legs[0].gateway is None:
            continue
        if route is found:
            met = True
        elif met:
            others.append(route)
        else:
            return ()  # a route that cannot be used precedes it
    return tuple(others)
