"""`plan`: what apply would do, as a diff, and what the check would say afterwards. Nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import attrs

from hostrouting.cli.changes import counted, file_lines, step_document, step_lines, tally
from hostrouting.cli.check import answer_line, evidence_lines
from hostrouting.cli.examined import Examined
from hostrouting.cli.foreseen import foreseen_document, foreseen_lines
from hostrouting.cli.gates import gate_document, gate_lines, looked_at_gate
from hostrouting.cli.page import Line, Painted, Style, line
from hostrouting.cli.reply import FAILED, FINE, UNDECIDED, Reply
from hostrouting.cli.source import config_of, looked_at
from hostrouting.model import IPV4
from hostrouting.openings import GateState
from hostrouting.plan import RoutePlan, plan_routes
from hostrouting.tasks import Configure, wanted_routes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from hostrouting.config import HostRoutingConfig
    from hostrouting.host import Host
    from hostrouting.model import Snapshot
    from hostrouting.plan import Step

__all__ = ["SCHEMA", "run"]

SCHEMA = "hostrouting/plan/1"


@attrs.frozen
class _Prospect:
    """What would be done, and what would be true then. Of a saved snapshot no files are known."""

    routes: RoutePlan
    writes: tuple[str, ...]
    removes: tuple[str, ...]
    after: Examined | None
    saved: bool
    gate: GateState
    """The gate as it is now."""

    @property
    def is_stuck(self) -> bool:
        """Whether apply would not come to change a route."""
        return bool(self.routes.conflicts or self.routes.pending)

    @property
    def changes(self) -> bool:
        """Whether apply would change anything."""
        return bool(self.writes or self.removes or (self.routes.changes and not self.is_stuck))

    @property
    def ends_in_overlap(self) -> bool:
        """Whether it would fail when all of that is done."""
        if self.after is None or self.after.config.route_overlap.mode != "STRICT":
            return False
        return self.after.found.verdict == "overlap"

    @property
    def steps(self) -> Sequence[Step]:
        """What would be done about routes; where one stands in the way, nothing."""
        return self.routes.conflicts or self.routes.steps

    @property
    def answer(self) -> Literal["conflict", "not-ready", "to-do", "overlap", "nothing-to-do"]:
        """The whole in a word."""
        if self.routes.conflicts:
            return "conflict"
        if self.routes.pending or (self.after is not None and self.after.found.verdict == "no-default-route"):
            return "not-ready"
        if self.changes:
            return "to-do"
        return "overlap" if self.ends_in_overlap else "nothing-to-do"

    @property
    def code(self) -> int:
        return {"not-ready": UNDECIDED, "nothing-to-do": FINE}.get(self.answer, FAILED)


def run(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    """See the module."""
    config = config_of(arguments)
    writes: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    gate = GateState()
    before: Snapshot | None
    if arguments.snapshot is not None:
        with looked_at(arguments, host) as backend:
            before = backend.snapshot(family=IPV4)
        routes = plan_routes(wanted_routes(config), before, protocol=config.protocol)
    else:
        where = host()
        look = Configure(config, host=where).preview()
        routes, before = look.routes or RoutePlan(), look.before
        writes, removes = look.files.writes, look.files.removes
        gate = looked_at_gate(where)
    after = None if before is None else _afterwards(routes, before, config)
    it = _Prospect(routes, writes, removes, after, saved=arguments.snapshot is not None, gate=gate)
    return Reply(it.code, lambda: _document(it), lambda style: _page(it, arguments, style))


def _afterwards(routes: RoutePlan, before: Snapshot, config: HostRoutingConfig) -> Examined | None:
    """The check on the host as it would be then; None where there is nothing to check, or no then."""
    if not config.route_overlap.expected_cidrs or routes.conflicts or routes.pending:
        return None
    return Examined.of(routes.apply_to(before), config)


def _page(it: _Prospect, arguments: argparse.Namespace, style: Style) -> Iterator[Line]:
    yield _answer(it, arguments.config)
    if it.steps or it.routes.pending:
        yield line()
    yield from step_lines(it.steps)
    yield from (line("  ", Painted(f"? {pending}", "warn")) for pending in it.routes.pending)
    yield from foreseen_lines(it.routes.foreseen, config=arguments.config)
    if it.writes or it.removes:
        yield line()
    yield from file_lines("write", it.writes)
    yield from file_lines("remove", it.removes)
    if it.after is not None:
        yield line()
        yield line("Afterwards the check would say:")
        yield line("  ", *answer_line(it.after))
        if it.after.found.report.findings:
            yield from evidence_lines(it.after, style, now="then")
            yield line()
            if it.ends_in_overlap and it.changes:
                told = "apply would do all of this, and then fail, and no machine would start: the mode is STRICT."
                yield line(Painted(told, "warn"))
            if it.after.found.repair.routes:
                where = f" --snapshot {arguments.snapshot}" if it.saved else ""
                again = f"hostrouting repair --config {arguments.config}{where}"
                yield line(f"What the configuration lacks is printed by: {again}")
    yield from gate_lines(it.gate)
    if it.changes and not it.is_stuck and arguments.snapshot is None:
        yield line()
        yield line(f"Do it, as root, with: hostrouting apply --config {arguments.config}")


def _answer(it: _Prospect, config: str) -> Line:
    beside = "; routes only: a snapshot has no files" if it.saved else ""
    until, none = ("", "") if it.saved else (", and no machine starts until then", ", and no machine starts")
    if it.routes.conflicts:
        count = counted(len(it.routes.conflicts), "route")
        told = f" {count} cannot be had; apply would change no route and fail{none}{beside}"
        return line(Painted("CONFLICT:", "bad"), told)
    if it.routes.pending:
        told = f" apply would wait for what is not there yet{until}{beside}"
        return line(Painted("NOT READY:", "warn"), told)
    if it.answer == "not-ready":
        return line(Painted("NOT READY:", "warn"), " apply would wait for an IPv4 default route, by which to judge")
    parts = tally(it.routes.steps, {"add": "add {}", "replace": "replace {}", "delete": "delete {}"})
    parts += [f"write {counted(len(it.writes), 'file')}"] if it.writes else []
    parts += [f"remove {counted(len(it.removes), 'file')}"] if it.removes else []
    if it.answer == "overlap":
        told = f" apply would change nothing, and fail: the mode is STRICT, and no machine starts{beside}"
        return line(Painted("OVERLAP:", "bad"), told)
    if not parts and it.saved:
        return line(Painted("NOTHING TO DO:", "good"), f" the routes already are as {config} says{beside}")
    if not parts:
        return line(Painted("NOTHING TO DO:", "good"), f" the host already is as {config} says")
    return line(Painted("TO DO:", "warn"), f" {', '.join(parts)}{beside}")


def _document(it: _Prospect) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "answer": it.answer,
        "changes": it.changes,
        "steps": [step_document(step) for step in it.steps],
        "pending": [str(pending) for pending in it.routes.pending],
        "foreseen": [foreseen_document(foreseen) for foreseen in it.routes.foreseen],
        "files": None if it.saved else {"write": list(it.writes), "remove": list(it.removes)},
        "verdict": None if it.after is None else it.after.found.verdict,
        "gate": None if it.saved else gate_document(it.gate),
    }
