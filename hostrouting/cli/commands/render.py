"""`render`: the files that apply would write on the host, below the directory where the host's
image is mounted.

Requires root. The running kernel and systemd are not changed: the files take effect when the image
boots.
"""

import argparse
import os

from hostrouting.cli.output import Answer, finding_lines
from hostrouting.cli.running import run_task
from hostrouting.cli.source import bad_input, read_config, typed_name
from hostrouting.host.host import Host
from hostrouting.tasks.configure import Configure

ARGUMENTS = ("--config required", "--root")


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    config, root = read_config(arguments.config), os.path.abspath(arguments.root)
    if not host.rights().is_root:
        rule = "can be written only by root: another user would own files that root runs at boot"
        command = (
            f"hostrouting render --config {typed_name(arguments.config)} --root "
            f"{typed_name(arguments.root)}"
        )
        raise bad_input("--root", rule, f"as root: {command}", typed_name(arguments.root))
    if not os.path.isdir(arguments.root):
        raise bad_input(
            "--root",
            "is not a directory",
            "mount the image there first",
            typed_name(arguments.root),
        )
    if os.path.samefile(root, "/") and host.running_manager is not None:
        remedy = f"for this host: hostrouting apply --config {typed_name(arguments.config)}"
        raise bad_input(
            "--root",
            "is this host, and systemd is running on it",
            remedy,
            typed_name(arguments.root),
        )
    task = Configure(config, host=Host.offline(root, rights=host.rights))
    findings = task.plan().findings
    outcome = run_task(task, task.host)
    done = f"the files are in {root}, and take effect when the image boots"
    nothing = f"the image in {root} matches the configuration"
    lines = [*outcome.lines(done, nothing), *(finding_lines(findings) if outcome.report.ok else ())]
    return Answer(
        outcome.code, {"schema": "hostrouting/render/2", "root": root, **outcome.document()}, lines
    )
