"""`remove`: remove everything that hostrouting has installed, and nothing else, without being asked twice.

If somebody else's scripts are in gate.d, nothing is removed, and the answer names them: they hold units back, too.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hostrouting.cli.output import Answer
from hostrouting.cli.running import run_task
from hostrouting.tasks.configure import Remove

if TYPE_CHECKING:
    from hostrouting.cli.source import GetHost


def run(_: argparse.Namespace, host: GetHost) -> Answer:
    """See the module."""
    outcome = run_task(task := Remove(host=host()), task.host)
    done, nothing = "nothing that hostrouting installed is left", "hostrouting has nothing installed on this host"
    lines = [*outcome.lines(done, nothing), *([] if outcome.report.ok else ["To see what is left: hostrouting status"])]
    return Answer(outcome.code, {"schema": "hostrouting/remove/4", **outcome.document()}, lines)
