"""The result of a check: its configuration, what it found, and the lines that show it.

Here: the verdict in a sentence, the evidence as a table and maps, and which packets the verdict does not hold for. Not
here: what to do about it (`remedy`).
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hostrouting.cli.cidr_map import draw_map, segments_of
from hostrouting.cli.page import SHOWN, Painted, capped, counted, line, spoken, table
from hostrouting.cli.source import (
    expected_of,
    gateway_of,
    installed_config,
    known_devices,
    looked_at,
    quiet_context,
    start_command,
)
from hostrouting.examination import Examination, examine, examine_snapshot
from hostrouting.model import IPV4, Route, table_name
from hostrouting.packet_words import packets_line
from hostrouting.uplink import resolve_route
from hostrouting.wording import check_document, note_line, owner_name, prefix_name, range_name, suppressed_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from typing_extensions import Self

    from hostrouting.cli.page import Line, Piece, Style, Tone
    from hostrouting.config import HostRoutingConfig, RouteOverlapConfig
    from hostrouting.fib import Fib
    from hostrouting.host import Host
    from hostrouting.model import IP, Snapshot
    from hostrouting.overlap import Finding

__all__ = ["Check", "check_name", "make_check"]

_BLOCKS = 3  # a range of at most this many blocks is shown as blocks; others as first and last address
_MAPS = 3
_TONES: dict[str, Tone] = {"ok": "good", "overlap": "bad"}


class Check:
    """The configuration, the findings and the tables of a check; everything else is computed when it is needed."""

    def __init__(
        self,
        found: Examination,
        config: HostRoutingConfig,
        installed: HostRoutingConfig | None = None,
        *,
        start: str = "",
        gateway: IP | None = None,
    ) -> None:
        """Keep all of them.

        `installed` is the configuration in the boot files, `start` the command that installs its routes now, and
        `gateway` the router that was given for the repair.
        """
        self.gateway = gateway
        self.found, self.fib, self.config, self.installed, self.start = found, found.fib, config, installed, start

    def document(self) -> dict[str, Any]:
        """The check as the JSON value `hostrouting/check/1`; the notes include the kernel's contradicting answers."""
        document = check_document(self.found.report, self.found.repair, mode=self.config.route_overlap.mode)
        notes = [*document["notes"], *self.found.surprises, *([self.candidates] if self.candidates else [])]
        return {**document, "verdict": self.found.verdict, "notes": notes}

    @classmethod
    def of(cls, snapshot: Snapshot, config: HostRoutingConfig, *, gateway: IP | None = None) -> Self:
        """Check a snapshot, without asking a kernel."""
        return cls(examine_snapshot(snapshot, config, gateway=gateway), config, gateway=gateway)

    @property
    def allowed_devs(self) -> tuple[str, ...]:
        """The allowed devices that carry a part of the expected CIDRs."""
        report = self.found.report
        names = (
            it.label
            for cidr in report.cidrs
            for it in segments_of(self.fib, cidr, expected_devs=report.expected_devs, allowed_devs=report.allowed_devs)
            if it.judgement == "allowed"
        )
        return tuple(dict.fromkeys(names))

    @property
    def candidates(self) -> str:
        """A sentence: if there is no default route, the devices that are up and have an address.

        One of them may be the expected device. Devices that carry a part of the CIDRs rarely are, and come last.
        """
        report, snapshot = self.found.report, self.fib.snapshot
        if report.verdict != "no-default-route":
            return ""
        first: list[str] = []
        last: list[str] = []
        for link in snapshot.links:
            own = [it for it in snapshot.addresses if it.dev == link.name and it.ip.version == IPV4]
            lenient = any(fnmatchcase(link.name, pattern) for pattern in report.allowed_devs)
            if not own or not link.up or lenient or link.name == "lo":
                continue
            inside = any(it.ip in cidr for it in own for cidr in report.cidrs)
            facts = [f"{own[0].ip}/{own[0].length}", *(["InfiniBand"] if link.infiniband else [])]
            facts += [f"in {spoken([str(it) for it in report.cidrs])}"] if inside else []
            (last if inside or link.infiniband else first).append(f"{link.name} ({', '.join(facts)})")
        found = [*first, *last]
        if not found:
            return "no device is up and has an IPv4 address"
        return f"the device may be {spoken(found, most=SHOWN, last='or')}"

    @property
    def repair_routes(self) -> tuple[Route, ...]:
        """The routes of the repair, with device and gateway filled in."""
        wishes = self.found.repair.routes
        resolved = [resolve_route(wish, self.fib, protocol=self.config.protocol) for wish in wishes]
        return tuple(it for it in resolved if isinstance(it, Route))

    @cached_property
    def repaired(self) -> Fib | None:
        """The host with the repair applied; None if there is no repair."""
        routes = self.repair_routes
        if not routes:
            return None
        keys = {route.key for route in routes}
        ours = [
            it
            for route in routes
            for it in self.fib.routes(route.prefix)
            if it.key in keys and it.protocol == self.config.protocol
        ]
        return self.fib.with_routes(routes, without=ours)

    def answer_line(self) -> Line:
        """The verdict in one sentence."""
        report, verdict = self.found.report, self.found.verdict
        cidrs, devs = spoken([str(cidr) for cidr in report.cidrs]), spoken(report.expected_devs, last="or")
        word = Painted(f"{verdict.upper()}:", _TONES.get(verdict, "warn"))
        if verdict == "no-default-route":
            instead = f"; there is {self.found.instead}" if self.found.instead.startswith("a ") else ""
            return line(word, " there is no IPv4 default route, so no device is expected for ", cidrs, instead)
        if verdict == "overlap":
            return line(word, " ", _who_goes_where(self), f", not by {devs}")
        if verdict == "undecided":
            return line(word, f" a plain packet to {cidrs} leaves by {devs}; ", _others(self))
        lenient = spoken(self.allowed_devs)
        beside = f" or by {lenient} (allowed)" if lenient else ""
        return line(word, f" every address of {cidrs} leaves by {devs}{beside}, or belongs to this host")

    def evidence_lines(self, style: Style, *, now: str = "now") -> Iterator[Line]:
        """The findings as a table, and the CIDRs as maps."""
        report = self.found.report
        if report.findings:
            yield line()
            heads = ["escapes", "leaves by", "route", "table", "owner", "rule"]
            rows = [list(_row(finding)) for finding in report.findings[:SHOWN]]
            if len(report.cidrs) > 1:
                heads = ["cidr", *heads]
                rows = [[str(finding.cidr), *row] for finding, row in zip(report.findings, rows, strict=False)]
            yield from capped(table(heads, rows), len(report.findings))
        yield from _maps(self, style, now)

    def limit_lines(self, *, advice: str) -> Iterator[Line]:
        """The lines that say which packets the verdict holds for; without a default route only `advice`."""
        if self.found.verdict == "no-default-route":
            yield line()
            yield line(f"{self.candidates[0].upper()}{self.candidates[1:]}.")
            yield line(advice)
            return
        notes, surprises = [*map(note_line, self.found.report.notes)], self.found.surprises
        yield line()
        for it in self.found.report.suppressed:
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
            yield line(Painted("Holds for all IPv4 packets: no rule treats some of them differently.", "soft"))
        else:
            yield line("Does not hold for all packets:")
            yield from capped((line("  ", Painted(note, "warn")) for note in notes[:SHOWN]), len(notes))
        yield line(Painted("Only routing tables and rules are checked, not firewalls, IPsec or eBPF programs.", "soft"))


