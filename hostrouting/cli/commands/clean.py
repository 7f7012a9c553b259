"""`clean`: show what azure-vnet left behind and is stale; with --apply,
delete it.

An entry (a rule of ebtables, a neighbour or a route) is stale if azure-vnet
made it for an address in azureVnetCleanup.managed, and no pod uses the
address any more. Requires root, also without --apply. Before anything is
deleted, a shell script that restores it is written into
/var/lib/hostrouting; the answer names it. Here only --apply decides whether
anything is deleted: dryRun of the configuration is for agents. Exit code 1
without --apply: something is stale, or nothing can be deleted.
"""

import argparse
from collections.abc import Iterable, Iterator
from typing import Any

from hostrouting.azure_vnet.judge import Fate
from hostrouting.azure_vnet.task import CleanStaleAzureVnet, CleanupPlan, CleanupResult
from hostrouting.cli.output import Page
from hostrouting.cli.running import run_task
from hostrouting.cli.source import bad_input
from hostrouting.codes import FINE, PROBLEM
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.host import Host
from hostrouting.lines import finding_lines, indented

_NOTHING_STALE = "nothing of azure-vnet is stale"
_EMPTY_DOCUMENT: dict[str, Any] = {
    "schema": "hostrouting/clean/1",
    "operations": [],
    "undoFile": None,
}


def run(arguments: argparse.Namespace, host: Host) -> Page:
    # Show what of azure-vnet is stale or, with --apply, delete it.
    config = HostRoutingConfig.load(arguments.config)
    if config.azure_vnet_cleanup is None:
        example = '{"azureVnetCleanup": {"managed": ["10.240.0.0/16"]}}'
        raise bad_input("azureVnetCleanup", "missing", f"add {example}")
    # On the command line, only --apply decides whether anything is deleted, and not dryRun.
    section = config.azure_vnet_cleanup._replace(dry_run=False)
    task = CleanStaleAzureVnet(config._replace(azure_vnet_cleanup=section), host=host)
    return _delete(task, host) if arguments.apply else _show(task.plan())


def _show(plan: CleanupPlan) -> Page:
    """The page without --apply: which entries would be deleted, and which would be kept."""
    code = PROBLEM
    if plan.errors:
        first = "REFUSED: --apply would delete nothing"
    elif plan.deletions:
        first = "STALE: to delete these entries, type the same with --apply"
    else:
        code = FINE
        first = f"NOTHING TO DO: {_NOTHING_STALE}"
    lines = [
        first,
        *_entry_lines(plan, ("delete", "conflict", "keep")),
        *finding_lines(plan.findings),
    ]
    return Page(code, {**_EMPTY_DOCUMENT, **plan.to_mapping()}, lines)


def _delete(task: CleanStaleAzureVnet, host: Host) -> Page:
    """The work and the page with --apply: delete the stale entries, and say which were deleted and
    which were kept.
    """
    outcome = run_task(task, host)
    plan = CleanupPlan()
    if isinstance(outcome.report.result, CleanupResult):
        plan = outcome.report.result.plan
    # The undo file is the only file that a clean-up writes. It is missing if nothing was deleted.
    undo_file = next(iter(outcome.wrote), None)
    # `lines` shows this only if something was deleted, and _NOTHING_STALE otherwise.
    done = f"to restore what was deleted, as root: sh {undo_file}"
    # The first lines say what was deleted. Then come the entries that were kept.
    lines = [*outcome.lines(done, _NOTHING_STALE), *_entry_lines(plan, ("conflict", "keep"))]
    # The document has the operations of `outcome`, which are the deletions, and the entries and
    # findings of `plan`.
    document = {**_EMPTY_DOCUMENT, **outcome.document(), "undoFile": undo_file, **plan.to_mapping()}
    return Page(outcome.code, document, lines)


def _entry_lines(plan: CleanupPlan, fates: Iterable[Fate]) -> Iterator[str]:
    """A line for each entry of azure-vnet with one of these fates: what is done with it, and why.
    There are no lines if the whole clean-up is refused, because the fates do not count then.
    """
    if plan.errors:  # such an error refuses the clean-up
        return
    for fate in fates:
        yield from indented("", plan.with_fate(fate))
