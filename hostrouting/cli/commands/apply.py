"""`apply`: make this host what a configuration asks for, now and at every boot. Requires root.

The file is complete: what is installed and not in the file is removed. A file that takes away a route, a CIDR, the mode
STRICT, a gated unit or the guard is refused without --allow-removal. A running unit is not touched. If an address
escapes afterwards, the exit code is 1 in mode STRICT; in mode WARN it is only reported. If units start unchecked,
the answer says so.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from typing import TYPE_CHECKING

from hostrouting.boot.health import find_faults
from hostrouting.check.check import CheckReport
from hostrouting.cli.check import Check
from hostrouting.cli.output import Answer, finding_lines
from hostrouting.cli.running import run_task
from hostrouting.cli.source import GetHost, read_config
from hostrouting.errors import ConfigError, HostRoutingError
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.install import read_installed
from hostrouting.tasks.requirements import find_losses

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.finding import Finding
    from hostrouting.host.host import Host
    from hostrouting.tasks.install import Parts
    from hostrouting.tasks.results import Plan

ARGUMENTS = ("--config required", "--wait", "--allow-removal")


def run(arguments: argparse.Namespace, host: GetHost) -> Answer:
    """See the module."""
    config, here = read_config(arguments.config), host()
    if not arguments.allow_removal:
        _require_no_losses(here, config)
    kind = Configure if arguments.allow_removal else _WithoutLosses
    outcome = run_task(kind(config, host=here, wait=arguments.wait), here)
    # Both a result and a RouteOverlapError have the report of the check.
    ends = [*(node.result for node in outcome.report.walk()), *outcome.errors]
    reports = [report for end in ends if isinstance(report := getattr(end, "report", None), CheckReport)]
    check = Check.of(reports[0], config) if reports else None
    findings: list[Finding] = []
    with suppress(HostRoutingError):
        faults = [fault for fault in find_faults(here, config) if fault.name == "gate-open"]
        # After a failure, the remedy would be to apply.
        findings += faults if outcome.report.ok else [fault._replace(remedy="") for fault in faults]
    done = "this host is as the configuration asks"
    lines = [*outcome.lines(done, done), *finding_lines(findings), *(check.lines() if check else ())]
    more = {"findings": [finding.to_mapping() for finding in findings], "check": check and check.document()}
    document = {"schema": "hostrouting/apply/4", **outcome.document(), **more}
    return Answer(outcome.code, document, lines, check and check.report)


class _WithoutLosses(Configure):
    """Also under the lock, for which it may have waited: another run may have installed what must not go."""

    def possible_plan(self, parts: Parts) -> Plan | None:
        """See Configure."""
        _require_no_losses(self.host, self.config)
        return super().possible_plan(parts)


def _require_no_losses(host: Host, config: HostRoutingConfig) -> None:
    if losses := tuple(find_losses(read_installed(host), config)):
        raise ConfigError(losses)
