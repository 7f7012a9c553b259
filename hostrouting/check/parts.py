"""The ranges of a block of addresses, each with the opinions on where its packets end.

The engine cuts the block into cells. All packets to a cell have the same decisions, and an opinion
is about a decision and not about the address; so one address of each cell is judged. A cell with
its opinions is a part. What a report says of a range, it says of several neighbouring parts at once
(`ranges_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from hostrouting.check.other_packets import judge_other_end
from hostrouting.check.results import OWN, Part

if TYPE_CHECKING:
    from hostrouting.check.judge import Judge

T = TypeVar("T")


def find_parts(judge: Judge, first: int, last: int) -> Iterator[Part]:
    """The parts of these addresses, in order."""
    for low, high in judge.fib.cells(first, last):
        decision, ends = judge.fib.ends(low)
        opinion = judge.opinion_on_packets_to(low, decision)
        others = dict.fromkeys(judge_other_end(judge, decision, each, low) for each in ends)
        yield Part(low, high, decision, opinion, tuple(others))


def ranges_of(labelled: Iterable[tuple[Part, T | None]]) -> Iterator[tuple[T, int, int]]:
    """The ranges of neighbouring parts with one label, which is what is said of them, such as how
    they escape. Those without a label, or with an empty one, are left out.

    Own addresses without a label do not end a range: they would only split it.
    """
    label_now: T | None = None
    first = last = -1
    for part, label in labelled:
        is_neighbour = part.first == last + 1
        goes_along = part.opinion.name == OWN and not label
        if is_neighbour and label_now and (goes_along or label == label_now):
            last = part.last
            continue
        if label_now:
            yield label_now, first, last
        label_now, first, last = label, part.first, part.last
    if label_now:
        yield label_now, first, last
