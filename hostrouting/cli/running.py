"""A run of a task for an operator: what it waits for, how it has ended, and what it has changed."""

import logging
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import phases
from hostrouting.cli.output import error_document, finding_lines, indented, say, way_lines
from hostrouting.codes import exit_code
from hostrouting.command import Operator
from hostrouting.errors import (
    HostError,
    HostRoutingError,
    RequirementError,
    RouteConflict,
    RouteOverlapError,
)
from hostrouting.finding import WRONG
from hostrouting.host.effects import Effects, effects_of
from hostrouting.host.host import Host
from hostrouting.tasks.overlap_check import CheckResult
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
        """Why the run failed, and not why its undo did; each message once."""
        errors: dict[str, BaseException] = {}
        for step in self.report.failures:
            if step.action != "undo" and step.error is not None:
                errors[str(step.error)] = step.error
        return tuple(errors.values())

    @property
    def stopped(self) -> str:
        """What has stopped the run, such as a signal; empty if nothing has."""
        if self.report.ok:
            return ""
        return self.report.reason

    @property
    def is_taken_back(self) -> bool:
        """Whether an undo has made this host as it was before the run."""
        return self.undone is not None and self.undone.ok

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
            yield from self._change_lines(who)

    def _failure_lines(self, who: Operator) -> Iterator[str]:
        for error in self.errors:
            yield from _error_lines(error, who, is_undone=self.undone is not None)
        if not self.errors:
            yield f"STOPPED: {self.stopped}; not everything was done"
        if not self.effects.changed:
            yield "Nothing was changed."

    def _change_lines(self, who: Operator) -> Iterator[str]:
        if self.is_taken_back:
            yield from self._escape_lines(who)
            yield "TAKEN BACK: files, routes and units are as they were before"
            return
        if self.undone is not None:
            for step in self.undone.failures:
                yield f"NOT ALL TAKEN BACK: {step.error}"
            yield "What this run had changed:"
        elif not self.report.ok:
            yield "What this run has changed:"
        yield from _lines_of(self.effects, self.wrote, self.removed)

    def _escape_lines(self, who: Operator) -> Iterator[str]:
        """What escaped until the undo; in STRICT, the failure says it."""
        for step in _steps_before_undo(self.report):
            if isinstance(step.result, CheckResult):
                wrong = [finding for finding in step.result.findings if finding.name in WRONG]
                if wrong:
                    yield "With the change in place, the check found:"
                    yield from finding_lines(wrong, who)

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
def told_anyway(run: Run, who: Operator) -> Iterator[None]:
    """If the block, which makes the answer about the run, fails or is interrupted, then what the
    run has changed is on standard error. The host may not answer any more, or this is a bug. Not
    covered is Ctrl-C in the milliseconds before the block.
    """
    try:
        yield
    except BaseException:  # whatever it is: nothing else says what was changed
        say("\n".join(run.lines(who, done="the answer is not complete, see below")))
        raise


def _error_lines(error: BaseException, who: Operator, *, is_undone: bool) -> Iterator[str]:
    """Why the run failed; what is wrong with several things, or has several ways out, is told one
    by one.
    """
    if isinstance(error, RouteOverlapError):
        yield from _overlap_lines(error, who, is_undone=is_undone)
    elif isinstance(error, RouteConflict | RequirementError):
        for finding in error.findings:
            yield f"FAILED: {finding.sentence}"
            yield from way_lines(finding.remedy, who)
    else:
        message = error.text_for(who) if isinstance(error, HostRoutingError) else str(error)
        first, *others = (message or type(error).__name__).split("\n")
        yield f"FAILED: {first}"
        yield from (f"  {line}" for line in others)


def _overlap_lines(error: RouteOverlapError, who: Operator, *, is_undone: bool) -> Iterator[str]:
    """That addresses escape, or that there is no default route. The page of the check follows, but
    not after an undo.
    """
    wrong = "addresses escape"
    if error.report.verdict == "no-default-route":
        wrong = spoken(error.report.missing_defaults)
    failed = f"FAILED: {wrong}, and the mode is STRICT"
    if is_undone:
        yield failed
        yield from finding_lines(error.findings, who)
    else:
        yield f"{failed}; the gate checks again before each start of a gated unit"


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
    wrote = tuple(path for path in effects.files if _is_there(path, host))
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


def _is_there(path: str, host: Host) -> bool:
    """Whether the host has this path; true if it does not say so: what was changed is said in any
    case.
    """
    try:
        return host.files.look(path) is not None
    except HostError:
        return True


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
        ctx.cancel("the terminal was closed")  # the first reason is kept
        signal.raise_signal(signal.SIGTERM)

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGHUP) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGHUP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
