"""`render`: the files that apply would write on the host, for an image or an archive.

With --root, they are written below the directory where the host's image is mounted, and files of an
earlier configuration are removed there; this requires root. With --tar, they are written into an
archive, in which root owns them: unpack it in / of the host as root. Unpacking removes nothing from
the host, and the host needs no Python. The running kernel and systemd are not changed: the files
take effect at the next boot.
"""

import argparse
import os
import sys

from hostrouting.boot.archive import tar_of
from hostrouting.boot.files import files_of
from hostrouting.cli.output import Answer, finding_lines
from hostrouting.cli.running import run_task
from hostrouting.cli.source import bad_input, read_config, typed_name
from hostrouting.codes import FINE
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import HostError
from hostrouting.host.host import Host
from hostrouting.tasks.configure import Configure
from hostrouting.text import counted

ARGUMENTS = ("--config", "--root", "--tar")
REQUIRED = ("--config",)


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    config = read_config(arguments.config)
    if (arguments.root is None) == (arguments.tar is None):
        rule = "exactly one of them says where the files go"
        raise bad_input("--root, --tar", rule, "write --root DIR or --tar FILE")
    if arguments.tar is not None:
        return _write_archive(arguments, config)
    return _write_image(arguments, config, host)


def _write_archive(arguments: argparse.Namespace, config: HostRoutingConfig) -> Answer:
    files = files_of(config)
    archive = tar_of(files)
    document = {
        "schema": "hostrouting/render/2",
        "tar": arguments.tar,
        "ok": True,
        "files": {"write": [file.path for file in files], "remove": []},
    }
    if arguments.tar == "-":
        if arguments.json:
            raise bad_input("--json", "standard output is the archive", "leave one of them out")
        if sys.stdout is None:  # another answer still has its exit code; an archive would be lost
            raise bad_input("standard output", "is closed", "name a file: --tar FILE")
        return Answer(FINE, document, (), archive=archive)
    typed = typed_name(arguments.tar)
    try:
        with open(arguments.tar, "wb") as file:
            file.write(archive)
    except OSError as error:
        message = f"cannot write {typed}: {error.strerror}"
        raise HostError(message, what="file", target=arguments.tar) from error
    line = f"DONE: {counted(len(files), 'file')}; on the host, as root: tar -xpf {typed} -C /"
    return Answer(FINE, document, [line, *(f"  wrote {file.path}" for file in files)])


def _write_image(arguments: argparse.Namespace, config: HostRoutingConfig, host: Host) -> Answer:
    _require_image(arguments, host)
    root = os.path.abspath(arguments.root)
    task = Configure(config, host=Host.offline(root, rights=host.rights))
    findings = task.plan().findings  # such as the programs that the image lacks
    outcome = run_task(task, task.host)
    done = f"the files are in {root}, and take effect when the image boots"
    lines = [*outcome.lines(done, f"the image in {root} matches the configuration")]
    if outcome.report.ok:
        lines += finding_lines(findings)
    document = {"schema": "hostrouting/render/2", "root": root, **outcome.document()}
    return Answer(outcome.code, document, lines)


def _require_image(arguments: argparse.Namespace, host: Host) -> None:
    """Raise ConfigError if root cannot be written by this user, or is not an image."""
    root = arguments.root
    typed = typed_name(root)
    file = typed_name(arguments.config)
    if not host.rights().is_root:
        rule = "can be written only by root: another user would own files that root runs at boot"
        remedy = f"as root: hostrouting render --config {file} --root {typed}"
        raise bad_input("--root", rule, remedy, typed)
    if not os.path.isdir(root):
        raise bad_input("--root", "is not a directory", "mount the image there first", typed)
    if os.path.samefile(root, "/") and host.running_manager is not None:
        remedy = f"for this host: hostrouting apply --config {file}"
        raise bad_input("--root", "is this host, and systemd is running on it", remedy, typed)
