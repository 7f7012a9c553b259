"""SIGINT and SIGTERM as an order to stop: the edge between a program's signals and a run's cancellation."""

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
    """While the block runs, a signal cancels the context; the list that is yielded has those that came.

    A repeated signal cannot hurry a task that is not to be left half done; it makes the log say what is waited for.
    A signal that the parent process chose to ignore (nohup) stays ignored. Outside the main thread, where Python does
    not deliver signals, nothing is installed; but a signal that stops the main thread's run stops this one too, which
    may well be inside it: in a task of a parallel group. A run that begins inside one that was already stopped is
    stopped before its first task.
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
    """The handlers, the pipe and the thread that turn signals into the order to stop.

    A handler runs in the main thread, in the middle of whatever that holds (a lock of the run, say), and only once
    that thread gets to run Python: the kernel may hand the signal to another thread, and then a sleeping main thread
    sleeps on. So the handlers do next to nothing, and a thread reads the numbers that Python writes to a pipe.
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
        # The run around this one, unless somebody who is not of ours listens between the two.
        self._around = next((it for it in _watches if it._writing == self._others), None)
        for number in self._before:
            signal.signal(number, self._note)
        _watches.append(self)
        for number in self._around.ordered if self._around else ():
            self.came.append(number)
            self._stop(number)

    def end(self) -> None:
        """Give everything back. A signal that came too late to be obeyed is raised again, for whoever is next."""
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
        """In a forked child: its signals are its own again, and none of our run's business."""
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
        # First every order, then the words: they may have to wait for whoever reads our log.
        self._order(numbers)
        self._tell(numbers)

    def _order(self, numbers: bytes) -> None:
        if self._around is not None:
            # At once, and before this run: when this one has ended, that one must not go on to its next task.
            self._around._order(numbers)
        elif self._others != -1:
            # An event loop listens too.
            with suppress(OSError):
                os.write(self._others, numbers)
        for number in numbers:
            if number in self._before:
                self._stop(number)
                for run in () if self._around else tuple(_elsewhere):
                    run.stop(number)

    def _stop(self, number: int) -> None:
        # Noted first: a run that begins inside this one now looks here.
        self.ordered.append(number)
        self._ctx.cancel(signal.Signals(number).name)

    def _tell(self, numbers: bytes) -> None:
        if self._around is not None:
            self._around._tell(numbers)
        for number in numbers:
            if number in self._before:
                self._say(signal.Signals(number).name)
                self.came.append(number)

    def _say(self, name: str) -> None:
        try:
            still = self._waiting_for()
            if self.came:
                self._ctx.log.warning("%s again: still stopping, waiting for %s", name, still)
            else:
                self._ctx.log.warning("%s: stopping, waiting for %s", name, still)
        except Exception:  # noqa: BLE001, S110  a log that fails must not cost us the next signal
            pass


_watches: list[_Watch] = []
_elsewhere: list[_Elsewhere] = []


def _in_a_forked_child() -> None:
    for watch in reversed(_watches):
        watch.forget()
    _watches.clear()
    _elsewhere.clear()


os.register_at_fork(after_in_child=_in_a_forked_child)
