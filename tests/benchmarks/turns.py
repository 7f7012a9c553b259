"""Contests: methods that take turns, and what came of it as a table.

They take turns (A B A B …), so that a machine that slows down slows all of them down.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["in_turn", "table"]


def in_turn(
    methods: Mapping[str, Callable[[], object]], *, rounds: int, before: Callable[[], object] = lambda: None
) -> dict[str, list[float]]:
    """The seconds that each method took in each round, after one round that is not counted.

    `before` is called before each, and its time is nobody's.
    """
    times: dict[str, list[float]] = {name: [] for name in methods}
    for number in range(rounds + 1):
        for name, method in methods.items():
            before()
            began = time.perf_counter()
            method()
            if number:
                times[name].append(time.perf_counter() - began)
    return times


def table(title: str, times: Mapping[str, list[float]]) -> str:
    """The medians in milliseconds, and each round's ratio to the first method: median, least and most."""
    names = list(times)
    rows = [f"| {title} | median | ratio (min … max) |", "|---|---|---|"]
    for name in names:
        ratios = [own / base for own, base in zip(times[name], times[names[0]], strict=True)]
        spread = "1" if name == names[0] else f"{statistics.median(ratios):.2f} ({min(ratios):.2f} … {max(ratios):.2f})"
        rows.append(f"| {name} | {statistics.median(times[name]) * 1e3:.2f} ms | {spread} |")
    return "\n".join(rows)
