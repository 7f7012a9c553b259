"""What a run shows while it runs: a log line for each start and end and, on a terminal, a live
tree.

Every log record, even one of a task's own lines, has its fields in one mapping under one extra key,
`FIELDS`.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from phases.arguments import must_be
from phases.step import FailedAttempt, Status, Step
from phases.values import describe_error, seconds_in_words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

FIELDS = "phases"
LOGGER = "phases"
"""The name of the logger that is used if none is given. It is not made on import: a program's
`dictConfig` disables every logger that exists by then.
"""
_KEYWORDS = {"exc_info", "stack_info", "stacklevel", "extra"}
_OWN_FRAMES = 1 if sys.version_info >= (3, 11) else 2
"""Between a caller of a TaskLogger and the logger: before 3.11, those of logging itself count."""
_STYLES = {"ok": "green", "failed": "bold red", "cancelled": "yellow", "skipped": "dim"}


def logger_of(logger: logging.Logger | str) -> logging.Logger:
    """The logger, or the one with this name; TypeError for what is neither."""
    if isinstance(logger, str):
        named = logging.getLogger(logger)
        if not named.handlers:
            # If no handler takes a warning or an error, Python prints it on standard error. Then a
            # failure would be shown twice: there, and in the report that the program prints.
            named.addHandler(logging.NullHandler())
        return named
    must_be(logging.Logger, logger, "logger", "a logging.Logger, or the name of one")
    return logger


class TaskLogger(logging.LoggerAdapter):  # type: ignore[type-arg]  # generic since Python 3.11
    """The type of `ctx.log`: a logger whose lines name their run and task; `extra` goes into the
    same mapping.
    """

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a line. TypeError, at every level, for what is no keyword of `logging`."""
        unknown = ", ".join(kwargs.keys() - _KEYWORDS)
        if unknown:
            raise TypeError(f"log: there is no keyword {unknown}; write extra={{…}} for values")
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + _OWN_FRAMES
        super().log(level, msg, *args, **kwargs)

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

    def __init__(self, logger: logging.Logger | str = LOGGER) -> None:
        self.logger = logger_of(logger)

    def __call__(self, step: Step) -> None:
        """Log the start or the end."""
        level, words = _event(step)
        extra = {FIELDS: {**step.fields, **_known_facts(step)}}
        raised = step.failed_with if self.logger.isEnabledFor(logging.DEBUG) else None
        self.logger.log(level, "%s %s", step.label, words, extra=extra, exc_info=raised)

    def attempt_failed(self, failed: FailedAttempt) -> None:
        """Log the attempt, and when the next one is made."""
        error = describe_error(failed.error)
        number = f"attempt {failed.number}"
        if failed.attempts is not None:
            number += f" of {failed.attempts}"
        self.logger.warning(
            "%s: %s failed: %s; again in %s",
            failed.step.label,
            number,
            error,
            seconds_in_words(failed.wait),
            extra={FIELDS: {**_known_facts(failed.step), "error": error}},
        )


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


class LiveTree:
    """An observer that shows the report of a run on the terminal as it grows, and removes it at the
    end. It shows nothing if standard error is not a terminal, TERM is dumb, or rich is not
    installed.

    While the tree is shown, handlers of its logger, and of those above it up to the root logger,
    that write to this terminal write above it. Of runs at the same time, the first one is shown.
    """

    def __init__(self, logger: logging.Logger | str = LOGGER) -> None:
        self._logger = logger_of(logger)
        self._shown: _ShownTree | None = None

    def __call__(self, step: Step) -> None:
        """Show the tree when a root starts, draw it again with each step, and remove it when the
        root has ended.
        """
        if self._shown is None and step.status is Status.RUNNING and len(step.path) == 1:
            console = _console_of_terminal()
            if console is not None:
                self._shown = _ShownTree(step, console, self._logger)
        if self._shown is None:
            return
        self._shown.refresh()
        if step is self._shown.root and step.status is not Status.RUNNING:
            self._shown.remove()
            self._shown = None


def _console_of_terminal() -> Console | None:
    if not _is_terminal(sys.stderr):
        return None
    if os.environ.get("TERM", "dumb") == "dumb":
        return None
    try:
        from rich.console import Console  # noqa: PLC0415  it takes 0.2 s; a terminal needs it
    except ImportError:
        return None
    return Console(file=sys.stderr)  # rich itself respects NO_COLOR


class _ShownTree:
    """The tree of one run, from its start to its end."""

    def __init__(self, root: Step, console: Console, logger: logging.Logger) -> None:
        from rich.live import Live  # noqa: PLC0415  see _console_of_terminal

        self.root = root
        # On a terminal, rich writes what a task prints above the tree. What is printed into a file
        # or a pipe has to arrive there.
        self._live = Live(
            console=console,
            get_renderable=self.render,
            auto_refresh=False,
            transient=True,
            redirect_stdout=_is_terminal(sys.stdout),
        )
        handlers = list(_handlers_on_terminals(logger))
        self._live.start()
        self._moved: list[tuple[logging.StreamHandler[Any], Any]] = []
        """Each handler that was moved, and its own stream."""
        for handler in handlers:
            self._moved.append((handler, handler.stream))
            handler.setStream(sys.stderr)  # that of rich, which writes above the tree

    def refresh(self) -> None:
        """Draw it again."""
        self._live.refresh()

    def remove(self) -> None:
        """Remove it from the terminal, and give the handlers their own streams again."""
        for handler, stream in reversed(self._moved):
            handler.setStream(stream)
        self._live.stop()

    def render(self) -> Text:
        """The report so far, with the statuses in colour."""
        from rich.text import Text  # noqa: PLC0415  see _console_of_terminal

        text = Text(str(self.root), overflow="ellipsis", no_wrap=True)
        for status, style in _STYLES.items():
            text.highlight_words([f" {status} "], style)
        return text


def _handlers_on_terminals(logger: logging.Logger) -> Iterator[logging.StreamHandler[Any]]:
    """Those of the logger, and of each logger above it, that write to a terminal."""
    around: logging.Logger | None = logger
    while around is not None:
        for handler in around.handlers:
            if isinstance(handler, logging.StreamHandler) and _is_terminal(handler.stream):
                yield handler
        around = around.parent


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # there is none; it has no such method; it is closed
        return False
