"""`snapshot`: everything on this host that an answer can depend on, as JSON, to examine elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hostrouting.cli.command import FINE, Command, Reply
from hostrouting.cli.source import open_kernel

if TYPE_CHECKING:
    import argparse

    from hostrouting.host.host import Host


def _answer(_: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    with open_kernel(host) as kernel:
        return Reply(FINE, kernel.snapshot().to_json)


COMMAND = Command(
    name="snapshot",
    answer=_answer,
    examples="""\
# on the faulty host, for check, explain, repair and plan on any other
hostrouting snapshot > node.json
""",
)
