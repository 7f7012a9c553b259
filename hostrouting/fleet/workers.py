"""Who judges: processes of our own, or an executor that was given. A batch goes in, and a future comes out.

Here: starting, replacing and ending processes. Not here: what is in a batch, and what happens to a batch that is lost
(`dispatch`).
"""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from multiprocessing import connection, get_context, parent_process
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hostrouting.fleet.judging import Question
    from hostrouting.fleet.node import NodeResult

__all__ = ["GivenExecutor", "Judge", "OwnProcesses", "Results", "Workers"]

Judge: TypeAlias = "Callable[[Sequence[bytes], Question], tuple[NodeResult, ...]]"
Results: TypeAlias = "Future[tuple[NodeResult, ...]]"


class Workers(Protocol):
    """Whoever judges batches of snapshots, several at a time."""

    at_once: int
    """The number of batches that keep all of them busy."""

    def submit(self, judge: Judge, data: Sequence[bytes], question: Question) -> Results:
        """Have `judge` called with these arguments. Any exception of the future means that the batch was lost.

        Raises whatever the executor raises if it takes no batch any more.
        """
        ...

    def renew(self) -> None:
        """Replace, after a loss, whatever takes no batch any more."""
        ...

    def close(self) -> None:
        """End what was started here. What has not begun is never judged. Idempotent."""
        ...


class OwnProcesses:
    """Processes on this computer, one for each processor that this process may use.

    Each is a new interpreter and not a fork: a fork of a process with threads can hang.
    """

    def __init__(self) -> None:
        """Start no process yet."""
        self._count = _processors()
        self.at_once = 2 * self._count
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, judge: Judge, data: Sequence[bytes], question: Question) -> Results:
        """See Workers."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._count, mp_context=get_context("spawn"), initializer=_begin)
        # A process that starts now inherits this. Ctrl-C is for the program that waits for the results.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self._pool.submit(judge, data, question)
        except BrokenExecutor as error:  # a process has ended, and this batch is lost like those before it
            lost: Results = Future()
            lost.set_exception(error)
            return lost
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def renew(self) -> None:
        """See Workers."""
        self.close()

    def close(self) -> None:
        """See Workers."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


class GivenExecutor:
    """An executor of the caller's, who also ends it."""

    at_once = 64

    def __init__(self, executor: Executor) -> None:
        """Use this executor."""
        self._executor = executor

    def submit(self, judge: Judge, data: Sequence[bytes], question: Question) -> Results:
        """See Workers."""
        return self._executor.submit(judge, data, question)

    def renew(self) -> None:
        """See Workers: only the caller can replace it."""

    def close(self) -> None:
        """See Workers: nothing was started here."""


def _processors() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _begin() -> None:
    """The first call in a new process, which ends with the process that started it."""
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(parent: int) -> None:
    connection.wait([parent])
    os._exit(1)
