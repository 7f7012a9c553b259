"""Signals stop runs: real signals, most of them to a real process."""

import itertools
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from typing_extensions import Self

import phases
from phases import Context, Finished, Started, Status, stop
from phases.testing import RecordingObserver, StubTask

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
    """A child forked by a task has its own signal handling: terminating it does not stop the run.

    The closed pipe is not its wakeup descriptor: each signal would write into a file that gets this number.
    """
    code = """
        import os, signal, time
        @phases.task("child")
        def child(ctx):
            reading, writing = os.pipe()
            pid = os.fork()
            if not pid:
                os.write(writing, str(signal.set_wakeup_fd(-1)).encode())
                time.sleep(60)
                os._exit(0)
            wakeup = int(os.read(reading, 9))
            os.kill(pid, signal.SIGTERM)
            return wakeup, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        ready()
        report = phases.run(child)
        print(report.status, report.result)
    """
    assert Program(code).end()[1] == "ok (-1, -15)\n"


@pytest.mark.linux
@pytest.mark.parametrize(("beside", "ready"), [("inner", 1), ("phases.parallel(inner, wait)", 2)])
def test_a_run_inside_a_run(beside: str, ready: int) -> None:
    """A signal also stops a run that a task started, in a thread of a parallel group too, and its report says so."""
    code = f"""
        inner = phases.task("inner")(lambda ctx: phases.run(wait, observers=[]))
        report = phases.run(phases.serial({beside}, StubTask("next")))
        inside = report.find("inner").result
        print(report.status, report.find("next").status, report.signal, inside.status, inside.reason, inside.signal)
    """
    program = Program(code, ready=ready)
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
    assert Program(code).end()[1] == "cancelled 15 0\n"


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


@pytest.mark.linux
def test_a_child_process() -> None:
    """A stop ends the child process of a task, and the task is cancelled, not done."""
    code = """
        import subprocess
        @phases.task("child")
        def child(ctx):
            process = subprocess.Popen(["sleep", "100"])
            with ctx.on_cancel(process.terminate):
                ready()
                process.wait()
    """
    program = Program(textwrap.dedent(code) + RUN.format(task="child"))
    program.process.send_signal(signal.SIGTERM)
    code_, out, _ = program.end()
    assert (code_, out.split()[:2]) == (143, ["child:", "cancelled"])


@pytest.mark.linux
def test_forks_beside_busy_threads() -> None:
    """A child that a task forks can use its context, whatever the other threads were doing at that moment."""
    code = """
        import os
        done = []
        quick = phases.task("quick")(lambda ctx: None)

        @phases.task("busy")
        def busy(ctx):
            while not done:
                with ctx.within(60) as part:
                    phases.execute(quick, part)

        @phases.task("fork")
        def fork(ctx):
            for _ in range(100):
                child = os.fork()
                if not child:
                    ctx.log.debug("here")
                    with ctx.within(60) as part:
                        phases.execute(quick, part)
                    os._exit(0)
                os.waitpid(child, 0)
            done.append(True)

        ready()
        sys.setswitchinterval(1e-6)
        print(phases.run(phases.parallel(fork, *[busy] * 3), observers=[lambda event: None]).status)
    """
    assert Program(code).end()[1] == "ok\n"


@pytest.mark.linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_without_run(number: signal.Signals) -> None:
    """Under a bare execute a signal cancels the tasks, waits for them, and then does what it does to any program."""
    code = """
        try:
            phases.execute(phases.serial(phases.parallel(wait, deaf, name="both"), StubTask("next")))
        except KeyboardInterrupt:
            import threading
            print(threading.active_count())
    """
    program = Program(code, ready=2)
    program.process.send_signal(number)
    code_, out, err = program.end()
    assert (code_, out) == ((0, "1\n") if number == signal.SIGINT else (-number, ""))
    for words in ("both/wait cancelled", "both/deaf completed", "serial/both cancelled", "serial cancelled"):
        assert words in err
    assert "next" not in err


def interrupt() -> None:
    """Send SIGINT, as a terminal does on Ctrl-C."""
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("error", [None, OSError("disk full"), SystemExit(3)])
@pytest.mark.parametrize("kind", [Started, Finished])
def test_while_the_runner_reports(kind: type, error: BaseException | None) -> None:
    """Ctrl-C never interrupts the runner: each task that began has ended, and then KeyboardInterrupt is raised once."""
    seen = RecordingObserver()

    def interrupting(event: phases.Event) -> None:
        if isinstance(event, kind) and event.path[-1] == "b":
            interrupt()

    tree = phases.serial(StubTask("a"), StubTask("b", always=error))
    with pytest.raises(KeyboardInterrupt):
        phases.execute(tree, Context(observers=[interrupting, seen]))
    assert sorted(seen.started) == sorted(path for path, _ in seen.finished)
    assert phases.execute(StubTask("c", 1), Context(observers=[])) == 1


def test_a_shielded_transaction_is_not_interrupted() -> None:
    """Inside a shield Ctrl-C changes nothing; the next check after it stops the task."""
    done: list[str] = []

    @phases.task("transaction")
    def transaction(ctx: Context) -> None:
        with ctx.shielded() as safe:
            interrupt()
            while not ctx.cancelled:
                safe.sleep(0.001)
            done.append("whole")
        ctx.check()
        done.append("not reached")

    with pytest.raises(KeyboardInterrupt):
        phases.execute(transaction, Context(observers=[]))
    assert done == ["whole"]


