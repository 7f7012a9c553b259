"""A check as lines: the verdict first, what escapes, the repair now and permanently, its limits, how to allow it last.

check, repair, plan, apply and status share this. The sentences are those of `check.report`.
"""

import argparse
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from hostrouting.check.check import CheckReport, check_kernel, check_snapshot
from hostrouting.check.report import check_document, check_findings, repair_commands
from hostrouting.cli.output import CANNOT_DECIDE, PROBLEM, capped, finding_lines, worst_code
from hostrouting.cli.source import open_kernel, read_host
from hostrouting.config.settings import HostRoutingConfig, Mode
from hostrouting.finding import ESCAPES, Finding
from hostrouting.host.host import Host
from hostrouting.tasks.obstacles import find_networkd, find_probe_obstacles


class Check(NamedTuple):
    """The report of a check with its findings."""

    report: CheckReport
    mode: Mode
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, report: CheckReport, config: HostRoutingConfig, host: Host | None = None) -> "Check":
        """The report of a check against this configuration, of this host or of a snapshot."""
        mode, snapshot = config.route_overlap.mode, report.families[0].judge.fib.snapshot
        findings = [*check_findings(report, mode=mode), *find_probe_obstacles(config, snapshot)]
        if host is not None and (config.static_routes.enabled or report.routes):
            findings += find_networkd(config, host.files)
        return cls(report, mode, tuple(dict.fromkeys(findings)))

    def code(self, ignored: Collection[str] = ()) -> int:
        """The exit code of the verdict, as if there were no findings with these names."""
        doubts = {doubt for family in self.report.families for doubt in family.doubts}
        counting = [finding for finding in self.findings if finding.name not in ignored]
        escapes = (PROBLEM for finding in counting if finding.name in ESCAPES)
        open_ = (CANNOT_DECIDE for finding in counting if finding in doubts or finding.name == "no-default-route")
        return worst_code(*escapes, *open_)

    def document(self) -> dict[str, Any]:
        """The JSON value `hostrouting/check/3`."""
        return check_document(self.report, mode=self.mode, findings=self.findings)

    def lines(self, options: str = "", there: str = "as root", note: str = "") -> Iterator[str]:
        """The whole page; the line of the repair gets these options, says who types it (`there`), and has a note."""
        yield from (verdicts := [*map(str, self.report.families)])
        findings = [finding._replace(remedy=finding.remedy.replace("as root", there)) for finding in self.findings]
        escapes = [finding for finding in findings if finding.name in ESCAPES]
        yield from capped([f"  {finding.sentence}" for finding in escapes])
        costs = [finding for finding in findings if finding.name in {"unsafe", "repair-cost"}]
        yield from ("", *finding_lines(costs)) if costs else ()
        if commands := repair_commands(self.report.resolved):
            part = " (repairs only a part)" if any(finding.name == "unsafe" for finding in findings) else ""
            yield from ("", f"Until the next boot, {there}{part}:", *capped([f"  {command}" for command in commands]))
            yield from (f"Permanently, {there}{note}:", f"  hostrouting repair{options} | hostrouting apply --config -")
        others, remedies = [], dict.fromkeys(finding.remedy for finding in escapes)
        for finding in findings:
            if finding.name == "no-default-route" or any(finding.sentence in verdict for verdict in verdicts):
                remedies[finding.remedy] = None  # the verdict has the sentence
            elif finding.name not in (*ESCAPES, "action", "unsafe", "repair-cost"):
                others.append(finding)
        yield from ("", *finding_lines(others)) if others else ()
        last = [f"{remedy[0].upper()}{remedy[1:]}" for remedy in remedies if remedy]
        yield from ("", *capped(last)) if last else ()


def make_check(config: HostRoutingConfig, host: Host, saved: str | None = None) -> "Check":
    """Check this host, or the one in a saved snapshot."""
    if saved is not None:
        return Check.of(check_snapshot(read_host(host, saved), config), config)
    with open_kernel(host) as kernel:
        return Check.of(check_kernel(kernel, config, name_servers=host.name_servers), config, host)


def code_with(arguments: argparse.Namespace, code: int, findings: Iterable[Finding]) -> int:
    """The exit code, which is 1 if there is a warning, and --fail-on asks for that."""
    counting = (finding for finding in findings if finding.name not in arguments.ignore)
    return PROBLEM if arguments.fail_on and any(finding.severity != "note" for finding in counting) else code
