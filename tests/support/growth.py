"""How much work a function does, counted: the same number in each run, whatever else the machine does.

Here: the count of Python functions that are called. Not here: how long anything takes (`tests/benchmarks`).
"""

import sys
from collections.abc import Callable

__all__ = ["calls_in", "grows_evenly"]


def calls_in(work: Callable[[], object]) -> int:
    """How many Python functions are called while the work is done."""
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
    """Whether three times the size takes no more than five times the work; `work` prepares it for a size."""
    return calls_in(work(3 * size)) <= 5 * calls_in(work(size))
