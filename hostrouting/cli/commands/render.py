"""`render`: the files that apply would write on the host, for an image.

They are written below the directory where the host's image is mounted, and files of an earlier
configuration are removed there; this requires root. The running kernel and systemd are not changed:
the files take effect when the image boots.
"""

import argparse
import os

from hostrouting.cli.output import Answer
from hostrouting.cli.running import run_task
from hostrouting.cli.source import as_whom, bad_input, read_config, typed_name
from hostrouting.host.host import Host
from hostrouting.lines import finding_lines
from hostrouting.tasks.configure import Configure

ARGUMENTS = ("--config", "--root")
REQUIRED = ARGUMENTS


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    config = read_config(arguments.config)
    _require_image(arguments, host)
    root = os.path.abspath(arguments.root)
    task = Configure(config, host=Host.offline(root, rights=host.rights))
    findings = task.plan().findings  # such as the programs that the image lacks
    outcome = run_task(task, task.host)
    done = f"the files are in {root}, and take effect when the image boots"
    who = as_whom(arguments)
    lines = [*outcome.lines(who, done, f"the image in {root} matches the configuration")]
    if outcome.report.ok:
        lines += finding_lines(findings, who)
    document = {"schema": "hostrouting/render/2", "root": root, **outcome.document()}
    return Answer(outcome.code, document, lines)


def _require_image(arguments: argparse.Namespace, host: Host) -> None:
    """Raise ConfigError if this user is not root, or --root is not an image."""
    root = arguments.root
    if not host.rights().is_root:
        rule = "can be written only by root: another user would own files that root runs at boot"
        raise bad_input("--root", rule, "type the same as root", typed_name(root))
    if not os.path.isdir(root):
        raise bad_input(
            "--root", "is not a directory", "mount the image there first", typed_name(root)
        )
    if os.path.samefile(root, "/") and host.running_manager is not None:
        rule = "is this host, and systemd is running on it"
        raise bad_input("--root", rule, "type apply instead of render", root)