def make_check(arguments: argparse.Namespace, host: Callable[[], Host]) -> Check:
    """Make the check that the arguments ask for."""
    here = arguments.config is None and arguments.snapshot is None
    installed = installed_config(host()) if here else None
    start = "" if installed is None else start_command(host())
    config = expected_of(arguments, installed)
    gateway, wait = gateway_of(arguments, config), 0.0 if arguments.snapshot else arguments.wait
    with looked_at(arguments, host) as backend:
        found = examine(quiet_context(), backend, config, wait=wait, gateway=gateway)
        known_devices(arguments, found.fib.snapshot)
        return Check(found, config, installed, start=start, gateway=gateway)


def check_name(check: RouteOverlapConfig) -> str:
    """A phrase that names a check: its CIDRs, devices and mode."""
    devs = f" by {spoken(check.expected_devs, last='or')}" if check.expected_devs else ""
    return f"{spoken(tuple(map(str, check.expected_cidrs)))}{devs} in {check.mode}"


def _others(it: Check) -> str:
    """A clause about the packets that are treated differently: the first kind, and the number of other ranges."""
    notes = it.found.report.notes
    if not notes:
        return "but the route tables kept changing while they were read"
    note, decision = notes[0], notes[0].decision
    devs = spoken(decision.devs) or "an unknown device"
    fate = f"leave by {devs}" if decision.goes_out else f"do not leave ({decision.kind})"
    more = f", and {counted(len(notes) - 1, 'more range')} elsewhere" if len(notes) > 1 else ""
    return f"{packets_line(note.cases)} {fate}{more}"


def _who_goes_where(it: Check) -> str:
    findings = it.found.report.findings
    ways = list(dict.fromkeys(f"by {_devs(it)}" for it in findings if it.kind == "overlap"))
    nowhere = list(dict.fromkeys(it.kind.replace("-", " ") for it in findings if it.kind != "overlap"))
    ways += [f"by no device ({spoken(nowhere)})"] if nowhere else []
    cidrs = list(dict.fromkeys(finding.cidr for finding in findings))
    whole = all(finding.first == finding.cidr.first and finding.last == finding.cidr.last for finding in findings)
    part = "" if whole else "a part of " if len(findings) == 1 else f"{len(findings):,} ranges of "
    verb = "leave" if len(cidrs) > 1 or len(findings) > 1 else "leaves"
    return f"{part}{spoken([str(cidr) for cidr in cidrs])} {verb} {spoken(ways)}"


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


def _maps(it: Check, style: Style, now: str) -> Iterator[Line]:
    report = it.found.report
    chosen = list(dict.fromkeys(finding.cidr for finding in report.findings)) or list(report.cidrs)
    if not report.expected_devs:
        return
    hosts = [(now, it.fib)] + ([("repaired", after)] if (after := it.repaired) else [])
    for cidr in chosen[:_MAPS]:
        yield line()
        rows = [
            (name, segments_of(fib, cidr, expected_devs=report.expected_devs, allowed_devs=report.allowed_devs))
            for name, fib in hosts
        ]
        yield from draw_map(cidr, rows, style)
    if len(chosen) > _MAPS:
        yield line(Painted(f"… and {counted(len(chosen) - _MAPS, 'more CIDR')}, not drawn", "soft"))
