"""`remove`: take away everything of ours, and say what that was."""

from __future__ import annotations

from hostrouting.cli.command import FINE, Command, Reply, config_option
from hostrouting.cli.page import SHOWN, Painted, capped, counted, line
from hostrouting.cli.schemas import FAILURES, OPERATIONS
from hostrouting.route_protocol import OURS

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from typing import Any

    from hostrouting.cli.page import Line
    from hostrouting.cli.run import Run
    from hostrouting.host import Host
    from hostrouting.tasks import Preview

__all__ = ["COMMAND"]


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    import attrs

    from hostrouting.cli.run import run_task
    from hostrouting.cli.source import config_of, quiet_context
    from hostrouting.errors import BackendError
    from hostrouting.tasks import Remove

    task = Remove(config_of(arguments), host=host())
    try:
        before = task.plan(quiet_context())
    except BackendError:  # the task goes on past it, and says so
        before = attrs.evolve(task, host=attrs.evolve(task.host, backend=None)).plan(quiet_context())
    if before.is_empty:
        return Reply(FINE, lambda: _document(before, None), lambda _style: _page(before, None))
    run = run_task(task, task.host)
    return Reply(run.code, lambda: _document(before, run), lambda _style: _page(before, run), failed=run.failed)


def _page(before: Preview, run: Run | None) -> Iterator[Line]:
    from hostrouting.cli.run import file_lines, operation_lines, step_lines

    steps = () if before.routes is None else before.routes.changes
    if run is None:
        yield line(Painted("NOTHING TO DO:", "good"), " nothing of ours is on this host")
        yield from _stays(before)
        return
    if not run.ok:
        yield line("What is left can be seen with: hostrouting status")
        return
    parts = [counted(len(steps), "route")] if steps else []
    parts += [it.object for it in before.operations]
    parts += [counted(len(before.files.removes), "file")] if before.files.removes else []
    yield line(Painted("DONE:", "good"), f" {' and '.join(parts)} removed; nothing of ours is left")
    yield line()
    yield from step_lines(steps)
    yield from operation_lines(before.operations)
    yield from file_lines("removed", before.files.removes)
    yield from _stays(before)


def _stays(before: Preview) -> Iterator[Line]:
    """What was wanted and is not ours, and the commands that delete it."""
    from hostrouting.leftover import deletion_command

    routes = before.stays
    if routes:
        yield line()
        yield line("These routes stay: the configuration asked for them, but hostrouting did not install them.")
        yield from capped((line("  ", str(route)) for route in routes[:SHOWN]), len(routes))
        yield line("Where nothing else needs them, delete them, as root, with:")
        yield from capped((line("  ", deletion_command(route)) for route in routes[:SHOWN]), len(routes))


def _document(before: Preview, run: Run | None) -> dict[str, Any]:
    from hostrouting.cli.run import operation_document
    from hostrouting.leftover import deletion_command

    ok = run is None or run.ok
    steps = () if before.routes is None else before.routes.changes
    return {
        "schema": COMMAND.schema,
        "ok": ok,
        "routes": [str(step.route) for step in steps] if ok else [],
        "operations": [operation_document(it) for it in before.operations] if ok else [],
        "files": list(before.files.removes) if ok else [],
        "stays": [{"route": str(route), "command": deletion_command(route)} for route in before.stays],
        "failures": [] if run is None else run.failures,
    }


COMMAND = Command(
    "remove",
    "take away everything of ours, and nothing else",
    answer=_answer,
    options=config_option,
    more=f"""\
Takes root. Routes of ours are those that carry our protocol number: {OURS}, unless a configuration says another.
""",
    failing="not everything could be removed",
    changes=True,
    tells_progress=True,
    keys={
        "ok": "whether everything of ours is gone",
        "routes[]": "the routes that were removed",
        **OPERATIONS,
        "files[]": "the files that were removed",
        "stays[].route": "a route that the configuration, or else the installed script, has and that is not ours",
        "stays[].command": "what a shell is told to delete it, and no other",
        **FAILURES,
    },
)
