"""How far a run is: one line on standard error, which is written again and again, and is gone at the end.

Only a terminal has it, and only if it can write a line again. Here: the line. Not here: what is counted.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from hostrouting.cli.terminal import Terminal
from phases.text import seconds_in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["Progress"]

_PAUSE = 0.1  # seconds between two writings: a reader needs no more, and the run should not wait for the terminal
_COLUMNS = 30
_BARS = {True: ("█", "░"), False: ("#", ".")}


class Progress:
    """The line for a run through so many things."""

    def __init__(
        self, total: int, noun: str, *, terminal: Terminal | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Write to standard error, unless another terminal is given; `noun` is the plural of what is counted."""
        self._total, self._noun, self._clock = total, noun, clock
        self._terminal = Terminal(sys.stderr) if terminal is None else terminal

    def along(self, things: Iterable[T]) -> Iterator[T]:
        """The same things; the line says how many of them have been taken, until the last one or an error."""
        begun = written = self._clock()
        count = 0
        try:
            for count, thing in enumerate(things, start=1):
                now = self._clock()
                if self._terminal.is_live and now - written >= _PAUSE:
                    written = now
                    self._terminal.rewrite(self._line(count, now - begun))
                yield thing
        finally:
            if written != begun:
                self._terminal.rewrite("")

    def _line(self, count: int, seconds: float) -> str:
        style = self._terminal.style
        left = seconds_in_words((self._total - count) * seconds / count)
        told = f"{count:,} of {self._total:,} {self._noun}, {left} left"
        columns = min(_COLUMNS, style.width - len(told) - 3)
        full, empty = _BARS[style.unicode]
        done = count * columns // self._total
        return f"{full * done}{empty * (columns - done)}  {told}" if columns > 0 else told[: style.width - 1]
