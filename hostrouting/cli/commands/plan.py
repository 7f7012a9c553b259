"""`plan`: what apply would do, as a diff, and the verdict afterwards. Nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import attrs

from hostrouting.boot.gate_state import GateState
from hostrouting.cli.changes import (
    file_lines,
    foreseen_lines,
    gate_lines,
    looked_at_gate,
    operation_lines,
    refusal,
    step_document,
    step_lines,
    tally,
)
from hostrouting.cli.check import Check
from hostrouting.cli.command import FAILED, FINE, UNDECIDED, Command, Reply, config_option, removal_option, wait_option
from hostrouting.cli.output import Painted, counted, line
from hostrouting.cli.schemas import FINDINGS, OPERATIONS, STEPS
from hostrouting.cli.source import config_of, installed_config, looked_at, wait_of
from hostrouting.config import HostRoutingConfig
from hostrouting.finding import Finding, of_severity
from hostrouting.routes.plan import RoutePlan, Step, plan_static_routes
from hostrouting.tasks.configure import Configure, installed_tasks
from hostrouting.tasks.results import Change, refusals

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from hostrouting.cli.output import Line, Style
    from hostrouting.host.effects import Operation
    from hostrouting.host.host import Host
    from hostrouting.model import Snapshot

__all__ = ["COMMAND"]


@attrs.frozen
class Prospect:
    """What `apply` would do, and the state afterwards. For a saved snapshot, files are not known."""

    routes: RoutePlan
    writes: tuple[str, ...]
    removes: tuple[str, ...]
    after: Check | None
    saved: bool
    gate: GateState
    """The present state of the gate."""
    rewrites: tuple[str, ...] = ()
    """The files to write that already exist with another content."""
    operations: tuple[Operation, ...] = ()
    others: tuple[Finding, ...] = ()
    """What there is to tell that does not follow from the route plan; an error prevents the operations."""
    refused: tuple[str, ...] = ()
    """What `apply` refuses to take away without --allow-removal, each a sentence."""
    stuck: str = ""
    """What stays installed if no route can be changed, and what follows for machines; empty if nothing would stay."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything there is to tell about the change and the gate; what follows from the check is in its document."""
        return (*self.routes.findings(), *self.others, *self.gate.findings)

    @property
    def conflicts(self) -> tuple[Finding, ...]:
        """What prevents the operations."""
        return tuple(of_severity(self.others, "error"))

    @property
    def is_stuck(self) -> bool:
        """Whether apply could not change any route."""
        return bool(self.routes.conflicts or self.routes.pending)

    @property
    def changes(self) -> bool:
        """Whether apply would change anything."""
        return bool(self.writes or self.removes or self.operations or (self.routes.changes and not self.is_stuck))

    @property
    def ends_in_overlap(self) -> bool:
        """Whether apply would do all of this and then fail because of an overlap."""
        if self.after is None or self.after.config.route_overlap.mode != "STRICT":
            return False
        return self.after.found.verdict == "overlap"

    @property
    def steps(self) -> Sequence[Step]:
        """The steps for the routes; if there are conflicts, only those, because nothing else would be done."""
        return self.routes.conflicts or self.routes.steps

    @property
    def answer(self) -> Literal["refused", "conflict", "not-ready", "to-do", "overlap", "nothing-to-do"]:
        """The result in one word."""
        if self.refused:
            return "refused"
        if self.routes.conflicts or self.conflicts:
            return "conflict"
        if self.routes.pending or (self.after is not None and self.after.found.verdict == "no-default-route"):
            return "not-ready"
        if self.changes:
            return "to-do"
        return "overlap" if self.ends_in_overlap else "nothing-to-do"

    @property
    def code(self) -> int:
        """The exit code of `plan`."""
        return {"not-ready": UNDECIDED, "nothing-to-do": FINE}.get(self.answer, FAILED)


def while_stuck(host: Host, config: HostRoutingConfig, look: Change) -> str:
    """What stays installed if `apply` cannot change any route, and what follows for machines; may be empty.

    The routes stay, and the check is the new one.
    """
    if not look.keeps_script or look.before is None:
        return ""
    check, kept = config.route_overlap, "the last good static-routes.sh would stay installed"
    required = {"static-routes", *(["check-route-overlap"] if check.expected_cidrs and check.mode == "STRICT" else [])}
    installed = attrs.evolve(installed_config(host) or HostRoutingConfig(), route_overlap=check)
    refused = refusal(installed, look.before, required)
    return f"{kept}, but no machine starts: {refused}" if refused else kept


