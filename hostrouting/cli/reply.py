"""What a command answers. Each command returns one of these; nothing in it has been printed yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hostrouting.cli.page import Line, Style

__all__ = ["FAILED", "FINE", "UNDECIDED", "WRONG_INPUT", "Reply"]

FINE, FAILED, WRONG_INPUT, UNDECIDED = 0, 1, 2, 3


@attrs.frozen
class Reply:
    """An answer: its exit code, and the same thing as a document and as lines (made only when they are wanted)."""

    code: int
    document: Callable[[], Mapping[str, Any] | str]
    """Text is JSON already."""
    lines: Callable[[Style], Iterable[Line]] | None = None
    """None where the document is all there is."""
