"""SIGINT and SIGTERM cancel the run: the edge between a program's signals and a run's cancellation."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from phases.context import Context

__all__ = ["stop_on_signals"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_on_signals(ctx: Context, *, waiting_for: Callable[[], str]) -> Iterator[list[int]]:
    """While the block runs, a signal cancels the context; yields the list of the signals received.

    A repeated signal does not interrupt a shielded task; it only logs what the run is waiting for. A signal that the
    parent process ignored (nohup) stays ignored. Python delivers signals to the main thread only, so in other threads
    nothing is installed; but a signal that stops the run in the main thread also stops the runs in other threads,
    which may be inside it (in a task of a parallel group). A run that begins inside a stopped run is stopped before
    its first task.
    """
    if threading.current_thread() is not threading.main_thread():
        elsewhere = _Elsewhere(ctx)
        _elsewhere.append(elsewhere)
        for number in _watches[0].ordered if _watches else ():
            elsewhere.stop(number)
        try:
            yield elsewhere.came
        finally:
            _elsewhere.remove(elsewhere)
        return
    watch = _Watch(ctx, waiting_for)
    try:
        yield watch.came
    finally:
        watch.end()


class _Elsewhere:
    """A run outside the main thread."""

    def __init__(self, ctx: Context) -> None:
        self.came: list[int] = []
        self._ctx = ctx

    def stop(self, number: int) -> None:
        self.came.append(number)
        self._ctx.cancel(signal.Signals(number).name)


class _Watch:
    """The handlers, the pipe and the thread that turn a signal into a cancellation.

    A handler runs in the main thread, which may be holding a lock of the run, and only when that thread runs Python
    code: if the kernel delivers the signal to another thread, a sleeping main thread keeps sleeping. So the handlers
    do almost nothing, and a thread reads the signal numbers that Python writes to a pipe.
    """

    def __init__(self, ctx: Context, waiting_for: Callable[[], str]) -> None:
        self.came: list[int] = []
        self.ordered: list[int] = []
        self._ctx, self._waiting_for = ctx, waiting_for
        self._handled: list[int] = []
        self._before: dict[int, Any] = {
            number: handler for number in SIGNALS if (handler := signal.getsignal(number)) not in {signal.SIG_IGN, None}
        }
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._thread = threading.Thread(target=self._pass_on, name="phases-signals", daemon=True)
        self._thread.start()
        self._others = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        # The run around this one, unless another program's wakeup fd was set between the two.
        self._around = next((it for it in _watches if it._writing == self._others), None)
        for number in self._before:
            signal.signal(number, self._note)
        _watches.append(self)
        for number in self._around.ordered if self._around else ():
            self.came.append(number)
            self._stop(number)

    def end(self) -> None:
        """Restore the handlers. A signal that came too late to cancel this run is raised again for them."""
        _watches.remove(self)
        signal.set_wakeup_fd(self._others)
        os.close(self._writing)
        self._thread.join()
        os.close(self._reading)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._handled and not self.came:
            signal.raise_signal(self._handled[0])

    def forget(self) -> None:
        """In a forked child: restore the handlers, because the run is not the child's."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._writing)
        os.close(self._reading)

    def _note(self, number: int, _frame: object) -> None:
        self._handled.append(number)

    def _pass_on(self) -> None:
        while numbers := os.read(self._reading, 64):
            self._take(numbers)

    def _take(self, numbers: bytes) -> None:
        # Cancel first and log afterwards: logging can block.
        self._order(numbers)
        self._tell(numbers)

    def _order(self, numbers: bytes) -> None:
        if self._around is not None:
            # The outer run first: after this one has ended, it must not start its next task.
            self._around._order(numbers)
        elif self._others != -1:
            # An event loop reads this fd as well.
            with suppress(OSError):
                os.write(self._others, numbers)
        for number in numbers:
            if number in self._before:
                self._stop(number)
                for run in () if self._around else tuple(_elsewhere):
                    run.stop(number)

    def _stop(self, number: int) -> None:
        # Recorded first: a run that begins inside this one now reads this list.
        self.ordered.append(number)
        self._ctx.cancel(signal.Signals(number).name)

    def _tell(self, numbers: bytes) -> None:
        if self._around is not None:
            self._around._tell(numbers)
        for number in numbers:
            if number in self._before:
                self._say(signal.Signals(number).name)
                self.came.append(number)

    def _say(self, signal_name: str) -> None:
        try:
            still = self._waiting_for()
            if self.came:
                self._ctx.log.warning("%s again: still stopping, waiting for %s", signal_name, still)
            else:
                self._ctx.log.warning("%s: stopping, waiting for %s", signal_name, still)
        except Exception:  # noqa: BLE001, S110  a failing log must not lose the next signal
            pass


_watches: list[_Watch] = []
_elsewhere: list[_Elsewhere] = []


def _in_a_forked_child() -> None:
    for watch in reversed(_watches):
        watch.forget()
    _watches.clear()
    _elsewhere.clear()


os.register_at_fork(after_in_child=_in_a_forked_child)
