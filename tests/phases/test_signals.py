"""Signals stop runs: real signals, most of them to a real process."""

import itertools
import signal
import subprocess
import sys
import textwrap
import threading
from types import FrameType
from typing import Any

import pytest
from typing_extensions import Self

import phases
from phases import Status
from phases.testing import StubTask
from tests.support.recorder import Recorder

PROGRAM = """
import logging, sys, phases
from phases.testing import StubTask
logging.basicConfig(level="INFO", format="%(message)s")

def ready():
    sys.stdout.write("ready\\n")  # in one piece, also beside another thread
    sys.stdout.flush()

@phases.task("wait")
def wait(ctx):
    ready()
    ctx.sleep(150)

@phases.task("deaf")
def deaf(ctx):
    ready()
    sys.stdin.read()  # until the test waits for the end
"""
RUN = "report = phases.run({task}); print(report); sys.exit(report.exit_code)"


class Program:
    """A program in a separate process that has printed `ready`."""

    def __init__(self, code: str, *, ready: int = 1) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(PROGRAM) + textwrap.dedent(code)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        for _ in range(ready):
            assert self.process.stdout.readline() == "ready\n"

    def wait_for(self, words: str) -> None:
        """Wait until its error output has a line with these words."""
        assert self.process.stderr is not None
        before: list[str] = []
        for line in self.process.stderr:
            if words in line:
                return
            before.append(line)
        raise AssertionError(f"it ended without a line {words!r}, after {before}")

    def end(self, *numbers: int) -> tuple[int, str, str]:
        """Send it these signals; its exit code, output and error output."""
        for number in numbers:
            self.process.send_signal(number)
        try:
            out, err = self.process.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            self.process.kill()
            pytest.fail(f"the program did not end: {self.process.communicate()}")
        return self.process.returncode, out, err


@pytest.mark.linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_run(number: signal.Signals) -> None:
    """A signal stops the run: sleeping tasks wake, the report says why, the exit code is 128 + the
    signal.
    """
    both = "phases.parallel(wait, phases.task('also')(wait.do), name='both')"
    task = f"phases.serial({both}, StubTask('next'))"
    code, out, err = Program(RUN.format(task=task), ready=2).end(number)
    assert code == 128 + number
    assert f"{number.name}: stopping, waiting for " in err
    assert out.splitlines()[0].split()[:2] == ["serial", "cancelled"]
    assert out.splitlines()[0].endswith(f" {number.name}")
    assert "not reached after both" in out
    assert "Traceback" not in err


@pytest.mark.linux
def test_a_second_signal_interrupts_nothing() -> None:
    """A second signal interrupts nothing: the program logs what it is waiting for, an undo too. The
    report has the first signal. A task that fails meanwhile has failed: the exit code is 1.
    """
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
    assert program.end()[:2] == (1, "15\n")


def test_a_signal_after_the_last_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is in the report, although there is nothing left to stop."""
    is_alive = threading.Thread.is_alive

    def look_late(thread: threading.Thread) -> bool:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        return is_alive(thread)

    monkeypatch.setattr(threading.Thread, "is_alive", look_late)
    report = phases.run(StubTask("a"))
    assert (report.ok, report.signal) == (True, signal.SIGTERM)


@pytest.mark.linux
def test_execute_handles_no_signal() -> None:
    """Under execute Ctrl-C raises KeyboardInterrupt: other threads are stopped and waited for, and
    steps have ends.
    """
    code = """
        import threading
        try:
            both = phases.parallel(wait, deaf, name="both")
            phases.execute(phases.serial(both, StubTask("next")))
        except KeyboardInterrupt:
            print(threading.active_count())
    """
    code_, out, err = Program(code, ready=2).end(signal.SIGINT)
    assert code_ == 0
    assert out == "1\n"
    for words in ("both/wait cancelled", "both/deaf ok", "serial/both failed", "serial failed"):
        assert words in err
    assert "next ok" not in err


@pytest.mark.linux
def test_a_handler_of_the_program_that_raises() -> None:
    """What it raises cancels the run, and is raised after its end."""
    code = """
        import signal, threading

        def raises(*_):
            raise RuntimeError("no lease")

        signal.signal(signal.SIGALRM, raises)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        ready()
        seen = []
        try:
            phases.run(phases.task("work")(lambda ctx: ctx.sleep(60)), observers=[seen.append])
        except RuntimeError:
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


def test_ctrl_c_at_every_line() -> None:
    """At any line of a run, it cancels it, and raises nothing while a run handles it. Each step
    that has started has its end, there is no thread more, and the handlers work again.
    """
    task = phases.serial(StubTask("a", seconds=0.001), StubTask("b", seconds=0.001))
    threads = threading.active_count()
    cancelled = 0
    for number in itertools.count(1):
        seen = Recorder()
        at = _AtLine(number)
        report = None
        try:
            with at:
                report = phases.run(task, observers=[seen])
        except KeyboardInterrupt:
            # Before the run handles it, or just before it no longer does.
            assert not at.is_handled or seen.ends[-1][0] == "serial", at.place
        if not at.place:
            break
        if report is not None:
            assert report.ok or report.signal == signal.SIGINT, at.place
            cancelled += report.status is Status.CANCELLED
        assert set(seen.starts) <= {path for path, _ in seen.ends}, at.place
        assert threading.active_count() == threads, at.place
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, at.place
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, at.place
    assert cancelled
