"""run: the whole program, with real signals to a real process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import phases
from phases import Status
from phases.program import default_observers
from phases.testing import FakeClock, RecordingObserver, StubTask

PROGRAM = """
import logging, sys, phases
from phases.testing import StubTask
logging.basicConfig(level="INFO", format="%(message)s")

def ready():
    sys.stdout.write("ready\\n")  # in one piece, also beside another thread
    sys.stdout.flush()

@phases.task("transaction")
def transaction(ctx):
    ready()
    with ctx.shielded() as safe:
        while not ctx.cancelled:
            safe.sleep(0.01)
    return "whole"

@phases.task("wait")
def wait(ctx):
    ready()
    ctx.sleep(150)

@phases.task("deaf")
def deaf(ctx):
    ready()
    sys.stdin.read()  # until the test waits for the end
"""


class Program:
    """A program in a separate process that has printed `ready`."""

    def __init__(self, code: str, *, prefix: tuple[str, ...] = (), ready: int = 1) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-c", textwrap.dedent(PROGRAM) + textwrap.dedent(code)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        for _ in range(ready):
            assert self.process.stdout.readline() == "ready\n"

    def said(self, words: str) -> None:
        """Wait until its error output has a line with these words."""
        assert self.process.stderr is not None
        before: list[str] = []
        while words not in (line := self.process.stderr.readline()):
            assert line, f"it ended without a line {words!r}, after {before}"
            before.append(line)

    def end(self) -> tuple[int, str, str]:
        """The program's exit code, output and error output."""
        try:
            out, err = self.process.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            self.process.kill()
            pytest.fail(f"the program did not end; it said {self.process.communicate()}")
        return self.process.returncode, out, err


RUN = "report = phases.run({task}); print(report); sys.exit(report.exit_code)"


@pytest.mark.linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal(number: signal.Signals) -> None:
    """A signal stops the run: sleeping tasks wake, the report says why, the exit code is 128 + the signal.

    The tasks may have ended by the time at which the program says what it is waiting for.
    """
    program = Program(
        RUN.format(task="phases.serial(phases.parallel(wait, wait, name='both'), StubTask('next'))"), ready=2
    )
    program.process.send_signal(number)
    code, out, err = program.end()
    assert code == 128 + number
    assert f"{number.name}: stopping, waiting for " in err
    assert out.splitlines()[0].startswith("serial: cancelled after")
    assert f": {number.name}" in out.splitlines()[0]
    assert "not reached after both" in out
    assert "Traceback" not in err


@pytest.mark.linux
def test_signal_during_a_transaction() -> None:
    """A shielded transaction is finished first; the task succeeds, and the next one is not started."""
    program = Program(RUN.format(task="phases.serial(transaction, StubTask('next'))"))
    program.process.send_signal(signal.SIGTERM)
    code, out, _ = program.end()
    assert code == 143
    lines = out.splitlines()
    assert "transaction  ok" in lines[2]
    assert lines[3].endswith("cancelled: SIGTERM")


@pytest.mark.linux
def test_second_signal() -> None:
    """A second signal interrupts nothing: the program logs what it is waiting for."""
    program = Program(RUN.format(task="phases.serial(deaf)"))
    program.process.send_signal(signal.SIGINT)
    program.said("stopping")
    program.process.send_signal(signal.SIGINT)
    program.said("SIGINT again: still stopping, waiting for serial/deaf")
    code, out, _ = program.end()
    assert code == 0
    assert "deaf  ok" in out


@pytest.mark.linux
def test_ignored_signal_stays_ignored() -> None:
    """If the parent process made it ignore SIGINT, as nohup and shells do, the program keeps ignoring it."""
    code = "report = phases.run(deaf); print(report.status)"
    program = Program(code, prefix=("env", "--ignore-signal=INT"))
    program.process.send_signal(signal.SIGINT)
    assert program.end()[:2] == (0, "ok\n")


@pytest.mark.linux
def test_handlers_are_given_back() -> None:
    """After the run the previous handlers are restored, even if the run failed."""
    code = """
        import signal
        before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        print("ready", flush=True)
        phases.run(StubTask("a", always=OSError()), observers=[])
        assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    """
    assert Program(code).end()[0] == 0


