"""`apply`: make this host what a configuration asks for, now and at every boot.

Requires root. The file describes the whole installation: anything installed that it does not have is removed. A file
that takes away a route, a CIDR, the mode STRICT, a gated unit or the guard is refused without --allow-removal. A
running unit is not touched. If an address escapes afterwards, the exit code is 1 in mode STRICT, and 0 in mode WARN.
"""

import argparse
from contextlib import suppress

from hostrouting.boot.health import find_faults
from hostrouting.check.check import CheckReport
from hostrouting.cli.check import Check
from hostrouting.cli.output import Answer, finding_lines
from hostrouting.cli.running import run_task
from hostrouting.cli.source import read_config, read_host
from hostrouting.config.settings import gated_units
from hostrouting.errors import HostRoutingError
from hostrouting.finding import Finding
from hostrouting.host.host import Host
from hostrouting.routes.plan import plan_static_routes, reply_routes
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.install import readable_installed

ARGUMENTS = ("--config required", "--wait", "--allow-removal")


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    config = read_config(arguments.config)
    outcome = run_task(Configure(config, host=host, wait=arguments.wait, allow_removal=arguments.allow_removal), host)
    # A result and a RouteOverlapError both contain the report of the check.
    ends = [*(node.result for node in outcome.report.walk()), *outcome.errors]
    reports = [report for end in ends if isinstance(report := getattr(end, "report", None), CheckReport)]
    check = Check.of(reports[0], config) if reports else None
    findings, installed = list[Finding](), readable_installed(host)
    # On a new host, the units of a refused file start unchecked; on other hosts, the installed configuration is judged.
    judged = installed if installed and gated_units(installed) else config
    with suppress(HostRoutingError):
        findings += plan_static_routes(config, read_host(host)).left_out if reply_routes(config) else ()
    with suppress(HostRoutingError):
        findings += [fault for fault in find_faults(host, judged) if fault.name == "gate-open"]
    if not outcome.report.ok:  # the remedy would be to apply
        findings = [finding._replace(remedy="") for finding in findings]
    is_whole = all(finding.name == "gate-open" for finding in findings)
    done = f"this host matches the configuration{'' if is_whole else ', except for the route for replies to probes'}"
    lines = [*outcome.lines(done, done), *finding_lines(findings), *(check.lines() if check else ())]
    more = {"findings": [finding.to_mapping() for finding in findings], "check": check and check.document()}
    document = {"schema": "hostrouting/apply/4", **outcome.document(), **more}
    return Answer(outcome.code, document, lines, check and check.report)
