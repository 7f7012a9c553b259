"""`apply`: make this host what a configuration asks for, now and at every boot.

Requires root. The file describes the whole installation: afterwards, this host has what the file
says, and nothing else of hostrouting. A file that takes away protection, such as a CIDR or the mode
STRICT, is refused without --allow-removal. A running unit is not touched. In mode STRICT, the exit
code is 1 if an address escapes afterwards, or if a drop-in lets a gated unit start unchecked; in
mode WARN it is 0 then. It is 3 if a default route or a device is still missing after --wait.

With --confirm, the earlier configuration is installed again if it fails, or if nobody presses Enter
in time.
"""

import argparse

from hostrouting.cli.confirming import is_confirmed, require_terminal
from hostrouting.cli.output import Page
from hostrouting.cli.running import TaskRun, run_task
from hostrouting.codes import PROBLEM
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.host import Host
from hostrouting.install.installed import read_installed
from hostrouting.status import find_status, status_lines
from hostrouting.tasks.configure import Configure


def run(arguments: argparse.Namespace, host: Host) -> Page:
    config = HostRoutingConfig.load(arguments.config)
    task = Configure(config, host=host, wait=arguments.wait, allow_removal=arguments.allow_removal)
    undo_lines: list[str] = []
    if arguments.confirm is None:
        outcome = run_task(task, host)
    else:
        outcome, undo_lines = _run_confirmed(task, host, arguments.confirm)
    status = find_status(host)
    lines = outcome.lines("this host matches the configuration", shown_below=status.findings)
    document = {
        "schema": "hostrouting/apply/1",
        **outcome.document(),
        "findings": [finding.to_mapping() for finding in status.findings],
    }
    return Page(outcome.code, document, [*lines, *undo_lines, "", *status_lines(status)])


def _run_confirmed(task: Configure, host: Host, seconds: float) -> tuple[TaskRun, list[str]]:
    """Apply, and install the former configuration again unless Enter is pressed in time, also after
    a failure. Return the outcome of the apply, and the lines about the second installation.
    """
    former = read_installed(host)  # first: if it cannot be read, nothing may be changed
    require_terminal()
    outcome = run_task(task, host)
    if not outcome.effects.changed:
        return outcome, []
    if outcome.report.ok and is_confirmed(seconds, outcome.lines("for now")):
        return outcome, []
    undo = run_task(Configure(former, host=host, allow_removal=True), host)
    lines = [*undo.lines()]
    if undo.report.ok:
        lines = ["TAKEN BACK: what was installed before is installed again"]
    # A success that nobody has confirmed counts as a problem.
    return outcome._replace(code=outcome.code or PROBLEM), lines
