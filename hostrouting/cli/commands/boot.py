"""`boot`: make one part of a pass, as a service at boot makes it.

The parts are the static routes, the table for probes, and the check with its marker. It waits up to
a minute for what may still come, such as a default route. Requires root. Exit code 0: the part is
right. 1: it is not.
"""

import argparse

from hostrouting.cli.output import Answer
from hostrouting.host.host import Host
from hostrouting.node.boot import run_service

ARGUMENTS = ("part",)


def run(arguments: argparse.Namespace, _host: Host) -> Answer:
    return Answer(run_service(arguments.part), {}, ())
