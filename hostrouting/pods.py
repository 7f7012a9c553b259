"""The check of what pods send: the check of the host's own packets, made again for each class of pods' packets.

Here: the verdict on each class, and what of it the check of the host's own packets does not say. Not here: the classes
(`pod_packets`), and the check itself (`overlap`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import attrs

from hostrouting.fib import Decision, Fib
from hostrouting.overlap import Finding, Note, OverlapReport, Verdict, check_overlap, follow_kernel
from hostrouting.pod_packets import PodPackets, with_devices_of

__all__ = ["Ask", "PodReport", "check_pods"]

Ask: TypeAlias = Callable[[PodPackets], Mapping[int, Decision]]


@attrs.frozen
class PodReport:
    """The verdict on packets of pods: those of several classes, if the answers for all of them are equal."""

    packets: tuple[PodPackets, ...]
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    notes: tuple[Note, ...] = ()

    def findings_beyond(self, report: OverlapReport) -> tuple[Finding, ...]:
        """The findings that the check of the host's own packets does not have: other addresses, or another way."""
        known: dict[object, list[Finding]] = {}
        for it in report.findings:
            known.setdefault(_way(it), []).append(it)
        return tuple(
            it
            for it in self.findings
            if not any(other.first <= it.first and it.last <= other.last for other in known.get(_way(it), ()))
        )

    def notes_beyond(self, report: OverlapReport) -> tuple[Note, ...]:
        """The notes that the check of the host's own packets does not have."""
        known = set(map(_note_key, report.notes))
        return tuple(it for it in self.notes if _note_key(it) not in known)


def check_pods(
    fib: Fib, report: OverlapReport, packets: Sequence[PodPackets], *, ask: Ask | None = None
) -> tuple[PodReport, ...]:
    """Check the expected CIDRs of a report for the packets of pods, on the devices that the report expects.

    `ask` returns the kernel's answers where they differ from the tables, as `follow_kernel` takes them.
    """
    if not report.expected_devs:
        return ()
    fib = with_devices_of(fib, packets)
    alike: dict[object, list[PodPackets]] = {}
    answers: dict[object, OverlapReport] = {}
    for its in packets:
        own = check_overlap(
            fib,
            report.cidrs,
            expected_devs=report.expected_devs,
            allowed_devs=report.allowed_devs,
            flow=its.flow,
        )
        if ask is not None:
            own = follow_kernel(own, fib, ask(its), flow=its.flow)
        ranges = tuple((_way(it), it.first, it.last) for it in own.findings)
        answer = (own.verdict, ranges, tuple(map(_note_key, own.notes)))
        answers.setdefault(answer, own)
        alike.setdefault(answer, []).append(its)
    return tuple(_pod_report(own, tuple(alike[answer])) for answer, own in answers.items())


def _pod_report(report: OverlapReport, senders: tuple[PodPackets, ...]) -> PodReport:
    return PodReport(
        senders,
        report.verdict,
        tuple(attrs.evolve(it, senders=senders) for it in report.findings),
        tuple(attrs.evolve(it, senders=senders) for it in report.notes),
    )


def _way(finding: Finding) -> tuple[object, ...]:
    return (finding.cidr, finding.kind, finding.devs, finding.decision.route)


def _note_key(note: Note) -> tuple[object, ...]:
    decision = note.decision
    return (note.cidr, note.first, note.last, note.cases, decision.kind, decision.route, note.escapes)
