"""`plan`: what apply would do, as a diff, and the verdict afterwards. Nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import attrs

from hostrouting.boot.gate_state import GateState
from hostrouting.cli.changes import Work
from hostrouting.cli.check import Check
from hostrouting.cli.command import FAILED, FINE, UNDECIDED, Command, Reply, config_option, removal_option, wait_option
from hostrouting.cli.output import Line, Painted, below, line, named_lines
from hostrouting.cli.source import config_of, quiet_context, saved_snapshot, wait_of
from hostrouting.cli.standings import looked_at_gate
from hostrouting.finding import of_severity, worst_first
from hostrouting.routes.plan import RoutePlan, plan_static_routes
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.results import Change
from hostrouting.text import counted

if TYPE_CHECKING:
    import argparse

    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host
    from hostrouting.model.snapshot import Snapshot


class Prospect:
    """What `apply` would do, and the state afterwards. For a saved snapshot, files and the gate are not known."""

    def __init__(
        self, change: Change, before: Snapshot | None, config: HostRoutingConfig, *, gate: GateState | None = None
    ) -> None:
        """Judge the change of a host."""
        self.change, self.saved, self.gate = change, gate is None, gate or GateState()
        self.routes = routes = change.routes or RoutePlan()
        # With conflicts, these are the only steps, because nothing would be carried out.
        self.work = Work.of(change, routes.conflicts or routes.steps)
        self.refused = tuple(of_severity(change.removals, "error"))  # what apply refuses to take away
        self.is_stuck = bool(routes.conflicts or routes.pending)  # no route could be changed
        self.changes = bool(self.work._replace(steps=()) if self.is_stuck else self.work)
        check = config.route_overlap
        self.after: Check | None = None  # nothing to check, or the plan cannot be carried out
        if before is not None and check.expected_cidrs and not self.is_stuck:
            self.after = Check.of(routes.apply_to(before), config)
        # Whether apply would do all of this and then fail.
        overlaps = self.after is not None and self.after.found.verdict == "overlap"
        self.ends_in_overlap = overlaps and check.mode == "STRICT"

    @property
    def answer(self) -> Literal["refused", "conflict", "not-ready", "to-do", "overlap", "nothing-to-do"]:
        """The result in one word."""
        if self.refused:
            return "refused"
        if self.routes.conflicts or self.change.conflicts:
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


def _options(parser: argparse.ArgumentParser) -> None:
    config_option(parser, required=True)
    wait_option(parser, "how long apply would wait")
    removal_option(parser)


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:

    config = config_of(arguments)
    saved = saved_snapshot(arguments)
    prospect = _here(arguments, host(), config) if saved is None else _elsewhere(saved, config)
    return Reply(prospect.code, lambda: _document(prospect), lambda: _page(prospect, arguments))


def _here(arguments: argparse.Namespace, host: Host, config: HostRoutingConfig) -> Prospect:

    look = Configure(config, host=host, wait=wait_of(arguments, host)).preview(quiet_context())
    if arguments.allow_removal:
        going = (attrs.evolve(gone, severity="warning", remedy="") for gone in look.removals)
        look = attrs.evolve(look, removals=tuple(going))
    return Prospect(look, look.before, config, gate=looked_at_gate(host, config.gate.units))


def _elsewhere(before: Snapshot, config: HostRoutingConfig) -> Prospect:
    return Prospect(Change(plan_static_routes(config, before)), before, config)


def _page(prospect: Prospect, arguments: argparse.Namespace) -> Iterator[Line]:

    yield _answer_line(prospect, arguments.config)
    findings = [finding for finding in prospect.change.findings if finding.name != "route-conflict"]  # a step
    yield from below(named_lines(worst_first(findings)))
    yield from below(prospect.work.lines())
    if prospect.after is not None:
        yield line()
        yield line("The verdict afterwards would be:")
        yield from (line("  ", *answer) for answer in prospect.after.answer_lines())
        if prospect.after.found.escapes:
            yield from prospect.after.evidence_lines()
            yield line()
            if prospect.ends_in_overlap and prospect.changes:
                sentence = (
                    "apply would do all of this, and then fail, and no gated unit would start: the mode is STRICT."
                )
                yield line(Painted(sentence, "warn"))
            if prospect.after.found.routes:
                where = f" --snapshot {arguments.snapshot}" if prospect.saved else ""
                again = f"hostrouting repair --config {arguments.config}{where}"
                yield line(f"To print the routes that the configuration lacks: {again}")
    yield from below(named_lines(prospect.gate.findings))
    is_refused = prospect.answer in {"refused", "conflict"}
    if prospect.changes and not (is_refused or prospect.is_stuck or prospect.ends_in_overlap) and not prospect.saved:
        yield line()
        wait = "" if arguments.wait is None else f" --wait {arguments.wait:g}"
        allow = " --allow-removal" if arguments.allow_removal else ""
        yield line(f"To apply it, as root: hostrouting apply --config {arguments.config}{wait}{allow}")


def _answer_line(prospect: Prospect, config: str) -> Line:

    beside = "; only routes, because a snapshot has no files" if prospect.saved else ""
    none = "" if prospect.saved else ", and no gated unit starts"
    until = none and f"{none} until then"
    if prospect.change.keeps_script:
        until = none = "; the installed static-routes.sh would stay, and decides whether gated units start"
    if prospect.refused:
        return line(Painted("REFUSED:", "bad"), " apply would change nothing")
    if prospect.routes.conflicts:
        count = counted(len(prospect.routes.conflicts), "route")
        sentence = f" {count} cannot be added; apply would change no route and fail{none}{beside}"
        return line(Painted("CONFLICT:", "bad"), sentence)
    if prospect.change.conflicts:
        return line(Painted("CONFLICT:", "bad"), f" apply would fail, for the reasons below{none}{beside}")
    if prospect.routes.pending:
        sentence = f" apply would wait for what is missing{until}{beside}"
        return line(Painted("NOT READY:", "warn"), sentence)
    if prospect.answer == "not-ready" and prospect.after is not None:
        sentence = f" apply would wait for {' and '.join(prospect.after.found.lacking)}, which the check needs"
        return line(Painted("NOT READY:", "warn"), sentence)
    if prospect.answer == "overlap":
        sentence = f" apply would change nothing and fail: the mode is STRICT, so no gated unit starts{beside}"
        return line(Painted("OVERLAP:", "bad"), sentence)
    if not prospect.work:
        who = "the routes already match" if prospect.saved else "the host already matches"
        return line(Painted("NOTHING TO DO:", "good"), f" {who} {config}{beside}")
    return line(Painted("TO DO:", "warn"), f" {prospect.work}{beside}")


def _document(prospect: Prospect) -> dict[str, Any]:

    work = prospect.work.document()
    return {
        "schema": COMMAND.schema,
        "answer": prospect.answer,
        "changes": prospect.changes,
        **work,
        "files": None if prospect.saved else work["files"],
        "findings": [finding.to_mapping() for finding in (*prospect.change.findings, *prospect.gate.findings)],
        "verdict": None if prospect.after is None else prospect.after.found.verdict,
        "check": None if prospect.after is None else prospect.after.document(),
    }


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
)
