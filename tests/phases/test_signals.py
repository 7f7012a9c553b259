"""Signals stop runs: real signals, most of them to a real process."""

import itertools
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from typing_extensions import Self

import phases
from phases import Context, Status
from tests.support.recorder import Recorder, StubTask
from tests.support.signalled import Program


@pytest.mark.linux
def test_a_second_signal_interrupts_nothing() -> None:
    """The report has the first, and a failure is exit code 1."""
    code = """
        @phases.task("routes", undo=deaf.do)
        def routes(ctx):
            raise OSError("full")

        report = phases.run(phases.serial(routes), undo_on_failure=True)
        print(report.signal)
        sys.exit(report.exit_code)
    """
    program = Program(code)
    for number in (signal.SIGTERM, signal.SIGINT):
        program.process.send_signal(number)
        program.wait_for(f"{number.name}: stopping, waiting for serial/routes (undo)")
    returned, out, err = program.end()
    assert (returned, out) == (1, "15\n")
    assert "stopping" not in err, "each of them stops the run once"


def test_a_signal_after_the_last_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is in the report, although there is nothing left to stop."""
    is_alive = threading.Thread.is_alive

    def look_late(thread: threading.Thread) -> bool:
        thread.join()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        return is_alive(thread)

    monkeypatch.setattr(threading.Thread, "is_alive", look_late)
    report = phases.run(StubTask("a"))
    assert (report.ok, report.signal) == (True, signal.SIGTERM)


def test_a_signal_is_seen_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run looks for signals, and for its end, at once and then every 20 ms."""
    pauses: list[float] = []
    is_enough = threading.Event()

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 10:
            is_enough.set()

    monkeypatch.setattr(time, "sleep", sleep)
    assert phases.run(phases.task("a")(lambda _: is_enough.wait(100))).ok
    assert (pauses[0], pauses[9]) == (0.0001, 0.02)


def test_a_signal_after_a_cancellation() -> None:
    """The report has the signal for which the program cancelled the run."""

    @phases.task("a")
    def cancel(ctx: Context) -> None:
        ctx.cancel(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)

    assert phases.run(cancel).signal == signal.SIGINT


@pytest.mark.linux
def test_a_signal_under_execute() -> None:
    """It cancels the run; then the program gets each: SIGINT is a KeyboardInterrupt."""
    code = """
        import signal, threading
        signal.signal(signal.SIGTERM, lambda *_: print("SIGTERM"))
        try:
            phases.execute(phases.serial(phases.parallel(wait, deaf, name="both"), name="all"))
        except KeyboardInterrupt:
            print(threading.active_count())
    """
    program = Program(code, ready=2)
    for number in (signal.SIGTERM, signal.SIGINT):
        program.process.send_signal(number)
        program.wait_for(f"{number.name}: stopping, waiting for ")
    code_, out, err = program.end()
    assert (code_, out) == (0, "SIGTERM\n1\n")
    assert "all/both/deaf ok" in err
    assert "all cancelled" in err


def test_a_signal_that_is_ignored() -> None:
    """As nohup has it: a run leaves it so."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        report = phases.run(phases.task("a")(lambda _: signal.raise_signal(signal.SIGINT)))
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert (report.ok, report.signal) == (True, None)


@pytest.mark.linux
def test_a_handler_of_the_program_that_raises() -> None:
    """What it raises cancels the run, and the last of it is raised after its end."""
    code = """
        import signal, threading

        def raises(*_):
            raise RuntimeError("no lease")

        def work(ctx):
            with ctx.shielded() as safe:
                safe.sleep(0.5)
            ctx.check()

        signal.signal(signal.SIGALRM, raises)
        signal.setitimer(signal.ITIMER_REAL, 0.2, 0.1)
        ready()
        seen = []
        try:
            phases.run(phases.task("work")(work), ctx=phases.Context(observers=[seen.append]))
        except RuntimeError:
            signal.setitimer(signal.ITIMER_REAL, 0)
            print(seen[-1].status, seen[-1].reason, threading.active_count())
    """
    assert Program(code).end()[:2] == (0, "cancelled RuntimeError: no lease 1\n")


class _AtLine:
    """Send SIGINT before the n-th line of phases that the main thread runs inside the block."""

    def __init__(self, number: int) -> None:
        self.left, self.place, self.is_handled = number, "", False

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        # Called for each line: to make a Path of it would take most of the time of these tests.
        if not frame.f_code.co_filename.rpartition("/")[0].endswith("/phases"):
            return None
        if event == "line":
            self.left -= 1
            if not self.left:
                self.place = f"{frame.f_code.co_name}, line {frame.f_lineno}"
                handler = signal.getsignal(signal.SIGINT)
                self.is_handled = handler is not signal.default_int_handler
                signal.raise_signal(signal.SIGINT)
        return self._trace


@pytest.mark.parametrize("start", [phases.run, phases.execute])
def test_ctrl_c_at_every_line(start: Callable[..., Any]) -> None:
    """It cancels the run and is in its report; it is raised only by execute, or outside a run."""
    tasks = [StubTask("a", seconds=0.001), StubTask("b", seconds=0.001)]
    task = phases.serial(phases.parallel(*tasks), StubTask("c"))
    threads = threading.active_count()
    cancelled = 0
    for number in itertools.count(1):
        seen = Recorder()
        at = _AtLine(number)
        ctx = Context(observers=[seen])
        report = None
        was_raised = False
        try:
            with at:
                report = start(task, ctx=ctx)
        except KeyboardInterrupt:
            was_raised = True
            # Before the run handles it, or just before it no longer does.
            is_at_end = not seen.starts or seen.ends[-1][0] == "serial"
            assert is_at_end or not at.is_handled, at.place
        if not at.place:
            break
        assert was_raised or getattr(report, "signal", None) == signal.SIGINT, at.place
        cancelled += ("serial", Status.CANCELLED) in seen.ends
        assert set(seen.starts) <= {path for path, _ in seen.ends}, at.place
        assert threading.active_count() == threads, at.place
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, at.place
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, at.place
    assert cancelled
