"""`status`: whether this host matches the installed configuration: files,
routes, units, and the verdict now.

The first line says how this host is: in force, or what is worst. Then come
the mode, the gated units and the guard, the routes, what else is wrong, what
apply would do, and what to type. With a unit, the first line and the exit
code are about that unit. A part of the host that does not answer hides no
other part. With a config.json that cannot be used, only the gate and the
units are shown.

Exit codes. 2: config.json cannot be used. 1: something differs, a unit can
start unchecked or cannot start, or an address escapes now. 3: something is
awaited: a route waits, the verdict is undecided, or a part of the host does
not answer. With a unit: 1 if it fails, was refused or skipped, or is masked,
2 if systemd does not know it, 3 if it waits.
"""

import argparse

from hostrouting.boot.program import version
from hostrouting.cli.output import Page
from hostrouting.cli.source import bad_input
from hostrouting.host.host import Host
from hostrouting.host.systemd import unit_name
from hostrouting.install.plan import Plan
from hostrouting.status import HostStatus, find_status, metric_lines, status_lines


def run(arguments: argparse.Namespace, host: Host) -> Page:
    # Print the status of this host, of one of its units, or as metrics.
    unit = arguments.unit
    if unit == "":
        raise bad_input("UNIT", "is empty", "name a unit")
    status = find_status(host, unit_name(unit) if unit else "")
    lines = metric_lines(status) if arguments.metrics else status_lines(status)
    return Page(status.code, _document(status), lines)


def _document(status: HostStatus) -> dict[str, object]:
    # The status as a JSON value, for --json.
    plan = status.plan or Plan()  # empty if it is not known what apply would do
    return {
        "schema": "hostrouting/status/1",
        "version": version(),
        "installed": status.state != "nothing",
        "state": status.state,
        "headline": next(status_lines(status)),  # if a unit was asked about, the line about it
        "command": status.command or None,
        **plan.to_mapping(),
        "check": status.check and status.check.document(),
        "mode": status.mode or None,
        "asked": [unit.to_mapping() for unit in status.asked],
        "units": [unit.to_mapping() for unit in status.units],
        "findings": [finding.to_mapping() for finding in status.findings],
    }
