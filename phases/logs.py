"""A run as log lines: one wide line for each start and end, through the standard library's logging.

Every record carries its fields as one mapping under one extra key, `FIELDS`, and no other attribute. Lines that a
task logs through `ctx.log` get the same mapping, so each line names its run and task.
"""

from __future__ import annotations

import logging

from phases.context import FIELDS
from phases.step import Status, Step
from phases.text import describe_error

_WORD = {Status.OK: "completed", Status.FAILED: "failed", Status.CANCELLED: "cancelled", Status.SKIPPED: "skipped"}


class LogObserver:
    """Logs `started`, and `completed`, `failed`, `cancelled` or `skipped`, each as one line with all its fields.

    The text of an error is in one line at ERROR, that of the task that raised it; the groups around it only name that
    task. A task that was not started is only logged at DEBUG.
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        """Log to this logger, or to the one named `phases`."""
        self.logger = logger or logging.getLogger("phases")

    def started(self, step: Step) -> None:
        """Log the start."""
        self._log(logging.INFO, step, "started", {"event": "started"})

    def ended(self, step: Step) -> None:
        """Log the end."""
        if step.start is None:
            self._log(logging.DEBUG, step, f"not started: {step.reason}", {"event": "not-started"})
            return
        level, why = logging.INFO if step.ok else logging.WARNING, step.reason
        if step.failure:
            level, why = logging.ERROR, describe_error(step.failure)
        elif step.failures:
            why = " and ".join("/".join(each.path) for each in step.failures) + " failed"
        fields: dict[str, object] = {"event": _WORD[step.status], "status": str(step.status)}
        fields |= {"seconds": round(step.seconds or 0.0, 6), "error": why if step.failures else None}
        fields |= {"attempts": step.attempts if step.attempts > 1 else None}
        words = f"{_WORD[step.status]} after {step.took}{f': {why}' if why else ''}"
        self._log(level, step, words, {**step.fields, **fields})

    def _log(self, level: int, step: Step, words: str, fields: dict[str, object]) -> None:
        if self.logger.isEnabledFor(level):
            task, action = "/".join(step.path), "" if step.action == "do" else step.action
            start = step.start.isoformat(timespec="milliseconds").replace("+00:00", "Z") if step.start else ""
            known = {**fields, "run": step.run, "task": task, "start": start, "action": action, "reason": step.reason}
            extra = {FIELDS: {key: value for key, value in known.items() if value not in ("", None)}}
            self.logger.log(level, "%s", f"{task} {f'({action}) ' if action else ''}{words}", extra=extra)
