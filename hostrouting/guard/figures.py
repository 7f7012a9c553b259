"""The guard's figures for a Prometheus collector: a text in the exposition format, without timestamps.

Here: names, help and numbers. Not here: the file, which is written in one step (`tasks.guard`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from hostrouting.guard.state import State

__all__ = ["figures"]

_VERDICTS = ("ok", "overlap", "undecided", "no-default-route")


def figures(state: State, *, version: str) -> str:
    """All figures, as the text of a `.prom` file."""
    return "".join(_lines(state, version))


def _lines(state: State, version: str) -> Iterator[str]:
    look = state.look
    yield from _metric("build_info", "gauge", "The version that runs; always 1.", {"version": version}, 1)
    yield from _metric("guard_start_time_seconds", "gauge", "When the guard began.", {}, _seconds(state.since))
    yield from _metric("guard_looks_total", "counter", "Looks at the host.", {}, state.looks)
    yield from _metric("guard_failures_total", "counter", "Looks that failed.", {}, state.failures)
    if state.looked is not None:
        yield from _metric("guard_last_look_time_seconds", "gauge", "When it last looked.", {}, _seconds(state.looked))
        yield from _metric("guard_look_seconds", "gauge", "How long the last look took.", {}, look.seconds)
    problems = len(look.problems) + len(state.hindered)
    yield from _metric("guard_problems", "gauge", "What is wrong and could not be repaired.", {}, problems)
    yield from _metric("guard_repairs_total", "counter", "Repairs.", {}, state.repairs)
    if state.repaired is not None:
        told = "How long the last repair took."
        yield from _metric("guard_repair_seconds", "gauge", told, {}, state.repair_seconds)
    told = "What does not stay, although it was repaired."
    yield from _metric("guard_fights", "gauge", told, {}, len(state.fights))
    if look.routes is not None:
        kinds = {
            "wanted": "Static routes that are configured.",
            "present": "Those that are in the table.",
            "ours": "Routes that are ours.",
        }
        for (name, text), count in zip(kinds.items(), look.routes, strict=True):
            yield from _metric(f"routes_{name}", "gauge", text, {}, count)
    if look.verdict:
        rows = [
            ({"cidr": cidr, "verdict": it}, int(it == verdict))
            for cidr, verdict in sorted(look.verdicts.items())
            for it in _VERDICTS
        ]
        yield from _metrics("verdict", "gauge", "The verdict on an expected CIDR: 1 for the present one.", rows)
        counts = [({"cidr": cidr}, count) for cidr, count in sorted(look.escapes.items())]
        yield from _metrics("escapes", "gauge", "Ranges of an expected CIDR that escape.", counts)


def _metric(name: str, kind: str, told: str, labels: Mapping[str, str], value: float) -> Iterator[str]:
    return _metrics(name, kind, told, [(labels, value)])


def _metrics(name: str, kind: str, told: str, rows: Iterable[tuple[Mapping[str, str], float]]) -> Iterator[str]:
    yield f"# HELP hostrouting_{name} {told}\n# TYPE hostrouting_{name} {kind}\n"
    for labels, value in rows:
        words = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        number = value if isinstance(value, int) else round(value, 6)
        yield f"hostrouting_{name}{{{words}}} {number}\n" if words else f"hostrouting_{name} {number}\n"


def _escaped(text: str) -> str:
    return re.sub(r'([\\"])', r"\\\1", text).replace("\n", r"\n")


def _seconds(moment: datetime) -> float:
    return round(moment.timestamp(), 3)
