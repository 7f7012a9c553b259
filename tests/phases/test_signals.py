"""Signals stop runs: real signals, most of them to a real process."""

import asyncio
import itertools
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, NamedTuple

import pytest
from typing_extensions import Self

import phases
from phases import Status, Step
from phases.testing import Recorder

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
SIGNALS = int(os.environ.get("SIGNALS", "200"))
RUN = "report = phases.run({task}); print(report); sys.exit(report.exit_code)"


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
    task = "phases.serial(phases.parallel(wait, wait, name='both'), StubTask('next'))"
    code, out, err = Program(RUN.format(task=task), ready=2).end(number)
    assert code == 128 + number
    assert f"{number.name}: stopping, waiting for " in err
    assert out.splitlines()[0].split()[:2] == ["serial", "cancelled"]
    assert out.splitlines()[0].endswith(f" {number.name}")
    assert "not reached after both" in out
    assert "Traceback" not in err


@pytest.mark.linux
def test_a_second_signal_interrupts_nothing() -> None:
    """A second signal interrupts nothing: the program logs what it is waiting for."""
    program = Program(RUN.format(task="phases.serial(deaf)"))
    for _ in range(2):
        program.process.send_signal(signal.SIGINT)
        program.wait_for("SIGINT: stopping, waiting for serial/deaf")
    code, out, _ = program.end()
    assert code == 0
    assert "deaf  ok" in out


@pytest.mark.linux
def test_a_signal_during_an_undo() -> None:
    """The line names the undo that the program is waiting for."""
    code = """
        @phases.task("routes", undo=deaf.do)
        def routes(ctx):
            raise OSError("full")

        sys.exit(phases.run(routes, undo_on_failure=True).exit_code)
    """
    program = Program(code)
    program.process.send_signal(signal.SIGTERM)
    program.wait_for("SIGTERM: stopping, waiting for routes (undo)")
    assert program.end()[0] == 1


@pytest.mark.linux
def test_a_failure_after_a_signal() -> None:
    """A task that fails while the run stops has failed: the exit code is 1, not the signal's. The
    report has the first of several signals.
    """
    code = """
        @phases.task("fails")
        def fails(ctx):
            with ctx.shielded():
                deaf.do(ctx)
                raise OSError("full")

        report = phases.run(fails)
        print(report.signal)
        sys.exit(report.exit_code)
    """
    program = Program(code)
    for number in (signal.SIGTERM, signal.SIGINT):
        program.process.send_signal(number)
        program.wait_for(f"{number.name}: stopping, waiting for fails")
    assert program.end()[:2] == (1, "15\n")


@pytest.mark.linux
def test_a_signal_after_another_reason() -> None:
    """The report of a run that was cancelled for another reason has both: the reason, and the
    signal that came later.
    """

    @phases.task("a")
    def stopped(ctx: phases.Context) -> None:
        ctx.cancel("enough")
        os.kill(os.getpid(), signal.SIGTERM)
        with ctx.shielded(grace=100) as safe:
            while ctx.root is not None and ctx.root.signal is None:
                safe.sleep(0.001)
        ctx.check()

    report = phases.run(stopped, observers=[])
    assert report.reason == "enough"
    assert report.signal == signal.SIGTERM
    assert report.exit_code == 143


@pytest.mark.linux
def test_an_ignored_signal_stays_ignored() -> None:
    """If the parent process made it ignore SIGINT, as nohup and shells do, the program keeps
    ignoring it.
    """
    code = """
        @phases.task("sleeps")
        def sleeps(ctx):
            deaf.do(ctx)
            ctx.sleep(0.1)

        report = phases.run(sleeps)
        print(report.status, report.signal)
    """
    program = Program(code, prefix=("env", "--ignore-signal=INT"))
    assert program.end(signal.SIGINT)[:2] == (0, "ok None\n")


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
    assert Program(code).end(signal.SIGTERM)[1] == "cancelled SIGTERM\n"


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
@pytest.mark.parametrize("words", ["b started", "the run continues"])
def test_ctrl_c_while_a_line_is_logged(words: str) -> None:
    """Under execute, it is raised also there, and no further task starts; also while the error of
    an observer is logged.
    """
    code = f"""
        import os, signal

        class Pressed(logging.Handler):
            def emit(self, record):
                if "{words}" in record.getMessage():
                    os.kill(os.getpid(), signal.SIGINT)
                if "b started" in record.getMessage():
                    raise OSError("no space left")
        logging.getLogger("phases").addHandler(Pressed())
        done = []
        tasks = [phases.task(name)(lambda ctx: done.append(ctx.path[-1])) for name in "abc"]
        try:
            phases.execute(phases.serial(*tasks))
        except KeyboardInterrupt:
            print(done)
    """
    assert Program(code, ready=0).end()[:2] == (0, "['a']\n")


