"""`status`: whether this host matches the installed configuration: files, routes, units, and the
verdict now.

The mode, the gated units and the guard follow the first line, and what the journal has about a
start that was refused. With a unit, only that one. A part of the host that does not answer, and a
config.json that cannot be used, hide no other part.

Exit codes, of which the first that is true wins. 2: config.json cannot be used. 1: something
differs, a unit can start unchecked or cannot start, routes that were added by hand are lost at the
next boot, no result of a check can be written, or an address escapes now. 3: the verdict is
undecided, or a part of the host does not answer. With --metrics, which prints the text format of
Prometheus, it is 0: the metrics say it.
"""

import argparse

from hostrouting.cli.metrics import metric_lines
from hostrouting.cli.output import Answer
from hostrouting.cli.source import bad_input
from hostrouting.cli.status_page import status_lines
from hostrouting.codes import FINE
from hostrouting.gate.unit_names import with_type
from hostrouting.headline import headline_of
from hostrouting.host.host import Host
from hostrouting.status import Status, find_status

ARGUMENTS = ("unit", "--metrics")


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    unit = arguments.unit
    if arguments.metrics and (arguments.json or unit is not None):
        raise bad_input("--metrics", "cannot be used with --json or UNIT", "leave these out")
    if unit is not None:
        unit = with_type(unit)
    status = find_status(host, unit)
    if arguments.metrics:
        return Answer(FINE, {}, metric_lines(status))
    return Answer(status.code, _document(status), status_lines(status), status.report)


def _document(status: Status) -> dict[str, object]:
    return {
        "schema": "hostrouting/status/6",
        "installed": status.state != "nothing",
        "state": status.state,
        "headline": headline_of(status),
        "command": status.command or None,
        **status.plan.to_mapping(),
        "check": status.check and status.check.document(),
        "mode": status.mode or None,
        "units": [state.to_mapping() for state in status.units],
        "guard": status.guard or None,
        "lastCheck": status.last_check or None,
        "findings": [finding.to_mapping() for finding in status.findings],
    }
