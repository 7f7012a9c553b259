"""Steps and files in lines: what `plan` says would change, and what `apply` and `remove` say has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.cli.page import SHOWN, Line, Painted, Tone, capped, line
from hostrouting.plan import Step
from hostrouting.uplink import bare_leg

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hostrouting.effects import Effects
    from hostrouting.host import Host
    from hostrouting.model import Route

__all__ = ["changed_files", "changed_routes", "counted", "file_lines", "step_document", "step_lines", "tally"]

_TONES: dict[str, Tone] = {"keep": "soft", "add": "good", "replace": "warn", "delete": "warn", "conflict": "bad"}
_ORDER = ("conflict", "add", "replace", "delete", "keep")


def changed_routes(effects: Effects) -> tuple[Step, ...]:
    """What has become of the routes in the end: what was done and undone again is none of it."""
    counts: dict[Route, int] = {}
    for change in effects.changes:
        # As it was asked for: the state of its legs is the kernel's to say.
        route = attrs.evolve(change.route, legs=tuple(map(bare_leg, change.route.legs)))
        counts[route] = counts.get(route, 0) + (-1 if change.verb == "delete" else 1)
    added = [Step("add", route, "it was not there") for route, count in counts.items() if count > 0]
    return (*added, *(Step("delete", route, "it was there") for route, count in counts.items() if count < 0))


def changed_files(effects: Effects, host: Host) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The paths that were written, and those that were removed, without the verdicts that pass under /run."""
    layout = host.layout
    lasting = [it for it in effects.files if it not in {layout.ok_path, layout.detected_path, layout.report_path}]
    there = {path for path in lasting if host.files.is_there(path)}
    return tuple(it for it in lasting if it in there), tuple(it for it in lasting if it not in there)


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
