"""Command lines of this project that run inside a booted system, or inside a machine's namespaces.

Starting a new interpreter for each would take nearly a second, so they are forks of the template.
"""

import json
import os
import socket
import subprocess
import sys
import traceback

from hostrouting.cli import main
from tests.support.template import enter


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
