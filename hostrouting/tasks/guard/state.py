"""What the guard knows: the last look, the verdict and since when it holds, repairs and fights.

Here: a value, what follows for it from a look, its JSON, and its figures for a Prometheus collector. Not here: the look
itself (`tasks.results`), and the files that all this is written to, each in one step (`loop`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from hostrouting.check.report import GUARD_SCHEMA
from hostrouting.tasks.results import Look
from phases.text import moment_as_text

if TYPE_CHECKING:
    from hostrouting.finding import Finding
    from hostrouting.tasks.guard.pace import Fight

VALID = timedelta(minutes=3)
"""How long an answer of the guard is valid: it looks three times meanwhile."""


class State(NamedTuple):
    """The guard's knowledge after its looks so far."""

    since: datetime
    """When the guard began."""
    looks: int = 0
    looked: datetime | None = None
    """When the last look was in which every task could read the host."""
    look: Look = Look()
    """The last look."""
    repairs: int = 0
    """The number of repairs since it began."""
    repaired: datetime | None = None
    """When the last repair was."""
    repair_seconds: float = 0.0
    """How long that took."""
    failures: int = 0
    """The number of looks that failed since it began."""
    verdict_since: datetime | None = None
    """Since when the verdict is the same, as far as the guard knows."""
    fights: tuple[Fight, ...] = ()
    hindered: Mapping[str, str] = {}
    """What hinders the guard itself: a sentence about its listening, reading or writing."""

    @property
    def faults(self) -> dict[str, str]:
        """Sentences: why the last look or repair failed, by the task's name, and problems of the guard itself."""
        return {**{name: f"{name}: {text}" for name, text in self.look.failures.items()}, **self.hindered}

    def noted(self, about: str, text: str) -> State:
        """The state with this sentence about a problem of the guard; an empty one removes it."""
        others = {name: sentence for name, sentence in self.hindered.items() if name != about}
        return self._replace(hindered={**others, about: text} if text else others)

    def after(self, look: Look, fights: tuple[Fight, ...], now: datetime) -> State:
        """The state after one more look."""
        same = self.verdict_since is not None and look.verdict == self.look.verdict
        return self._replace(
            looks=self.looks + 1,
            looked=self.looked if look.unknown else now,
            look=look,
            repairs=self.repairs + len(look.repairs),
            repaired=now if look.repairs else self.repaired,
            repair_seconds=look.repair_seconds if look.repairs else self.repair_seconds,
            failures=self.failures + bool(look.failures),
            verdict_since=(self.verdict_since if same else now) if look.verdict else None,
            fights=fights,
        )

    def after_attempt(self, known: Look, fights: tuple[Fight, ...]) -> State:
        """The state after a look that failed: what was known before, and why this one failed."""
        return self._replace(
            look=attrs.evolve(known, seconds=self.look.seconds),
            failures=self.failures + 1,
            verdict_since=self.verdict_since if known.verdict else None,
            fights=fights,
        )

    @property
    def openings(self) -> tuple[Finding, ...]:
        """Who has let which units start unchecked."""
        return tuple(finding for finding in self.look.findings if "until" in finding.facts)

    def to_mapping(self) -> dict[str, Any]:
        """The JSON value `hostrouting/guard/2`."""
        return {
            "schema": GUARD_SCHEMA,
            "since": _stamp(self.since),
            "looks": self.looks,
            "lastLook": _stamp(self.looked),
            "unknown": [*self.look.unknown],
            "verdict": self.look.verdict or None,
            "verdictSince": _stamp(self.verdict_since),
            "repairs": self.repairs,
            "lastRepair": _stamp(self.repaired),
            "failure": "; ".join(self.faults.values()) or None,
            "fights": [
                {"key": fight.last.key, "ours": fight.last.ours, "found": fight.last.found, "rounds": fight.rounds}
                for fight in self.fights
            ],
            "findings": [finding.to_mapping() for finding in self.look.findings],
        }


def _stamp(moment: datetime | None) -> str | None:
    return None if moment is None else moment_as_text(moment)


# The figures: names, help and numbers, in the exposition format, without timestamps.

_VERDICTS = ("ok", "overlap", "undecided", "no-default-route")


def figures(state: State, *, version: str) -> str:
    """All figures, as the text of a `.prom` file; those that are not known are left out."""
    look, has_looked, has_repaired = state.look, state.looked is not None, state.repaired is not None
    wanted, present, ours = look.routes or (None, None, None)
    told: dict[str, tuple[str, float | list[tuple[Mapping[str, str], float]] | None]] = {
        "build_info": ("The version that runs; always 1.", [({"version": version}, 1)]),
        "guard_start_time_seconds": ("When the guard began.", _seconds(state.since)),
        "guard_looks_total": ("Looks at the host.", state.looks),
        "guard_failures_total": ("Looks that failed.", state.failures),
        "guard_last_look_time_seconds": ("When it last looked.", _seconds(state.looked)),
        "guard_look_seconds": ("How long the last look took.", look.seconds if has_looked else None),
        "guard_problems": ("What is wrong and could not be repaired.", len(look.findings) + len(state.hindered)),
        "guard_repairs_total": ("Repairs.", state.repairs),
        "guard_repair_seconds": ("How long the last repair took.", state.repair_seconds if has_repaired else None),
        "guard_fights": ("What does not stay, although it was repaired.", len(state.fights)),
        "gate_open_until_seconds": (
            "Until when a unit may start unchecked, by an administrator's decision.",
            [({"unit": finding.facts["unit"]}, finding.facts["until"]) for finding in state.openings],
        ),
        "routes_wanted": ("Static routes that are configured.", wanted),
        "routes_present": ("Those that are in the table.", present),
        "routes_ours": ("Routes that are ours.", ours),
        "verdict": (
            "The verdict on an expected CIDR: 1 for the present one.",
            [
                ({"cidr": cidr, "verdict": possible}, int(possible == verdict))
                for cidr, verdict in sorted(look.verdicts.items())
                for possible in _VERDICTS
            ],
        ),
        "escapes": (
            "Ranges of an expected CIDR that escape.",
            [({"cidr": cidr}, count) for cidr, count in sorted(look.escapes.items())],
        ),
    }
    lines: list[str] = []
    for name, (text, found) in told.items():
        samples = found if isinstance(found, list) else [] if found is None else [({}, found)]
        if samples:
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP hostrouting_{name} {text}", f"# TYPE hostrouting_{name} {kind}"]
        for labels, value in samples:
            words = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
            number = value if isinstance(value, int) else round(value, 6)
            lines.append(f"hostrouting_{name}{f'{{{words}}}' if words else ''} {number}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(text: str) -> str:
    return re.sub(r'([\\"])', r"\\\1", text).replace("\n", r"\n")


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else round(moment.timestamp(), 3)
