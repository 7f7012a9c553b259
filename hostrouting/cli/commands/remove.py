"""`remove`: remove everything that hostrouting has installed, and list it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.cli.changes import Run, Work, run_task
from hostrouting.cli.command import FINE, Command, Reply, config_option
from hostrouting.cli.output import Line, Painted, below, line, named_lines
from hostrouting.cli.source import config_of, quiet_context
from hostrouting.errors import BackendError
from hostrouting.tasks.configure import Remove
from hostrouting.text import spoken

if TYPE_CHECKING:
    import argparse

    from hostrouting.host.host import Host
    from hostrouting.tasks.results import Change


def _options(parser: argparse.ArgumentParser) -> None:
    config_option(parser)
    parser.add_argument("--dry-run", action="store_true", help="show what would be removed, and change nothing")


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:

    task = Remove(config_of(arguments), host=host())
    try:
        before = task.plan(quiet_context())
    except BackendError:  # the task continues after this error, and reports it
        before = attrs.evolve(task, host=attrs.evolve(task.host, backend=None)).plan(quiet_context())
    if before.is_empty or arguments.dry_run:
        config = f" --config {arguments.config}" if arguments.config else ""
        return Reply(FINE, lambda: _document(before, None), lambda: _prospect(before, config))
    run = run_task(task, task.host)
    files, layout = task.host.files, task.host.layout
    left = [path for path in (layout.lock_path, layout.guard_lock_path) if files.is_there(path)]
    return Reply(run.code, lambda: _document(before, run), lambda: _page(before, run, left), failed=run.failed)


def _prospect(before: Change, config: str) -> Iterator[Line]:
    """What would be removed."""
    if before.is_empty:
        yield line(Painted("NOTHING TO DO:", "good"), " hostrouting has nothing installed on this host")
        yield from _stays(before)
    else:
        yield from _removed(Painted("TO DO:", "warn"), _work(before))
        yield from _stays(before)
        yield line()
        yield line(f"To remove it, as root: hostrouting remove{config}")


def _page(before: Change, run: Run, left: Sequence[str]) -> Iterator[Line]:
    if not run.ok:
        yield line("To see what is left: hostrouting status")
        return
    but = f", except {spoken(left)}, which the next boot removes" if left else ""
    yield from _removed(
        Painted("DONE:", "good"), _work(before, is_done=True), f"; nothing that hostrouting installed is left{but}"
    )
    yield from _stays(before)


def _removed(head: Painted, work: Work, more: str = "") -> Iterator[Line]:
    yield line(head, f" {f'{work}' or 'the units of hostrouting, which are still loaded'}{more}")
    yield line()
    yield from work.lines()


def _work(before: Change, *, is_done: bool = False) -> Work:
    return Work.of(before, () if before.routes is None else before.routes.changes, is_done=is_done)


def _stays(before: Change) -> Iterator[Line]:
    """Lines for what stays: wanted routes that are not ours."""
    return below(named_lines([finding for finding in before.others if finding.name == "route-stays"]))


def _document(before: Change, run: Run | None) -> dict[str, Any]:

    ok = run is None or run.ok
    return {
        "schema": COMMAND.schema,
        "ok": before.is_empty if run is None else run.ok,
        "dryRun": run is None and not before.is_empty,
        **(_work(before) if ok else Work()).document(),
        "findings": [finding.to_mapping() for finding in before.others],
        "failures": [] if run is None else run.failures,
    }


COMMAND = Command(
    name="remove",
    answer=_answer,
    version=2,
    options=_options,
    more="""\
Requires root. The routes of hostrouting carry its route protocol: 213.
With --dry-run nothing is changed, the exit code is 0, and root is not required.
""",
    examples="""\
# what would be removed?
hostrouting remove --dry-run
# as root: remove it
hostrouting remove
""",
    failing="not everything could be removed",
)
