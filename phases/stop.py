"""SIGINT and SIGTERM stop the present runs. No other code brings a signal to a task.

A handler runs in the main thread, which may be holding a lock of the run, and only when that thread runs Python code:
if the kernel delivers the signal to another thread, a sleeping main thread keeps sleeping. So the handlers do almost
nothing. Python writes the number of each signal to a pipe, and a thread that reads the pipe cancels the runs, the
outer before the inner: after the inner one has ended, the outer must not start its next task.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phases.context import Context

_DEFAULT = (signal.default_int_handler, signal.SIG_DFL)


@contextmanager
def stopping(ctx: Context, *, raises: bool) -> Iterator[list[int]]:
    """While the block runs, SIGINT and SIGTERM cancel the run; yields the list of the signals that did.

    In a part of a run nothing changes: the whole run has its block already.

    A repeated signal does not interrupt a shielded task; it only logs what the run is waiting for. A signal that the
    parent process ignored (nohup) stays ignored. With `raises`, a signal that the program handles itself keeps its
    handler, and the first signal is raised again after the block: a KeyboardInterrupt, or the end by SIGTERM.

    Python delivers signals to the main thread only, so the outermost block there receives them, for the runs inside
    it and for those in other threads. A run that begins after a signal is stopped before its first task.
    """
    if ctx.node is not None:
        yield []
        return
    watch, stop = _Watch.begun(only_default=raises), _Stop(ctx)
    _stops.append(stop)
    for number in tuple(_came):
        stop.order(number)
    try:
        yield stop.came
    finally:
        if watch is not None:
            watch.drain()
        with suppress(ValueError):  # a forked child has forgotten it
            _stops.remove(stop)
        late = [] if watch is None else watch.end()
        for number in [number for number in late if raises or number not in stop.came][:1]:
            signal.raise_signal(number)


class _Stop:
    """A run, and the signals that have stopped it."""

    def __init__(self, ctx: Context) -> None:
        self.ctx, self.came = ctx, list[int]()

    def order(self, number: int) -> None:
        self.came.append(number)
        self.ctx.cancel(signal.Signals(number).name)

    def tell(self, number: int) -> None:
        told = signal.Signals(number).name + (" again: still" if len(self.came) > 1 else ":")
        with suppress(BaseException):  # a failing log must not lose the next signal
            self.ctx.log.warning("%s stopping, waiting for %s", told, self.ctx.run.waits_for)


class _Watch:
    """The handlers, the pipe and the thread."""

    def __init__(self, before: dict[int, Any]) -> None:
        self.before, self._others = before, -1
        self._reading = self.writing = self._pipe = -1
        self._handled: list[int] = []
        for number in before:  # first: from here on, no signal raises anything in the main thread
            signal.signal(number, self._note)
        _watches.append(self)  # before the pipe: a forked child must not keep it open
        try:
            self._reading, self.writing = os.pipe()
            self._pipe = os.fstat(self._reading).st_ino
            os.set_blocking(self.writing, False)
            self._thread = threading.Thread(target=self._read, name="phases-signals", daemon=True)
            self._thread.start()
        except BaseException:
            _watches.remove(self)
            self.end()
            raise
        self._others = signal.set_wakeup_fd(self.writing, warn_on_full_buffer=False)
        os.write(self.writing, bytes(self._handled))

    @classmethod
    def begun(cls, *, only_default: bool) -> _Watch | None:
        """A watch for the signals that no other watch has; None if there are none, or outside the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return None
        before: dict[int, Any] = {}
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            ours = isinstance(getattr(handler, "__self__", None), cls)
            if handler in _DEFAULT or not (only_default or ours or handler in (signal.SIG_IGN, None)):
                before[number] = handler
        return cls(before) if before else None

    def drain(self) -> None:
        """Wait until the thread has passed on all signals; later ones are only recorded."""
        if self in _watches:  # a forked child has forgotten it
            signal.set_wakeup_fd(self._others)
            os.close(self.writing)
            self.writing = -1  # last: until then, a child that is forked has to close it
            self._thread.join()
            os.close(self._reading)
            _watches.remove(self)

    def end(self) -> list[int]:
        """Restore the handlers, that of Ctrl-C last, and return the signals that came."""
        if not _watches:
            _came.clear()
        for number in sorted(self.before, reverse=True):
            signal.signal(number, self.before[number])
        return self._handled

    def forget(self) -> None:
        """Forget the run in a forked child."""
        for descriptor in (self.writing, self._reading):
            with suppress(OSError):  # the run was beginning or ending
                if self._pipe in {-1, os.fstat(descriptor).st_ino}:  # and not another thread's new file
                    os.close(descriptor)
        self.before.clear()
        self._handled.clear()

    def _note(self, number: int, _frame: object) -> None:
        self._handled.append(number)

    def _read(self) -> None:
        while numbers := os.read(self._reading, 64):
            if self._others not in {-1, *(watch.writing for watch in _watches)}:
                with suppress(OSError):  # an event loop reads this fd as well
                    os.write(self._others, numbers)
            for number in numbers:
                if any(number in watch.before for watch in _watches):
                    # Cancel all first and log afterwards: logging can block.
                    _came.append(number)
                    stops = tuple(_stops)
                    for stop in stops:
                        stop.order(number)
                    for stop in stops:
                        stop.tell(number)


_stops: list[_Stop] = []  # the runs under way, the outer before the inner
_watches: list[_Watch] = []
_came: list[int] = []  # the signals since the outermost watch began


def _in_a_forked_child() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        watch = getattr(signal.getsignal(number), "__self__", None)
        if isinstance(watch, _Watch):
            signal.signal(number, watch.before[number])
    if _watches:
        signal.set_wakeup_fd(-1)
    for watch in _watches:
        watch.forget()
    _watches.clear()
    for stop in _stops:
        stop.ctx.run.lock = threading.RLock()  # another thread may have held it
    _stops.clear()
    _came.clear()


os.register_at_fork(after_in_child=_in_a_forked_child)
