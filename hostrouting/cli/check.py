"""The check behind several commands: its configuration, its results, and the lines.

A page has the verdict first, then what escapes, the repair until the next boot and permanently, what limits the
verdict, and how to allow what escapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.check.check import check_host, check_snapshot, missing_routes
from hostrouting.check.report import check_document, check_findings, owner_of, repair_commands, verdict_sentence
from hostrouting.cli.output import SHOWN, Line, Painted, Piece, Tone, below, capped, line, named_lines, table
from hostrouting.cli.source import expected_of, installed_config, known_devices, open_kernel, saved_snapshot
from hostrouting.finding import ESCAPES
from hostrouting.model.prefix import extent
from hostrouting.model.route import table_name
from hostrouting.routes.uplink import wanted_routes_of

if TYPE_CHECKING:
    import argparse

    from hostrouting.check.check import CheckReport, Escape, FamilyReport
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.finding import Finding
    from hostrouting.host.host import Host
    from hostrouting.model.snapshot import Snapshot

LIMITS = "Only routing tables and rules are checked, as they are now; not firewalls, IPsec or eBPF programs."

_BLOCKS = 3  # a range of at most this many blocks is shown as blocks; others as first and last address
_VERDICT_TONES: dict[str, Tone] = {"ok": "good", "overlap": "bad"}
_SHOWN_ABOVE = (*ESCAPES, "action")


class Check:
    """The configuration and the report of a check."""

    def __init__(
        self,
        report: CheckReport,
        config: HostRoutingConfig,
        installed: HostRoutingConfig | None = None,
        *,
        is_saved: bool = False,
    ) -> None:
        """Keep them. `installed` is the installed configuration, if this is the host; a saved one is another host."""
        self.report, self.config, self.installed = report, config, installed
        self._as_root = ", on that host as root:" if is_saved else ", as root:"
        self.findings = check_findings(report, mode=config.route_overlap.mode)

    @classmethod
    def of(cls, snapshot: Snapshot, config: HostRoutingConfig) -> Check:
        """Check a snapshot, without asking a kernel."""
        return cls(check_snapshot(snapshot, config), config)

    @property
    def snapshot(self) -> Snapshot:
        """The host that was checked."""
        return self.report.families[0].judge.fib.snapshot

    def document(self) -> dict[str, Any]:
        """The check as the JSON value `hostrouting/check/3`."""
        return check_document(self.report, mode=self.config.route_overlap.mode, findings=self.findings)

    def commands(self) -> tuple[str, ...]:
        """The commands that repair it until the next boot."""
        return repair_commands(route for family in self.report.families for route in family.repair.resolved)

    def answer_lines(self) -> Iterator[Line]:
        """The verdict on each family, in one sentence."""
        for family in self.report.families:
            word = Painted(f"{family.verdict.upper()}:", _VERDICT_TONES.get(family.verdict, "warn"))
            yield line(word, f" {verdict_sentence(family)}")

    def evidence_lines(self) -> Iterator[Line]:
        """What escapes, as a table for each family."""
        for family in self.report.families:
            if family.escapes:
                yield line()
                yield from _escape_table(family)

    def repair_lines(self, question: str) -> Iterator[Line]:
        """The repair until the next boot, and permanently; `question` are the arguments that ask the same again."""
        commands = self.commands()
        if not commands:
            return
        yield line()
        if len(commands) <= SHOWN:
            yield line(Painted("Until the next boot", "strong"), self._as_root)
            yield from (line("  ", command) for command in commands)
        yield line(Painted("Permanently", "strong"), self._as_root)
        yield line(f"  hostrouting repair {question} --as-config | hostrouting apply --config -")

    def finding_lines(self) -> Iterator[Line]:
        """What no route can repair, what limits the verdict, and what is wrong with the rules."""
        yield from below(named_lines([finding for finding in self.findings if finding.name not in _SHOWN_ABOVE]))

    def allowing_lines(self) -> Iterator[Line]:
        """How to allow what escapes, if that may be intended."""
        remedies = [finding.remedy for finding in self.findings if finding.name in ESCAPES and finding.remedy]
        yield from below(line(f"{remedy[:1].upper()}{remedy[1:]}") for remedy in dict.fromkeys(remedies))

    def page(self, question: str) -> Iterator[Line]:
        """Everything, in the order of the module's docstring."""
        yield from self.answer_lines()
        yield from self.evidence_lines()
        yield from self.repair_lines(question)
        yield from self.finding_lines()
        yield from self.allowing_lines()


def make_check(arguments: argparse.Namespace, host: Callable[[], Host]) -> Check:
    """Make the check that the arguments ask for."""
    here = arguments.config is None and arguments.snapshot is None
    installed = installed_config(host()) if here else None
    config = expected_of(arguments, installed)
    saved = saved_snapshot(arguments)
    if saved is not None:
        report = check_snapshot(saved, config)
    else:
        with open_kernel(host) as kernel:
            report = check_host(kernel, config)
    check = Check(report, config, installed, is_saved=saved is not None)
    known_devices(arguments, check.snapshot)
    return check


def lasting_line(where: str = "the host") -> Line:
    """The line that points to `status`, for what a check of the routes cannot tell."""
    sentence = f"To see what is installed on {where}, and whether it survives a reboot: hostrouting status"
    return line(Painted(sentence, "soft"))


def repaired_config(check: Check, base: HostRoutingConfig) -> tuple[HostRoutingConfig, tuple[Finding, ...]]:
    """The configuration `base` with the check's CIDRs and the routes that repair the host once it is applied.

    An entry that cannot be added, because another program's route has its destination and metric, is left out; the
    findings name those.
    """
    section, wanted = base.route_overlap, check.config.route_overlap
    overlap = attrs.evolve(
        section,
        expected_cidrs=(*section.expected_cidrs, *wanted.expected_cidrs),
        expected_devs=wanted.expected_devs or section.expected_devs,
        mode=(section if section.cidrs else wanted).mode,
    )
    config = attrs.evolve(base, route_overlap=overlap)
    missing, conflicts = missing_routes(config, check.snapshot)
    left_out = {finding.target for finding in conflicts}
    kept = [route for route in wanted_routes_of(base.static_routes) if str(route.destination) not in left_out]
    keys = {route.key for route in missing}
    routes = (*(route for route in kept if route.key not in keys), *missing)
    static = {"enabled": bool(routes), "routes": [route.to_mapping() for route in routes]}
    return attrs.evolve(config, static_routes=static), conflicts


def _escape_table(family: FamilyReport) -> Iterator[Line]:
    heads = ["escapes", "leaves by", "route", "table", "owner", "rule"]
    rows = [_row(escape) for escape in family.escapes[:SHOWN]]
    yield from capped(table(heads, rows), len(family.escapes))


def _row(escape: Escape) -> Sequence[Piece]:
    route, rule = escape.decision.route, escape.decision.rule
    where = ("", "", "") if route is None else (route.name, table_name(route.table), owner_of(route))
    way = Painted(", ".join(escape.devs) or escape.kind, "bad")
    return _range(escape), way, *where, "" if rule is None else str(rule.priority)


def _range(escape: Escape) -> str:
    """The range as CIDR blocks; as its first and last address if that would take too many blocks."""
    blocks = escape.prefixes
    if len(blocks) <= _BLOCKS:
        return " ".join(map(str, blocks))
    return extent(escape.cidr.family, escape.first, escape.last)
