"""Python programs of this project that run inside a booted system, or inside a machine's namespaces.

Starting a new interpreter for each request would take nearly a second, so these programs are forks of the template.
"""

import json
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hostrouting.cli import main
from tests.support.systemd import System
from tests.support.template import enter

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
    """The program's answer to a question; both are one line of JSON."""
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
    """Read a program from the first line of input and run it, with the following lines as its input."""
    if os.fork():  # the child is in the system's process namespace
        return
    for standard in (0, 1):
        os.dup2(descriptor, standard)
    os.close(descriptor)
    with open(0, encoding="utf-8") as sys.stdin, open(1, "w", encoding="utf-8") as sys.stdout:
        program = json.loads(sys.stdin.readline())
        sys.stdout.write("0\n")
        sys.stdout.flush()
        exec(program, {"__name__": "__main__"})  # noqa: S102  the program comes from the tests


@contextmanager
def statuses(system: System) -> Iterator[Callable[[], dict[str, Any]]]:
    """The document of `hostrouting status --json` inside the system, with its exit code, at each request."""
    with answering(system, _STATUS) as answer:
        yield lambda: dict(answer("status"))


def carry_out(leader: int, words: tuple[str, ...], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a `hostrouting` command line in this process's namespaces; return its output and exit status."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            enter(leader, _command_line, theirs.fileno())
        ours.settimeout(100)
        with ours.makefile("rw", encoding="utf-8") as asked:
            asked.write(f"{json.dumps([words, environment])}\n")
            asked.flush()
            code, out, err = json.loads(asked.readline())
    return subprocess.CompletedProcess(("hostrouting", *words), code, out, err)


def _command_line(descriptor: int) -> None:
    with socket.socket(fileno=descriptor) as asked, asked.makefile("rw", encoding="utf-8") as asking:
        words, environment = json.loads(asking.readline())
        outputs = [os.memfd_create(name) for name in ("out", "err")]
        pid = os.fork()
        if not pid:
            os.environ.clear()
            os.environ.update(environment)
            for standard, output in enumerate(outputs, start=1):
                os.dup2(output, standard)
            # As Python opens them if the locale is C.UTF-8.
            sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="surrogateescape")
            sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace")
            sys.argv = ["hostrouting", *words]
            code = 70
            try:
                code = main()
            except SystemExit as stopped:  # argparse: --help, bad usage
                code = int(stopped.code or 0)
            except BaseException:  # noqa: BLE001  printed as by the interpreter
                traceback.print_exc()
                code = 1
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        said = []
        for output in outputs:
            os.lseek(output, 0, os.SEEK_SET)
            with os.fdopen(output, encoding="utf-8", errors="surrogateescape") as stream:
                said.append(stream.read())
        asking.write(f"{json.dumps([code, *said])}\n")
        asking.flush()


def told_in(document: dict[str, Any], name: str) -> list[str]:
    """What the findings of this name say in a document of a command."""
    found = (finding for finding in document["findings"] if finding["name"] == name)
    return ["; ".join(filter(None, (finding["sentence"], finding["remedy"]))) for finding in found]
