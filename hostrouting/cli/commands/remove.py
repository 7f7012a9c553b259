"""`remove`: remove everything that hostrouting has installed, and nothing
else, without being asked twice.

All routes of protocol 213 go, also those that somebody has typed. Requires
root. Running units are not touched. With --dry-run, it shows what would be
removed, and exits with 1 if that is anything.
"""

import argparse

from hostrouting.cli.commands.plan import plan_code, plan_lines
from hostrouting.cli.output import Page
from hostrouting.cli.running import run_task
from hostrouting.host.host import Host
from hostrouting.tasks.configure import Remove


def run(arguments: argparse.Namespace, host: Host) -> Page:
    # Remove what hostrouting has installed or, with --dry-run, show what would be removed.
    task = Remove(host=host)
    schema = {"schema": "hostrouting/remove/1"}
    if arguments.dry_run:
        plan = task.plan()
        return Page(plan_code(plan), {**schema, **plan.to_mapping()}, plan_lines(plan))
    outcome = run_task(task, host)
    lines = outcome.lines("what hostrouting had installed is removed", "nothing is installed")
    return Page(outcome.code, {**schema, **outcome.document()}, lines)
