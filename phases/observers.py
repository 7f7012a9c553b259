"""What a run shows while it runs: a log line for each start and end.

Every log record, even one of a task's own lines, has its fields in one mapping under one extra key,
`FIELDS`.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from phases.step import Status, Step
from phases.values import seconds_in_words

FIELDS = "phases"
LOGGER = "phases"
"""The name of the logger that is used if none is given. It is not made on import: a program's
`dictConfig` disables every logger that exists by then.
"""


class TaskLogger(logging.LoggerAdapter):  # type: ignore[type-arg]  # generic since Python 3.11
    """The type of `ctx.log`: a logger whose lines name their run and task; `extra` goes into the
    same mapping.
    """

    def process(
        self, msg: object, kwargs: MutableMapping[str, Any]
    ) -> tuple[object, MutableMapping[str, Any]]:
        """Put the fields of this task and the caller's `extra` under the one key."""
        own = kwargs.get("extra") or {}
        kwargs["extra"] = {FIELDS: {**own, **(self.extra or {})}}
        return msg, kwargs


class LogObserver:
    """Logs each start and each end as one line with all facts of the step, and the fields of its
    result.

    An error is in one line, at ERROR: that of the task that raised it, not those of the groups
    around it. If the logger is at DEBUG, the traceback follows, and tasks that were not started are
    also logged.
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self.logger = logger or logging.getLogger(LOGGER)

    def __call__(self, step: Step) -> None:
        """Log the start or the end."""
        level, words = _event(step)
        extra = {FIELDS: {**step.fields, **_known_facts(step)}}
        raised = step.failed_with if self.logger.isEnabledFor(logging.DEBUG) else None
        self.logger.log(level, "%s %s", step.label, words, extra=extra, exc_info=raised)


def _known_facts(step: Step) -> dict[str, object]:
    return {name: value for name, value in step.facts.items() if value is not None}


def _event(step: Step) -> tuple[int, str]:
    """The level and the words for the start or the end of a step."""
    if step.status is Status.RUNNING:
        return logging.INFO, "started"

    if step.start is None:
        return logging.DEBUG, f"not started: {step.why}"

    words = f"{step.status} after {seconds_in_words(step.seconds)}"
    if step.why:
        words += f": {step.why}"
    if step.ok:
        return logging.INFO, words
    if step.failed_with is not None:
        return logging.ERROR, words
    return logging.WARNING, words  # cancelled, or a group around the task that raised
