"""`guard`: make the routing right again whenever something changes it, as the guard does.

It runs until a signal ends it. Requires root.
"""

import argparse

from hostrouting.cli.output import Answer
from hostrouting.host.host import Host
from hostrouting.node.guard import run_guard


def run(_arguments: argparse.Namespace, _host: Host) -> Answer:
    return Answer(run_guard(), {}, ())
