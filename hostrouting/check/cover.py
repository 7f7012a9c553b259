"""The fewest prefixes that cover the open ranges and spare the ranges to keep: a search in the binary prefix tree.

Here: ranges, lengths and counting. Not here: the meaning of a range.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from hostrouting.model.prefix import Prefix, width_of

ZoneKind: TypeAlias = Literal["open", "keep", "free"]


class Zone(NamedTuple):
    """A range of addresses, and the shortest length of a prefix that decides about it.

    Open: a chosen prefix must capture it. Keep: no chosen prefix may. Free: both are fine, but not captured is
    preferred.
    """

    first: int
    last: int
    kind: ZoneKind
    length: int


def cover(block: Prefix, zones: list[Zone], *, usable: Callable[[Prefix], bool]) -> tuple[Prefix, ...] | None:
    """The fewest usable prefixes in the block that capture every open zone and no zone to keep.

    The zones are sorted, disjoint and together make up the block. None if no choice of prefixes does this.
    """
    return _Puzzle(block, zones, usable).best(block, 0, len(zones), -1)


class _Puzzle:
    """Dynamic programming over the tree of prefixes.

    The best choice below a prefix depends on one number from above it: the length of the longest chosen prefix around
    it (-1 without one), because a longer prefix captures everything that a shorter one does.
    """

    def __init__(self, block: Prefix, zones: list[Zone], usable: Callable[[Prefix], bool]) -> None:
        self._zones, self._usable, self._width = zones, usable, width_of(block.family)
        self._lengths = sorted({zone.length for zone in zones if zone.kind == "open"})
        self._known: dict[tuple[int, int, int], tuple[Prefix, ...] | None] = {}

    def best(self, node: Prefix, begin: int, end: int, above: int) -> tuple[Prefix, ...] | None:
        """The best choice among the prefixes in the node; zones begin … end - 1 overlap it."""
        # Two lengths with no length of an open zone between them are equivalent, so they share an entry in the cache.
        key = (node.network, node.length, bisect_right(self._lengths, above))
        if key not in self._known:
            self._known[key] = self._best(node, begin, end, above)
        return self._known[key]

    def _best(self, node: Prefix, begin: int, end: int, above: int) -> tuple[Prefix, ...] | None:
        zones = self._zones[begin:end]
        if not _is_open(zones, above):
            return ()
        chosen = self._with(node, zones, begin, end)
        if node.length == self._width:
            return chosen
        until, since = self._split(node, begin, end)
        # Two halves that are both open need at least two prefixes.
        both = _is_open(self._zones[begin:until], above) and _is_open(self._zones[since:end], above)
        if chosen is not None and len(chosen) == 1 and both:
            return chosen
        below = self._below(node, begin, end, above)
        # Of equal numbers, the longer prefixes capture fewer free addresses: min returns the first.
        return min((choice for choice in (below, chosen) if choice is not None), key=len, default=None)

    def _with(self, node: Prefix, zones: list[Zone], begin: int, end: int) -> tuple[Prefix, ...] | None:
        """The best choice that includes the node itself."""
        spares = all(zone.kind != "keep" or zone.length > node.length for zone in zones)
        if not (spares and self._usable(node)):
            return None
        rest = self._below(node, begin, end, node.length) if _is_open(zones, node.length) else ()
        return None if rest is None else (node, *rest)

    def _below(self, node: Prefix, begin: int, end: int, above: int) -> tuple[Prefix, ...] | None:
        """The best choice among the longer prefixes in the node."""
        if node.length == self._width:
            return None
        (left, right), (until, since) = node.halves(), self._split(node, begin, end)
        one = self.best(left, begin, until, above)
        other = self.best(right, since, end, above) if one is not None else None
        return None if one is None or other is None else one + other

    def _split(self, node: Prefix, begin: int, end: int) -> tuple[int, int]:
        """Return `until` and `since`: the left half has the zones before `until`, the right half those from `since`."""
        middle = node.network + (1 << self._width - node.length - 1)
        since = bisect_left(self._zones, middle, begin, end, key=lambda zone: zone.last)
        until = since + (self._zones[since].first < middle)
        return until, since


def _is_open(zones: list[Zone], above: int) -> bool:
    """Whether a zone is still open below a chosen prefix of this length."""
    return any(zone.kind == "open" and zone.length > above for zone in zones)
