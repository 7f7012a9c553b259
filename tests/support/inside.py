"""A Python program of this project that runs inside of a booted system and answers, line by line.

To start one anew for every question would take most of a second each time.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.systemd import System

__all__ = ["answering", "statuses"]

_STATUS = """\
import io, json, sys
from contextlib import redirect_stdout
from hostrouting.cli import main
for _ in sys.stdin:
    with redirect_stdout(io.StringIO()) as said:
        code = main(["status", "--json"])
    print(json.dumps({"code": code, **json.loads(said.getvalue())}), flush=True)
"""


@contextmanager
def answering(system: System, program: str) -> Iterator[Callable[[object], Any]]:
    """What the program answers to a question; both are one line of JSON."""
    command = system.command(sys.executable, "-c", program)
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    asks, answers = child.stdin, child.stdout

    def answer(question: object) -> Any:
        asks.write(f"{json.dumps(question)}\n")
        asks.flush()
        return json.loads(answers.readline())

    try:
        yield answer
    finally:
        asks.close()
        child.wait(10)
        answers.close()


@contextmanager
def statuses(system: System) -> Iterator[Callable[[], dict[str, Any]]]:
    """What `hostrouting status --json` says inside, with its exit code, each time that it is asked."""
    with answering(system, _STATUS) as answer:
        yield lambda: dict(answer("status"))
