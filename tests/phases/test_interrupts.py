"""Ctrl-C under a bare execute, at any moment: no log line and no thread is lost, and it is always raised."""

from __future__ import annotations

import itertools
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import phases
from phases import Context, Finished, Started, Status
from phases.interrupts import call_open, closed, hold_interrupts, raise_if_interrupted, whole
from phases.testing import RecordingObserver, StubTask

if TYPE_CHECKING:
    from types import FrameType

    from typing_extensions import Self


def interrupt() -> None:
    """Send SIGINT, as a terminal does on Ctrl-C."""
    signal.raise_signal(signal.SIGINT)


def test_a_task_is_interrupted() -> None:
    """In a task's own code Ctrl-C is KeyboardInterrupt at once; the task and its groups are cancelled, in order."""
    seen = RecordingObserver()
    reached: list[str] = []

    @phases.task("work")
    def work(_ctx: Context) -> None:
        interrupt()
        reached.append("after")

    with pytest.raises(KeyboardInterrupt):
        phases.execute(phases.serial(work, StubTask("next")), Context(observers=[seen]))
    assert reached == []
    assert seen.finished == [("serial/work", Status.CANCELLED), ("serial", Status.CANCELLED)]
    assert seen.skipped == ["serial/next"]


@pytest.mark.parametrize("kind", [Started, Finished])
def test_the_runner_is_not_interrupted(kind: type) -> None:
    """Ctrl-C while the runner reports is deferred until it is done: every task that began has its last line."""
    seen = RecordingObserver()

    def interrupting(event: phases.Event) -> None:
        if isinstance(event, kind) and event.path[-1] == "b":
            interrupt()

    with pytest.raises(KeyboardInterrupt):
        phases.execute(
            phases.serial(StubTask("a"), StubTask("b"), StubTask("c")), Context(observers=[interrupting, seen])
        )
    assert sorted(seen.started) == sorted(path for path, _ in seen.finished)
    assert seen.report.status is Status.CANCELLED
    assert not seen.report.find("c").ok or seen.report.find("c").started is None


def test_at_the_very_end() -> None:
    """Ctrl-C during the very last line is raised when execute ends, and Python's handler is restored."""

    def interrupting(event: phases.Event) -> None:
        if isinstance(event, Finished):
            interrupt()

    with pytest.raises(KeyboardInterrupt):
        phases.execute(StubTask("a"), Context(observers=[interrupting]))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    raise_if_interrupted()  # and it came out once only


@pytest.mark.parametrize("error", [OSError("disk full"), SystemExit(3)])
def test_at_the_end_of_a_failure(error: BaseException) -> None:
    """Ctrl-C during the last line of a failed task is raised with the failure as its context, not in a later run."""

    def interrupting(event: phases.Event) -> None:
        if isinstance(event, Finished):
            interrupt()

    with pytest.raises(KeyboardInterrupt) as raised:
        phases.execute(StubTask("a", always=error), Context(observers=[interrupting]))
    behind = raised.value.__context__
    assert error in {behind, getattr(behind, "error", None)}
    assert phases.execute(StubTask("b", 1), Context(observers=[])) == 1


def test_in_a_finaliser() -> None:
    """If Python swallows exceptions, Ctrl-C is deferred until it can be raised."""

    class Falling:
        def __del__(self) -> None:
            interrupt()

    @phases.task("drop")
    def drop(ctx: Context) -> None:
        Falling()
        ctx.check()

    hook = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt):
        phases.execute(drop, Context(observers=[]))
    assert sys.unraisablehook is hook


def test_during_the_order_to_stop() -> None:
    """Ctrl-C during a cancellation neither interrupts the cancellation nor is lost."""
    told: list[str] = []

    def interrupting() -> None:
        interrupt()
        told.append("first")

    @phases.task("give up")
    def give_up(ctx: Context) -> None:
        with ctx.on_cancel(interrupting), ctx.on_cancel(lambda: told.append("second")):
            ctx.cancel("enough")

    with pytest.raises(KeyboardInterrupt):
        phases.execute(give_up, Context(observers=[]))
    assert told == ["first", "second"]


