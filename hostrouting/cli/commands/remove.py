"""`remove`: remove everything that hostrouting has installed, and list it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hostrouting.cli.changes import Run, Work, run_task
from hostrouting.cli.command import FAILED, FINE, Command, Reply
from hostrouting.cli.output import Line, Painted, below, line, named_lines
from hostrouting.tasks.configure import Remove

if TYPE_CHECKING:
    import argparse

    from hostrouting.finding import Finding
    from hostrouting.host.host import Host


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="show what would be removed, and change nothing")


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    task = Remove(host=host())
    if arguments.dry_run:
        plan = task.plan()
        work = Work.of(plan)
        return Reply(
            FAILED if plan.errors and work else FINE,
            lambda: _document(work, None),
            lambda: _prospect(work, plan.findings),
        )
    run = run_task(task, task.host)
    return Reply(run.code, lambda: _document(run.work(), run), lambda: _page(run), failed=run.failed)


_NOTHING = "hostrouting has nothing installed on this host"


def _prospect(work: Work, findings: Sequence[Finding]) -> Iterator[Line]:
    """What would be removed, and what forbids it."""
    if not work:
        yield line(Painted("NOTHING TO DO:", "good"), f" {_NOTHING}")
        return
    yield line(Painted("TO DO:", "warn"), f" {work}")
    yield line()
    yield from work.lines()
    yield from below(named_lines(findings))
    yield line()
    yield line("To remove it, as root: hostrouting remove")


def _page(run: Run) -> Iterator[Line]:
    yield from run.lines(run.work(), _NOTHING, "; nothing that hostrouting installed is left")
    if not run.ok:
        yield line("To see what is left: hostrouting status")


def _document(work: Work, run: Run | None) -> dict[str, Any]:
    return {
        "schema": COMMAND.schema,
        "ok": run is None or run.ok,
        "dryRun": run is None,
        **work.document(),
        "failures": [] if run is None else run.failures,
    }


COMMAND = Command(
    name="remove",
    answer=_answer,
    version=3,
    options=_options,
    more="""\
Requires root. Scripts that somebody else has put into /etc/hostrouting/gate.d hold units back, too: while there are
any, nothing is removed, and they are named. With --dry-run nothing is changed; the exit code is 1 if the
removal would fail.
""",
    examples="""\
# what would be removed?
hostrouting remove --dry-run
# as root: remove it
hostrouting remove
""",
    failing="not everything could be removed",
)
