"""`apply`: make this host what a configuration asks for, now and at every boot.

Requires root. The file describes the whole installation: anything installed that it does not have
is removed. A file that takes away a route, a CIDR, the mode STRICT, a gated unit or the guard is
refused without --allow-removal. A running unit is not touched. If an address escapes afterwards,
the exit code is 1 in mode STRICT, and 0 in mode WARN.
"""

import argparse
from contextlib import suppress

from hostrouting.boot.health import find_faults
from hostrouting.check.check import CheckReport
from hostrouting.cli.check import Check, with_gate_command
from hostrouting.cli.output import Answer, finding_lines
from hostrouting.cli.running import Run, run_task
from hostrouting.cli.source import read_config, read_host
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import HostRoutingError
from hostrouting.finding import Finding
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.routes.plan import RoutePlan, plan_static_routes, reply_routes
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.install import readable_installed
from hostrouting.tasks.obstacles import find_ungated

ARGUMENTS = ("--config required", "--wait", "--allow-removal", "--gate")


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    config = read_config(arguments.config, arguments.gate)
    outcome = run_task(
        Configure(config, host=host, wait=arguments.wait, allow_removal=arguments.allow_removal),
        host,
    )
    report = _report_of(outcome)
    check = None if report is None else Check.of(report, config, host)
    routes = _routes_now(config, host)
    findings = [*routes.left_out, *routes.stays, *_of_the_gate(config, host)]
    if not outcome.report.ok:  # the remedy would be to apply
        findings = [finding._replace(remedy="") for finding in findings]
    done = "this host matches the configuration"
    if routes.left_out:
        done += ", except for the route for replies to probes"
    lines = [
        *outcome.lines(done, done),
        *finding_lines(findings),
        *(check.lines() if check else ()),
    ]
    more = {
        "findings": [finding.to_mapping() for finding in findings],
        "check": check and check.document(),
    }
    document = {"schema": "hostrouting/apply/4", **outcome.document(), **more}
    return Answer(outcome.code, document, lines, report)


def _report_of(outcome: Run) -> CheckReport | None:
    """The report of the check; a result and a RouteOverlapError both contain it."""
    for end in (*(node.result for node in outcome.report.walk()), *outcome.errors):
        report = getattr(end, "report", None)
        if isinstance(report, CheckReport):
            return report
    return None


def _routes_now(config: HostRoutingConfig, host: Host) -> RoutePlan:
    """The plan of the routes now: what is not installed, and what would wait after a reboot."""
    with suppress(HostRoutingError):
        if config.static_routes.routes or reply_routes(config):
            return plan_static_routes(config, read_host(host))
    return RoutePlan()


def _of_the_gate(config: HostRoutingConfig, host: Host) -> list[Finding]:
    """What lets units start unchecked.

    On a new host, the units of a refused file start unchecked. On other hosts, the installed
    configuration is judged.
    """
    installed = readable_installed(host)
    judged = installed if installed and gated_units(installed) else config
    findings: list[Finding] = []
    with suppress(HostRoutingError):
        findings += [fault for fault in find_faults(host, judged) if fault.name == "gate-open"]
    again = f"hostrouting apply --config {HostLayout.config_path}"
    findings += with_gate_command(find_ungated(judged, host), again)
    return findings