def _options(parser: argparse.ArgumentParser) -> None:
    config_option(parser, required=True)
    wait_option(parser, "how long apply would wait", installs=True)
    removal_option(parser)


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:

    config = config_of(arguments)
    prospect = (
        _elsewhere(arguments, host, config) if arguments.snapshot is not None else _here(arguments, host(), config)
    )
    return Reply(prospect.code, lambda: _document(prospect), lambda style: _page(prospect, arguments, style))


def _here(arguments: argparse.Namespace, host: Host, config: HostRoutingConfig) -> Prospect:

    look = Configure(config, host=host, wait=wait_of(arguments, host), tasks=installed_tasks()).preview()
    routes, gate = look.routes or RoutePlan(), looked_at_gate(host)
    refused = () if arguments.allow_removal else refusals(look.removals)
    going = (gone for gone in look.removals if not (refused and gone.severity == "error"))
    after = None if look.before is None else _afterwards(routes, look.before, config)
    return Prospect(
        routes,
        look.files.writes,
        look.files.removes,
        after,
        saved=False,
        gate=gate,
        rewrites=tuple(path for path in look.files.writes if host.files.is_there(path)),
        operations=look.operations,
        others=(*look.others, *(attrs.evolve(gone, severity="warning", remedy="") for gone in going)),
        refused=tuple(map(str, refused)),
        stuck=while_stuck(host, config, look),
    )


def _elsewhere(arguments: argparse.Namespace, host: Callable[[], Host], config: HostRoutingConfig) -> Prospect:

    with looked_at(arguments, host) as backend:
        before = backend.snapshot()
    routes = plan_static_routes(config, before)
    return Prospect(routes, (), (), _afterwards(routes, before, config), saved=True, gate=GateState())


def _afterwards(routes: RoutePlan, before: Snapshot, config: HostRoutingConfig) -> Check | None:
    """The check of the host after the plan; None if there is nothing to check, or the plan cannot be carried out."""
    if not config.route_overlap.expected_cidrs or routes.conflicts or routes.pending:
        return None
    return Check.of(routes.apply_to(before), config)


def _page(prospect: Prospect, arguments: argparse.Namespace, style: Style) -> Iterator[Line]:

    yield _answer_line(prospect, arguments.config)
    if prospect.refused:
        yield line()
        yield line("This configuration would take away what is installed:")
        yield from (line("  ", Painted(text, "bad")) for text in prospect.refused)
    if prospect.steps or prospect.routes.pending:
        yield line()
    yield from step_lines(prospect.steps)
    yield from (line("  ", Painted(f"? {pending}", "warn")) for pending in prospect.routes.pending)
    yield from foreseen_lines(prospect.routes.foreseen, config=arguments.config)
    notes = [*prospect.routes.beside, *of_severity(prospect.others, "warning", "note")]
    if prospect.operations or notes or prospect.conflicts:
        yield line()
    yield from (line("  ", Painted(str(conflict), "bad")) for conflict in prospect.conflicts)
    yield from operation_lines(prospect.operations)
    yield from (line("  ", Painted(str(note), "warn")) for note in notes)
    if prospect.writes or prospect.removes:
        yield line()
    yield from file_lines("write", prospect.writes)
    yield from file_lines("remove", prospect.removes)
    if prospect.after is not None:
        yield line()
        yield line("The verdict afterwards would be:")
        yield from (line("  ", *answer) for answer in prospect.after.answer_lines())
        if prospect.after.found.escapes:
            yield from prospect.after.evidence_lines(style, now="then")
            yield line()
            if prospect.ends_in_overlap and prospect.changes:
                told = "apply would do all of this, and then fail, and no machine would start: the mode is STRICT."
                yield line(Painted(told, "warn"))
            if prospect.after.found.routes:
                where = f" --snapshot {arguments.snapshot}" if prospect.saved else ""
                again = f"hostrouting repair --config {arguments.config}{where}"
                yield line(f"To print the routes that the configuration lacks: {again}")
    yield from gate_lines(prospect.gate)
    is_refused = prospect.answer in {"refused", "conflict"}
    if prospect.changes and not is_refused and not prospect.is_stuck and arguments.snapshot is None:
        yield line()
        wait = "" if arguments.wait is None else f" --wait {arguments.wait:g}"
        allow = " --allow-removal" if arguments.allow_removal else ""
        yield line(f"To apply it, as root: hostrouting apply --config {arguments.config}{wait}{allow}")


