"""A process that has the lock of a file."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import wait_for


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
