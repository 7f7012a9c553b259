"""A CIDR as a map: its ranges side by side, to scale, each labelled by the device that it leaves by.

Here: which stretches there are, and how they are drawn in characters. Not here: which devices are expected, nor on
what it is shown.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from hostrouting.cli.page import Line, Painted, Style, Tone, line
from hostrouting.fib import PLAIN
from hostrouting.model import ip_at
from hostrouting.overlap import Judge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hostrouting.fib import Decision, Fib, Flow
    from hostrouting.model import Prefix

__all__ = ["Stretch", "draw_map", "stretches_of"]

Sort: TypeAlias = Literal["expected", "allowed", "own", "escape"]

_TONES: dict[Sort, Tone] = {"expected": "good", "allowed": "good", "own": "soft", "escape": "bad"}
_FILLS: dict[bool, dict[Sort, str]] = {
    True: {"expected": "─", "allowed": "┄", "own": "·", "escape": "█"},
    False: {"expected": "-", "allowed": "~", "own": ".", "escape": "#"},
}
_SAYS: dict[Sort, str] = {"expected": "expected", "allowed": "allowed", "own": "the host's own", "escape": "escapes"}
_RANK: dict[Sort, int] = {"escape": 2, "allowed": 1}
_OWN = frozenset({"local", "broadcast", "anycast", "multicast"})
_NAMES = 8  # so many devices are named below a map
_COLUMNS = (64, 32, 16)


@attrs.frozen
class Stretch:
    """A range of addresses, both ends included, that goes one way."""

    first: int
    last: int
    label: str
    sort: Sort


def stretches_of(
    fib: Fib, cidr: Prefix, *, expected: tuple[str, ...], allowed: tuple[str, ...] = (), flow: Flow = PLAIN
) -> tuple[Stretch, ...]:
    """The CIDR in stretches, neighbours that go the same way in one."""
    strict, lenient = Judge(expected, ()), Judge(expected, allowed)
    found: list[Stretch] = []
    for cell in fib.cells(cidr, flow):
        label, sort = _label(cell.decision), _sort(cell.decision, strict, lenient)
        if found and (found[-1].label, found[-1].sort) == (label, sort):
            found[-1] = attrs.evolve(found[-1], last=cell.last)
        else:
            found.append(Stretch(cell.first, cell.last, label, sort))
    return tuple(found)


def draw_map(
    cidr: Prefix, rows: Sequence[tuple[str, Sequence[Stretch]]], style: Style, *, mark: int | None = None
) -> Iterator[Line]:
    """The CIDR drawn once for each row (a name and its stretches), to one scale; `mark` is an address to point at."""
    size = cidr.last - cidr.first + 1
    margin = max(len(name) for name, _ in rows) + 5
    columns = next((it for it in _COLUMNS if it + margin + 1 <= style.width), _COLUMNS[-1])
    yield line(Painted(str(cidr), "strong"), Painted(f"; {_scale(cidr, columns)}", "soft"))
    yield line(" " * margin, Painted(_axis(cidr, columns), "soft"))
    edge = "│" if style.unicode else "|"
    drawn = [_columns(cidr, stretches, columns) for _, stretches in rows]
    unnamed: dict[Stretch, None] = {}
    for (name, stretches), slots in zip(rows, drawn, strict=True):
        pieces: list[Painted] = []
        for stretch, length in _runs(slots):
            text, told = _bar(stretch, length, style)
            pieces.append(Painted(text, _TONES[stretch.sort]))
            if not told:
                unnamed[attrs.evolve(stretch, first=0, last=0)] = None
        # Those that have no column of their own are named all the same.
        seen = {(it.label, it.sort) for it in slots}
        hidden = (it for it in stretches if it.sort != "own" and (it.label, it.sort) not in seen)
        unnamed |= {attrs.evolve(it, first=0, last=0): None for it in hidden}
        yield line("  ", f"{name:<{margin - 4}} ", edge, *pieces, edge)
    if mark is not None:
        at = margin + (mark - cidr.first) * columns // size
        yield line(" " * at, Painted("▲" if style.unicode else "^", "strong"), f" {ip_at(cidr.family, mark)}")
    shown = {it.sort: None for it in chain(*drawn, unnamed)}
    yield line(" " * margin, *_legend(shown, unnamed, style))


def _scale(cidr: Prefix, columns: int) -> str:
    size = cidr.last - cidr.first + 1
    if size == 1:
        return "one address"
    if size < columns:
        return f"an address is {columns // size} columns"
    return f"a column is a /{cidr.length + columns.bit_length() - 1}"


def _axis(cidr: Prefix, columns: int) -> str:
    """Where it begins, its middle and where it ends, as far as there is room and they are not the same."""
    if cidr.first == cidr.last:
        return str(ip_at(cidr.family, cidr.first))
    first, last = str(ip_at(cidr.family, cidr.first)), str(ip_at(cidr.family, cidr.last))
    middle = str(ip_at(cidr.family, (cidr.first + cidr.last + 1) // 2))
    half = columns // 2
    if middle != last and len(first) < half and len(middle) + len(last) < half:
        return f"{first:<{half}}{middle:<{half - len(last)}}{last}"
    return f"{first} … {last}" if len(first) + len(last) >= columns else f"{first:<{columns - len(last)}}{last}"


def _columns(cidr: Prefix, stretches: Sequence[Stretch], columns: int) -> list[Stretch]:
    """What each column shows: an escape that lies in it, however small; an allowed device; or what most of it is."""
    size, at, found = cidr.last - cidr.first + 1, 0, []
    for column in range(columns):
        low = cidr.first + column * size // columns
        high = max(low, cidr.first + (column + 1) * size // columns - 1)
        while stretches[at].last < low:
            at += 1
        best, weight = stretches[at], (0, 0)
        for place in range(at, len(stretches)):
            one = stretches[place]
            if one.first > high:
                break
            held = (_RANK.get(one.sort, 0), min(one.last, high) - max(one.first, low) + 1)
            if held > weight:
                best, weight = one, held
        found.append(best)
    return found


def _runs(slots: Sequence[Stretch]) -> Iterator[tuple[Stretch, int]]:
    begin = 0
    for at in range(1, len(slots) + 1):
        if at == len(slots) or (slots[at].label, slots[at].sort) != (slots[begin].label, slots[begin].sort):
            yield slots[begin], at - begin
            begin = at


def _bar(stretch: Stretch, length: int, style: Style) -> tuple[str, bool]:
    """A run of columns, with its label where there is room for it."""
    fill = _FILLS[style.unicode][stretch.sort]
    if len(stretch.label) + 2 > length:
        return fill * length, stretch.sort == "own"
    return f" {stretch.label} ".center(length, fill), True


def _legend(sorts: dict[Sort, None], unnamed: dict[Stretch, None], style: Style) -> Iterator[Painted]:
    """What each fill stands for, and the devices whose stretch was too narrow for their name."""
    for at, sort in enumerate(it for it in _SAYS if it in sorts):
        labels = [it.label for it in unnamed if it.sort == sort]
        more = [f"{len(labels) - _NAMES:,} more"] if len(labels) > _NAMES else []
        names = ", ".join([*labels[:_NAMES], *more])
        yield Painted("   " if at else "", "")
        yield Painted(_FILLS[style.unicode][sort], _TONES[sort])
        yield Painted(f" {_SAYS[sort]}{f' ({names})' if names else ''}", "soft")


def _label(decision: Decision) -> str:
    if decision.kind in _OWN:
        return "own"
    if decision.kind == "unicast":
        return "+".join(decision.devs) or "unknown"
    return decision.kind.replace("-", " ")


def _sort(decision: Decision, strict: Judge, lenient: Judge) -> Sort:
    if decision.kind in _OWN:
        return "own"
    if lenient.escape(decision) is not None:
        return "escape"
    return "expected" if strict.escape(decision) is None else "allowed"
