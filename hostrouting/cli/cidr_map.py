"""A CIDR as a map: its segments side by side, to scale, each labelled with its outgoing device.

Here: how it is drawn in characters. Not here: which segments there are (`hostrouting.segments`), and writing to a
terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.cli.page import Painted, line
from hostrouting.model import ip_at
from hostrouting.segments import JUDGEMENTS, strip_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from hostrouting.cli.page import Line, Style, Tone
    from hostrouting.model import Prefix
    from hostrouting.segments import Judgement, Segment

__all__ = ["draw_map"]

_TONES: dict[Judgement, Tone] = {"expected": "good", "allowed": "good", "own": "soft", "escape": "bad"}
_FILLS: dict[bool, dict[Judgement, str]] = {
    True: {"expected": "─", "allowed": "┄", "own": "·", "escape": "█"},
    False: {"expected": "-", "allowed": "~", "own": ".", "escape": "#"},
}
_NAMES = 8  # the number of devices that are named below a map
_COLUMNS = (64, 32, 16)


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
    strips = [strip_of(cidr, segments, columns) for _, segments in rows]
    unnamed: dict[tuple[str, Judgement], None] = {}
    for (name, _), strip in zip(rows, strips, strict=True):
        pieces: list[Painted] = []
        for segment, length in strip.runs:
            text, told = _bar(segment, length, style)
            pieces.append(Painted(text, _TONES[segment.judgement]))
            if not told:
                unnamed[segment.look] = None
        # Segments that are too narrow for a column are named in the legend.
        unnamed |= {it.look: None for it in strip.hidden}
        yield line("  ", f"{name:<{margin - 4}} ", edge, *pieces, edge)
    if mark is not None:
        at = margin + (mark - cidr.first) * columns // size
        yield line(" " * at, Painted("▲" if style.unicode else "^", "strong"), f" {ip_at(cidr.family, mark)}")
    shown = {it.judgement for strip in strips for it, _ in strip.runs} | {judgement for _, judgement in unnamed}
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


def _bar(segment: Segment, length: int, style: Style) -> tuple[str, bool]:
    """The characters for a run of columns, and whether the label fits into them or is not needed."""
    fill = _FILLS[style.unicode][segment.judgement]
    if len(segment.label) + 2 > length:
        return fill * length, segment.judgement == "own"
    return f" {segment.label} ".center(length, fill), True


def _legend(
    judgements: Collection[Judgement], unnamed: Collection[tuple[str, Judgement]], style: Style
) -> Iterator[Painted]:
    """The meaning of each fill, and the devices whose segments were too narrow for their names."""
    for at, judgement in enumerate(it for it in JUDGEMENTS if it in judgements):
        labels = [label for label, its in unnamed if its == judgement]
        more = [f"{len(labels) - _NAMES:,} more"] if len(labels) > _NAMES else []
        names = ", ".join([*labels[:_NAMES], *more])
        yield Painted("   " if at else "", "")
        yield Painted(_FILLS[style.unicode][judgement], _TONES[judgement])
        yield Painted(f" {JUDGEMENTS[judgement]}{f' ({names})' if names else ''}", "soft")
