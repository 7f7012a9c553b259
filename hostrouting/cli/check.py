"""A check as lines: the verdict first, what escapes, the repair now and permanently, its limits, how to allow it last.

Here: what check, repair, plan, apply and status have in common. Not here: the sentences (`check.report`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from hostrouting.check.check import check_host, check_snapshot, missing_routes
from hostrouting.check.report import check_document, check_findings, repair_commands, verdict_sentence
from hostrouting.cli.failure import VERDICT_CODES
from hostrouting.cli.output import capped, finding_lines
from hostrouting.cli.source import GetHost, open_kernel, read_saved
from hostrouting.finding import ESCAPES
from hostrouting.host.name_servers import read_name_servers
from hostrouting.routes.uplink import wanted_routes_of

if TYPE_CHECKING:
    from hostrouting.check.check import CheckReport
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.finding import Finding
    from hostrouting.model.snapshot import Snapshot


class Check(NamedTuple):
    """The report of a check with its findings."""

    report: CheckReport
    mode: str
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, report: CheckReport, config: HostRoutingConfig) -> Check:
        """The report of a check by this configuration."""
        mode = config.route_overlap.mode
        return cls(report, mode, check_findings(report, mode=mode))

    @property
    def snapshot(self) -> Snapshot:
        """The host that was checked."""
        return self.report.families[0].judge.fib.snapshot

    @property
    def code(self) -> int:
        """The exit code."""
        return VERDICT_CODES[self.report.verdict]

    def document(self) -> dict[str, Any]:
        """The JSON value `hostrouting/check/3`."""
        return check_document(self.report, mode=self.mode, findings=self.findings)

    def commands(self) -> tuple[str, ...]:
        """The commands that repair it until the next boot."""
        return repair_commands(route for family in self.report.families for route in family.repair.resolved)

    def verdict_lines(self) -> Iterator[str]:
        """The verdict on each family."""
        yield from (f"{family.verdict.upper()}: {verdict_sentence(family)}" for family in self.report.families)

    def lines(self, question: str = "", *, is_saved: bool = False) -> Iterator[str]:
        """The whole page; `question` are the arguments that ask the same on the host, none for the installed check.

        With `is_saved`, the host is not this one: the commands are to be typed there.
        """
        yield from self.verdict_lines()
        escapes = [finding for finding in self.findings if finding.name in ESCAPES]
        yield from capped([f"  {finding.sentence}" for finding in escapes])
        if commands := self.commands():
            there = ", on that host as root:" if is_saved else ", as root:"
            yield from ("", f"Until the next boot{there}")
            yield from capped([f"  {command}" for command in commands])
            yield f"Permanently{there}"
            yield f"  hostrouting repair {question}{question and ' '}| hostrouting apply --config -"
        others = [finding for finding in self.findings if finding.name not in (*ESCAPES, "action")]
        verdicts = "\n".join(self.verdict_lines())
        said = [finding for finding in others if finding.sentence in verdicts or finding.name == "no-default-route"]
        others = [finding for finding in others if finding not in said]
        yield from ("", *finding_lines(others)) if others else ()
        remedies = dict.fromkeys(finding.remedy for finding in (*said, *escapes) if finding.remedy)
        yield from ("", *(f"{remedy[0].upper()}{remedy[1:]}" for remedy in remedies)) if remedies else ()


def make_check(arguments: argparse.Namespace, config: HostRoutingConfig, host: GetHost) -> Check:
    """Check the snapshot that the arguments name, or this host."""
    if arguments.snapshot is not None:
        return Check.of(check_snapshot(read_saved(arguments.snapshot), config), config)
    with open_kernel(host) as kernel:
        return Check.of(check_host(kernel, config, name_servers=read_name_servers(host())), config)


def repaired_config(
    check: Check, wanted: HostRoutingConfig, base: HostRoutingConfig
) -> tuple[HostRoutingConfig, tuple[Finding, ...]]:
    """The configuration `base` with what is `wanted` of the check, and with the routes that repair the host.

    A route whose destination and metric another program holds is left out; the findings name those.
    """
    section, asked = base.route_overlap, wanted.route_overlap
    overlap = attrs.evolve(
        section,
        expected_cidrs=tuple(dict.fromkeys((*section.expected_cidrs, *asked.expected_cidrs))),
        expected_devs=asked.expected_devs or section.expected_devs,
        mode=(section if section.cidrs else asked).mode,
    )
    config = attrs.evolve(base, route_overlap=overlap)
    missing, conflicts = missing_routes(config, check.snapshot)
    left_out, keys = {finding.target for finding in conflicts}, {route.key for route in missing}
    kept = [route for route in wanted_routes_of(base.static_routes) if str(route.destination) not in left_out]
    routes = (*(route for route in kept if route.key not in keys), *missing)
    static = {"enabled": bool(routes), "routes": [route.to_mapping() for route in routes]}
    return attrs.evolve(config, static_routes=static), conflicts
