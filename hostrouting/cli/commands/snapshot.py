"""`snapshot`: everything on this host that an answer can depend on, for check, explain, repair and plan elsewhere."""

from __future__ import annotations

import argparse
import json

from hostrouting.cli.output import FINE, Answer
from hostrouting.cli.source import GetHost, open_kernel
from hostrouting.host.name_servers import read_name_servers


def run(arguments: argparse.Namespace, host: GetHost) -> Answer:
    """See the module."""
    with open_kernel(host) as kernel:
        text = kernel.snapshot()._replace(name_servers=read_name_servers(host())).to_json()
    return Answer(FINE, json.loads(text) if arguments.json else {}, text.splitlines())
