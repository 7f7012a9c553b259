"""Routes that do not last, in lines and as plain values: what `plan` and `apply` say, and what to paste instead.

Here: their place on the page. Not here: which they are (`hostrouting.foresight`), and the sentence (`wording`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hostrouting.cli.page import SHOWN, Line, Painted, capped, line
from hostrouting.cli.remedy import route_lines
from hostrouting.wording import foreseen_line, repair_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hostrouting.plan import Foreseen

__all__ = ["foreseen_document", "foreseen_lines"]


def foreseen_lines(foreseen: Sequence[Foreseen], *, config: str) -> Iterator[Line]:
    """What does not last, and the routes that do."""
    if not foreseen:
        return
    yield line()
    yield line("What does not last:")
    told = (line("  ", Painted(foreseen_line(it), "warn")) for it in foreseen[:SHOWN])
    yield from capped(told, len(foreseen))
    if lacking := [route for it in foreseen[:SHOWN] for route in it.lacking]:
        yield line(f"In its place, put this into staticRoutes.routes of {config}:")
        yield from route_lines(lacking)


def foreseen_document(foreseen: Foreseen) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "route": str(foreseen.wanted),
        "addresses": [{"address": f"{it.ip}/{it.length}", "dev": it.dev} for it in foreseen.addresses],
        "instead": repair_document(foreseen.lacking),
        "text": foreseen_line(foreseen),
    }
