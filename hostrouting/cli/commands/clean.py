"""`clean`: what of another CNI's leftovers is stale; and, when told so, its deletion or the way back."""

from __future__ import annotations

from hostrouting.cli.command import FAILED, FINE, Command, Reply, config_option
from hostrouting.cli.page import SHOWN, Painted, capped, counted, line
from hostrouting.cli.schemas import FAILURES, OPERATIONS

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from hostrouting.azure_vnet import CleanupPlan, Kept
    from hostrouting.cli.page import Line, Tone
    from hostrouting.cli.run import Run
    from hostrouting.config import HostRoutingConfig
    from hostrouting.host import Host

__all__ = ["COMMAND"]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cni", metavar="CNI", choices=["azure-vnet"], help="which CNI left it behind: azure-vnet")
    config_option(parser)
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--apply", action="store_true", help="delete what is stale; without it nothing is changed")
    way.add_argument(
        "--undo", metavar="FILE", help="bring back what a clean-up has deleted, from the file that it named"
    )


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    from hostrouting.cli.source import config_of

    config = config_of(arguments)
    if arguments.undo is not None:
        return _undone(arguments.undo, config, host())
    _require_section(config)
    return _applied(config, host()) if arguments.apply else _planned(config, host(), arguments.config)


def _require_section(config: HostRoutingConfig) -> None:
    from hostrouting.errors import ConfigError, Fault

    if config.azure_vnet_cleanup is None:
        remedy = 'name a configuration (--config FILE) with {"azureVnetCleanup": {"managed": ["10.240.0.0/16"]}}'
        raise ConfigError([Fault("azureVnetCleanup", "", "missing", remedy)])


def _planned(config: HostRoutingConfig, host: Host, name: str) -> Reply:
    from hostrouting.cli.source import quiet_context
    from hostrouting.tasks import CleanStaleAzureVnet

    plan = CleanStaleAzureVnet(config, host=host).plan(quiet_context())
    code = FINE if plan.is_empty and not plan.hindrances else FAILED
    return Reply(code, lambda: _document("plan", plan), lambda _style: _plan_page(plan, name))


def _applied(config: HostRoutingConfig, host: Host) -> Reply:
    import attrs

    from hostrouting.cli.run import run_task
    from hostrouting.cli.source import quiet_context
    from hostrouting.tasks import CleanStaleAzureVnet

    meant = attrs.evolve(config, azure_vnet_cleanup=_meant(config))
    task = CleanStaleAzureVnet(meant, host=host)
    shown = task.plan(quiet_context())
    run = run_task(attrs.evolve(task, approved=shown), host)
    return Reply(
        run.code,
        lambda: _document("apply", shown, run),
        lambda _style: _applied_page(shown, run),
        failed=run.failed,
    )


def _meant(config: HostRoutingConfig) -> Any:
    """The section, with the order to delete."""
    import attrs

    return None if config.azure_vnet_cleanup is None else attrs.evolve(config.azure_vnet_cleanup, dry_run=False)


def _undone(path: str, config: HostRoutingConfig, host: Host) -> Reply:
    from hostrouting.cli.run import run_task
    from hostrouting.tasks import UndoAzureVnetCleanup

    settings = config.azure_vnet_cleanup
    choice = {} if settings is None else {"ebtables": settings.ebtables}
    run = run_task(UndoAzureVnetCleanup(path, host=host, **choice), host)
    return Reply(run.code, lambda: _document("undo", None, run), lambda _style: _undo_page(run), failed=run.failed)


def _plan_page(plan: CleanupPlan, name: str) -> Iterator[Line]:
    if plan.hindrances:
        yield line(Painted("REFUSED:", "bad"), f" --apply would delete nothing: {plan.hindrances[0]}")
        yield from (line(f"  {text}") for text in plan.hindrances[1:])
    elif plan.is_empty:
        yield line(Painted("NOTHING TO DO:", "good"), " azure-vnet has left nothing behind that is stale")
    else:
        told = f" {counted(len(plan.deletions), 'thing')} of azure-vnet to delete"
        yield line(Painted("STALE:", "warn"), told)
    yield from _part("Would be deleted:", plan.deletions, "warn")
    yield from _rest(plan)
    if plan.deletions and not plan.hindrances:
        yield line()
        yield line(f"To delete this, as root: hostrouting clean azure-vnet --config {name} --apply")


