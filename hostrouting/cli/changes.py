"""Steps and files in lines: what `plan` says would change, and what `apply` and `remove` say has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hostrouting.cli.page import SHOWN, Line, Painted, Tone, capped, line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hostrouting.plan import Step

__all__ = ["counted", "file_lines", "step_document", "step_lines", "tally"]

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


def counted(count: int, noun: str) -> str:
    """`1 route`, `1,000 routes`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def step_document(step: Step) -> dict[str, Any]:
    """A step as plain values."""
    return {"action": step.action, "route": str(step.route), "reason": step.why}
