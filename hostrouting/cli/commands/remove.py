"""`remove`: remove everything that hostrouting has installed, and nothing else, without being asked
twice.

Requires root. Running units are not touched. While other programs have scripts in
/etc/hostrouting/gate.d, which hold units back as well, nothing is removed, and the answer names the
scripts.
"""

import argparse

from hostrouting.cli.output import Answer
from hostrouting.cli.running import run_task
from hostrouting.host.host import Host
from hostrouting.tasks.configure import Remove


def run(_: argparse.Namespace, host: Host) -> Answer:
    outcome = run_task(Remove(host=host), host)
    done, nothing = (
        "nothing that hostrouting installed is left",
        "hostrouting has nothing installed on this host",
    )
    lines = [
        *outcome.lines(done, nothing),
        *([] if outcome.report.ok else ["To see what is left: hostrouting status"]),
    ]
    return Answer(outcome.code, {"schema": "hostrouting/remove/4", **outcome.document()}, lines)
