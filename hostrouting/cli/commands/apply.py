"""`apply`: make this host what a configuration asks for, now and at every boot. Requires root.

The file is complete: what is installed and not in the file is removed. A file that takes away a route, a CIDR, the mode
STRICT, a gated unit or the guard is refused without --allow-removal. A running unit is not touched. If an address
escapes afterwards, the exit code is 1 in mode STRICT; in mode WARN it is only reported.
"""

from __future__ import annotations

import argparse

from hostrouting.boot.health import find_faults
from hostrouting.check.check import CheckReport
from hostrouting.cli.check import Check
from hostrouting.cli.output import Answer, finding_lines
from hostrouting.cli.running import run_task
from hostrouting.cli.source import GetHost, read_config
from hostrouting.errors import ConfigError, HostRoutingError, is_denied
from hostrouting.finding import Finding
from hostrouting.tasks.configure import Configure

ARGUMENTS = ("--config FILE", "--wait", "--allow-removal")


def run(arguments: argparse.Namespace, host: GetHost) -> Answer:
    """See the module."""
    config, here = read_config(arguments.config), host()
    task = Configure(config, host=here, wait=arguments.wait, allow_removal=arguments.allow_removal)
    outcome, done = run_task(task, here), "this host is as the configuration asks"
    # Both a result and a RouteOverlapError have the report of the check.
    ends = [*(node.result for node in outcome.report.walk()), *outcome.errors]
    reports = [report for end in ends if isinstance(report := getattr(end, "report", None), CheckReport)]
    check = Check.of(reports[0], config) if reports else None
    is_refused = any(isinstance(error, ConfigError) or is_denied(error) for error in outcome.errors)
    try:  # after a failure, what lets units start unchecked; after a refusal, another configuration is installed
        findings = () if is_refused else find_faults(here, config)
        findings = tuple(finding for finding in findings if outcome.report.ok or finding.name == "gate-open")
    except HostRoutingError as error:
        findings = (Finding("not-known", "warning", f"whether units are held back is not known: {error}"),)
    more = {"findings": [finding.to_mapping() for finding in findings], "check": check and check.document()}
    lines = [*outcome.lines(done, done), *finding_lines(findings), *(check.lines() if check else ())]
    document = {"schema": "hostrouting/apply/4", **outcome.document(), **more}
    return Answer(outcome.code, document, lines, check and check.report)
