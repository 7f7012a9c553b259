"""A run of a task for an operator: what it waits for, how it has ended, and what it has changed."""

import logging
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import phases
from hostrouting.cli.output import error_document, say
from hostrouting.command import Operator
from hostrouting.errors import HostRoutingError, RouteOverlapError, exit_code
from hostrouting.host.effects import Effects, effects_of
from hostrouting.host.host import Host
from hostrouting.lines import finding_lines, indented
from hostrouting.text import printable_lines, spoken
from phases.observers import FIELDS, LOGGER

_ON_THE_PAGE = {"verdict", "finding"}
"""The fields of log lines that the page repeats."""


class Run(NamedTuple):
    """A finished run with its effects."""

    report: phases.Step
    effects: Effects
    wrote: tuple[str, ...]
    """The changed files that are there now."""
    removed: tuple[str, ...]
    """Those that are gone."""
    undone: phases.Step | None = None
    """The step that took the changes back, if that was tried."""

    @property
    def errors(self) -> tuple[BaseException, ...]:
        """Why the run failed, and not why its undo did."""
        steps = [step for step in self.report.failures if step.action != "undo"]
        return tuple(step.error for step in steps if step.error is not None)

    @property
    def reasons(self) -> set[str]:
        """The sentences of the findings that its lines have as the reasons of a failure."""
        reasons: set[str] = set()
        for error in self.errors:
            if isinstance(error, RouteOverlapError):  # the page of a check has them
                continue
            if isinstance(error, HostRoutingError):
                reasons |= {finding.sentence for finding in error.findings}
        return reasons

    @property
    def stopped(self) -> str:
        """What has stopped the run, such as a signal; empty if nothing has."""
        if self.report.ok:
            return ""
        return self.report.reason

    @property
    def is_taken_back(self) -> bool:
        """Whether an undo has installed again what was installed before the run, even if addresses
        escape then.
        """
        if self.undone is None:
            return False
        return all(isinstance(error, RouteOverlapError) for error in self._errors_of_undo)

    @property
    def _errors_of_undo(self) -> list[BaseException | None]:
        if self.undone is None:
            return []
        return [step.error for step in self.undone.failures]

    @property
    def code(self) -> int:
        """The exit code; after a signal, 128 plus its number."""
        return exit_code(self.report)

    def lines(self, who: Operator, done: str = "", nothing: str = "") -> Iterator[str]:
        """How the run ended, and what it changed. If it is ok, the first line ends with `done`, or
        with `nothing` (the same, unless given) if it changed nothing.
        """
        if not self.report.ok:
            yield from self._failure_lines(who)
        elif self.effects.changed:
            yield f"DONE: {done}"
        else:
            yield f"NOTHING TO DO: {nothing or done}"
        if self.effects.changed:
            yield from self._change_lines()

    def _failure_lines(self, who: Operator) -> Iterator[str]:
        for error in self.errors:
            yield from _error_lines(error, who)
            if isinstance(error, RouteOverlapError) and self.undone is not None:
                yield from finding_lines(error.findings, who)  # else a page of the check follows
        if not self.errors:
            yield f"STOPPED: {self.stopped}; not everything was done"
        if not self.effects.changed:
            yield "Nothing was changed."

    def _change_lines(self) -> Iterator[str]:
        if self.is_taken_back:
            yield "TAKEN BACK: what was installed before is installed again"
            for error in self._errors_of_undo:
                if isinstance(error, RouteOverlapError):
                    yield f"As before, {_wrong_routing(error)}."
            return
        for error in self._errors_of_undo:
            yield f"NOT ALL TAKEN BACK: {error}"
        if not self.report.ok:
            yield "What this run has changed:"
        yield from _lines_of(self.effects, self.wrote, self.removed)

    def document(self) -> dict[str, Any]:
        """The same as plain values."""
        document: dict[str, Any] = {
            "ok": self.report.ok,
            "changed": self.effects.changed and not self.is_taken_back,
            **self.effects.to_mapping(),
            "files": {"write": list(self.wrote), "remove": list(self.removed)},
            "failures": [error_document(error) for error in self.errors],
            "stopped": self.stopped,
        }
        if self.undone is not None:
            document["takenBack"] = self.is_taken_back
        return document


