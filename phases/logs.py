"""A run as log lines: one wide line per event, through the standard library's logging.

Every record carries its fields as one mapping under one extra key, `FIELDS`, and no other attribute. Lines that a
task logs through `ctx.log` get the same mapping, so each line names its run and task.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from phases.context import FIELDS, joined
from phases.errors import TaskFailed
from phases.report import Event, Finished, Retrying, Skipped, Started, Status
from phases.text import describe_error, moment_as_text, seconds_in_words

if TYPE_CHECKING:
    from datetime import datetime

_WORD = {Status.OK: "completed", Status.FAILED: "failed", Status.CANCELLED: "cancelled", Status.SKIPPED: "skipped"}
_LEVEL = {Status.FAILED: logging.ERROR, Status.CANCELLED: logging.WARNING}


class LogObserver:
    """Logs `started`, and `completed`, `failed`, `cancelled` or `skipped`, each as one line with all its fields.

    The text of an error is in one line, that of the task that raised it; the groups around it only name that task.
    With errors=False it is in none, for a program that prints the error itself. A task that was not started is only
    logged at DEBUG. With tracebacks=True the line of the task that raised has its traceback as exc_info; by default
    the traceback is on the exception and in the report only.
    """

    def __init__(self, logger: logging.Logger | None = None, *, tracebacks: bool = False, errors: bool = True) -> None:
        """Log to this logger, or to the one named `phases`."""
        self.logger = logger or logging.getLogger("phases")
        self.tracebacks, self.errors = tracebacks, errors

    def __call__(self, event: Event) -> None:
        """Log this event, if its level is enabled."""
        level = _level(event)
        if self.logger.isEnabledFor(level):
            error = event.error if isinstance(event, Finished) and event.own and self.tracebacks else None
            message, fields = _words(event, errors=self.errors)
            self.logger.log(level, "%s", message, extra={FIELDS: fields}, exc_info=error)


def _level(event: Event) -> int:
    if isinstance(event, Finished):
        # One failure is one line at ERROR, however many groups it passes through.
        return _LEVEL.get(event.status, logging.INFO) if event.own else logging.WARNING
    return {Started: logging.INFO, Retrying: logging.WARNING, Skipped: logging.DEBUG}[type(event)]


def _words(event: Event, *, errors: bool) -> tuple[str, dict[str, object]]:
    """The message of the event's line, and its fields."""
    task = "/".join(event.path)
    fields: dict[str, object] = {"run": event.run, "task": task}
    if isinstance(event, Retrying):
        why, wait = describe_error(event.error), seconds_in_words(event.delay)
        fields |= {"event": "retrying", "attempt": event.attempt, "attempts": event.attempts}
        fields |= {"delay": round(event.delay, 3), "error": why}
        return f"{task}: attempt {event.attempt} of {event.attempts} failed: {why}; again in {wait}", fields
    if isinstance(event, Started):
        words = f"started (attempt {event.attempt})" if event.attempt > 1 else "started"
        fields |= {"event": "started", "start": _iso(event.at)}
        fields |= {"attempt": event.attempt} if event.attempt > 1 else {}
    elif isinstance(event, Skipped):
        words = f"not started: {event.reason}"
        fields |= {"event": "not-started", "reason": event.reason}
    else:
        why = "" if event.own and event.error is not None and not errors else _why(event)
        words = f"{_WORD[event.status]} after {seconds_in_words(event.duration)}{f': {why}' if why else ''}"
        fields |= {"event": _WORD[event.status], "status": str(event.status)}
        fields |= {"start": _iso(event.started), "duration": round(event.duration, 6)}
        if event.error is not None and event.status is Status.FAILED:
            fields["error"] = _why(event)
            if event.own and (at := _where(event.error)):
                fields["at"] = at
        fields |= {"reason": event.reason} if event.reason else {}
        fields |= {"attempts": event.attempts} if event.attempts > 1 else {}
        fields = joined(fields, event.fields, prefix="result")
    if event.action != "do":
        fields["action"], words = event.action, f"({event.action}) {words}"
    return f"{task} {words}", fields


def _why(event: Finished) -> str:
    if event.status is Status.FAILED and not event.own:
        # The error itself is in the line of the task that raised it.
        failures = event.error.failures if isinstance(event.error, TaskFailed) else ()
        failed = " and ".join("/".join(failure.path) for failure in failures)
        return f"{failed} failed" if failed else f"{type(event.error).__name__} in a task inside it"
    if event.status is Status.FAILED and event.error is not None:
        return describe_error(event.error)
    return event.reason


def _where(error: BaseException) -> str:
    """The place that raised the error, as `file.py:12`."""
    place, trace = "", error.__traceback__
    while trace is not None:
        place = f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _iso(moment: datetime) -> str:
    return moment_as_text(moment, digits="milliseconds")