@pytest.mark.linux
def test_a_handler_of_a_signal_without_a_name() -> None:
    """If the program's handler of a real-time signal raises, the run is cancelled like for any
    other signal.
    """
    code = """
        import signal, threading

        class OwnError(Exception): ...

        def raises(*_):
            raise OwnError

        signal.signal(signal.SIGRTMIN + 1, raises)
        try:
            phases.run(wait)
        except OwnError:
            print(threading.active_count())
    """
    code_, out, err = Program(code).end(signal.SIGRTMIN + 1)
    assert code_ == 0
    assert out == "1\n"
    assert f"signal {signal.SIGRTMIN + 1}: stopping, waiting for wait" in err
    assert "wait cancelled after" in err


class _AtLine:
    """Send a signal before the n-th line of phases that the main thread runs inside the block."""

    def __init__(self, signum: int, number: int) -> None:
        self.signum, self.left, self.place, self.is_handled = signum, number, "", False
        self._handler = signal.getsignal(signum)

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
                self.is_handled = signal.getsignal(self.signum) is not self._handler
                signal.raise_signal(self.signum)
        return self._trace


class OwnError(Exception):
    """Raised by a handler of the program itself."""


def raise_own_error(_number: int, _frame: object) -> None:
    """A handler of the program itself."""
    raise OwnError


SHORT = phases.task("a")(lambda ctx: ctx.sleep(0.001))
TWO_STEPS = phases.serial(SHORT, SHORT)
HANDLERS: dict[int, Any] = {
    signal.SIGUSR1: raise_own_error,
    signal.SIGINT: signal.default_int_handler,
}


@pytest.fixture
def handlers() -> Iterator[None]:
    """Put back what the test changes."""
    before = {number: signal.getsignal(number) for number in HANDLERS}
    yield
    set_handlers(before)


def set_handlers(handlers: Mapping[int, Any]) -> None:
    """Handle these signals like this."""
    for number, handler in handlers.items():
        signal.signal(number, handler)


class SignalledRun(NamedTuple):
    """A run during which a signal came, what its observer has seen, and how the call ended."""

    at: _AtLine
    seen: Recorder
    outcome: Step | BaseException


def run_with(seen: Recorder) -> Step:
    """A run of the main thread."""
    return phases.run(TWO_STEPS, observers=[seen])


def run_beside_a_loop(seen: Recorder) -> Step:
    """A run that the main thread awaits."""
    return asyncio.run(phases.run_async(TWO_STEPS, ctx=phases.Context(observers=[seen])))


def runs_with_a_signal(
    signum: int, run: Callable[[Recorder], Step] = run_with
) -> Iterator[SignalledRun]:
    """One run for each line of phases that the main thread runs: the signal comes before it."""
    threads = threading.active_count()
    for number in itertools.count(1):
        set_handlers(HANDLERS)
        seen = Recorder()
        at = _AtLine(signum, number)
        outcome: Step | BaseException
        try:
            with at:
                outcome = run(seen)
        except (KeyboardInterrupt, OwnError) as error:
            outcome = error
        if not at.place:
            for signalled, handler in HANDLERS.items():
                assert signal.getsignal(signalled) is handler
            return
        yield SignalledRun(at, seen, outcome)
        nothing_is_left(seen, threads, at.place)


