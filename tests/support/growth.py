"""Counts the work of a function. The count is the same in every run, even on a busy machine.

Here: counting calls of Python functions. Not here: measuring time (`tests/benchmarks`).
"""

import sys
from collections.abc import Callable


def calls_in(work: Callable[[], object]) -> int:
    """How many Python functions are called by the work."""
    count = 0

    def notice(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def grows_evenly(work: Callable[[int], Callable[[], object]], size: int) -> bool:
    """Whether three times the size takes at most five times the work; `work` returns the work for a size."""
    return calls_in(work(3 * size)) <= 5 * calls_in(work(size))
