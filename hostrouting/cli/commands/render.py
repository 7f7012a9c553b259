"""`render`: the boot files of a configuration, written into an image."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hostrouting.cli.changes import Run, run_task
from hostrouting.cli.command import Command, Reply, config_option
from hostrouting.cli.output import Line, below, named_lines
from hostrouting.cli.source import config_of
from hostrouting.errors import ConfigError, Fault
from hostrouting.host.host import Host
from hostrouting.tasks.configure import Configure

if TYPE_CHECKING:
    import argparse

    from hostrouting.finding import Finding


def _options(parser: argparse.ArgumentParser) -> None:
    config_option(parser, required=True)
    parser.add_argument("--root", metavar="DIR", required=True, help="where the image is mounted")


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
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
    configure = Configure(config, host=image)
    findings = configure.plan().findings  # if one is an error, the run fails and says the same
    run = run_task(configure, image, quietly=True)
    return Reply(run.code, lambda: _document(run, root), lambda: _page(run, root, findings), failed=run.failed)


def _page(run: Run, root: str, findings: Sequence[Finding]) -> Iterator[Line]:
    nothing = f"the image at {root} already matches the configuration"
    yield from run.lines(run.work(), nothing, "; it takes effect when the image boots")
    if run.ok:
        yield from below(named_lines(findings))


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
Writes the files that apply would write on the host below DIR, where the host's image is mounted.
""",
    examples="""\
# as root: write the boot files into the image that is mounted there
hostrouting render --config agent.json --root /mnt/image
""",
    failing="not everything could be written",
)
