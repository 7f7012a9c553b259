"""`snapshot`: everything on this host that a verdict depends on, for check
and repair elsewhere.

The output is JSON. Nothing is changed.
"""

import argparse

from hostrouting.cli.output import Page
from hostrouting.codes import FINE
from hostrouting.host.host import Host


def run(_arguments: argparse.Namespace, host: Host) -> Page:
    # Print a snapshot of this host.
    return Page(FINE, {}, [host.take_snapshot().to_json()])
