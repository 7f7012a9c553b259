"""`snapshot`: everything on this host that an answer can depend on, as JSON, to examine elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hostrouting.boot.scripts import render_snapshot_script
from hostrouting.cli.command import FINE, Command, Reply
from hostrouting.cli.source import open_kernel
from hostrouting.errors import ConfigError, Fault

if TYPE_CHECKING:
    import argparse

    from hostrouting.host.host import Host


def _options(parser: argparse.ArgumentParser) -> None:
    meaning = (
        "print a shell script that takes the snapshot without hostrouting; needs iproute2, not root; not with --json"
    )
    parser.add_argument("--script", action="store_true", help=meaning)


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    if arguments.script and arguments.json:
        raise ConfigError([Fault("--script", "", "prints a shell script, and no JSON", "leave out --json")])
    if arguments.script:
        return Reply(FINE, lambda: render_snapshot_script().removesuffix("\n"))
    with open_kernel(host) as kernel:
        return Reply(FINE, kernel.snapshot().to_json)


COMMAND = Command(
    name="snapshot",
    answer=_answer,
    options=_options,
    examples="""\
# on the faulty host, for check, explain, repair and plan on any other
hostrouting snapshot > node.json
# from a node without hostrouting; it needs iproute2 only
hostrouting snapshot --script | ssh node sh > node.json
""",
)
