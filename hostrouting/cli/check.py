"""The check behind several commands: its configuration, its results, and the lines.

Here: making the check, and its lines, from the whole to the parts: what both families have in common, and one family.
Not here: what to do about the findings (`remedy`), and writing to a terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hostrouting.check.examine import (
    Examination,
    FamilyExamination,
    examine,
    examine_snapshot,
    find_correction,
    repair_routes,
)
from hostrouting.check.exceptions import PodBlocks
from hostrouting.check.overlap import Judge
from hostrouting.check.packets import senders_phrase
from hostrouting.check.report import (
    candidates_clause,
    check_document,
    intended_clause,
    owner_name,
    packets_line,
    remarks,
)
from hostrouting.cli.output import SHOWN, Line, Painted, Piece, Tone, capped, line, named_lines, table
from hostrouting.cli.source import (
    expected_of,
    installed_config,
    known_devices,
    open_kernel,
    saved_snapshot,
    start_command,
)
from hostrouting.fib.packet import PLAIN
from hostrouting.model.prefix import extent
from hostrouting.model.route import Route, table_name
from hostrouting.text import counted, spoken

if TYPE_CHECKING:
    import argparse

    from typing_extensions import Self

    from hostrouting.check.overlap import Escape, Verdict
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.finding import Finding
    from hostrouting.host.host import Host
    from hostrouting.model.snapshot import Snapshot

LIMITS = "Only routing tables and rules are checked, as they are now; not firewalls, IPsec or eBPF programs."

_OPEN = {"undecided", "no-default-route"}


class Check:
    """The configuration, the findings and the tables of a check; everything else is computed when it is needed."""

    def __init__(
        self,
        found: Examination,
        config: HostRoutingConfig,
        installed: HostRoutingConfig | None = None,
        *,
        start: str = "",
    ) -> None:
        """Keep the arguments.

        `installed` is the installed configuration, and `start` the command that adds its routes now.
        """
        self.found, self.fib, self.config, self.installed, self.start = found, found.fib, config, installed, start

    def document(self) -> dict[str, Any]:
        """The check as the JSON value `hostrouting/check/3`."""
        config = self.config
        routes = self.found.routes and config.static_routes.routes
        correction = find_correction(self.found, config) if routes else None
        return check_document(self.found, mode=config.route_overlap.mode, correction=correction)

    @classmethod
    def of(cls, snapshot: Snapshot, config: HostRoutingConfig) -> Self:
        """Check a snapshot, without asking a kernel."""
        return cls(examine_snapshot(snapshot, config), config)

    @property
    def repair_routes(self) -> tuple[Route, ...]:
        """The routes of the repair, with device and gateway filled in."""
        return repair_routes(self.found)

    def answer_lines(self) -> Iterator[Line]:
        """The verdict on each family, in one sentence."""
        return map(_answer_line, self.found.families)

    @property
    def open_verdicts(self) -> list[tuple[Verdict, Line]]:
        """The verdicts that are still open with the repair in place, each with a sentence."""
        found: list[tuple[Verdict, Line]] = []
        for family in self.found.families:
            later = family.after_repair
            if later.verdict in _OPEN:
                when = "" if later.verdict == family.verdict else "Afterwards: "
                found.append((later.verdict, line(when, *_answer_line(later))))
        return found

    def evidence_lines(self) -> Iterator[Line]:
        """The findings as tables."""
        for family in self.found.families:
            yield from _evidence_lines(family)

    @property
    def flaws(self) -> list[Finding]:
        """What is wrong with the rules and default routes of this host; also a default route that is not used."""
        families = self.found.families
        unused = (remark for one in families for remark in one.report.remarks if remark.name == "unused-default-route")
        return [*(flaw for one in families for flaw in one.flaws), *unused]

    def limit_lines(self, *, advice: str, again: str = "") -> Iterator[Line]:
        """What limits or explains the verdict; without a default route also `advice`.

        With `again`, the packets for which it does not hold are not listed; the line names that command instead.
        """
        yield line()
        for family in self.found.families:
            yield from _holds_for(family, advice)
        verdicts = {family.verdict for family in self.found.families}
        if "no-default-route" in verdicts and len(verdicts) > 1:
            yield line("A named device is expected in both families, so also name the device of the other family.")
        found = dict.fromkeys(
            finding
            for family in self.found.families
            for finding in remarks(family)
            # Without a default route there is no verdict to limit, and the answer names the flaw.
            if family.verdict != "no-default-route" or finding.name == "skipped-keys"
        )
        shown = [finding for finding in found if not again or finding.name != "other-packets"]
        yield from named_lines(shown)
        if len(shown) < len(found):
            yield line(f"Other packets are routed differently; to see which: {again}")
        if any(family.verdict != "no-default-route" for family in self.found.families):
            yield line(Painted(LIMITS, "soft"))


def make_check(arguments: argparse.Namespace, host: Callable[[], Host]) -> Check:
    """Make the check that the arguments ask for."""
    here = arguments.config is None and arguments.snapshot is None
    installed = installed_config(host()) if here else None
    start = "" if installed is None else start_command(host())
    config = expected_of(arguments, installed)
    saved = saved_snapshot(arguments)
    if saved is not None:
        found = examine_snapshot(saved, config)
    else:
        with open_kernel(host) as kernel:
            found = examine(None, kernel, config, whole=True)
    known_devices(arguments, found.fib.snapshot)
    return Check(found, config, installed, start=start)


def lasting_line(where: str = "the host") -> Line:
    """The line that points to `status`, for what a check of the routes cannot tell."""
    sentence = f"To see what is installed on {where}, and whether it survives a reboot: hostrouting status"
    return line(Painted(sentence, "soft"))


# One family: the verdict in a sentence, the evidence, and what the verdict holds for.

_BLOCKS = 3  # a range of at most this many blocks is shown as blocks; others as first and last address
_VERDICT_TONES: dict[str, Tone] = {"ok": "good", "overlap": "bad"}


def _answer_line(found: FamilyExamination) -> Line:
    """The verdict in one sentence."""
    report, verdict = found.report, found.verdict
    cidrs, devs = spoken([str(cidr) for cidr in report.cidrs]), spoken(report.expected_devs, last="or")
    word = Painted(f"{verdict.upper()}:", _VERDICT_TONES.get(verdict, "warn"))
    if verdict == "no-default-route":
        instead = f"; there is {found.instead}" if found.instead.startswith("a ") else ""
        instead += "".join(f"; {finding}" for finding in found.flaws if finding.name == "missing-rule")
        return line(
            word, f" there is no IPv{report.family} default route, so no device is expected for {cidrs}{instead}"
        )
    if verdict == "overlap":
        return line(word, " ", _who_goes_where(found), f", not by {devs}")
    if verdict == "undecided":
        return line(word, f" a plain packet to {cidrs} leaves by {devs}; ", _others(found))
    allowed = _allowed_devs(found)
    beside = f" or by {spoken(allowed)} (allowed)" if allowed else ""
    return line(word, f" every address of {cidrs} leaves by {devs}{beside}, or belongs to this host")


def _allowed_devs(found: FamilyExamination) -> Sequence[str]:
    """The devices by which addresses leave although they are only allowed; nothing escapes."""
    report = found.report
    blocks = PodBlocks(found.fib, report.cidrs, report.allowed_devs)
    strict = Judge(report.expected_devs, (), blocks=blocks)
    decisions = (cell.decision for cidr in report.cidrs for cell in found.fib.cells(cidr, PLAIN))
    return [*dict.fromkeys("+".join(decision.devs) for decision in decisions if strict.escape(decision))]


def _evidence_lines(found: FamilyExamination) -> Iterator[Line]:
    """The findings as tables."""
    tables = [("", found.report.escapes)]
    tables += [(f"For {senders_phrase(pod.packets)}:", pod.escapes_beyond(found.report)) for pod in found.pods]
    for head, escapes in tables:
        if escapes:
            yield line()
            yield from [line(head)] if head else []
            yield from _findings_table(escapes, has_cidrs=len(found.report.cidrs) > 1)
    if intended := intended_clause(found.escapes):
        yield line()
        yield line(_sentence(intended))


def _findings_table(escapes: Sequence[Escape], *, has_cidrs: bool) -> Iterator[Line]:
    heads = ["escapes", "leaves by", "route", "table", "owner", "rule"]
    rows = [[*([str(escape.cidr)] if has_cidrs else []), *_row(escape)] for escape in escapes[:SHOWN]]
    yield from capped(table(["cidr", *heads] if has_cidrs else heads, rows), len(escapes))


def _holds_for(found: FamilyExamination, advice: str) -> Iterator[Line]:
    """The lines that say which packets the verdict holds for; without a default route, what to do."""
    if found.verdict == "no-default-route":
        yield line(_sentence(candidates_clause(found)))
        yield line(advice)
        return
    if not found.notes:
        only = any(pods.escapes_beyond(found.report) for pods in found.pods)
        own = " that this host itself sends" if only else ""
        yield line(Painted(f"Holds for all IPv{found.report.family} packets{own}.", "soft"))
    for pods in found.pods:
        their = senders_phrase(pods.packets).removeprefix("packets")
        if pods.verdict == "ok":
            yield line(Painted(f"Packets{their} leave as expected.", "soft"))
        elif pods.verdict == "overlap" and not pods.escapes_beyond(found.report):
            yield line(Painted(f"Packets{their} escape in the same way.", "warn"))


def _sentence(text: str) -> str:
    """The clause as a sentence. No full stop follows a command, and a leading key keeps its spelling."""
    stop = "" if "with: " in text or text.endswith((".", "}", "]")) else "."
    first = text[:1] if "." in text.partition(" ")[0] else text[:1].upper()
    return f"{first}{text[1:]}{stop}"


def _others(found: FamilyExamination) -> str:
    """A clause about the packets that are treated differently: the first kind, and how many more there are."""
    notes = [note for note in found.notes if note.is_open]
    if not notes and found.doubts:
        return f"but {spoken(found.doubts)}"
    if not notes:
        return "but the route tables kept changing while they were read"
    note, decision = notes[0], notes[0].decision
    devs = spoken(decision.devs) or "an unknown device"
    fate = f"leave by {devs}" if decision.goes_out else f"do not leave ({decision.kind})"
    others = len({(note.cases, note.senders) for note in notes}) - 1
    more = f"; packets of {counted(others, 'more kind')} escape, too" if others else ""
    return f"{packets_line(note.cases)} {fate}{more}"


def _who_goes_where(found: FamilyExamination) -> str:
    findings = found.report.escapes or found.escapes
    ways = list(dict.fromkeys(f"by {_devs(finding)}" for finding in findings if finding.kind == "overlap"))
    nowhere = list(dict.fromkeys(finding.kind.replace("-", " ") for finding in findings if finding.kind != "overlap"))
    ways += [f"by no device ({spoken(nowhere)})"] if nowhere else []
    cidrs = list(dict.fromkeys(finding.cidr for finding in findings))
    whole = all(finding.first == finding.cidr.first and finding.last == finding.cidr.last for finding in findings)
    part = "" if whole else "a part of " if len(findings) == 1 else f"{len(findings):,} ranges of "
    verb = "leave" if len(cidrs) > 1 or len(findings) > 1 else "leaves"
    whose = "" if found.report.escapes else "what pods send to "
    return f"{whose}{part}{spoken([str(cidr) for cidr in cidrs])} {verb if not whose else 'leaves'} {spoken(ways)}"


def _devs(finding: Escape) -> str:
    return spoken(finding.devs) or "an unknown device"


def _row(finding: Escape) -> Sequence[Piece]:
    route, rule = finding.decision.route, finding.decision.rule
    where = ("", "", "") if route is None else (route.name, table_name(route.table), owner_name(finding))
    return (
        _range(finding),
        Painted(", ".join(finding.devs) or finding.kind, "bad"),
        *where,
        "" if rule is None else str(rule.priority),
    )


def _range(finding: Escape) -> str:
    """The range as CIDR blocks; as its first and last address if that would take too many blocks."""
    blocks = finding.prefixes
    if len(blocks) <= _BLOCKS:
        return " ".join(map(str, blocks))
    return extent(finding.cidr.family, finding.first, finding.last)
