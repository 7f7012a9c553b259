"""The fewest prefixes that cover what is open and spare what is to be kept: a puzzle on the binary tree.

Here: ranges, lengths and counting. Not here: what a range stands for.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from hostrouting.model import Prefix, width_of

__all__ = ["Span", "SpanKind", "cover"]

SpanKind: TypeAlias = Literal["open", "keep", "free"]


class Span(NamedTuple):
    """A range of addresses, and from which length on a prefix that covers it takes it.

    Open: some chosen prefix has to take it. Keep: none may. Free: either will do, though rather not.
    """

    first: int
    last: int
    kind: SpanKind
    length: int


class _Choice(NamedTuple):
    """A set of prefixes, by what is minimal about it: their number, then the free addresses taken with them."""

    number: int
    taken: int
    prefixes: tuple[Prefix, ...]


_NONE = _Choice(0, 0, ())


def cover(block: Prefix, spans: list[Span], *, usable: Callable[[Prefix], bool]) -> tuple[Prefix, ...] | None:
    """The fewest usable prefixes in the block by which all its open spans are taken, and no span that is kept.

    The spans are sorted, disjoint and together the block. None: no choice of prefixes does it.
    """
    choice = _Puzzle(block, spans, usable).best(block, 0, len(spans), -1)
    return None if choice is None else choice.prefixes


class _Puzzle:
    """Dynamic programming over the tree of prefixes.

    What is best below a prefix depends on what was chosen above it by one number only: the length of the longest
    chosen prefix around it (-1 for none), for longer ones take whatever shorter ones take, and more.
    """

    def __init__(self, block: Prefix, spans: list[Span], usable: Callable[[Prefix], bool]) -> None:
        self._spans, self._usable, self._width = spans, usable, width_of(block.family)
        lengths = sorted({span.length for span in spans if span.kind != "free"})
        # Two lengths between which no span makes a difference are one to the memory.
        self._alike = [sum(length <= above for length in lengths) for above in range(-1, self._width + 1)]
        self._known: dict[tuple[int, int, int], _Choice | None] = {}

    def best(self, node: Prefix, begin: int, end: int, above: int) -> _Choice | None:
        """The best choice among the prefixes in the node, which spans begin … end - 1 touch."""
        key = (node.network, node.length, self._alike[above + 1])
        if key not in self._known:
            self._known[key] = self._best(node, begin, end, above)
        return self._known[key]

    def _best(self, node: Prefix, begin: int, end: int, above: int) -> _Choice | None:
        spans = self._spans[begin:end]
        if any(span.kind == "keep" and span.length <= above for span in spans):
            return None
        if not _is_open(spans, above):
            return _NONE
        chosen = self._with(node, spans, begin, end, above)
        # One prefix that takes nothing besides is the best there is, and two halves that are open take two.
        if chosen == _Choice(1, 0, (node,)) or node.length == self._width:
            return chosen
        until, since = self._split(node, begin, end)
        both = _is_open(self._spans[begin:until], above) and _is_open(self._spans[since:end], above)
        if chosen is not None and chosen.number == 1 and both:
            return chosen
        below = self._below(node, begin, end, above)
        return min((choice for choice in (chosen, below) if choice is not None), default=None)

    def _with(self, node: Prefix, spans: list[Span], begin: int, end: int, above: int) -> _Choice | None:
        """The best choice that the node itself is part of."""
        takes = any(span.kind == "open" and above < span.length <= node.length for span in spans)
        spares = all(span.kind != "keep" or span.length > node.length for span in spans)
        if not (takes and spares and self._usable(node)):
            return None
        rest = self._below(node, begin, end, node.length) if _is_open(spans, node.length) else _NONE
        if rest is None:
            return None
        taken = sum(
            min(span.last, node.last) - max(span.first, node.first) + 1 for span in spans if span.kind == "free"
        )
        return _Choice(rest.number + 1, rest.taken + taken, (node, *rest.prefixes))

    def _below(self, node: Prefix, begin: int, end: int, above: int) -> _Choice | None:
        """The best choice among the longer prefixes in the node."""
        if node.length == self._width:
            return None
        (left, right), (until, since) = node.halves(), self._split(node, begin, end)
        one = self.best(left, begin, until, above)
        other = self.best(right, since, end, above) if one is not None else None
        if one is None or other is None:
            return None
        return _Choice(one.number + other.number, one.taken + other.taken, one.prefixes + other.prefixes)

    def _split(self, node: Prefix, begin: int, end: int) -> tuple[int, int]:
        """The spans of the left half end before the first of these two, those of the right begin at the second."""
        middle = node.network + (1 << self._width - node.length - 1)
        since = bisect_left(self._spans, middle, begin, end, key=lambda span: span.last)
        until = since + (since < end and self._spans[since].first < middle)
        return until, since


def _is_open(spans: list[Span], above: int) -> bool:
    """Whether one of the spans is open still below a chosen prefix of this length."""
    return any(span.kind == "open" and span.length > above for span in spans)
