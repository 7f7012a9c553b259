"""`clean`: show what azure-vnet left behind and is stale; with --apply, delete it.

Requires root, also without --apply. Before anything is deleted, a shell script that restores it is
written. dryRun in the configuration has no effect here. Exit code 1 without --apply: something is
stale, or nothing can be deleted.
"""

import argparse
from typing import Any, get_args

import phases
from hostrouting.azure_vnet.judge import Fate
from hostrouting.azure_vnet.task import CleanStaleAzureVnet, CleanupPlan, CleanupResult
from hostrouting.cli.output import Answer, capped, finding_lines
from hostrouting.cli.running import run_task
from hostrouting.cli.source import bad_input, read_config, typed_name
from hostrouting.codes import FINE, PROBLEM
from hostrouting.host.host import Host

ARGUMENTS = ("cni", "--config required", "--apply")


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    config, nothing = read_config(arguments.config), "nothing of azure-vnet is stale"
    if config.azure_vnet_cleanup is None:
        raise bad_input(
            "azureVnetCleanup",
            "missing",
            'add {"azureVnetCleanup": {"managed": ["10.240.0.0/16"]}}',
        )
    section = config.azure_vnet_cleanup._replace(dry_run=False)
    task = CleanStaleAzureVnet(config._replace(azure_vnet_cleanup=section), host=host)
    document: dict[str, Any] = {"schema": "hostrouting/clean/2", "operations": [], "undoFile": None}
    if arguments.apply:
        outcome = run_task(task, host)
        results = [
            node.result for node in outcome.report.walk() if isinstance(node.result, CleanupResult)
        ]
        plan, code = results[0].plan if results else CleanupPlan(), outcome.code
        undo_file = next((path for path in outcome.wrote if path.endswith(".undo")), None)
        lines = [*outcome.lines(f"to restore what was deleted, as root: sh {undo_file}", nothing)]
        document |= {**outcome.document(), "undoFile": undo_file}
    else:
        plan = task.plan(phases.Context(observers=[]))
        code = PROBLEM if plan.deletions or plan.errors else FINE
        again = f"hostrouting clean azure-vnet --config {typed_name(arguments.config)} --apply"
        stale = (
            f"STALE: to delete these entries, as root: {again}"
            if plan.deletions
            else f"NOTHING TO DO: {nothing}"
        )
        lines = ["REFUSED: --apply would delete nothing" if plan.errors else stale]
    for fate in get_args(Fate):
        if not plan.errors and not (
            arguments.apply and fate == "delete"
        ):  # what was deleted is shown already
            lines += capped([f"  {fate} {entry}" for entry in plan.with_fate(fate)])
    return Answer(code, document | plan.to_mapping(), [*lines, *finding_lines(plan.findings)])
