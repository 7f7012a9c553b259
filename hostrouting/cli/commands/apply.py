"""`apply`: make this host what a configuration asks for, now and at every boot. Requires root.

The file is complete: what is installed and not in the file is removed. A running unit is not touched. If an address
escapes afterwards, the exit code is 1 in mode STRICT; in mode WARN it is only reported.
"""

from __future__ import annotations

import argparse

from hostrouting.check.check import CheckReport
from hostrouting.cli.check import Check
from hostrouting.cli.output import Answer
from hostrouting.cli.running import run_task
from hostrouting.cli.source import GetHost, read_config
from hostrouting.tasks.configure import Configure

ARGUMENTS = ("--config required", "--wait")


def run(arguments: argparse.Namespace, host: GetHost) -> Answer:
    """See the module."""
    config, here = read_config(arguments.config), host()
    outcome = run_task(Configure(config, host=here, wait=arguments.wait), here)
    # Both a result and a RouteOverlapError have the report of the check.
    ends = [*(node.result for node in outcome.report.walk()), *outcome.errors]
    reports = [report for end in ends if isinstance(report := getattr(end, "report", None), CheckReport)]
    check = Check.of(reports[0], config) if reports else None
    done = "this host is as the configuration asks"
    lines = [*outcome.lines(done, done), *(check.lines() if check else ())]
    document = {"schema": "hostrouting/apply/4", **outcome.document(), "check": check and check.document()}
    return Answer(outcome.code, document, lines, check and check.report)
