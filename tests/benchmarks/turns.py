"""Taking turns: methods that do the same work one after the other, round after round.

They take turns (A B A B …), so that a machine that slows down slows all of them down.
"""

import gc
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

__all__ = ["in_turn", "timed"]

_LEAST = 3
K = TypeVar("K", bound="Hashable")


def in_turn(
    methods: Mapping[K, Callable[[], object]],
    *,
    rounds: int,
    before: Callable[[], object] = lambda: None,
    seconds: float = 5.0,
) -> dict[K, list[float]]:
    """The seconds that each method took in each round, after one round that is not counted.

    There are so many rounds, or fewer (three at least) once these seconds are over. A method that answers with a float has measured them itself. `before` is called before each method, and its time is
    nobody's; nor is the time that it takes to collect the garbage of the one before.
    """
    times: dict[K, list[float]] = {name: [] for name in methods}
    end = time.monotonic() + seconds
    for number in range(rounds + 1):
        for name, method in methods.items():
            before()
            gc.collect()
            took = timed(method)
            if number:
                times[name].append(took)
        if number >= _LEAST and time.monotonic() > end:
            break
    return times


def timed(method: Callable[[], object]) -> float:
    """The seconds that a turn takes, or that it reports."""
    began = time.perf_counter()
    said = method()
    took = time.perf_counter() - began
    return said if isinstance(said, float) else took
