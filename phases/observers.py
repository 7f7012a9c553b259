"""What a run shows while it runs: a log line for each start and end and, on a terminal, a live
tree.

Every log record, even one of a task's own lines, has its fields in one mapping under one extra key,
`FIELDS`.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import MutableMapping
from typing import Any

from phases.step import Status, Step
from phases.values import seconds_in_words

FIELDS = "phases"
# Held while a tree is shown: of several runs at a time, the first is shown.
_TERMINAL = threading.Lock()


class TaskLogger(logging.LoggerAdapter):  # type: ignore[type-arg]  # generic since Python 3.11
    """The type of `ctx.log`: a logger whose lines name their run and task; `extra` goes into the
    same mapping.
    """

    def process(
        self, msg: object, kwargs: MutableMapping[str, Any]
    ) -> tuple[object, MutableMapping[str, Any]]:
        """Add the run and the task to each log record, beside the caller's `extra`.

        All of it is put under the one key FIELDS, because logging refuses a key that every record
        has, such as `message`. The run and the task win over a caller's key of the same name.
        """
        callers_extra = kwargs.get("extra") or {}
        kwargs["extra"] = {FIELDS: {**callers_extra, **(self.extra or {})}}
        return msg, kwargs


class LogObserver:
    """Logs each start and each end as one line with all facts of the step, and the fields of its
    result.

    An error is in one line, at ERROR: that of the task that raised it, not those of the groups
    around it. Tasks that were not started are logged at DEBUG.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self.logger = logger

    def __call__(self, step: Step) -> None:
        """Log the start or the end of a step."""
        level, words = _level_and_words(step)
        known = {name: value for name, value in step.facts.items() if value is not None}
        extra = {FIELDS: {**step.fields, **known}}  # a result cannot replace a fact of the run
        self.logger.log(level, "%s %s", step.label, words, extra=extra)


def _level_and_words(step: Step) -> tuple[int, str]:
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
    if step.error is not None:
        return logging.ERROR, words
    return logging.WARNING, words  # cancelled, or a group around the task that raised


class LiveTree:
    """Shows the report of a run on the terminal as it grows, and removes it at the end. It shows
    nothing if standard error is not a terminal, or rich is not installed.

    While the tree is shown, handlers of the root logger that write to standard error write above
    it, and so does what tasks print.
    """

    def __init__(self) -> None:
        # The run that is shown.
        self._root: Step | None = None
        # The rich.live.Live that shows it; None without rich.
        self._live: Any = None
        # The log handlers that write above the tree while it is shown.
        self._moved_handlers: list[logging.StreamHandler[Any]] = []

    def __call__(self, step: Step) -> None:
        """Show the tree when a run starts, draw it again at each start and end of a step, and
        remove it when the run has ended.
        """
        # The first step of a run has a path of one name. The run is shown if stderr (2) is a
        # terminal, and no other run has the lock `_TERMINAL`, as each has while it is shown.
        is_start = step.status is Status.RUNNING
        if is_start and len(step.path) == 1 and os.isatty(2) and _TERMINAL.acquire(blocking=False):
            self._root = step
            self._begin()
        if self._live is not None:
            self._live.refresh()
        if step is self._root and not is_start:
            self._remove()

    def _begin(self) -> None:
        """Begin to draw the tree, if rich is installed. rich replaces sys.stderr by an object that
        writes above the tree. Log handlers that wrote to sys.stderr get this object, too.
        """
        try:
            from rich.console import Console  # noqa: PLC0415  it takes 0.2 s
            from rich.live import Live  # noqa: PLC0415
            from rich.text import Text  # noqa: PLC0415
        except ImportError:
            return
        former_stderr = sys.stderr
        self._live = Live(
            console=Console(stderr=True),
            get_renderable=lambda: Text(str(self._root), overflow="ellipsis", no_wrap=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=os.isatty(1),  # what is meant for a pipe must not go to the terminal
        )
        self._live.start()
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is former_stderr:
                handler.setStream(sys.stderr)
                self._moved_handlers.append(handler)

    def _remove(self) -> None:
        """Remove the tree, undo what `_begin` did to sys.stderr and the log handlers, and let
        another run use the terminal.
        """
        if self._live is not None:
            self._live.stop()  # it sets sys.stderr back
        while self._moved_handlers:
            self._moved_handlers.pop().setStream(sys.stderr)
        self._root = self._live = None
        _TERMINAL.release()
