"""Routes and files in lines and as plain values: what would change or has changed, and what does not last.

Shared by `plan`, `apply`, `remove` and `render`. Not here: what a run is and how it ended (`run`); which routes do not
last (`hostrouting.foresight`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hostrouting.cli.page import SHOWN, Painted, capped, counted, line
from hostrouting.cli.remedy import route_lines
from hostrouting.wording import foreseen_line, repair_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hostrouting.cli.page import Line, Tone
    from hostrouting.plan import Foreseen, Step

__all__ = ["file_lines", "foreseen_document", "foreseen_lines", "step_document", "step_lines", "tally"]

_TONES: dict[str, Tone] = {"keep": "soft", "add": "good", "replace": "warn", "delete": "warn", "conflict": "bad"}
_ORDER = ("conflict", "add", "replace", "delete", "keep")


def step_lines(steps: Sequence[Step]) -> Iterator[Line]:
    """The steps as a diff: what changes first, then what stays; of many alike the first ones."""
    for action in _ORDER:
        alike = [step for step in steps if step.action == action]
        shown = [text for step in alike[:SHOWN] for text in str(step).splitlines()]
        yield from capped((line("  ", Painted(text, _TONES[action])) for text in shown), len(alike))


def file_lines(verb: str, paths: Sequence[str]) -> Iterator[Line]:
    """The files, one a line."""
    yield from capped((line("  ", Painted(f"{verb} ", "soft"), path) for path in paths[:SHOWN]), len(paths))


def tally(steps: Sequence[Step], words: dict[str, str]) -> list[str]:
    """How many routes are to be, or were, added and so on, for the actions that are given words."""
    counts = [(word, sum(step.action == action for step in steps)) for action, word in words.items()]
    return [word.format(counted(count, "route")) for word, count in counts if count]


def step_document(step: Step) -> dict[str, Any]:
    """A step as plain values."""
    return {"action": step.action, "route": str(step.route), "reason": step.why}


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