@pytest.mark.usefixtures("handlers")
def test_ctrl_c_at_every_line() -> None:
    """At any line of a run, it cancels it, and raises nothing while a run handles it."""
    cancelled = 0
    for at, seen, outcome in runs_with_a_signal(signal.SIGINT):
        if isinstance(outcome, Step):
            assert outcome.signal == signal.SIGINT, at.place
            assert len(list(outcome.walk())) == len(seen.ends), at.place
            cancelled += outcome.status is Status.CANCELLED
        else:
            # Before the run handles it, or just before it no longer does.
            assert not at.is_handled or seen.ends[-1][0] == "serial", at.place
    assert cancelled


@pytest.mark.usefixtures("handlers")
def test_ctrl_c_at_every_line_beside_an_event_loop() -> None:
    """While the run handles it, it cancels the run; before and after, it ends the program as
    asyncio has it, and then the run has not begun, or has been stopped.
    """
    cancelled = 0
    for at, _, outcome in runs_with_a_signal(signal.SIGINT, run_beside_a_loop):
        if isinstance(outcome, Step):
            assert outcome.signal == signal.SIGINT, at.place
            cancelled += outcome.status is Status.CANCELLED
    assert cancelled


@pytest.mark.usefixtures("handlers")
def test_an_own_signal_at_every_line() -> None:
    """What the program's own handler raises cancels the run, and is raised after its end."""
    cancelled = 0
    for at, seen, outcome in runs_with_a_signal(signal.SIGUSR1):
        assert isinstance(outcome, OwnError), at.place
        cancelled += seen.ends[-1:] == [("serial", Status.CANCELLED)]
    assert cancelled


def nothing_is_left(seen: Recorder, threads: int, place: str) -> None:
    """Each step that has started has its end, there is no thread more, and the handlers work
    again.
    """
    assert seen.starts == sorted(seen.starts, key=len), place  # the group, and then its tasks
    assert len(seen.starts) <= len(seen.ends), place
    assert threading.active_count() == threads, place
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(OwnError):
        signal.raise_signal(signal.SIGUSR1)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, place


@pytest.mark.linux
def test_a_storm_of_signals() -> None:
    """Signals at any moment, also to handlers that raise: each step that starts ends once, and no
    thread is left.
    """
    code = """
        import signal, threading
        from phases.testing import Recorder

        class OwnError(Exception): ...

        storm, runs, threads, left = [True], [], set(), []
        logging.disable()  # nobody reads it

        def raises(*_):
            if left and left.pop():
                raise OwnError

        signal.signal(signal.SIGUSR2, lambda *_: storm.clear())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, raises)
        sleeps = StubTask("a", seconds=0.003)
        sleeps_shielded = phases.task("b")(lambda ctx: ctx.shielded().__enter__().sleep(0.002))
        at_once = phases.parallel(sleeps, sleeps_shielded)
        task = phases.serial(at_once, sleeps, sleeps_shielded, name="all")
        ready()
        while storm:
            try:
                try:
                    left[:] = [True] * 2  # so that these two clauses are enough
                    runs.append(Recorder())
                    phases.run(task, observers=[runs[-1]])
                    left.clear()
                except OwnError:
                    left.clear()
            except OwnError:
                pass
            threads.add(threading.active_count())
        for seen in runs:
            ends = [path for path, _ in seen.ends]
            assert seen.starts == [] or ends[-1] == "all", vars(seen)
            assert set(seen.starts) <= set(ends) and len(ends) <= 6, vars(seen)
        print(threads, [str(seen.ends[-1][1]) for seen in runs if seen.ends].count("cancelled"))
    """
    program, chance = Program(code), random.Random()  # noqa: S311  it protects nothing
    for _ in range(SIGNALS):
        program.process.send_signal(chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]))
        time.sleep(chance.random() * 0.01)
    code_, out, err = program.end(signal.SIGUSR2)
    assert code_ == 0, err
    threads, cancelled = out.rsplit(maxsplit=1)
    assert threads == "{1}"
    assert int(cancelled)  # how often, depends on the machine
