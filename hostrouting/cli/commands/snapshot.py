"""`snapshot`: everything on this host that an answer can depend on, for check, explain, repair and
plan elsewhere.

The output is JSON. Nothing is changed.
"""

import argparse

from hostrouting.cli.output import Answer
from hostrouting.codes import FINE
from hostrouting.host.host import Host


def run(_arguments: argparse.Namespace, host: Host) -> Answer:
    return Answer(FINE, {}, [host.take_snapshot().to_json()])
