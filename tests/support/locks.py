"""Processes that have the lock, or a lease, of a file."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import wait_for

_OTHER = 65534
_LEASE = """\
import fcntl, signal, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
fcntl.fcntl(0, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print(flush=True)
time.sleep(300)
"""


@contextmanager
def leased_by_another_user(path: Path) -> Iterator[None]:
    """A process of another user has a write lease of the file, and keeps it to the block's end."""
    os.chown(path, _OTHER, _OTHER)
    with path.open("r+b") as file:
        command = ["/usr/bin/python3", "-c", _LEASE]
        process = subprocess.Popen(command, stdin=file, stdout=subprocess.PIPE, user=_OTHER)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


@contextmanager
def locking(path: Path) -> Iterator[None]:
    """A process that has locked this file with flock(1), until the block ends."""
    command = ["flock", "--no-fork", str(path), "sh", "-c", "echo; exec sleep 60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def wait_until_no_thread_locks() -> None:
    """Wait for the threads whose lock was released before they had it: each has it once."""
    wait_for(
        "threads to have had the lock", lambda: "hostrouting-lock" not in str(threading.enumerate())
    )
