"""Many times in a few words: the median, the time within which 99 % are, and the longest."""

import math
import statistics
from collections.abc import Sequence

__all__ = ["times_in_words"]


def times_in_words(word: str, found: Sequence[float]) -> str:
    """How many there are of what the word names, and their times in seconds."""
    if not found:
        return f"{word} 0"
    times = sorted(found)
    rank = math.ceil(len(times) * 0.99) - 1
    middle = statistics.median(times)
    return f"{word} {len(times):,}: p50 {middle:.3f} s, p99 {times[rank]:.3f} s, most {times[-1]:.3f} s"
