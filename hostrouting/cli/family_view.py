"""One family's part of a check as lines: the verdict in a sentence, the evidence, and what the verdict holds for.

Here: the evidence as a table and maps, and which packets the verdict does not hold for. Not here: what to do about it
(`remedy`), and the check of both families (`check`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hostrouting.cli.cidr_map import draw_map
from hostrouting.cli.page import SHOWN, Painted, capped, counted, line, spoken, table
from hostrouting.model import table_name
from hostrouting.packet_words import packets_line
from hostrouting.segments import segments_of
from hostrouting.wording import (
    candidates_line,
    dropped_line,
    expiry_line,
    note_line,
    owner_name,
    prefix_name,
    range_name,
    senders_phrase,
    suppressed_line,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hostrouting.cli.page import Line, Piece, Style, Tone
    from hostrouting.examination import FamilyExamination
    from hostrouting.fib import Fib
    from hostrouting.overlap import Finding

__all__ = ["FamilyView"]

_BLOCKS = 3  # a range of at most this many blocks is shown as blocks; others as first and last address
_MAPS = 3
_TONES: dict[str, Tone] = {"ok": "good", "overlap": "bad"}


@attrs.frozen
class FamilyView:
    """The examination of one family, and the host with the repair applied; None if there is no repair."""

    found: FamilyExamination
    repaired: Fib | None = None

    @property
    def allowed_devs(self) -> tuple[str, ...]:
        """The allowed devices that carry a part of the expected CIDRs."""
        report = self.found.report
        names = (
            it.label
            for cidr in report.cidrs
            for it in segments_of(
                self.found.fib, cidr, expected_devs=report.expected_devs, allowed_devs=report.allowed_devs
            )
            if it.judgement == "allowed"
        )
        return tuple(dict.fromkeys(names))

    def answer_line(self) -> Line:
        """The verdict in one sentence."""
        report, verdict = self.found.report, self.found.verdict
        cidrs, devs = spoken([str(cidr) for cidr in report.cidrs]), spoken(report.expected_devs, last="or")
        word = Painted(f"{verdict.upper()}:", _TONES.get(verdict, "warn"))
        if verdict == "no-default-route":
            instead = f"; there is {self.found.instead}" if self.found.instead.startswith("a ") else ""
            return line(
                word, f" there is no IPv{report.family} default route, so no device is expected for {cidrs}{instead}"
            )
        if verdict == "overlap":
            return line(word, " ", _who_goes_where(self), f", not by {devs}")
        if verdict == "undecided":
            return line(word, f" a plain packet to {cidrs} leaves by {devs}; ", _others(self))
        lenient = spoken(self.allowed_devs)
        beside = f" or by {lenient} (allowed)" if lenient else ""
        return line(word, f" every address of {cidrs} leaves by {devs}{beside}, or belongs to this host")

    def evidence_lines(self, style: Style, *, now: str = "now") -> Iterator[Line]:
        """The findings as a table, and the CIDRs as maps."""
        if self.found.report.findings:
            yield line()
            yield from self._findings_table(self.found.report.findings)
        for it in self.found.pods:
            if findings := it.findings_beyond(self.found.report):
                yield line()
                yield line(f"For {senders_phrase(it.packets)}:")
                yield from self._findings_table(findings)
        yield from _maps(self, style, now)

    def _findings_table(self, findings: Sequence[Finding]) -> Iterator[Line]:
        heads = ["escapes", "leaves by", "route", "table", "owner", "rule"]
        rows = [list(_row(finding)) for finding in findings[:SHOWN]]
        if len(self.found.report.cidrs) > 1:
            heads = ["cidr", *heads]
            rows = [[str(finding.cidr), *row] for finding, row in zip(findings, rows, strict=False)]
        yield from capped(table(heads, rows), len(findings))

    def limit_lines(self, *, advice: str) -> Iterator[Line]:
        """The lines that say which packets the verdict holds for; without a default route only `advice`."""
        if self.found.verdict == "no-default-route":
            yield line()
            told = candidates_line(self.found)
            yield line(f"{told[0].upper()}{told[1:]}.")
            yield line(advice)
            return
        report = self.found.report
        notes = [note_line(it, alone=not self.found.pods) for it in self.found.notes]
        surprises = self.found.surprises
        yield line()
        for it in report.suppressed:
            text = suppressed_line(it)
            yield line(Painted(f"{text[0].upper()}{text[1:]}.", "warn"))
        if surprises:
            yield line(
                "The kernel's answers differ from its tables:"
                if not self.found.restless
                else "This verdict is uncertain:"
            )
            yield from capped((line("  ", Painted(it, "warn")) for it in surprises[:SHOWN]), len(surprises))
        if not notes:
            told = f"Holds for all IPv{report.family} packets: no rule treats some of them differently."
            yield line(Painted(told, "soft"))
        else:
            yield line("Does not hold for all packets:")
            yield from capped((line("  ", Painted(note, "warn")) for note in notes[:SHOWN]), len(notes))
        for pods in self.found.pods:
            their = senders_phrase(pods.packets).removeprefix("packets")
            if pods.verdict == "ok":
                yield line(Painted(f"Packets{their} leave as expected.", "soft"))
            elif pods.verdict == "overlap" and not pods.findings_beyond(report):
                yield line(Painted(f"Packets{their} escape in the same way.", "warn"))
        if self.found.dropped:
            yield line("This host drops on arrival:")
            yield from capped(
                (line("  ", Painted(dropped_line(it), "warn")) for it in self.found.dropped[:SHOWN]),
                len(self.found.dropped),
            )
        if report.holds_for is not None:
            text = expiry_line(report.holds_for)
            yield line(Painted(f"{text[0].upper()}{text[1:]}.", "soft"))


def _others(it: FamilyView) -> str:
    """A clause about the packets that are treated differently: the first kind, and the number of other ranges."""
    notes = it.found.notes
    if not notes:
        return "but the route tables kept changing while they were read"
    note, decision = notes[0], notes[0].decision
    devs = spoken(decision.devs) or "an unknown device"
    fate = f"leave by {devs}" if decision.goes_out else f"do not leave ({decision.kind})"
    more = f", and {counted(len(notes) - 1, 'more range')} elsewhere" if len(notes) > 1 else ""
    return f"{packets_line(note.cases)} {fate}{more}"


def _who_goes_where(it: FamilyView) -> str:
    findings = it.found.report.findings or it.found.findings
    ways = list(dict.fromkeys(f"by {_devs(it)}" for it in findings if it.kind == "overlap"))
    nowhere = list(dict.fromkeys(it.kind.replace("-", " ") for it in findings if it.kind != "overlap"))
    ways += [f"by no device ({spoken(nowhere)})"] if nowhere else []
    cidrs = list(dict.fromkeys(finding.cidr for finding in findings))
    whole = all(finding.first == finding.cidr.first and finding.last == finding.cidr.last for finding in findings)
    part = "" if whole else "a part of " if len(findings) == 1 else f"{len(findings):,} ranges of "
    verb = "leave" if len(cidrs) > 1 or len(findings) > 1 else "leaves"
    whose = "" if it.found.report.findings else "what pods send to "
    return f"{whose}{part}{spoken([str(cidr) for cidr in cidrs])} {verb if not whose else 'leaves'} {spoken(ways)}"


def _devs(finding: Finding) -> str:
    return spoken(finding.devs) or "an unknown device"


def _row(finding: Finding) -> Sequence[Piece]:
    route, rule = finding.decision.route, finding.decision.rule
    where = ("", "", "") if route is None else (prefix_name(route.prefix), table_name(route.table), owner_name(finding))
    return (
        _range(finding),
        Painted(", ".join(finding.devs) or finding.kind, "bad"),
        *where,
        "" if rule is None else str(rule.priority),
    )


def _range(finding: Finding) -> str:
    """The range as blocks; as first and last address if that would be too many."""
    blocks = finding.prefixes
    if len(blocks) <= _BLOCKS:
        return " ".join(map(str, blocks))
    return range_name(finding.cidr.family, finding.first, finding.last)


def _maps(it: FamilyView, style: Style, now: str) -> Iterator[Line]:
    report = it.found.report
    chosen = list(dict.fromkeys(finding.cidr for finding in report.findings)) or list(report.cidrs)
    if not report.expected_devs:
        return
    hosts = [(now, it.found.fib)] + ([("repaired", after)] if (after := it.repaired) else [])
    for cidr in chosen[:_MAPS]:
        yield line()
        rows = [
            (name, segments_of(fib, cidr, expected_devs=report.expected_devs, allowed_devs=report.allowed_devs))
            for name, fib in hosts
        ]
        yield from draw_map(cidr, rows, style)
    if len(chosen) > _MAPS:
        yield line(Painted(f"… and {counted(len(chosen) - _MAPS, 'more CIDR')}, not drawn", "soft"))
