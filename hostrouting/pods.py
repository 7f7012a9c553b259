"""The check of what pods send: the check of the host's own packets, made again for each class of pods' packets.

Here: which answers differ from those for the host's own packets. Not here: the classes (`pod_packets`), and the check
itself (`overlap`).
"""

from collections.abc import Collection, Iterable, Sequence

import attrs

from hostrouting.fib import Condition, Fib
from hostrouting.model import Prefix
from hostrouting.overlap import Finding, Note, OverlapReport, Verdict, check_overlap
from hostrouting.pod_packets import PodPackets, with_devices_of

__all__ = ["PodReport", "check_pods", "is_told_by"]


@attrs.frozen
class PodReport:
    """The verdict on packets of pods: those of several classes, if the answers for all of them are equal.

    `findings` and `notes` are those that the check of the host's own packets does not have.
    """

    packets: tuple[PodPackets, ...]
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    notes: tuple[Note, ...] = ()


def check_pods(fib: Fib, report: OverlapReport, packets: Sequence[PodPackets]) -> tuple[PodReport, ...]:
    """Check the expected CIDRs of a report for the packets of pods, on the devices that the report expects."""
    if not report.expected_devs:
        return ()
    known = {_key(it) for it in report.findings}
    noted = {_key_of_note(it) for it in report.notes}
    alike: dict[object, list[PodPackets]] = {}
    answers: dict[object, OverlapReport] = {}
    fib = with_devices_of(fib, packets)
    for its in packets:
        own = check_overlap(
            fib,
            report.cidrs,
            expected_devs=report.expected_devs,
            allowed_devs=report.allowed_devs,
            flow=its.flow,
        )
        answer = (own.verdict, tuple(map(_key, own.findings)), tuple(map(_key_of_note, own.notes)))
        answers.setdefault(answer, own)
        alike.setdefault(answer, []).append(its)
    return tuple(
        PodReport(
            tuple(alike[answer]),
            own.verdict,
            tuple(attrs.evolve(it, senders=tuple(alike[answer])) for it in own.findings if _key(it) not in known),
            tuple(attrs.evolve(it, senders=tuple(alike[answer])) for it in own.notes if _key_of_note(it) not in noted),
        )
        for answer, own in answers.items()
    )


def is_told_by(note: Note, pods: Iterable[PodReport]) -> bool:
    """Whether a note on the host's own packets is only about those of pods that have findings with the same answer."""
    way = (note.cidr, note.decision.route, note.decision.rule)
    return any(
        way == (it.cidr, it.decision.route, it.decision.rule)
        and it.first <= note.first
        and note.last <= it.last
        and all(_is_from(condition, it.senders) for case in note.cases for condition in case)
        for report in pods
        for it in report.findings
    )


def _is_from(condition: Condition, senders: Collection[PodPackets]) -> bool:
    """Whether only packets of these pods meet the condition."""
    sources = [source for it in senders for source in it.sources]
    devs = {dev for it in senders for dev in it.devs}

    def is_theirs(name: str, value: str) -> bool:
        if name == "from":
            asked = Prefix.parse(value)
            inside = {it for it in sources if it in asked}
            return asked in sources or sum(it.last - it.first + 1 for it in inside) == asked.last - asked.first + 1
        return name == "iif" and value in devs

    return condition.holds and any(is_theirs(name, value) for name, value in condition.selectors)


def _key(finding: Finding) -> tuple[object, ...]:
    """Equal for findings about the same addresses, with the same answer."""
    decision = finding.decision
    return (finding.cidr, finding.first, finding.last, finding.kind, finding.devs, decision.route, decision.rule)


def _key_of_note(note: Note) -> tuple[object, ...]:
    decision = note.decision
    return (note.cidr, note.first, note.last, note.cases, decision.kind, decision.route, note.escapes)
