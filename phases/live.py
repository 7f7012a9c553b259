"""A live tree of the run on the terminal. The only module that uses rich, which it imports on first use."""

from __future__ import annotations

import logging
import os
import sys
import threading
from datetime import datetime, timezone
from typing import TYPE_CHECKING, TextIO

from phases.report import Event, Report, ReportBuilder, Status, folded
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
        """Show the tree on this console; handlers of this logger and its parents then write above the tree."""
        from rich.live import Live  # noqa: PLC0415  see live_tree

        self._console = console
        self._logger = logger or logging.getLogger("phases")
        self._builder = ReportBuilder()
        self._live = Live(console=console, get_renderable=self._render, auto_refresh=False, transient=True)
        self._ended = threading.Event()
        self._pulse = threading.Thread(target=self._refresh, name="phases-live", daemon=True)
        self._moved: list[tuple[logging.StreamHandler[TextIO], TextIO]] = []
        self._shown = False

    def __call__(self, event: Event) -> None:
        """Add the event; the first one shows the tree."""
        self._builder(event)
        if not self._shown:
            self._shown = True
            self._live.start()
            self._make_room()
            self._pulse.start()

    def close(self) -> None:
        """Remove the tree from the screen and restore the streams of the handlers."""
        for handler, stream in self._moved:
            handler.setStream(stream)
        self._moved.clear()
        self._ended.set()
        if self._shown:
            self._pulse.join()
        self._live.stop()

    def _refresh(self) -> None:
        # rich has such a thread of its own, but does not wait for it to end.
        while not self._ended.wait(0.125):
            self._live.refresh()

    def _make_room(self) -> None:
        above: logging.Logger | None = self._logger
        while above is not None:
            for handler in above.handlers:
                if isinstance(handler, logging.StreamHandler) and handler.stream is self._console.file:
                    self._moved.append((handler, self._console.file))
                    handler.setStream(sys.stderr)
            above = above.parent if above.propagate else None

    def _render(self) -> RenderableType:
        from rich.text import Text  # noqa: PLC0415  see live_tree

        text = Text(overflow="ellipsis", no_wrap=True)
        most = max(3, self._console.height // 3)  # rich cuts off below the last line of the terminal
        if self._builder.status is None:
            return text
        for drawn, _, node in draw_tree(
            self._builder.report(), children=lambda node: folded(node.children, at_most=most)
        ):
            sign, style = _SIGN[node.status]
            text.append(drawn, style="dim").append(f"{sign} ", style=style).append(node.label, style=style)
            text.append(f"  {_took(node)}", style="dim").append(f"  {node.note()}".rstrip() + "\n")
        return text


def _took(node: Report) -> str:
    if node.status is Status.RUNNING and node.started is not None:
        return seconds_in_words((datetime.now(timezone.utc) - node.started).total_seconds())
    return node.took
