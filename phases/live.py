"""A live tree of the run on the terminal. The only module that uses rich, which it imports on first use."""

from __future__ import annotations

import logging
import os
import sys
import threading
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TextIO

from phases.step import Status, Step
from phases.text import draw_tree, seconds_in_words

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_SIGN = {
    Status.RUNNING: ("…", "bold"),
    Status.OK: ("✓", "green"),
    Status.FAILED: ("✗", "bold red"),
    Status.CANCELLED: ("■", "yellow"),
    Status.SKIPPED: ("-", "dim"),
}


def live_tree(logger: logging.Logger, *, stream: TextIO | None = None) -> LiveTree | None:
    """A live tree on standard error; None if that is not a terminal, TERM is dumb, or rich is not installed."""
    stream = sys.stderr if stream is None else stream
    if stream is None or not stream.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return None
    try:
        from rich.console import Console  # noqa: PLC0415  it takes a fifth of a second, and only a terminal needs it
    except ImportError:
        return None
    return LiveTree(Console(file=stream), logger=logger)  # rich itself respects NO_COLOR


class LiveTree:
    """An observer that shows the tree during the run and removes it at the end; use the report after that.

    Log handlers that write to the same terminal write above the tree while it is shown.
    """

    def __init__(self, console: Console, *, logger: logging.Logger | None = None) -> None:
        """Show the tree of one run on this console; handlers of this logger and its parents then write above it."""
        from rich.live import Live  # noqa: PLC0415  see live_tree

        self._console = console
        self._logger = logger or logging.getLogger("phases")
        self._root: Step | None = None
        self._live = Live(console=console, get_renderable=self._render, auto_refresh=False, transient=True)
        self._ended = threading.Event()
        self._pulse = threading.Thread(target=self._refresh, name="phases-live", daemon=True)
        self._moved: list[logging.StreamHandler[Any]] = []

    def started(self, step: Step) -> None:
        """Show the tree when the first step, its root, starts."""
        if self._root is None:
            self._root = step
            self._live.start()
            above: logging.Logger | None = self._logger
            while above is not None:
                for handler in above.handlers:
                    if isinstance(handler, logging.StreamHandler) and handler.stream is self._console.file:
                        self._moved.append(handler)
                        handler.setStream(sys.stderr)  # rich has put its own stream there
                above = above.parent if above.propagate else None
            self._pulse.start()

    def ended(self, step: Step) -> None:
        """Remove the tree from the screen when its root has ended."""
        if step is self._root:
            for handler in self._moved:
                handler.setStream(self._console.file)
            self._ended.set()
            self._pulse.join()
            self._live.stop()

    def _refresh(self) -> None:
        # rich has such a thread of its own, but does not wait for it to end.
        while not self._ended.wait(0.125):
            self._live.refresh()

    def _render(self) -> RenderableType:
        from rich.text import Text  # noqa: PLC0415  see live_tree

        text = Text(overflow="ellipsis", no_wrap=True)
        if self._root is not None:
            # What has ended well is one line. If there are too many lines still, rich cuts off the last.
            for drawn, _, step in draw_tree(self._root, lambda step: () if step.status is Status.OK else step.children):
                sign, style = _SIGN[step.status]
                text.append(drawn, style="dim").append(f"{sign} ", style=style).append(step.name, style=style)
                text.append(f"  {_took(step)}", style="dim").append(f"  {step.note()}".rstrip() + "\n")
        return text


def _took(step: Step) -> str:
    if step.status is Status.RUNNING and step.start is not None:
        return seconds_in_words((datetime.now(timezone.utc) - step.start).total_seconds())
    return step.took
