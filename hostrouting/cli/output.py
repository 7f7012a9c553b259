"""Lines, tables and colours as values, independent of the terminal that shows them.

Here: pieces of text with a tone, columns that align, and how wide a line may be; with them the words of
`hostrouting.text`, which most lines need. Not here: what else a terminal can show (`terminal`). The commands are loaded
for the help, and this module with them, so it imports hardly anything.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Literal, TextIO, TypeAlias

    from hostrouting.finding import Finding

Tone: TypeAlias = "Literal['good', 'bad', 'warn', 'soft', 'strong', '']"
Piece: TypeAlias = "str | Painted"
Line: TypeAlias = "tuple[Painted, ...]"

SHOWN = 20
"""The number of items of one kind that are shown; the JSON has all of them."""


class Painted:
    """A piece of text in a tone. Immutable."""

    __slots__ = ("text", "tone")

    def __init__(self, text: str, tone: Tone) -> None:
        """Keep the arguments."""
        self.text, self.tone = text, tone


def line(*pieces: Piece) -> Line:
    """A line of these pieces; control characters and line breaks in them are escaped."""
    from phases.text import escaped  # noqa: PLC0415  see the module

    return tuple(
        Painted(escaped(piece), "") if isinstance(piece, str) else Painted(escaped(piece.text), piece.tone)
        for piece in pieces
    )


def plain(shown: Line) -> str:
    """The text of the line, without tones."""
    return "".join(piece.text for piece in shown)


def table(heads: Sequence[str], rows: Sequence[Sequence[Piece]], *, indent: str = "  ") -> Iterator[Line]:
    """The rows under their headings, in aligned columns."""
    cells = [[Painted(head.upper(), "soft") for head in heads], *([_painted(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column].text) for row in cells) for column in range(len(heads))]
    for row in cells:
        last = max((at for at, cell in enumerate(row) if cell.text), default=0)
        padded = [
            piece
            for at, cell in enumerate(row[: last + 1])
            for piece in (cell, Painted("" if at == last else " " * (widths[at] - len(cell.text) + 2), ""))
        ]
        yield (Painted(indent, ""), *padded)


def capped(lines: Iterable[Line], total: int) -> Iterator[Line]:
    """The lines for the first of `total` items, and one that counts the items that are not shown."""
    yield from lines
    if total > SHOWN:
        yield line("  ", Painted(f"… and {total - SHOWN:,} more; --json shows all", "soft"))


_FINDING_TONES: dict[str, Tone] = {"error": "bad", "warning": "warn", "note": "soft"}


def named_lines(findings: Sequence[Finding]) -> Iterator[Line]:
    """The first findings of any kind, each after its name, which the page Findings explains."""
    shown = (line(Painted(f"{one.name.upper()}:", _FINDING_TONES[one.severity]), f" {one}") for one in findings[:SHOWN])
    yield from capped(shown, len(findings))


def below(lines: Iterable[Line]) -> Iterator[Line]:
    """A blank line and the lines; nothing if there are no lines."""
    for at, one in enumerate(lines):
        yield from () if at else (line(),)
        yield one


def _painted(piece: Piece) -> Painted:
    return line(piece)[0]


def width_of(stream: TextIO | None, environment: Mapping[str, str]) -> int:
    """The columns of a line: what COLUMNS says, or else the terminal, or else 80."""
    # shutil, which also knows it, loads more.
    if (asked := environment.get("COLUMNS", "")).isascii() and asked.isdigit():
        return int(asked) or 80
    try:
        return os.get_terminal_size(stream.fileno() if stream else -1).columns or 80
    except (OSError, ValueError):
        return 80
