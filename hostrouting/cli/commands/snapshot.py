"""`snapshot`: everything on this host that an answer can depend on, for check, explain, repair and
plan elsewhere.

The output is JSON, also without --json, which only indents it. Nothing is changed.
"""

import argparse
import json

from hostrouting.cli.output import Answer
from hostrouting.codes import FINE
from hostrouting.host.host import Host


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    text = host.take_snapshot().to_json()
    document: dict[str, object] = {}
    if arguments.json:  # of a host with many routes, the text takes time to read
        document = json.loads(text)
    return Answer(FINE, document, [text])
