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

    from hostrouting.azure_vnet import CleanupPlan, Deletion, Kept
    from hostrouting.cli.page import Line, Tone
    from hostrouting.cli.run import Run
    from hostrouting.config import HostRoutingConfig
    from hostrouting.host import Host

__all__ = ["COMMAND"]

_LIMIT = 1 << 28  # bytes of a plan; that of 1,000,000 deletions has less


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cni", metavar="CNI", choices=["azure-vnet"], help="which CNI left it behind: azure-vnet")
    config_option(parser)
    way = parser.add_mutually_exclusive_group()
    way.add_argument(
        "--apply",
        action="store_true",
        help="make a plan, tell it, and delete what is in it; without this option nothing is changed",
    )
    way.add_argument(
        "--undo", metavar="FILE", help="bring back what a clean-up has deleted, from the file that it named"
    )
    parser.add_argument(
        "--approved",
        metavar="FILE",
        help="with --apply: delete only what is in this plan and is stale still; the plan is what "
        "`clean azure-vnet --config FILE --json` has printed; - is standard input",
    )


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    from hostrouting.cli.source import config_of

    _require_apply(arguments)
    approved = None if arguments.approved is None else _approved(arguments.approved)
    config = config_of(arguments)
    if arguments.undo is not None:
        return _undone(arguments.undo, config, host())
    _require_section(config)
    return _applied(config, host(), approved) if arguments.apply else _planned(config, host(), arguments.config)


def _require_apply(arguments: argparse.Namespace) -> None:
    from hostrouting.cli.reading import STANDARD_INPUT
    from hostrouting.errors import ConfigError, Fault

    if arguments.approved is None:
        return
    if not arguments.apply:
        raise ConfigError([Fault("--approved", "", "is a plan to carry out", "add --apply")])
    if arguments.approved == arguments.config == STANDARD_INPUT:
        fault = Fault("--config", "'-'", "is standard input, and so is --approved", "name a file for one of the two")
        raise ConfigError([fault])


def _approved(path: str) -> CleanupPlan:
    """The plan in the file; ApprovedPlanError where it is not one."""
    import json

    from hostrouting.azure_vnet import CleanupPlan
    from hostrouting.cli.reading import Unreadable, name_of, read_bytes
    from hostrouting.errors import ApprovedPlanError

    name = name_of(path)
    try:
        document = json.loads(read_bytes(path, what="a plan", limit=_LIMIT))
        if not isinstance(document, dict) or document.get("schema") != COMMAND.schema:
            raise ValueError(f"it does not say {COMMAND.schema!r} as its schema")  # noqa: TRY301  told with its name
        if document.get("action") != "plan":
            raise ValueError("it is not a plan: its action is not 'plan'")  # noqa: TRY301  as above
        return CleanupPlan.from_mapping(document)
    except Unreadable as error:
        raise ApprovedPlanError(name, f"it {error}") from error
    except (ValueError, RecursionError) as error:
        is_text = isinstance(error, json.JSONDecodeError | UnicodeDecodeError | RecursionError)
        raise ApprovedPlanError(name, f"it is not JSON: {error}" if is_text else str(error)) from error


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


def _applied(config: HostRoutingConfig, host: Host, approved: CleanupPlan | None) -> Reply:
    import attrs

    from hostrouting.cli.run import run_task
    from hostrouting.cli.source import quiet_context
    from hostrouting.tasks import CleanStaleAzureVnet

    meant = attrs.evolve(config, azure_vnet_cleanup=_meant(config))
    task = CleanStaleAzureVnet(meant, host=host)
    shown = approved or task.plan(quiet_context())
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
    yield from _part("Stale as well, but not in the approved plan, and kept:", _unapproved(run), "warn")
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


def _unapproved(run: Run) -> tuple[Deletion, ...]:
    """What is stale and was not in the plan."""
    from hostrouting.tasks import CleanupResult

    results = (node.result for node in run.report.walk())
    return next((it.unapproved for it in results if isinstance(it, CleanupResult)), ())


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
        "unapproved": [] if run is None else [it.to_mapping() for it in _unapproved(run)],
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
Takes root. Without --apply nothing is changed. With --apply alone, the plan is made now and told on standard error, and
exactly that is deleted, as far as a second look finds it stale still. With --apply --approved FILE, it is an earlier
plan of this host, made since it booted: what has become stale since is told, and stays. What will be deleted is first
written to a file as commands that bring it back; --undo FILE does so. dryRun in the configuration is for the task, not
for this command.
""",
    failing="something is stale, or --apply would be refused; with --apply or --undo: it failed",
    changes=True,
    tells_progress=True,
    keys={
        "action": "plan, apply or undo",
        "ok": "whether all that was to be done was done",
        "host": "the name of the host; empty where nothing was planned",
        "boot": "what the kernel calls the time since it booted; --approved takes a plan of this time only",
        "bridges[]": "the bridges of azure-vnet",
        "uplinks[]": "the devices that rules for a pod have to name",
        **_thing("deletions", "what is stale"),
        **_thing("kept", "what looks like it, and stays"),
        **_thing("conflicts", "what leads to a pod that is alive, at an address that another CNI manages, and stays"),
        **_thing("inert", "a rule that no frame meets, and that stays"),
        **_thing("unapproved", "of --apply: what is stale as well, was not in the plan, and stays"),
        "unreadable": "how many lines of ebtables-save were not understood, and stay",
        "unreadableLines[]": "these lines",
        "hindrances[]": "why --apply would delete nothing; each a sentence",
        "notes[]": "what else there is to know; each a sentence",
        **OPERATIONS,
        "undoFile": "the file with what brings back what was deleted; null where nothing was",
        **FAILURES,
    },
)
