"""Ctrl-C under a bare execute: raised where a task can be interrupted, and deferred everywhere else.

Python raises KeyboardInterrupt between any two instructions of the main thread, even in the middle of the runner's own
bookkeeping, where it would lose a task's last log line or a thread. So the outermost execute replaces Python's handler
with its own. That handler checks what was interrupted: inside a function that is marked open (a task's own code, a
wait) it raises; inside one that is marked closed (the runner) it sets a flag, and the next open function raises.
Python swallows a KeyboardInterrupt raised in a finaliser (`__del__`, a weakref callback); that sets the flag as well.
`run` installs different handlers (see `program`); then nothing is installed here.
"""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

__all__ = ["call_open", "closed", "hold_interrupts", "raise_if_interrupted", "whole"]

P = ParamSpec("P")
T = TypeVar("T")


class _Notes:
    """The deferred interrupt of the main thread; Python interrupts no other thread."""

    interrupted = False
    shields = 0


_notes = _Notes()
_OPEN: set[CodeType] = set()
_CLOSED: set[CodeType] = set()


def closed(function: Callable[P, T]) -> Callable[P, T]:
    """Mark a function that must not be interrupted, except where it calls an open one."""
    _CLOSED.add(function.__code__)
    return function


def call_open(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that may be interrupted."""
    raise_if_interrupted()
    return function(*args, **kwargs)


_OPEN.add(call_open.__code__)


def raise_if_interrupted() -> None:
    """Raise the deferred KeyboardInterrupt, if there is one and the thread is not shielded."""
    if _notes.interrupted and not _notes.shields and threading.current_thread() is threading.main_thread():
        _notes.interrupted = False
        raise KeyboardInterrupt


@contextmanager
def whole() -> Iterator[None]:
    """Do not interrupt this block: a Ctrl-C is raised by the first open function after it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _notes.shields += 1
    try:
        yield
    finally:
        _notes.shields -= 1


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """While the block runs, raise KeyboardInterrupt only where it does no harm; a deferred one is raised at its end.

    Does nothing outside the main thread, or if the program has set its own SIGINT handler.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    others = sys.unraisablehook

    def on_unraisable(fault: sys.UnraisableHookArgs) -> None:
        if fault.exc_type is KeyboardInterrupt:
            _notes.interrupted = True
        else:
            others(fault)

    signal.signal(signal.SIGINT, _on_interrupt)
    sys.unraisablehook = on_unraisable
    try:
        yield
    except KeyboardInterrupt:
        _notes.interrupted = False  # a second Ctrl-C asks for the same thing
        raise
    finally:
        sys.unraisablehook = others
        signal.signal(signal.SIGINT, signal.default_int_handler)
        raise_if_interrupted()


def _on_interrupt(_number: int, frame: FrameType | None) -> None:
    if not _notes.shields:
        while frame is not None and frame.f_code not in _CLOSED:
            if frame.f_code in _OPEN:
                raise KeyboardInterrupt
            frame = frame.f_back
    _notes.interrupted = True
