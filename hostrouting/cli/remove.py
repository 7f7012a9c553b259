"""`remove`: take away everything of ours, and say what that was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.cli.changes import counted, file_lines, step_lines
from hostrouting.cli.page import SHOWN, Line, Painted, capped, line
from hostrouting.cli.reply import FINE, Reply
from hostrouting.cli.running import code_of_run, failure_documents, failure_lines, run_task
from hostrouting.cli.source import config_of, quiet_context
from hostrouting.errors import BackendError
from hostrouting.leftover import deletion_command
from hostrouting.tasks import Preview, Remove

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    import phases
    from hostrouting.host import Host

__all__ = ["SCHEMA", "run"]

SCHEMA = "hostrouting/remove/1"


def run(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    """See the module."""
    task = Remove(config_of(arguments), host=host())
    try:
        before = task.plan(quiet_context())
    except BackendError:  # the task goes on past it, and says so
        before = attrs.evolve(task, host=attrs.evolve(task.host, backend=None)).plan(quiet_context())
    if before.is_empty:
        return Reply(FINE, lambda: _document(before, None), lambda _style: _page(before, None))
    report = run_task(task)
    return Reply(code_of_run(report), lambda: _document(before, report), lambda _style: _page(before, report))


def _page(before: Preview, report: phases.Report | None) -> Iterator[Line]:
    steps = () if before.routes is None else before.routes.changes
    if report is None:
        yield line(Painted("NOTHING TO DO:", "good"), " nothing of ours is on this host")
        yield from _stays(before)
        return
    if not report.ok:
        yield from failure_lines(report)
        yield line("What is left can be seen with: hostrouting status")
        return
    parts = [counted(len(steps), "route")] if steps else []
    parts += [counted(len(before.files.removes), "file")] if before.files.removes else []
    yield line(Painted("DONE:", "good"), f" {' and '.join(parts)} removed; nothing of ours is left")
    yield line()
    yield from step_lines(steps)
    yield from file_lines("removed", before.files.removes)
    yield from _stays(before)


def _stays(before: Preview) -> Iterator[Line]:
    """What was wanted and is not ours, and the commands that delete it."""
    routes = before.stays
    if routes:
        yield line()
        yield line("These routes stay: the configuration asked for them, but hostrouting did not install them.")
        yield from capped((line("  ", str(route)) for route in routes[:SHOWN]), len(routes))
        yield line("Where nothing else needs them, delete them, as root, with:")
        yield from capped((line("  ", deletion_command(route)) for route in routes[:SHOWN]), len(routes))


def _document(before: Preview, report: phases.Report | None) -> dict[str, Any]:
    ok = report is None or report.ok
    steps = () if before.routes is None else before.routes.changes
    return {
        "schema": SCHEMA,
        "ok": ok,
        "routes": [str(step.route) for step in steps] if ok else [],
        "files": list(before.files.removes) if ok else [],
        "stays": [{"route": str(route), "command": deletion_command(route)} for route in before.stays],
        "failures": [] if report is None else failure_documents(report),
    }
