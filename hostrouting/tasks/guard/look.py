"""One look of the guard at the host: what it repaired, and what is wrong. The tasks return it.

Here: values. Not here: what follows from several looks (`pace`, `state`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

    from hostrouting.finding import Finding
    from hostrouting.host.effects import Operation
    from hostrouting.kernel.concern import Concern


@attrs.frozen
class Repair:
    """One repair: its key, the wanted state, and the state that was found."""

    key: str
    """What the repair is about, such as `172.16.0.0/17` or `nftables table ip6 hostrouting_slb`."""
    ours: str
    found: str
    """What was there, such as `no route`."""

    @classmethod
    def of(cls, operation: Operation) -> Self:
        """The operation as a repair."""
        if operation.verb == "delete":
            return cls(operation.object, "none", operation.object)
        found = "none" if operation.verb in {"add", "create"} else f"a changed one ({operation.reason})"
        return cls(operation.object, "the one that was installed", found)


@attrs.frozen(kw_only=True)
class Look:
    """What one look at the host found and did."""

    repairs: tuple[Repair, ...] = ()
    """What was repaired."""
    lost: tuple[Repair, ...] = ()
    """What was repaired too, but was undone before it could be read back."""
    waiting: tuple[str, ...] = ()
    """The keys of what cannot be repaired yet, such as a route whose device is down: Linux itself took it away."""
    findings: tuple[Finding, ...] = ()
    """What is wrong and could not be repaired."""
    failures: Mapping[str, str] = attrs.field(factory=dict)
    """By the name of the task: why its look, or a repair, failed."""
    unknown: tuple[str, ...] = ()
    """The names of the tasks that could not read the host, so that their answers are those of an earlier look."""
    routes: tuple[int, int, int] | None = None
    """The number of routes that are wanted, that are there as wanted, and that are ours."""
    verdict: str = ""
    """The verdict of the check; empty if nothing is checked."""
    answer: str = ""
    """What node-problem-detector is told of it: an exit status and a sentence."""
    verdicts: Mapping[str, str] = attrs.field(factory=dict)
    """The verdict on each expected CIDR."""
    escapes: Mapping[str, int] = attrs.field(factory=dict)
    """For each expected CIDR, the number of ranges that escape."""
    concerns: tuple[Concern, ...] | None = attrs.field(default=(), repr=False)
    """What these answers depend on: nothing else needs another look. None means every change."""
    seconds: float = 0.0
    """How long it took."""
    repair_seconds: float = 0.0
    """How long the repairs took."""

    def __add__(self, other: Look) -> Look:
        """Both as one look."""
        return Look(
            repairs=(*self.repairs, *other.repairs),
            lost=(*self.lost, *other.lost),
            waiting=(*self.waiting, *other.waiting),
            findings=(*self.findings, *other.findings),
            failures={**self.failures, **other.failures},
            unknown=(*self.unknown, *other.unknown),
            routes=self.routes or other.routes,
            verdict=self.verdict or other.verdict,
            answer=self.answer or other.answer,
            verdicts={**self.verdicts, **other.verdicts},
            escapes={**self.escapes, **other.escapes},
            concerns=None if self.concerns is None or other.concerns is None else (*self.concerns, *other.concerns),
            seconds=self.seconds + other.seconds,
            repair_seconds=self.repair_seconds + other.repair_seconds,
        )
