"""Routes that win over a route that must not be touched: one with a lower metric, or two with longer prefixes.

Here: which prefixes and metrics to use, if they are free. Not here: whether they are wanted, and the messages
about them.
"""

from collections.abc import Callable, Collection

from hostrouting.fib import Fib
from hostrouting.model import DEFAULT_METRIC, IPV4, IPV6, Prefix, Route, width_of

__all__ = ["METRICS", "hides", "is_held", "way_round"]

# The metrics to try, the usual one first. In IPv4 the usual one is already the lowest. In IPv6 the lowest is 1, because
# Linux takes 0 for the usual one.
METRICS = {IPV4: (DEFAULT_METRIC[IPV4],), IPV6: (DEFAULT_METRIC[IPV6], 1)}


def way_round(prefix: Prefix, is_taken: Callable[[Prefix, int], bool]) -> tuple[tuple[Prefix, int], ...]:
    """The prefix itself with a lower metric, or else its two halves; empty if all of these are taken.

    `is_taken` says whether a route to a prefix with a metric would not be used.
    """
    # One route with a lower metric is preferred, because it is fewer routes than the two halves.
    for metric in METRICS[prefix.family]:
        if not is_taken(prefix, metric):
            return ((prefix, metric),)
    usual = DEFAULT_METRIC[prefix.family]
    halves = prefix.halves() if prefix.length < width_of(prefix.family) else ()
    return () if any(is_taken(half, usual) for half in halves) else tuple((half, usual) for half in halves)


def is_held(prefix: Prefix, metric: int, fib: Fib, ours: Collection[int]) -> bool:
    """Whether a route to the prefix with this metric would not be used, because of one that is not ours."""
    return any(
        hides(route) or (not route.tos and route.metric <= metric)
        for route in fib.routes(prefix)
        if route.protocol not in ours
    )


def hides(route: Route) -> bool:
    """Whether Linux ignores the routes for any source with this destination: packets of others skip the destination."""
    return route.source is not None and bool(route.prefix.length)