@pytest.mark.linux
def test_keyboard_interrupt_without_run() -> None:
    """Under a bare execute, Ctrl-C in a parallel group cancels the tasks, waits for them, and is then raised."""
    code = """
        try:
            phases.execute(phases.serial(phases.parallel(wait, deaf, name="both"), StubTask("next")))
        except KeyboardInterrupt:
            import threading
            print(threading.active_count())
    """
    program = Program(code, ready=2)
    program.process.send_signal(signal.SIGINT)
    code_, out, err = program.end()
    assert (code_, out) == (0, "1\n")
    assert "serial/both/wait cancelled" in err
    assert "serial/both/deaf completed" in err
    assert "serial/both cancelled" in err
    assert "serial cancelled" in err
    assert "next" not in err


def test_in_another_thread() -> None:
    """Outside the main thread, without a run in the main thread, a run works the same but ignores signals."""
    reports: list[phases.Report] = []
    thread = threading.Thread(target=lambda: reports.append(phases.run(StubTask("a", 1), observers=[])))
    thread.start()
    thread.join()
    assert reports[0].ok


def test_deadline_of_the_program() -> None:
    """A run with a deadline is cancelled at the deadline, and the report says why."""
    report = phases.run(StubTask("a", seconds=60), deadline=5, clock=FakeClock(), observers=[])
    assert (report.status, report.reason, report.duration) == (Status.CANCELLED, "the 5 s of the run are over", 5)
    assert report.exit_code == 1


def test_observers_are_closed() -> None:
    """An observer with close() is closed, even if a task ends the program."""

    class Closing(RecordingObserver):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    closing = Closing()
    with pytest.raises(SystemExit):
        phases.run(StubTask("a", always=SystemExit(3)), observers=[closing])
    assert closing.closed == 1


def test_observers_that_cannot_be_closed(caplog: pytest.LogCaptureFixture) -> None:
    """If close() of an observer raises, the others are still closed and the report is complete."""

    class Closing(RecordingObserver):
        closed = 0

        def close(self) -> None:
            self.closed += 1
            raise OSError("disk full")

    first, second = Closing(), Closing()
    assert phases.run(StubTask("a"), observers=[first, second]).ok
    assert (first.closed, second.closed) == (1, 1)
    assert "could not be closed; the report is not affected" in caplog.text


@pytest.mark.linux
def test_a_log_that_fails_does_not_cost_a_signal() -> None:
    """The run is cancelled before the log line is written, and even if a log handler raises."""
    code = """
        class Broken(logging.Handler):
            def emit(self, record):
                raise OSError("no space left")
        logging.getLogger("phases").addHandler(Broken())
        report = phases.run(wait, observers=[])
        print(report.status, report.reason)
    """
    program = Program(code)
    program.process.send_signal(signal.SIGTERM)
    assert program.end()[1] == "cancelled SIGTERM\n"


@pytest.mark.linux
def test_forked_children() -> None:
    """A child forked by a task has its own signal handling: terminating it does not stop the run."""
    code = """
        import os, signal, time
        @phases.task("child")
        def child(ctx):
            reading, writing = os.pipe()
            pid = os.fork()
            if not pid:
                os.write(writing, b".")
                time.sleep(60)
                os._exit(0)
            os.read(reading, 1)
            os.kill(pid, signal.SIGTERM)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        ready()
        report = phases.run(child)
        print(report.status, report.result)
    """
    assert Program(code).end()[1] == "ok -15\n"


@pytest.mark.linux
@pytest.mark.parametrize("late", [0, 0.3])
def test_a_run_inside_a_run(late: float) -> None:
    """A signal during a run inside a task stops both runs, even if the outer run's thread wakes late."""
    code = f"""
        import os, time
        read = os.read
        def read_late(end, size):
            numbers = read(end, size)
            if _watches and end == _watches[0]._reading:
                time.sleep({late})
            return numbers
        from phases.program import _watches
        os.read = read_late
        inner = phases.task("inner")(lambda ctx: phases.run(wait, observers=[]).status)
        report = phases.run(phases.serial(inner, StubTask("next")))
        print(report.status, report.find("next").status, report.signal)
    """
    program = Program(code)
    program.process.send_signal(signal.SIGINT)
    assert program.end()[1] == "cancelled skipped 2\n"


