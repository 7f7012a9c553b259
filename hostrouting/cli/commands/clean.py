"""`clean`: show what azure-vnet left behind and is stale; with --apply, delete it. Requires root, even to read.

Before anything is deleted, the commands that restore it are written to a file, which sh runs. dryRun in the
configuration applies to the task, not to this command. Exit code 1 without --apply: something is stale, or cannot be
deleted.
"""

from __future__ import annotations

import argparse
from typing import get_args

import phases
from hostrouting.cli.failure import FINE, PROBLEM
from hostrouting.cli.output import Answer, capped, finding_lines, log_to_stderr
from hostrouting.cli.running import run_task
from hostrouting.cli.source import GetHost, read_config, typed_name
from hostrouting.errors import ConfigError, Fault
from hostrouting.tasks.cleanup.judge import Fate
from hostrouting.tasks.cleanup.task import CleanStaleAzureVnet, CleanupPlan, CleanupResult

ARGUMENTS = ("cni", "--config FILE", "--apply")


def run(arguments: argparse.Namespace, host: GetHost) -> Answer:
    """See the module."""
    config = read_config(arguments.config)
    if config.azure_vnet_cleanup is None:
        remedy = 'add {"azureVnetCleanup": {"managed": ["10.240.0.0/16"]}}'
        raise ConfigError([Fault("azureVnetCleanup", "", "missing", remedy)])
    section = config.azure_vnet_cleanup._replace(dry_run=False)
    task = CleanStaleAzureVnet(config._replace(azure_vnet_cleanup=section), host=host())
    if arguments.apply:
        outcome = run_task(task, task.host)
        results = [node.result for node in outcome.report.walk() if isinstance(node.result, CleanupResult)]
        plan, code = results[0].plan if results else CleanupPlan(), outcome.code
        undo_file = next((path for path in outcome.wrote if path.endswith(".undo")), None)
        done = f"to restore what was deleted, as root: sh {undo_file}"
        lines, shown = [*outcome.lines(done, "nothing of azure-vnet is stale")], {*get_args(Fate)} - {"delete"}
        document = {**outcome.document(), **plan.to_mapping(), "undoFile": undo_file}
    else:
        log_to_stderr()
        plan, shown = task.plan(phases.Context(observers=[])), {*get_args(Fate)}
        code = PROBLEM if plan.deletions or plan.hindrances else FINE
        again = f"hostrouting clean azure-vnet --config {typed_name(arguments.config)} --apply"
        lines = [
            f"STALE: to delete what is stale, as root: {again}"
            if code
            else "NOTHING TO DO: nothing of azure-vnet is stale"
        ]
        lines = ["REFUSED: --apply would delete nothing"] if plan.hindrances else lines
        document = {**plan.to_mapping(), "operations": [], "undoFile": None}
    for fate in get_args(Fate) if not plan.hindrances else ():
        lines += capped([f"  {fate} {entry}" for entry in plan.with_fate(fate) if fate in shown])
    lines += finding_lines(plan.findings)
    return Answer(code, {"schema": "hostrouting/clean/2", **document}, lines)
