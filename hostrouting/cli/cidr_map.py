"""A CIDR as a map: its ranges side by side, to scale, each labelled with its outgoing device.

Here: which segments there are, and how they are drawn in characters. Not here: which devices are expected, and writing
to a terminal.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from hostrouting.cli.page import Painted, line
from hostrouting.fib import PLAIN
from hostrouting.model import ip_at
from hostrouting.overlap import Judge
from hostrouting.pod_blocks import PodBlocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hostrouting.cli.page import Line, Style, Tone
    from hostrouting.fib import Decision, Fib, Flow
    from hostrouting.model import Prefix

__all__ = ["Segment", "draw_map", "segments_of"]

Judgement: TypeAlias = Literal["expected", "allowed", "own", "escape"]

_TONES: dict[Judgement, Tone] = {"expected": "good", "allowed": "good", "own": "soft", "escape": "bad"}
_FILLS: dict[bool, dict[Judgement, str]] = {
    True: {"expected": "─", "allowed": "┄", "own": "·", "escape": "█"},
    False: {"expected": "-", "allowed": "~", "own": ".", "escape": "#"},
}
_SAYS: dict[Judgement, str] = {
    "expected": "expected",
    "allowed": "allowed",
    "own": "the host's own",
    "escape": "escapes",
}
_RANK: dict[Judgement, int] = {"escape": 2, "allowed": 1}
_NAMES = 8  # the number of devices that are named below a map
_COLUMNS = (64, 32, 16)


@attrs.frozen
class Segment:
    """A range of addresses with one label and one judgement; both ends are included."""

    first: int
    last: int
    label: str
    judgement: Judgement


def segments_of(
    fib: Fib, cidr: Prefix, *, expected_devs: tuple[str, ...], allowed_devs: tuple[str, ...] = (), flow: Flow = PLAIN
) -> tuple[Segment, ...]:
    """The CIDR as segments; adjacent ranges with the same label and judgement are one segment."""
    blocks = PodBlocks(fib, (cidr,), allowed_devs)
    strict = Judge(expected_devs, (), blocks=blocks)
    lenient = Judge(expected_devs, allowed_devs, blocks=blocks)
    found: list[Segment] = []
    for cell in fib.cells(cidr, flow):
        label, judgement = _label(cell.decision, lenient), _judgement(cell.decision, strict, lenient)
        if found and (found[-1].label, found[-1].judgement) == (label, judgement):
            found[-1] = attrs.evolve(found[-1], last=cell.last)
        else:
            found.append(Segment(cell.first, cell.last, label, judgement))
    return tuple(found)


def draw_map(
    cidr: Prefix, rows: Sequence[tuple[str, Sequence[Segment]]], style: Style, *, mark: int | None = None
) -> Iterator[Line]:
    """The lines of a map: the CIDR once for each row (a name and its segments), to one scale; `mark` is an address."""
    size = cidr.last - cidr.first + 1
    margin = max(len(name) for name, _ in rows) + 5
    columns = next((it for it in _COLUMNS if it + margin + 1 <= style.width), _COLUMNS[-1])
    yield line(Painted(str(cidr), "strong"), Painted(f"; {_scale(cidr, columns)}", "soft"))
    yield line(" " * margin, Painted(_axis(cidr, columns), "soft"))
    edge = "│" if style.unicode else "|"
    drawn = [_columns(cidr, segments, columns) for _, segments in rows]
    unnamed: dict[Segment, None] = {}
    for (name, segments), slots in zip(rows, drawn, strict=True):
        pieces: list[Painted] = []
        for segment, length in _runs(slots):
            text, told = _bar(segment, length, style)
            pieces.append(Painted(text, _TONES[segment.judgement]))
            if not told:
                unnamed[attrs.evolve(segment, first=0, last=0)] = None
        # Segments that are too narrow for a column are named in the legend.
        seen = {(it.label, it.judgement) for it in slots}
        hidden = (it for it in segments if it.judgement != "own" and (it.label, it.judgement) not in seen)
        unnamed |= {attrs.evolve(it, first=0, last=0): None for it in hidden}
        yield line("  ", f"{name:<{margin - 4}} ", edge, *pieces, edge)
    if mark is not None:
        at = margin + (mark - cidr.first) * columns // size
        yield line(" " * at, Painted("▲" if style.unicode else "^", "strong"), f" {ip_at(cidr.family, mark)}")
    shown = {it.judgement: None for it in chain(*drawn, unnamed)}
    yield line(" " * margin, *_legend(shown, unnamed, style))


def _scale(cidr: Prefix, columns: int) -> str:
    size = cidr.last - cidr.first + 1
    if size == 1:
        return "one address"
    if size < columns:
        return f"one address is {columns // size} columns"
    return f"one column is a /{cidr.length + columns.bit_length() - 1}"


def _axis(cidr: Prefix, columns: int) -> str:
    """The first, middle and last address, as far as there is room and they differ."""
    if cidr.first == cidr.last:
        return str(ip_at(cidr.family, cidr.first))
    first, last = str(ip_at(cidr.family, cidr.first)), str(ip_at(cidr.family, cidr.last))
    middle = str(ip_at(cidr.family, (cidr.first + cidr.last + 1) // 2))
    half = columns // 2
    if middle != last and len(first) < half and len(middle) + len(last) < half:
        return f"{first:<{half}}{middle:<{half - len(last)}}{last}"
    return f"{first} … {last}" if len(first) + len(last) >= columns else f"{first:<{columns - len(last)}}{last}"


def _columns(cidr: Prefix, segments: Sequence[Segment], columns: int) -> list[Segment]:
    """The segment for each column: an escape inside it, however small; else an allowed device; else the largest."""
    size, at, found = cidr.last - cidr.first + 1, 0, []
    for column in range(columns):
        low = cidr.first + column * size // columns
        high = max(low, cidr.first + (column + 1) * size // columns - 1)
        while segments[at].last < low:
            at += 1
        best, weight = segments[at], (0, 0)
        for place in range(at, len(segments)):
            one = segments[place]
            if one.first > high:
                break
            held = (_RANK.get(one.judgement, 0), min(one.last, high) - max(one.first, low) + 1)
            if held > weight:
                best, weight = one, held
        found.append(best)
    return found


def _runs(slots: Sequence[Segment]) -> Iterator[tuple[Segment, int]]:
    begin = 0
    for at in range(1, len(slots) + 1):
        if at == len(slots) or (slots[at].label, slots[at].judgement) != (slots[begin].label, slots[begin].judgement):
            yield slots[begin], at - begin
            begin = at


def _bar(segment: Segment, length: int, style: Style) -> tuple[str, bool]:
    """The characters for a run of columns, and whether the label fits into them or is not needed."""
    fill = _FILLS[style.unicode][segment.judgement]
    if len(segment.label) + 2 > length:
        return fill * length, segment.judgement == "own"
    return f" {segment.label} ".center(length, fill), True


def _legend(judgements: dict[Judgement, None], unnamed: dict[Segment, None], style: Style) -> Iterator[Painted]:
    """The meaning of each fill, and the devices whose segments were too narrow for their names."""
    for at, judgement in enumerate(it for it in _SAYS if it in judgements):
        labels = [it.label for it in unnamed if it.judgement == judgement]
        more = [f"{len(labels) - _NAMES:,} more"] if len(labels) > _NAMES else []
        names = ", ".join([*labels[:_NAMES], *more])
        yield Painted("   " if at else "", "")
        yield Painted(_FILLS[style.unicode][judgement], _TONES[judgement])
        yield Painted(f" {_SAYS[judgement]}{f' ({names})' if names else ''}", "soft")


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
