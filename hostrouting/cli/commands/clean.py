"""`clean`: show what another CNI left behind and is stale; with --apply, delete it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.cli.changes import Run, Work, run_task
from hostrouting.cli.command import FAILED, FINE, Command, Reply, config_option
from hostrouting.cli.output import SHOWN, Line, Painted, Tone, below, capped, line, named_lines
from hostrouting.cli.source import config_of, quiet_context
from hostrouting.errors import ConfigError, Fault
from hostrouting.finding import of_severity
from hostrouting.tasks.cleanup.task import CleanStaleAzureVnet, CleanupPlan, CleanupResult
from hostrouting.text import counted

if TYPE_CHECKING:
    import argparse

    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host
    from hostrouting.tasks.cleanup.judge import CleanupEntry

_NOTHING = "nothing of azure-vnet is stale"


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cni", metavar="CNI", choices=["azure-vnet"], help="which CNI left it behind: azure-vnet")
    config_option(parser)
    parser.add_argument("--apply", action="store_true", help="delete it; without this option nothing is changed")


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    config = config_of(arguments)
    _require_section(config)
    return _applied(config, host()) if arguments.apply else _planned(config, host(), arguments.config)


def _require_section(config: HostRoutingConfig) -> None:
    if config.azure_vnet_cleanup is None:
        remedy = 'name a configuration (--config FILE) with {"azureVnetCleanup": {"managed": ["10.240.0.0/16"]}}'
        raise ConfigError([Fault("azureVnetCleanup", "", "missing", remedy)])


def _planned(config: HostRoutingConfig, host: Host, name: str) -> Reply:
    plan = CleanStaleAzureVnet(_meant(config), host=host).plan(quiet_context())
    code = FAILED if plan.deletions or plan.hindrances else FINE
    return Reply(code, lambda: _document(plan), lambda: _plan_page(plan, name))


def _applied(config: HostRoutingConfig, host: Host) -> Reply:
    task = CleanStaleAzureVnet(_meant(config), host=host)
    run = run_task(task, host)
    results = (node.result for node in run.report.walk())
    result = next((found for found in results if isinstance(found, CleanupResult)), CleanupResult(plan=CleanupPlan()))
    return Reply(run.code, lambda: _document(result.plan, run), lambda: _applied_page(run, result), failed=run.failed)


def _meant(config: HostRoutingConfig) -> HostRoutingConfig:
    """The configuration with dryRun off."""
    section = config.azure_vnet_cleanup
    return config if section is None else attrs.evolve(config, azure_vnet_cleanup=attrs.evolve(section, dry_run=False))


def _plan_page(plan: CleanupPlan, name: str) -> Iterator[Line]:
    if plan.hindrances:
        yield line(Painted("REFUSED:", "bad"), f" --apply would delete nothing: {plan.hindrances[0]}")
    elif not plan.deletions:
        more = "; see the warnings below" if any(of_severity(plan.findings, "warning")) else ""
        yield line(Painted("NOTHING TO DO:", "good"), f" {_NOTHING}{more}")
    else:
        yield line(Painted("STALE:", "warn"), f" {counted(len(plan.deletions), 'thing')} of azure-vnet to delete")
    yield from _part("To be deleted:", plan.deletions, "warn")
    yield from _rest(plan)
    if plan.deletions and not plan.hindrances:
        yield line()
        yield line(f"To delete this, as root: hostrouting clean azure-vnet --config {name} --apply")


def _applied_page(run: Run, result: CleanupResult) -> Iterator[Line]:
    yield from _run_lines(run, _NOTHING)
    if not run.ok and not run.effects.operations:
        return
    yield from _rest(result.plan)
    if path := _undo_file(run):
        yield line()
        yield line(f"To restore it, as root: sh {path}")


def _run_lines(run: Run, nothing: str) -> Iterator[Line]:
    """What was deleted; the undo file has a line of its own."""
    return run.lines(Work(operations=run.effects.operations, is_done=True), nothing)


def _rest(plan: CleanupPlan) -> Iterator[Line]:
    yield from _part("In conflict, and kept (two CNIs may use one address):", plan.with_fate("conflict"), "bad")
    yield from _part("Without effect, and kept:", plan.with_fate("inert"), "soft")
    yield from _part("Kept:", plan.with_fate("keep"), "soft")
    yield from below(named_lines(plan.findings))


def _part(title: str, things: Sequence[CleanupEntry], tone: Tone) -> Iterator[Line]:
    if things:
        yield line()
        yield line(title)
        yield from capped((line("  ", Painted(str(thing), tone)) for thing in things[:SHOWN]), len(things))


def _undo_file(run: Run) -> str:
    """The path of the file that can undo the deletions; empty if nothing was deleted."""
    return next((path for path in run.wrote if path.endswith(".undo")), "")


def _document(plan: CleanupPlan, run: Run | None = None) -> dict[str, Any]:
    return {
        "schema": COMMAND.schema,
        "ok": run is None or run.ok,
        **plan.to_mapping(),
        "operations": [] if run is None else [operation.to_mapping() for operation in run.effects.operations],
        "undoFile": ("" if run is None else _undo_file(run)) or None,
        "failures": [] if run is None else run.failures,
    }


COMMAND = Command(
    name="clean",
    version=2,
    answer=_answer,
    options=_options,
    more="""\
Requires root even to read. Without --apply nothing is changed. With --apply, what is stale then is logged to
standard error and deleted. Before anything is deleted, the commands that restore it are written to a file, which sh
runs. dryRun applies to the task, not to this command.
""",
    examples="""\
# as root: what did azure-vnet leave behind?
hostrouting clean azure-vnet --config agent.json
# delete it
hostrouting clean azure-vnet --config agent.json --apply
""",
    failing="something is stale, or --apply would be refused; with --apply: it failed",
)
