"""The fewest prefixes that cover the open ranges and spare the ranges to keep: a search in the binary prefix tree.

Here: ranges, lengths and counting. Not here: the meaning of a range.
"""

from bisect import bisect_left
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


class _Choice(NamedTuple):
    """A set of prefixes, ordered by their number, then by how many free addresses they capture."""

    number: int
    taken: int
    prefixes: tuple[Prefix, ...]


_NONE = _Choice(0, 0, ())


def cover(block: Prefix, zones: list[Zone], *, usable: Callable[[Prefix], bool]) -> tuple[Prefix, ...] | None:
    """The fewest usable prefixes in the block that capture every open zone and no zone to keep.

    The zones are sorted, disjoint and together make up the block. None if no choice of prefixes does this.
    """
    choice = _Puzzle(block, zones, usable).best(block, 0, len(zones), -1)
    return None if choice is None else choice.prefixes


class _Puzzle:
    """Dynamic programming over the tree of prefixes.

    The best choice below a prefix depends on one number from above it: the length of the longest chosen prefix around
    it (-1 without one), because a longer prefix captures everything that a shorter one does.
    """

    def __init__(self, block: Prefix, zones: list[Zone], usable: Callable[[Prefix], bool]) -> None:
        self._zones, self._usable, self._width = zones, usable, width_of(block.family)
        lengths = sorted({zone.length for zone in zones if zone.kind != "free"})
        # Two lengths with no zone length between them are equivalent, so they share an entry in the cache.
        self._alike = [sum(length <= above for length in lengths) for above in range(-1, self._width + 1)]
        self._known: dict[tuple[int, int, int], _Choice | None] = {}

    def best(self, node: Prefix, begin: int, end: int, above: int) -> _Choice | None:
        """The best choice among the prefixes in the node; zones begin … end - 1 overlap it."""
        key = (node.network, node.length, self._alike[above + 1])
        if key not in self._known:
            self._known[key] = self._best(node, begin, end, above)
        return self._known[key]

    def _best(self, node: Prefix, begin: int, end: int, above: int) -> _Choice | None:
        zones = self._zones[begin:end]
        if not _is_open(zones, above):
            return _NONE
        chosen = self._with(node, zones, begin, end, above)
        # One prefix without free addresses is optimal, and two halves that are both open need at least two.
        if chosen == _Choice(1, 0, (node,)) or node.length == self._width:
            return chosen
        until, since = self._split(node, begin, end)
        both = _is_open(self._zones[begin:until], above) and _is_open(self._zones[since:end], above)
        if chosen is not None and chosen.number == 1 and both:
            return chosen
        below = self._below(node, begin, end, above)
        return min((choice for choice in (chosen, below) if choice is not None), default=None)

    def _with(self, node: Prefix, zones: list[Zone], begin: int, end: int, above: int) -> _Choice | None:
        """The best choice that includes the node itself."""
        takes = any(zone.kind == "open" and above < zone.length <= node.length for zone in zones)
        spares = all(zone.kind != "keep" or zone.length > node.length for zone in zones)
        if not (takes and spares and self._usable(node)):
            return None
        rest = self._below(node, begin, end, node.length) if _is_open(zones, node.length) else _NONE
        if rest is None:
            return None
        taken = sum(
            min(zone.last, node.last) - max(zone.first, node.first) + 1 for zone in zones if zone.kind == "free"
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
        """Return `until` and `since`: the left half has the zones before `until`, the right half those from `since`."""
        middle = node.network + (1 << self._width - node.length - 1)
        since = bisect_left(self._zones, middle, begin, end, key=lambda zone: zone.last)
        until = since + (self._zones[since].first < middle)
        return until, since


def _is_open(zones: list[Zone], above: int) -> bool:
    """Whether a zone is still open below a chosen prefix of this length."""
    return any(zone.kind == "open" and zone.length > above for zone in zones)
