"""`render`: the files that apply would write on the host, for an image.

They are written below the directory where the host's image is mounted, and
files of an earlier configuration are removed there; this requires root.
Without --allow-removal, what protects an image is not taken away, as by
apply. The running kernel and systemd are not changed: the files take effect
when the image boots.
"""

import argparse
import os

from hostrouting.cli.output import Page
from hostrouting.cli.running import run_task
from hostrouting.cli.source import bad_input
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.host import Host
from hostrouting.lines import finding_lines
from hostrouting.tasks.configure import Configure


def run(arguments: argparse.Namespace, _host: Host) -> Page:
    # Apply the configuration to the files of an image, which is mounted at --root.
    config = HostRoutingConfig.load(arguments.config)
    root = os.path.realpath(arguments.root)
    # `realpath` turns an empty text, as of a variable that is not set, into the current folder. So
    # test the text that was typed. The folder "/" is this host, not an image.
    if not os.path.isdir(arguments.root) or root == "/":
        raise bad_input(
            "--root",
            "is not the folder of an image",
            "mount the image there first",
            arguments.root,
        )
    task = Configure(config, host=Host.offline(root), allow_removal=arguments.allow_removal)
    outcome = run_task(task, task.host)
    lines = list(outcome.lines(f"the image in {root} matches the configuration"))
    if outcome.report.ok:
        # What the operator has to know all the same, such as that the image lacks Python.
        lines += finding_lines(outcome.effects.warnings)
    document = {"schema": "hostrouting/render/1", "root": root, **outcome.document()}
    return Page(outcome.code, document, lines)
