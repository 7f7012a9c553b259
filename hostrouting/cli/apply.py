"""`apply`: make the host's routing what the configuration says; progress while it goes on, then what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.cli.changes import changed_files, changed_routes, counted, file_lines, step_document, step_lines, tally
from hostrouting.cli.check import answer_line, evidence_lines, limit_lines
from hostrouting.cli.examined import Examined
from hostrouting.cli.failure import is_denied
from hostrouting.cli.foreseen import foreseen_document, foreseen_lines
from hostrouting.cli.gates import after_a_failure, gate_document, gate_lines, looked_at_gate
from hostrouting.cli.page import Line, Painted, Style, line
from hostrouting.cli.remedy import remedy_lines
from hostrouting.cli.reply import Reply
from hostrouting.cli.running import code_of_run, effects_of_run, failure_documents, failure_lines, run_task
from hostrouting.cli.source import config_of
from hostrouting.errors import RouteOverlapError
from hostrouting.kernel import Examination
from hostrouting.tasks import CheckResult, Configure, RoutesResult

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    import phases
    from hostrouting.config import HostRoutingConfig
    from hostrouting.host import Host
    from hostrouting.openings import GateState
    from hostrouting.plan import Foreseen, Step

__all__ = ["SCHEMA", "run"]

SCHEMA = "hostrouting/apply/1"


@attrs.frozen
class _Done:
    """What a run did: the steps that were taken, the files that were changed, the check that followed."""

    report: phases.Report
    steps: Sequence[Step]
    wrote: tuple[str, ...]
    removed: tuple[str, ...]
    checked: Examined | None
    foreseen: tuple[Foreseen, ...]
    gate: GateState
    """The gate as the run left it."""

    @property
    def changed(self) -> bool:
        return bool(self.wrote or self.removed) or any(step.action != "keep" for step in self.steps)


def run(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    """See the module."""
    config, here = config_of(arguments), host()
    report = run_task(Configure(config, host=here, wait=arguments.wait))
    done = _done(report, here, config, looked_at_gate(here))
    return Reply(code_of_run(report), lambda: _document(done), lambda style: _page(done, arguments, style))


def _done(report: phases.Report, host: Host, config: HostRoutingConfig, gate: GateState) -> _Done:
    results = [node.result for node in report.walk()]
    effects = effects_of_run(report)
    wrote, removed = changed_files(effects, host)
    routes = next((it for it in results if isinstance(it, RoutesResult)), None)
    check = next((it for it in results if isinstance(it, CheckResult)), None)
    refused = next((it.error for it in report.failures if isinstance(it.error, RouteOverlapError)), None)
    found = check.examination if check else refused.report if refused else None
    return _Done(
        report,
        routes.applied.plan.steps if routes and routes.applied else changed_routes(effects),
        wrote,
        removed,
        Examined(found, config) if isinstance(found, Examination) else None,
        routes.applied.plan.foreseen if routes and routes.applied else (),
        gate,
    )


def _page(done: _Done, arguments: argparse.Namespace, style: Style) -> Iterator[Line]:
    checked = done.checked
    overlaps = checked is not None and checked.found.verdict != "ok"
    if done.report.ok:
        yield _answer(done, arguments.config)
    elif not overlaps:
        yield from failure_lines(done.report)
    if checked is not None:
        yield answer_line(checked)
    yield from _changes(done)
    yield from foreseen_lines(done.foreseen, config=arguments.config)
    if checked is not None and overlaps:
        yield from evidence_lines(checked, style)
        again = f"hostrouting repair --config {arguments.config}"
        yield from remedy_lines(checked, config=arguments.config, again=again)
        name = f"name the outbound devices as routeOverlap.expectedDevs in {arguments.config}"
        yield from limit_lines(checked, advice=f"Wait longer (--wait 300), or {name}.")
        if not done.report.ok and done.gate.holds:
            yield line()
            yield line("The mode is STRICT: no machine starts on this host until the check passes.")
            return
    if done.report.ok:
        yield from gate_lines(done.gate)
    elif not any(is_denied(failure.error) for failure in done.report.failures):
        yield line()
        yield after_a_failure(done.gate)


def _answer(done: _Done, config: str) -> Line:
    parts = tally(done.steps, {"add": "{} added", "replace": "{} replaced", "delete": "{} deleted", "keep": "{} kept"})
    parts += [f"{counted(len(done.wrote), 'file')} written"] if done.wrote else []
    parts += [f"{counted(len(done.removed), 'file')} removed"] if done.removed else []
    if not done.changed:
        return line(Painted("NOTHING TO DO:", "good"), f" the host already is as {config} says")
    return line(Painted("DONE:", "good"), f" {', '.join(parts)}")


def _changes(done: _Done) -> Iterator[Line]:
    changes = [step for step in done.steps if step.action != "keep"]
    if changes or done.wrote or done.removed:
        yield line()
        if not done.report.ok:
            yield line("What it has changed all the same:")
    yield from step_lines(changes)
    yield from file_lines("wrote", done.wrote)
    yield from file_lines("removed", done.removed)


def _document(done: _Done) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "ok": done.report.ok,
        "changed": done.changed,
        "steps": [step_document(step) for step in done.steps],
        "foreseen": [foreseen_document(foreseen) for foreseen in done.foreseen],
        "files": {"wrote": list(done.wrote), "removed": list(done.removed)},
        "check": None if done.checked is None else done.checked.document(),
        "gate": gate_document(done.gate),
        "failures": failure_documents(done.report),
    }