def test_a_shielded_transaction_is_not_interrupted() -> None:
    """Inside a shield Ctrl-C is deferred, even in the task's own code; the next check after it raises."""
    done: list[str] = []

    @phases.task("transaction")
    def transaction(ctx: Context) -> None:
        with ctx.shielded() as safe:
            interrupt()
            safe.sleep(0.001)
            done.append("whole")
        ctx.check()
        done.append("not reached")

    with pytest.raises(KeyboardInterrupt):
        phases.execute(transaction, Context(observers=[]))
    assert done == ["whole"]


def test_an_undo_is_not_interrupted() -> None:
    """Ctrl-C during an undo lets that one finish; the remaining ones are recorded as not reached."""
    undone: list[str] = []

    def undo(ctx: Context) -> None:
        interrupt()
        undone.append(ctx.path[-1])

    tree = phases.serial(*[phases.task(name, undo=undo)(lambda _ctx: None) for name in "ab"])
    seen = RecordingObserver()
    with pytest.raises(KeyboardInterrupt):
        phases.undo(tree, Context(observers=[seen]))
    assert undone == ["b"]
    assert dict(seen.finished) == {"serial/b": Status.OK, "serial/a": Status.CANCELLED, "serial": Status.CANCELLED}


def test_a_handler_of_ones_own() -> None:
    """If the program handles SIGINT itself, execute keeps that handler."""
    came: list[int] = []

    def handler(number: int, _frame: object) -> None:
        came.append(number)

    before = signal.signal(signal.SIGINT, handler)
    try:
        phases.execute(phases.task("a")(lambda _ctx: interrupt()), Context(observers=[]))
    finally:
        signal.signal(signal.SIGINT, before)
    assert came == [signal.SIGINT]


def test_open_inside_closed_inside_open() -> None:
    """The nearest marked function decides."""

    @closed
    def bookkeeping(function: object) -> str:
        if callable(function):
            function()
        return "done"

    with hold_interrupts():
        with pytest.raises(KeyboardInterrupt):
            bookkeeping(lambda: call_open(interrupt))
        assert bookkeeping(interrupt) == "done"
        with pytest.raises(KeyboardInterrupt):
            call_open(lambda: None)
        with whole():
            interrupt()
        with pytest.raises(KeyboardInterrupt):
            raise_if_interrupted()


class _AtLine:
    """Send Ctrl-C before the n-th line that runs inside the block, in any module."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.place = ""

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            self.left -= 1
            if not self.left:
                self.place = f"{frame.f_code.co_name}, line {frame.f_lineno}"
                interrupt()
        return self._trace


def test_at_every_line_of_a_wait() -> None:
    """Ctrl-C at any line of a sleep is raised as KeyboardInterrupt, not as a failure of the task."""
    for number in itertools.count(1):
        at = _AtLine(number)

        def sleep(ctx: Context, at: _AtLine = at) -> None:
            with at:
                ctx.sleep(0.003)  # so long that also a busy machine gets as far as the wait itself

        try:
            phases.execute(phases.task("sleep")(sleep), Context(observers=[]))
        except KeyboardInterrupt:
            assert at.place
        except phases.TaskFailed as failed:
            pytest.fail(f"Ctrl-C at {at.place}: {failed}")
        else:
            assert not at.place, f"Ctrl-C at {at.place} was lost"
            break
    assert number > 10


def test_a_storm() -> None:
    """After any number of Ctrl-C at any moment, each task that began has ended, and no thread is left."""
    seen = RecordingObserver()
    stop = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def storm() -> None:
        while not stop.wait(0.0003):
            signal.pthread_kill(main, signal.SIGINT)

    group = phases.parallel(*[StubTask(f"t{number}", seconds=0.0005, obeys=False) for number in range(3)])
    interrupted = 0
    # The storm blows only inside hold_interrupts: Python's own handler would end the test anywhere else.
    for _ in range(40):
        seen.events.clear()
        thread = threading.Thread(target=storm)
        stop.clear()
        with hold_interrupts():
            thread.start()
            try:
                phases.execute(phases.serial(group, group, StubTask("x"), name="all"), Context(observers=[seen]))
            except KeyboardInterrupt:
                interrupted += 1
            finally:
                stop.set()
                _join_in_peace(thread)
            assert sorted(seen.started) == sorted(path for path, _ in seen.finished)
            try:
                raise_if_interrupted()
            except KeyboardInterrupt:
                interrupted += 1
    assert interrupted


@closed
def _join_in_peace(thread: threading.Thread) -> None:
    thread.join()
