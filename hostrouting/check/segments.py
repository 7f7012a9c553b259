"""A CIDR as segments (ranges with one outgoing device each), and their columns on a scale.

Here: which segments there are, and which of them a column shows. Not here: which devices are expected, and how a
map is drawn (`fleet.page`).
"""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from hostrouting.check.exceptions import PodBlocks
from hostrouting.check.overlap import Judge
from hostrouting.fib.decision import Decision
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import PLAIN
from hostrouting.model.prefix import Prefix

Judgement: TypeAlias = Literal["expected", "allowed", "own", "escape"]

JUDGEMENTS: dict[Judgement, str] = {
    "expected": "expected",
    "allowed": "allowed",
    "own": "the host's own",
    "escape": "escapes",
}
"""The judgements, each in the words of a legend."""


class Segment(NamedTuple):
    """A range of addresses with one label and one judgement; both ends are included."""

    first: int
    last: int
    label: str
    judgement: Judgement

    @property
    def look(self) -> tuple[str, Judgement]:
        """What distinguishes the segment on a map from its neighbours."""
        return self.label, self.judgement


def segments_of(
    fib: Fib, cidr: Prefix, *, expected_devs: tuple[str, ...], allowed_devs: tuple[str, ...] = ()
) -> tuple[Segment, ...]:
    """The CIDR as segments; adjacent ranges with the same label and judgement are one segment."""
    blocks = PodBlocks(fib, (cidr,), allowed_devs)
    strict = Judge(expected_devs, (), blocks=blocks)
    lenient = Judge(expected_devs, allowed_devs, blocks=blocks)
    found: list[Segment] = []
    for cell in fib.cells(cidr, PLAIN):
        look = _label(cell.decision, lenient), _judgement(cell.decision, strict, lenient)
        if found and found[-1].look == look:
            found[-1] = found[-1]._replace(last=cell.last)
        else:
            found.append(Segment(cell.first, cell.last, *look))
    return tuple(found)


def listed_segments(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """The segments for a list in words: one single address of the host itself joins the range beside it."""
    found: list[Segment] = []
    begin: int | None = None
    for segment in segments:
        if segment.judgement == "own" and segment.first == segment.last:
            if found:
                found[-1] = found[-1]._replace(last=segment.last)
            elif begin is None:
                begin = segment.first
        elif found and found[-1].look == segment.look:
            found[-1] = found[-1]._replace(last=segment.last)
        else:
            found.append(segment if begin is None else segment._replace(first=begin))
            begin = None
    return tuple(found or segments)


def strip_of(cidr: Prefix, segments: Sequence[Segment], columns: int) -> tuple[tuple[Segment, int], ...]:
    """The segments of the CIDR on a scale of so many columns, from left to right, each with its length.

    No escape is too small for a column.
    """
    return tuple(_runs(_columns(cidr, segments, columns)))


def _columns(cidr: Prefix, segments: Sequence[Segment], columns: int) -> list[Segment]:
    """The segment for each column: an escape first, then an allowed device, else the largest."""
    size, at, found = cidr.last - cidr.first + 1, 0, []
    for column in range(columns):
        low = cidr.first + column * size // columns
        high = max(low, cidr.first + (column + 1) * size // columns - 1)
        while segments[at].last < low:
            at += 1
        best, weight = segments[at], (False, False, 0)
        for place in range(at, len(segments)):
            one = segments[place]
            if one.first > high:
                break
            size_here = min(one.last, high) - max(one.first, low) + 1
            held = (one.judgement == "escape", one.judgement == "allowed", size_here)
            if held > weight:
                best, weight = one, held
        found.append(best)
    return found


def _runs(slots: Sequence[Segment]) -> Iterator[tuple[Segment, int]]:
    begin = 0
    for at in range(1, len(slots) + 1):
        if at == len(slots) or slots[at].look != slots[begin].look:
            yield slots[begin], at - begin
            begin = at


def _label(decision: Decision, judge: Judge) -> str:
    if decision.own or judge.is_own_block(decision):
        return "own"
    if decision.goes_out:
        return "+".join(decision.devs) or "unknown"
    return decision.kind.replace("-", " ")


def _judgement(decision: Decision, strict: Judge, lenient: Judge) -> Judgement:
    if decision.own or lenient.is_own_block(decision):
        return "own"
    if lenient.escape(decision) is not None:
        return "escape"
    return "expected" if strict.escape(decision) is None else "allowed"
