"""`remove`: remove everything that hostrouting has installed, and nothing else, without being asked twice.

While scripts of somebody else lie in gate.d, which hold units back as well, nothing is removed, and they are named.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.cli.output import Answer
from hostrouting.cli.running import run_task
from hostrouting.tasks.configure import Remove

if TYPE_CHECKING:
    from hostrouting.cli.source import GetHost


def run(_: argparse.Namespace, host: GetHost) -> Answer:
    """See the module."""
    task = Remove(host=host())
    outcome = run_task(task, task.host)

    def lines() -> Iterator[str]:
        done = "nothing that hostrouting installed is left"
        yield from outcome.lines(done, "hostrouting has nothing installed on this host")
        yield from [] if outcome.report.ok else ["To see what is left: hostrouting status"]

    return Answer(outcome.code, lambda: {"schema": "hostrouting/remove/4", **outcome.document()}, lines)
