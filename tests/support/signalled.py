"""A program that runs tasks in a process of its own, which a test sends signals."""

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import logging, sys, phases
logging.basicConfig(level="INFO", format="%(message)s")

def ready():
    sys.stdout.write("ready\\n")  # in one piece, also beside another thread
    sys.stdout.flush()

@phases.task("wait")
def wait(ctx):
    ready()
    ctx.sleep(150)

wait_too = phases.task("wait-too")(wait.do)

@phases.task("deaf")
def deaf(ctx):
    ready()
    sys.stdin.read()  # until the test waits for the end
"""


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
