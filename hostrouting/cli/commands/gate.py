"""`gate`: decide whether a gated unit may start, as its drop-in has it decided before each start.

By hand, it shows what the next start of the unit would meet. All of a start is done except for the
unit itself: the static routes are set, the table for probes is loaded, the check leaves its marker,
and the scripts of other programs in /etc/hostrouting/gate.d run. Whether an operator has opened the
gate is not looked at. Requires root. Exit code 0: the unit may start. 1: it may not.
"""

import argparse
import os

from hostrouting.cli.output import Answer
from hostrouting.codes import FINE, PROBLEM
from hostrouting.host.host import Host
from hostrouting.host.systemd import unit_name
from hostrouting.node.start import decide_start
from hostrouting.release import PASSED

ARGUMENTS = ("starting_unit",)


def run(arguments: argparse.Namespace, _host: Host) -> Answer:
    os.environ.pop("INVOCATION_ID", None)  # that of a terminal, for example
    status = decide_start(unit_name(arguments.starting_unit))
    return Answer(FINE if status == PASSED else PROBLEM, {}, ())