@pytest.mark.linux
def test_a_run_inside_a_parallel_group() -> None:
    """A signal also stops a run that a task started in a thread of a parallel group, and its report says so."""
    code = """
        inner = phases.task("inner")(lambda ctx: phases.run(wait, observers=[]))
        report = phases.run(phases.serial(phases.parallel(inner, wait), StubTask("next")))
        inside = report.find("inner").result
        print(report.status, report.find("next").status, report.signal, inside.status, inside.reason, inside.signal)
    """
    program = Program(code, ready=2)
    program.process.send_signal(signal.SIGTERM)
    assert program.end()[1] == "cancelled skipped 15 cancelled SIGTERM 15\n"


@pytest.mark.linux
@pytest.mark.parametrize("group", ["serial", "parallel"])
def test_a_run_that_begins_after_the_signal(group: str) -> None:
    """A run that a task starts after a signal has stopped the outer run does nothing."""
    code = f"""
        import os, signal, time
        def begin(ctx):
            os.kill(os.getpid(), signal.SIGTERM)
            while not ctx.cancelled:
                time.sleep(0.01)
            return phases.run(late, observers=[])
        late = StubTask("late")
        ready()
        report = phases.run(phases.{group}(phases.task("begin")(begin), StubTask("other")))
        inside = report.find("begin").result
        print(inside.status, inside.signal, late.calls)
    """
    assert Program(code).end()[1] == "skipped 15 0\n"


@pytest.mark.linux
def test_a_slow_log_does_not_hold_up_the_order() -> None:
    """A run inside a run is cancelled even while writing the outer run's log line blocks."""
    code = """
        import threading
        told = threading.Event()

        @phases.task("hear")
        def hear(ctx):
            with ctx.on_cancel(told.set):
                wait.do(ctx)

        class Slow(logging.Handler):
            def emit(self, record):
                if "stopping" in record.getMessage() and not told.is_set():
                    print(told.wait(30), flush=True)

        logging.getLogger("phases").addHandler(Slow())
        phases.run(phases.task("inner")(lambda ctx: phases.run(hear, observers=[])), observers=[])
        print("ended")
    """
    program = Program(code)
    program.process.send_signal(signal.SIGTERM)
    assert program.end()[1] in {"True\nended\n", "ended\n"}


@pytest.mark.linux
def test_an_event_loop_hears_of_its_signals() -> None:
    """A wakeup fd that was set before, like asyncio's, receives each signal, and is restored afterwards."""
    code = """
        import os, signal
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing)
        report = phases.run(wait)
        print(os.read(reading, 9), signal.set_wakeup_fd(-1) == writing, len(os.listdir("/proc/self/fd")))
    """
    program = Program(code)
    program.process.send_signal(signal.SIGINT)
    # Standard input, output and error, the pipe, and the directory being listed: the run leaves nothing open.
    assert program.end()[1] == "b'\\x02' True 6\n"


def test_default_observers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Away from a terminal there are log lines only."""
    monkeypatch.setenv("TERM", "xterm")
    [observer] = default_observers()
    assert isinstance(observer, phases.LogObserver)


@pytest.mark.linux
def test_types() -> None:
    """Mypy --strict accepts every way to write a task, and rejects the wrong ones marked in typing_tasks.py."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "tests/phases/typing_tasks.py"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MYPYPATH": str(root)},
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.linux
def test_report_of_a_stopped_program_is_json() -> None:
    """A stopped program can still print its report as JSON."""
    program = Program("print(phases.run(wait, run_id='r1').to_json())")
    program.process.send_signal(signal.SIGTERM)
    found = json.loads(program.end()[1])
    assert (found["status"], found["reason"], found["signal"], found["run"]) == ("cancelled", "SIGTERM", 15, "r1")
