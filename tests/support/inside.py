"""A Python program of this project that runs inside of a booted system and answers, line by line.

To start one anew for every question would take most of a second each time.
"""

import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.systemd import System
from tests.support.template import enter

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
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            enter(system.leader, _answerer, theirs.fileno())
        with ours.makefile("rw", encoding="utf-8") as asked:

            def answer(question: object) -> Any:
                asked.write(f"{json.dumps(question)}\n")
                asked.flush()
                return json.loads(asked.readline())

            answer(program)
            yield answer


def _answerer(descriptor: int) -> None:
    """Run the program that comes first, with what comes after it as its input."""
    if os.fork():  # the child is the one that is among the system's processes
        return
    for standard in (0, 1):
        os.dup2(descriptor, standard)
    os.close(descriptor)
    with open(0, encoding="utf-8") as sys.stdin, open(1, "w", encoding="utf-8") as sys.stdout:  # noqa: PTH123
        program = json.loads(sys.stdin.readline())
        print("0", flush=True)
        exec(program, {"__name__": "__main__"})


@contextmanager
def statuses(system: System) -> Iterator[Callable[[], dict[str, Any]]]:
    """What `hostrouting status --json` says inside, with its exit code, each time that it is asked."""
    with answering(system, _STATUS) as answer:
        yield lambda: dict(answer("status"))