def change_lines(host: Host, ctx: phases.Context) -> Iterator[str]:
    """What the run of a task with this context has changed so far."""
    effects = Effects() if ctx.root is None else _effects_before_undo(ctx.root)
    yield from _lines_of(effects, *_wrote_and_removed(effects, host))


def _lines_of(effects: Effects, wrote: Iterable[str], removed: Iterable[str]) -> Iterator[str]:
    yield from indented("", [*effects.changes, *effects.operations])
    yield from indented("wrote ", wrote)
    yield from indented("removed ", removed)


@contextmanager
def said_anyway(run: Run, who: Operator) -> Iterator[None]:
    """If the block, which makes the answer about the run, fails or is interrupted, standard error
    has what the run has changed: nothing else says it then.
    """
    try:
        yield
    except BaseException:
        say(*run.lines(who, done="the answer is not complete, see below"))
        raise


def _error_lines(error: BaseException, who: Operator) -> Iterator[str]:
    """Why the run failed, and each way out."""
    lines = (str(error) or type(error).__name__).split("\n")
    if isinstance(error, RouteOverlapError):
        lines = [f"{_wrong_routing(error)}, and the mode is STRICT"]
    elif isinstance(error, HostRoutingError):
        lines = error.lines_for(who)
    first, *others = lines
    yield f"FAILED: {first}"
    yield from others


def _wrong_routing(error: RouteOverlapError) -> str:
    return spoken(error.report.missing_defaults) or "addresses escape"


def run_task(task: phases.AnyTask, host: Host, *, undo_on_failure: bool = False) -> Run:
    """Run the task on this host. After a signal, or when its terminal is closed, the run stops, and
    rolls back the routes that it is changing. With `undo_on_failure`, the whole run is undone then,
    and also after a failure.

    Standard error has what the run waits for, and warnings; but not what the page says afterwards.
    An undone run has no such page, and its operator may be asked before it ends.
    """
    _log_to_standard_error(set() if undo_on_failure else _ON_THE_PAGE)
    # Not a LogObserver: what became of each task is on the page.
    ctx = phases.Context(observers=[phases.LiveTree(LOGGER)])
    with _stopping_with_the_terminal(ctx):
        report = phases.run(task, ctx=ctx, undo_on_failure=undo_on_failure)
    effects = _effects_before_undo(report)
    wrote, removed = _wrote_and_removed(effects, host)
    return Run(report, effects, wrote, removed, _undo_in(report))


def _wrote_and_removed(effects: Effects, host: Host) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The changed files that are there now, and those that are gone."""
    wrote = tuple(path for path in effects.files if host.files.look(path) is not None)
    removed = tuple(path for path in effects.files if path not in wrote)
    return wrote, removed


def _undo_in(report: phases.Step) -> phases.Step | None:
    """The step of the undo, around all others of it; None if nothing was undone."""
    return next((step for step in report.walk() if step.action == "undo"), None)


def _effects_before_undo(report: phases.Step) -> Effects:
    """What the run has changed, without what its undo has changed."""
    effects = Effects()
    for step in _steps_before_undo(report):
        effects += effects_of(step.result) + effects_of(step.error)  # it has one of the two
    return effects


def _steps_before_undo(report: phases.Step) -> list[phases.Step]:
    """The steps without those of the undo, and without groups, whose results repeat theirs."""
    return [step for step in report.walk() if step.action != "undo" and not step.children]


class _Escaped(logging.Formatter):
    """Escapes what could control the terminal, such as the name of a device."""

    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))


def _log_to_standard_error(left_out: set[str]) -> None:
    """Log the lines without these fields, unless the program logs already."""
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: left_out.isdisjoint(getattr(record, FIELDS, ())))
    handler.setFormatter(_Escaped("%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


@contextmanager
def _stopping_with_the_terminal(ctx: phases.Context) -> Iterator[None]:
    """In the block, stop the run as after SIGTERM when the terminal is closed, except under nohup.

    While a run goes on, SIGTERM cancels it; just before and after that, SIGTERM ends this process,
    as SIGHUP would have done.
    """

    def stop(*_: object) -> None:
        # The signal first, because a run that is cancelled may end at once. While this handler
        # runs, it only waits in a queue, so the reason is that of the terminal.
        signal.raise_signal(signal.SIGTERM)
        ctx.cancel("the terminal was closed")

    if signal.getsignal(signal.SIGHUP) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGHUP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
