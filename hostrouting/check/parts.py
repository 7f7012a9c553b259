"""The parts of a block of addresses: ranges, each with the opinions on where its packets end.

The engine cuts the block into cells. The decisions are the same for all addresses of a cell, and
so are the opinions on them, so one address of each cell is judged. A cell with its opinions is a
part. A report joins neighbouring parts about which it says the same into one range
(`join_by_label`).
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
    """Judge the addresses from `first` to `last`: yield ranges with the same opinions (`Part`), in
    order. Each range is a cell of the tables: no route or rule begins or ends inside it, so Linux
    decides alike for all its addresses, and only the first is looked up. Each range is judged for
    plain packets, and for others, such as marked ones, that rules may lead elsewhere
    (`other_ends`).
    """
    for low, high in judge.fib.cells(first, last):
        decision, other_ends = judge.fib.ends(low)
        opinion = judge.opinion_on_packets_to(low, decision)
        others = dict.fromkeys(judge_other_end(judge, decision, end, low) for end in other_ends)
        yield Part(low, high, decision, opinion, tuple(others))


def join_by_label(labelled: Iterable[tuple[Part, T | None]]) -> Iterator[tuple[T, int, int]]:
    """Join neighbouring parts with equal labels: yield each label, with the first and the last
    address of the range. The label of a part is what a report says about it, such as how its
    packets escape. Parts without a label, or with an empty one, are left out.

    Addresses of this host without a label are included in the range before them, so that they do
    not split it.
    """
    open_label: T | None = None  # of the range from `first` to `last`, which may continue
    first = last = -1
    for part, label in labelled:
        is_neighbour = part.first == last + 1
        is_own = part.opinion.name == OWN and not label
        if is_neighbour and open_label and (is_own or label == open_label):
            last = part.last
            continue
        if open_label:
            yield open_label, first, last
        open_label, first, last = label, part.first, part.last
    if open_label:
        yield open_label, first, last
