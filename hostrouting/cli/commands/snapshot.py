"""`snapshot`: everything on this host that an answer can depend on, for check, explain, repair and plan elsewhere."""

import argparse
import json

from hostrouting.cli.output import FINE, Answer
from hostrouting.cli.source import read_host
from hostrouting.host.host import Host


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    text = read_host(host).to_json()
    return Answer(FINE, json.loads(text) if arguments.json else {}, text.splitlines())
