"""`render`: the boot files of a configuration, written into an image, or as a document that a new node reads.

A node without a package manager and without Python gets its files from such a document. Ignition writes them before the
first boot, cloud-init during it. A document lists what `render` writes into an empty image.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hostrouting.cli.changes import Run, run_task
from hostrouting.cli.command import Command, Reply, config_option, wait_option
from hostrouting.cli.failure import errors_in
from hostrouting.cli.source import config_of, wait_of
from hostrouting.errors import ConfigError, Fault
from hostrouting.host.host import Host
from hostrouting.tasks.configure import Configure, installed_tasks

if TYPE_CHECKING:
    import argparse

    from hostrouting.cli.output import Line


def _options(parser: argparse.ArgumentParser) -> None:
    config_option(parser, required=True)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--root", metavar="DIR", help="where the image is mounted")
    where.add_argument("--ignition", action="store_true", help="print a configuration for Ignition 3.4 instead")
    where.add_argument("--cloud-init", action="store_true", help="print user data for cloud-init instead")
    wait_option(parser, "how long the boot scripts wait", installs=True)


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:

    if arguments.root is None:
        return _for_a_new_node(arguments)
    config, root = config_of(arguments), os.path.abspath(arguments.root)
    if not os.path.isdir(root):
        raise ConfigError([Fault("--root", repr(arguments.root), "is not a directory", "mount the image there first")])
    if os.path.samefile(root, "/") and (manager := host().manager) is not None and manager.is_running():
        rule = "is this host, and systemd is running on it"
        remedy = (
            f"name the directory of a mounted image; on this host run: hostrouting apply --config {arguments.config}"
        )
        raise ConfigError([Fault("--root", repr(arguments.root), rule, remedy)])
    image = Host.offline(root)
    configure = Configure(config, host=image, wait=wait_of(arguments, image), tasks=installed_tasks())
    run = run_task(configure, image, quietly=True)
    return Reply(run.code, lambda: _document(run, root), lambda: _page(run, root), failed=run.failed)


def _for_a_new_node(arguments: argparse.Namespace) -> Reply:
    """The document for a new node, rendered into an empty image; or what failed."""
    with tempfile.TemporaryDirectory() as root:
        image = Host.offline(root)
        configure = Configure(config_of(arguments), host=image, wait=wait_of(arguments, image), tasks=installed_tasks())
        run = run_task(configure, image, quietly=True)
        for failure in run.failed.failures if run.failed else ():
            raise errors_in(failure.error)[0]
        text = (_ignition if arguments.ignition else _cloud_init)(*_read(root, run.wrote))
    return Reply(run.code, lambda: text)


def _ignition(files: Sequence[_File], links: Mapping[str, str]) -> str:
    entries = [
        {
            "path": file.path,
            "overwrite": True,
            "mode": file.mode,
            "contents": {"source": f"data:;base64,{file.content}"},
        }
        for file in files
    ]
    targets = [{"path": path, "overwrite": True, "target": target} for path, target in links.items()]
    storage = {"files": entries, "links": targets}
    return json.dumps({"ignition": {"version": "3.4.0"}, "storage": storage}, indent=2)


def _cloud_init(files: Sequence[_File], links: Mapping[str, str]) -> str:
    """User data for cloud-init (JSON is YAML). Its last commands make systemd read and start the new units."""
    entries = [
        {"path": file.path, "permissions": f"{file.mode:04o}", "encoding": "b64", "content": file.content}
        for file in files
    ]
    commands = [["mkdir", "-p", folder] for folder in dict.fromkeys(map(os.path.dirname, links))]
    commands += [["ln", "-sfn", target, path] for path, target in links.items()]
    commands += [["systemctl", "daemon-reload"]] * bool(files)
    commands += [["systemctl", "start", *map(os.path.basename, links)]] * bool(links)
    # One command on a line, because docs/operators.md finds the links by their lines.
    lines = ",\n  ".join(map(json.dumps, commands))
    return f'#cloud-config\n{{"write_files": {json.dumps(entries, indent=2)},\n"runcmd": [\n  {lines}\n]}}'


class _File(NamedTuple):
    """A file of the image: its path on the node, its mode, and its bytes in base64."""

    path: str
    mode: int
    content: str


def _read(root: str, paths: Iterable[str]) -> tuple[list[_File], dict[str, str]]:
    """The files below the root, and the target of each link, by their paths on the node."""
    files, links = [], {}
    for path in paths:
        name = path.removeprefix(root)
        if os.path.islink(path):
            links[name] = os.readlink(path)
        else:
            content = base64.b64encode(Path(path).read_bytes()).decode()
            files.append(_File(name, os.stat(path).st_mode & 0o777, content))
    return files, links


def _page(run: Run, root: str) -> Iterator[Line]:
    nothing = f"the image at {root} already matches the configuration"
    return run.lines(run.work(), nothing, "; it takes effect when the image boots")


def _document(run: Run, root: str) -> dict[str, Any]:
    return {
        "schema": COMMAND.schema,
        "ok": run.ok,
        "root": root,
        "files": run.work().document()["files"],
        "failures": run.failures,
    }


COMMAND = Command(
    name="render",
    answer=_answer,
    options=_options,
    more="""\
Writes the files that apply would write on the host below DIR, where the host's image is mounted. --ignition and
--cloud-init print a document instead, with which a new node gets the same files at its first boot.
""",
    examples="""\
# as root: write the boot files into the image that is mounted there
hostrouting render --config agent.json --root /mnt/image
# the same for a node that is made by Ignition
hostrouting render --config agent.json --ignition > node.ign
""",
    failing="not everything could be written",
)
