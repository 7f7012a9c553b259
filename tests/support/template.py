"""A process that has imported the whole library, and forks programs that enter a booted system.

The Python of an older distribution is too old for the library, and does not have its dependencies. So a program that
runs in such a system is a process of this host's Python: it has imported everything and then entered all namespaces of
the system. Importing everything takes a second; forking this process takes milliseconds.

Here: the process (`python -m tests.support.template FD`) and requests to it (`enter`). Not here: what the programs do.
"""

import atexit
import ctypes
import functools
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]

# Modules that are imported only when they are first needed, by the library and by the modules that it imports. If one is
# missing from this list, a program fails with its name, because the file does not exist inside the system.
_LATER = (
    "concurrent.futures",
    "encodings.ascii",
    "encodings.idna",
    "encodings.latin_1",
    "fcntl",
    "json",
    "linecache",
    "tests.support.inside",
)
# The process namespace, which is the last, applies only to processes that are forked afterwards.
_NAMESPACES = ("cgroup", "ipc", "uts", "net", "mnt", "pid")


def enter(leader: int, program: Callable[[int], None], descriptor: int) -> None:
    """Call a function with this descriptor in a new process in the leader's namespaces.

    The process ends when the function returns. The function must be in a module that the template has imported.
    """
    request = {"leader": leader, "module": program.__module__, "name": program.__name__}
    socket.send_fds(_template(), [json.dumps(request).encode()], [descriptor])


@functools.cache
def _template() -> socket.socket:
    """The connection to the template of this test run. The template ends when the run does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = [sys.executable, "-m", "tests.support.template", str(theirs.fileno())]
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *program], cwd=PROJECT, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
    )
    theirs.close()

    def stop() -> None:
        ours.close()
        process.kill()
        process.wait()

    atexit.register(stop)
    return ours


def _import_everything() -> None:
    for package in ("hostrouting", "phases"):
        path = importlib.import_module(package).__path__
        for it in pkgutil.walk_packages(path, f"{package}."):
            if not it.name.endswith(".__main__") and ".testing" not in it.name:
                importlib.import_module(it.name)
    for name in _LATER:
        importlib.import_module(name)


def _go(leader: int) -> None:
    """Enter the namespaces of this process, permanently."""
    libc = ctypes.CDLL(None, use_errno=True)
    opened = [os.open(f"/proc/{leader}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in _NAMESPACES]
    for name, descriptor in zip(_NAMESPACES, opened, strict=True):
        if libc.setns(descriptor, 0):
            raise OSError(ctypes.get_errno(), f"setns: {name}")
        os.close(descriptor)


def _become(request: dict[str, str], descriptor: int) -> None:
    """Run the program in this process, which was forked for it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        program = getattr(sys.modules[request["module"]], request["name"])
        _go(int(request["leader"]))
        program(descriptor)
    except BaseException:  # noqa: BLE001  the caller is the template, which must not see it
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(0)


def _main(descriptor: int) -> None:
    _import_everything()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # programs are not waited for: the kernel removes them when they end
    with socket.socket(fileno=descriptor) as asked:
        while True:
            text, [*descriptors], _, _ = socket.recv_fds(asked, 65536, 1)
            if not text:
                return
            if not os.fork():
                asked.close()
                _become(json.loads(text), *descriptors)
            os.close(*descriptors)


if __name__ == "__main__":
    _main(int(sys.argv[1]))
