"""`snapshot`: everything on this host that an answer can depend on, for check, explain, repair and
plan elsewhere.

The output is JSON, also without --json, which only indents it. Nothing is changed.
"""

import argparse
import json
import sys

from hostrouting.cli.output import Answer
from hostrouting.cli.source import bad_input
from hostrouting.codes import FINE
from hostrouting.host.host import Host
from hostrouting.model.snapshot import SAVE


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    if sys.stdout is None:  # other answers have an exit code; this one would be lost
        raise bad_input("standard output", "is closed", SAVE)
    text = host.take_snapshot().to_json()
    document: dict[str, object] = {}
    if arguments.json:  # of a host with many routes, the text takes time to read
        document = json.loads(text)
    return Answer(FINE, document, [text])