def _answer_line(prospect: Prospect, config: str) -> Line:

    beside = "; only routes, because a snapshot has no files" if prospect.saved else ""
    until, none = ("", "") if prospect.saved else (", and no machine starts until then", ", and no machine starts")
    if prospect.stuck:
        until = none = f"; {prospect.stuck}"
    if prospect.refused:
        return line(Painted("REFUSED:", "bad"), " apply would change nothing")
    if prospect.routes.conflicts:
        count = counted(len(prospect.routes.conflicts), "route")
        told = f" {count} cannot be added; apply would change no route and fail{none}{beside}"
        return line(Painted("CONFLICT:", "bad"), told)
    if prospect.conflicts:
        return line(Painted("CONFLICT:", "bad"), f" apply would fail, for the reasons below{none}{beside}")
    if prospect.routes.pending:
        told = f" apply would wait for what is missing{until}{beside}"
        return line(Painted("NOT READY:", "warn"), told)
    if prospect.answer == "not-ready" and prospect.after is not None:
        told = f" apply would wait for {' and '.join(prospect.after.found.lacking)}, which the check needs"
        return line(Painted("NOT READY:", "warn"), told)
    parts = tally(prospect.routes.steps, {"add": "add {}", "replace": "replace {}", "delete": "delete {}"})
    parts += [f"{operation.verb} {operation.object}" for operation in prospect.operations]
    parts += [f"write {counted(len(prospect.writes), 'file')}"] if prospect.writes else []
    parts += [f"remove {counted(len(prospect.removes), 'file')}"] if prospect.removes else []
    if prospect.answer == "overlap":
        told = f" apply would change nothing and fail: the mode is STRICT, so no machine starts{beside}"
        return line(Painted("OVERLAP:", "bad"), told)
    if not parts and prospect.saved:
        return line(Painted("NOTHING TO DO:", "good"), f" the routes already match {config}{beside}")
    if not parts:
        return line(Painted("NOTHING TO DO:", "good"), f" the host already matches {config}")
    return line(Painted("TO DO:", "warn"), f" {', '.join(parts)}{beside}")


def _document(prospect: Prospect) -> dict[str, Any]:

    return {
        "schema": COMMAND.schema,
        "answer": prospect.answer,
        "changes": prospect.changes,
        "steps": [step_document(step) for step in prospect.steps],
        "pending": [str(pending) for pending in prospect.routes.pending],
        "operations": [operation.to_mapping() for operation in prospect.operations],
        "findings": [finding.to_mapping() for finding in prospect.findings],
        "refused": list(prospect.refused),
        "files": None if prospect.saved else _files(prospect),
        "verdict": None if prospect.after is None else prospect.after.found.verdict,
        "check": None if prospect.after is None else prospect.after.document(),
    }


def _files(prospect: Prospect) -> dict[str, list[str]]:
    return {"write": list(prospect.writes), "rewrite": list(prospect.rewrites), "remove": list(prospect.removes)}


COMMAND = Command(
    name="plan",
    answer=_answer,
    version=2,
    options=_options,
    more="""\
Exit code 0 means that the host already matches the configuration. 1 means that there is something to do, that apply
refuses the configuration, that there is a conflict, or, in mode STRICT, that an overlap is left. 3 means that a default
route or a device is missing, so it is not known yet. With --json, "answer" distinguishes these cases.
""",
    examples="""\
# what would apply change?
hostrouting plan --config agent.json
# the same for the node that the snapshot is of
hostrouting plan --config agent.json --snapshot node.json
""",
    failing="there is something to do, or apply would fail",
    takes_snapshot=True,
    needs_files=True,
    keys={
        "answer": "refused, conflict, not-ready, to-do, overlap (nothing to do, and apply would fail) or nothing-to-do",
        "changes": "whether apply would change anything",
        **STEPS,
        "pending[]": "what apply would wait for; each a sentence",
        **OPERATIONS,
        **FINDINGS,
        "refused[]": "what apply refuses to take away without --allow-removal; each a sentence",
        "files.write[]": "the files that would be written, even if apply then fails; files is null for a snapshot",
        "files.rewrite[]": "those of them that already exist, and are different",
        "files.remove[]": "the files that would be removed",
        "verdict": "the verdict of check afterwards; null if there is nothing to check, or it is not known",
        "check": "that check, as hostrouting/check/3; null if there is none",
    },
)