def _applied_page(shown: CleanupPlan, run: Run) -> Iterator[Line]:
    from hostrouting.cli.run import operation_lines

    done = run.effects.operations
    if run.ok and not done:
        told = (
            " what was stale is gone already"
            if shown.deletions
            else " azure-vnet has left nothing behind that is stale"
        )
        yield line(Painted("NOTHING TO DO:", "good"), told)
    elif run.ok:
        yield line(Painted("DONE:", "good"), f" {counted(len(done), 'thing')} of azure-vnet deleted")
    elif done:
        yield line(f"{counted(len(done), 'thing')} of azure-vnet deleted all the same:")
    yield from operation_lines(done)
    if not run.ok and not done:
        return
    yield from _rest(shown)
    if path := _undo_file(run):
        yield line()
        yield line(f"To bring it back, as root: hostrouting clean azure-vnet --undo {path}")


def _undo_page(run: Run) -> Iterator[Line]:
    from hostrouting.cli.run import operation_lines

    done = run.effects.operations
    if run.ok and not done:
        yield line(Painted("NOTHING TO DO:", "good"), " all of it is there")
    elif run.ok:
        yield line(Painted("DONE:", "good"), f" {counted(len(done), 'thing')} brought back")
    elif done:
        yield line(f"{counted(len(done), 'thing')} brought back all the same:")
    yield from operation_lines(done)


def _rest(plan: CleanupPlan) -> Iterator[Line]:
    yield from _part("In conflict, and kept; two CNIs may use one address:", plan.conflicts, "bad")
    yield from _part("Inert, and kept:", plan.inert, "soft")
    yield from _part("Kept:", plan.kept, "soft")
    if plan.unreadable:
        yield line()
        yield line(f"{counted(len(plan.unreadable), 'line')} of ebtables-save could not be understood, and stay")
    if plan.notes:
        yield line()
        yield from (line(Painted(note, "warn")) for note in plan.notes)


def _part(title: str, things: Sequence[Kept], tone: Tone) -> Iterator[Line]:
    if things:
        yield line()
        yield line(title)
        yield from capped((line("  ", Painted(str(it), tone)) for it in things[:SHOWN]), len(things))


def _undo_file(run: Run) -> str:
    """Where it is written what brings back what the run deleted; empty where nothing was."""
    return next((path for path in run.wrote if path.endswith(".undo")), "")


def _document(action: str, plan: CleanupPlan | None, run: Run | None = None) -> dict[str, Any]:
    from hostrouting.azure_vnet import CleanupPlan
    from hostrouting.cli.run import operation_document

    return {
        "schema": COMMAND.schema,
        "action": action,
        "ok": run is None or run.ok,
        **(plan or CleanupPlan()).to_mapping(),
        "operations": [] if run is None else [operation_document(it) for it in run.effects.operations],
        "undoFile": ("" if run is None else _undo_file(run)) or None,
        "failures": [] if run is None else run.failures,
    }


def _thing(name: str, what: str) -> dict[str, str]:
    return {
        f"{name}[].kind": f"{what}: rule, neighbour or route",
        f"{name}[].spec": "the rule as ebtables-save has it, or the neighbour or route in the words of ip",
        f"{name}[].reason": "why",
    }


COMMAND = Command(
    "clean",
    "tell, or delete, what another CNI left behind",
    answer=_answer,
    options=_options,
    more="""\
Takes root. Without --apply nothing is changed. With it, what is stale at two looks is deleted, after it was written to
a file as commands that bring it back; --undo FILE does so. dryRun in the configuration is for the task, not for this.
""",
    failing="something is stale, or --apply would be refused; with --apply or --undo: it failed",
    changes=True,
    tells_progress=True,
    keys={
        "action": "plan, apply or undo",
        "ok": "whether all that was to be done was done",
        "bridges[]": "the bridges of azure-vnet",
        "uplinks[]": "the devices that rules for a pod have to name",
        **_thing("deletions", "what is stale"),
        **_thing("kept", "what looks like it, and stays"),
        **_thing("conflicts", "what leads to a pod that is alive, at an address that another CNI manages, and stays"),
        **_thing("inert", "a rule that no frame meets, and that stays"),
        "unreadable": "how many lines of ebtables-save were not understood, and stay",
        "hindrances[]": "why --apply would delete nothing; each a sentence",
        "notes[]": "what else there is to know; each a sentence",
        **OPERATIONS,
        "undoFile": "the file with what brings back what was deleted; null where nothing was",
        **FAILURES,
    },
)
