"""The check for packets of pods, once for each class of them.

Here: the verdict on each class, as far as it differs from that on the host's own packets. Not here: the classes
(`packets`), and the check itself (`overlap`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from hostrouting.check.overlap import Escape, Note, OverlapReport, Verdict, follow_kernel
from hostrouting.check.packets import PodPackets, with_devices_of
from hostrouting.fib.decision import Decision
from hostrouting.fib.engine import Fib

Ask: TypeAlias = Callable[[PodPackets], Mapping[int, Decision]]


class PodReport(NamedTuple):
    """The verdict on packets of pods: on all classes with equal answers."""

    packets: tuple[PodPackets, ...]
    verdict: Verdict
    escapes: tuple[Escape, ...] = ()
    notes: tuple[Note, ...] = ()

    def escapes_beyond(self, report: OverlapReport) -> tuple[Escape, ...]:
        """The findings of this check that the check of the host's own packets does not have."""
        known: dict[object, list[Escape]] = {}
        for finding in report.escapes:
            known.setdefault(_way(finding), []).append(finding)
        return tuple(
            finding
            for finding in self.escapes
            if not any(
                other.first <= finding.first and finding.last <= other.last for other in known.get(_way(finding), ())
            )
        )

    def notes_beyond(self, report: OverlapReport) -> tuple[Note, ...]:
        """The notes of this check that the check of the host's own packets does not have."""
        known = set(map(_note_key, report.notes))
        return tuple(note for note in self.notes if _note_key(note) not in known)


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
    for sender in packets:
        own = report.again(fib, sender.flow)
        if ask is not None:
            own = follow_kernel(own, fib, ask(sender), flow=sender.flow)
        ranges = tuple((_way(finding), finding.first, finding.last) for finding in own.escapes)
        answer = (own.verdict, ranges, tuple(map(_note_key, own.notes)))
        answers.setdefault(answer, own)
        alike.setdefault(answer, []).append(sender)
    return tuple(_pod_report(own, tuple(alike[answer])) for answer, own in answers.items())


def _pod_report(report: OverlapReport, senders: tuple[PodPackets, ...]) -> PodReport:
    return PodReport(
        senders,
        report.verdict,
        tuple(finding._replace(senders=senders) for finding in report.escapes),
        tuple(note._replace(senders=senders) for note in report.notes),
    )


def _way(finding: Escape) -> tuple[object, ...]:
    return (finding.cidr, finding.kind, finding.devs, finding.decision.route)


def _note_key(note: Note) -> tuple[object, ...]:
    decision = note.decision
    return (note.cidr, note.first, note.last, note.cases, decision.kind, decision.route, note.escapes, note.known)
