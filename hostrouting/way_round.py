"""Routes that win over a route that must not be touched: one with the best metric, or two with longer prefixes.

Here: which prefixes to use, if they are free. Not here: whether they are wanted, and the messages about them.
"""

from collections.abc import Callable, Collection

from hostrouting.fib import Fib
from hostrouting.model import DEFAULT_METRIC, Prefix, width_of

__all__ = ["is_held", "way_round"]


def way_round(prefix: Prefix, metric: int, is_taken: Callable[[Prefix], bool]) -> tuple[Prefix, ...]:
    """The prefix itself (with the best metric), or else its two halves; empty if both are taken."""
    # One route with the best metric is preferred, because it is fewer routes than the two halves.
    if metric > DEFAULT_METRIC[prefix.family] and not is_taken(prefix):
        return (prefix,)
    halves = prefix.halves() if prefix.length < width_of(prefix.family) else ()
    return () if any(map(is_taken, halves)) else halves


def is_held(prefix: Prefix, fib: Fib, ours: Collection[int]) -> bool:
    """Whether a route that is not ours has the best metric of the prefix; our routes can be replaced."""
    best = DEFAULT_METRIC[prefix.family]
    return any(not route.tos and route.metric <= best and route.protocol not in ours for route in fib.routes(prefix))
