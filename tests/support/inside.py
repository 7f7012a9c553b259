"""What runs inside a booted system. Other distributions lack what the library needs, so this host's
Python runs its command lines: for each system a process has imported everything and then entered
the namespaces, which takes a second, and each command line is a fork of it.
"""

import gc
import multiprocessing
import multiprocessing.util
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
import traceback
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from threading import get_ident
from typing import Any

import hostrouting
import phases
from hostrouting.boot.program import Program
from hostrouting.cli import main
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import HostError
from hostrouting.host import interpreter
from hostrouting.host.files import LocalFiles
from hostrouting.host.host import Host
from hostrouting.kernel.programs import Ended, run_program
from hostrouting.release import PASSED
from hostrouting.tasks.configure import Configure
from tests.support.children import T, answer, enter_namespaces, received

# Modules that are imported only when they are first needed. If one is missing from this list, a
# command fails with its name, because the file does not exist inside the system.
_LATER = ["concurrent.futures", "difflib", "fcntl", "json", "linecache"]
_LATER += [f"encodings.{name}" for name in ("ascii", "cp437", "idna", "latin_1")]
CONFIGURE = "configure"
"""In place of a command: apply by the library, without the page of `status` that `apply` prints."""
# The process namespace, which is the last, applies only to processes that are forked afterwards.
_NAMESPACES = ("cgroup", "ipc", "uts", "net", "mnt", "pid")


def _make_the_folder_for_sockets() -> None:
    """Have multiprocessing's sockets in /tmp: TMPDIR may be longer than their 107 bytes."""
    usual = tempfile.gettempdir()
    tempfile.tempdir = "/tmp"  # noqa: S108  multiprocessing makes a folder of its own there, once
    multiprocessing.util.get_temp_dir()
    tempfile.tempdir = usual


Program().content()  # reads the sources, which are not there inside


@cache
def _imported() -> ForkServerContext:
    """A server of forks that have imported all that a command line loads."""
    modules: list[str] = []
    for package in (hostrouting, phases):
        every = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        names = [module.name for module in every]
        modules += [name for name in names if not re.search(r"\.testing|\.__main__$", name)]
    _make_the_folder_for_sockets()
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload([*modules, *_LATER, __name__])
    return server


class CommandLines:
    """Does things in the namespaces of a process. Each thread of ours has a server for it."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._servers = defaultdict[int, tuple[Connection, BaseProcess]](self._start)

    def carry_out(
        self, words: tuple[str, ...], environment: dict[str, str], text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run `hostrouting` with these words and this input."""
        return self.ask(partial(_command_line, words, environment, text))

    def ask(self, work: Callable[[], T]) -> T:
        """Call this there. Returns what it returns, and raises what it raises."""
        connection, server = self._servers[get_ident()]
        connection.send(work)
        value: T = received(connection, server)
        return value

    def _start(self) -> tuple[Connection, BaseProcess]:
        ours, theirs = _imported().Pipe()
        server = _imported().Process(target=_serve, args=(theirs, self._leader))
        with theirs:
            server.start()
        return ours, server

    def close(self) -> None:
        for connection, server in self._servers.values():
            connection.close()
            server.join()


def _serve(requests: Connection, leader: int) -> None:
    """Enter the namespaces, and do there what is requested."""
    enter_namespaces(*(f"/proc/{leader}/ns/{name}" for name in _NAMESPACES))
    gc.freeze()  # a garbage collection in a fork would copy every object
    vars(interpreter)["run_program"] = partial(_try_once, os.memfd_create("passed"))
    with suppress(EOFError):  # nobody will request anything more
        while True:
            answer(requests, requests.recv())


def _try_once(passed: int, *command: str, **options: Any) -> Ended:
    """Try an interpreter, unless it has passed with the same files: the trials would be half of
    what a command line costs. `passed` is a file that all forks share.
    """
    files = [os.stat(word) for word in command if os.path.isfile(word)]
    states = [(file.st_ino, file.st_mtime_ns, file.st_ctime_ns) for file in files]
    trial = f"{command} {states}\n".encode()
    if trial in os.pread(passed, 1 << 20, 0):
        return Ended(PASSED)
    ended = run_program(*command, **options)
    if ended.code == PASSED:
        os.write(passed, trial)
    return ended


def _command_line(
    words: tuple[str, ...], environment: dict[str, str], text: str
) -> subprocess.CompletedProcess[str]:
    """Carry out a command line in a fork."""
    with suppress(HostError):
        Program().has_content(LocalFiles())  # it takes 15 ms, and is cached in all forks
    stdin = os.memfd_create("in")
    os.pwrite(stdin, text.encode(), 0)
    stdout = os.memfd_create("out")
    stderr = os.memfd_create("err")
    pid = os.fork()
    if pid == 0:
        os.environ.clear()
        os.environ.update(environment)
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os._exit(_as_the_interpreter(words))
    _, status = os.waitpid(pid, 0)
    out = os.pread(stdout, 1 << 30, 0).decode("utf-8", "surrogateescape")
    err = os.pread(stderr, 1 << 30, 0).decode("utf-8", "surrogateescape")
    code = os.waitstatus_to_exitcode(status)
    return subprocess.CompletedProcess(("hostrouting", *words), code, out, err)


def _configure(path: str, wait: str) -> int:
    """Apply the configuration in this file, as an agent does."""
    with open(path) as file:
        config = HostRoutingConfig.from_json(file.read())
    task = Configure(config, host=Host.local(), wait=float(wait), allow_removal=True)
    report = phases.run(task)
    sys.stdout.write(f"{report}\n")
    return report.exit_code


def _as_the_interpreter(words: tuple[str, ...]) -> int:
    """Call `main` as an interpreter does that has just started; the exit code."""
    # As Python opens them if the locale is C.UTF-8.
    sys.stdin = os.fdopen(0, encoding="utf-8", errors="surrogateescape")
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="surrogateescape")
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace")
    sys.argv = sys.orig_argv = ["hostrouting", *words]
    try:
        code = _configure(*words[1:]) if words[0] == CONFIGURE else main()
    except SystemExit as stopped:  # argparse: --help, bad usage
        code = int(stopped.code or 0)
    except BaseException:  # noqa: BLE001  printed as by the interpreter
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code
