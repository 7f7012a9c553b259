"""Command lines of this project that run inside a booted system, or inside a machine's namespaces.

The Python of an older distribution is too old for the library, and does not have its dependencies.
So this host's Python runs them, in a process that has imported everything before it enters the
namespaces. Importing takes a second: each is a fork of a server that has done so.
"""

import multiprocessing
import multiprocessing.util
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from multiprocessing.context import ForkServerContext

import hostrouting
import phases
from hostrouting.cli import main
from tests.support.children import answer_of, enter_namespaces

# Modules that are imported only when they are first needed, by the library and by the modules that
# it imports. If one is missing from this list, a command fails with its name, because the file does
# not exist inside the system.
_LATER = (
    *(
        "concurrent.futures",
        "encodings.ascii",
        "encodings.idna",
        "encodings.latin_1",
        "fcntl",
        "json",
        "linecache",
    ),
    "pytest",  # which may be the program that runs the tests
)
# The process namespace, which is the last, applies only to processes that are forked afterwards.
_NAMESPACES = ("cgroup", "ipc", "uts", "net", "mnt", "pid")


def _make_the_folder_for_sockets() -> None:
    """Have multiprocessing's sockets in /tmp: the path of a socket has at most 107 bytes, and
    TMPDIR may be longer.
    """
    usual = tempfile.gettempdir()
    tempfile.tempdir = "/tmp"  # noqa: S108  multiprocessing makes a folder of its own there, once
    multiprocessing.util.get_temp_dir()
    tempfile.tempdir = usual


_ONLY_ELSEWHERE = re.compile(r"\.testing|\.__main__$")
"""Modules that the command line does not load."""


@cache
def _server() -> ForkServerContext:
    modules: list[str] = []
    for package in (hostrouting, phases):
        every = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        modules += [module.name for module in every if not _ONLY_ELSEWHERE.search(module.name)]
    _make_the_folder_for_sockets()
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([*modules, *_LATER, __name__])
    return server


def carry_out(
    leader: int, words: tuple[str, ...], environment: dict[str, str], text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a `hostrouting` command line in this process's namespaces, with this input; return its
    output and exit status.
    """
    answer = answer_of(_server(), _command_line, leader, words, environment, text)
    return subprocess.CompletedProcess(("hostrouting", *words), *answer)


def _command_line(
    leader: int, words: tuple[str, ...], environment: dict[str, str], text: str
) -> tuple[int, str, str]:
    enter_namespaces(*(f"/proc/{leader}/ns/{name}" for name in _NAMESPACES))
    given = os.memfd_create("in")
    os.pwrite(given, text.encode(), 0)
    outputs = [os.memfd_create(name) for name in ("out", "err")]
    pid = os.fork()
    if not pid:
        os.environ.clear()
        os.environ.update(environment)
        os.dup2(given, 0)
        for standard, output in enumerate(outputs, start=1):
            os.dup2(output, standard)
        # As Python opens them if the locale is C.UTF-8.
        sys.stdin = os.fdopen(0, encoding="utf-8", errors="surrogateescape")
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
    out, err = (
        os.pread(output, 1 << 30, 0).decode("utf-8", "surrogateescape") for output in outputs
    )
    return code, out, err