def test_a_handler_of_ones_own() -> None:
    """If the program handles SIGINT itself, execute keeps that handler, and run restores it."""
    came: list[int] = []

    @phases.task("interrupted")
    def interrupted(ctx: Context) -> None:
        interrupt()
        ctx.sleep(60)

    def handler(number: int, _frame: object) -> None:
        came.append(number)

    before = signal.signal(signal.SIGINT, handler)
    try:
        phases.execute(phases.task("a")(lambda _ctx: interrupt()), Context(observers=[]))
        assert came == [signal.SIGINT]
        report = phases.run(interrupted, observers=[])
        assert (report.status, report.signal, came) == (Status.CANCELLED, signal.SIGINT, [signal.SIGINT])
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


@phases.task("interrupted")
def interrupted(ctx: Context) -> None:
    """Get Ctrl-C, and wait for what follows."""
    interrupt()
    ctx.sleep(5)


def test_a_watch_inside_a_watch(caplog: pytest.LogCaptureFixture) -> None:
    """A run inside an execute that leaves SIGTERM alone: Ctrl-C is told once, and stops later runs inside it, too."""
    late = StubTask("late")

    @phases.task("outer")
    def outer(_ctx: Context) -> None:
        for task in (interrupted, late):
            phases.run(task, observers=[])

    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with pytest.raises(KeyboardInterrupt):
            phases.execute(outer, Context(observers=[]))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert late.calls == 0
    assert "again" not in caplog.text


def test_a_step_inside_a_step(caplog: pytest.LogCaptureFixture) -> None:
    """What a task runs in its own context is part of the run: the signal is told once."""
    outer = phases.task("outer")(lambda ctx: phases.execute(interrupted, ctx))
    assert phases.run(outer, observers=[]).signal == signal.SIGINT
    assert caplog.text.count("SIGINT: stopping") == 1


def test_another_signal() -> None:
    """A signal that the program handles, other than SIGINT and SIGTERM, does not stop the run."""
    came: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: came.append(number))
    try:
        task = phases.task("a")(lambda _ctx: signal.raise_signal(signal.SIGUSR1))
        report = phases.run(task, observers=[])
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (report.status, report.signal, came) == (Status.OK, None, [signal.SIGUSR1])


def test_a_signal_before_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that comes when the handlers are set, and the pipe is not, stops the run."""
    pipe, waiting = os.pipe, phases.task("waiting")(lambda ctx: ctx.sleep(5))

    def late_pipe() -> tuple[int, int]:
        interrupt()
        return pipe()

    monkeypatch.setattr("os.pipe", late_pipe)
    report = phases.run(waiting, observers=[])
    assert (report.status, report.signal) == (Status.CANCELLED, signal.SIGINT)


def test_a_signal_after_the_last_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that comes when the run no longer listens is not lost: it has its usual effect after the run."""
    drain = stop._Watch.drain

    def drain_early(watch: stop._Watch) -> None:
        drain(watch)
        interrupt()

    monkeypatch.setattr(stop._Watch, "drain", drain_early)
    with pytest.raises(KeyboardInterrupt):
        phases.run(StubTask("a"), observers=[])


def test_a_process_without_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """If signals cannot be watched, nothing begins, the error is raised, and the handlers are as before."""

    def pipe() -> tuple[int, int]:
        raise OSError("too many open files")

    monkeypatch.setattr("os.pipe", pipe)
    task = StubTask("a")
    with pytest.raises(OSError, match="too many open files"):
        phases.run(task, observers=[])
    assert (task.calls, signal.getsignal(signal.SIGINT)) == (0, signal.default_int_handler)
    assert (stop._stops, stop._watches) == ([], [])


class _AtLine:
    """Send Ctrl-C, or act otherwise, before the n-th line of phases that the main thread runs inside the block."""

    def __init__(self, number: int, act: Callable[[], None] = interrupt) -> None:
        self.left, self._act = number, act
        self.place = ""

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if Path(frame.f_code.co_filename).parent.name != "phases":
            return None
        if event == "line":
            self.left -= 1
            if not self.left:
                self.place = f"{frame.f_code.co_name}, line {frame.f_lineno}"
                self._act()
        return self._trace


def test_at_every_line() -> None:
    """Ctrl-C at any line of phases is raised as KeyboardInterrupt, each task has its last event, and nothing is left."""
    task = phases.task("a")(lambda ctx: ctx.sleep(0.0001))
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    for number in itertools.count(1):
        seen, at = RecordingObserver(), _AtLine(number)
        ctx = Context(observers=[seen])
        try:
            with at:
                phases.execute(task, ctx)
        except KeyboardInterrupt:
            assert at.place
        else:
            assert not at.place, f"Ctrl-C at {at.place} was lost"
            break
        assert seen.started == [path for path, _ in seen.finished], at.place
        assert (stop._stops, stop._watches, stop._came) == ([], [], []), at.place
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers, at.place
    assert number > 100


@pytest.mark.linux
def test_a_fork_at_every_line() -> None:
    """A child that is forked while a run begins or ends, by any thread, has the handlers of a process without a run.

    Nor does it keep the pipe open: the thread of its parent reads that until every writer has closed it.
    """
    open_before = len(os.listdir("/proc/self/fd"))

    def fork_and_look() -> None:
        if child := os.fork():
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, at.place
            return
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        clean = handlers == [signal.default_int_handler, signal.SIG_DFL]
        clean &= (stop._stops, stop._watches, stop._came) == ([], [], [])
        os._exit(not (clean and len(os.listdir("/proc/self/fd")) == open_before))

    for number in itertools.count(1):
        at = _AtLine(number, fork_and_look)
        with at:
            phases.execute(StubTask("a"), Context(observers=[]))
        if not at.place:
            break
    assert number > 100
