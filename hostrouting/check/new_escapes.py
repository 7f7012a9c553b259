"""What escapes on a changed host that does not escape now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from hostrouting.fib.engine import FROM_HOST, pieces

if TYPE_CHECKING:
    from hostrouting.check.results import CheckReport, Escape

Range: TypeAlias = tuple[int, int, int]
"""A family, and the first and the last address."""


def find_new_escapes(before: CheckReport, after: CheckReport) -> list[Range]:
    """The ranges that escape afterwards and do not escape before, each once, even if packets of
    several kinds escape there.
    """
    ranges: dict[Range, None] = {}
    for old, new in zip(before.families, after.families, strict=True):
        for escape in new.escapes:
            for first, last in _outside(old.escapes, escape):
                ranges[new.family, first, last] = None
    return [*ranges]


def _outside(known: Iterable[Escape], escape: Escape) -> Iterator[tuple[int, int]]:
    """The ranges of this escape that are in none of the known ones of the same packets, or of plain
    packets: where plain packets escape, a report may not name others.

    Cut where a known one begins or ends, each piece is in it as a whole, or not at all.
    """
    alike = [each for each in known if each.packet in {FROM_HOST, escape.packet}]
    borders: set[int] = set()
    for each in alike:
        borders |= {each.first, each.last + 1}
    for first, last in pieces(escape.first, escape.last, sorted(borders)):
        if not any(each.first <= first <= each.last for each in alike):
            yield first, last
