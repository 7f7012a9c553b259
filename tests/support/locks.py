"""A process that has the lock of a file."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.waiting import wait_for


@contextmanager
def locking(path: Path, option: str) -> Iterator[int]:
    """A process that has a lock on this file, which flock(1) has taken for it; its number."""
    script = 'exec 9<>"$1"; flock "$2" 9; echo; exec sleep 60'
    command = ["bash", "-c", script, "bash", str(path), option]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            comm = Path(f"/proc/{process.pid}/comm")
            wait_for("the process to sleep", lambda: comm.read_bytes() != b"bash\n")
            yield process.pid
        finally:
            process.kill()


@contextmanager
def locking_in_turn(path: Path, count: int) -> Iterator[Callable[[], int]]:
    """So many processes that take the lock of this file again and again, each for 5 ms; yields
    what counts their turns.

    Without the short pause, Linux may let the process that has just released the lock take it again
    before it runs one that waits, if all processors are busy.
    """
    loop = """if True:
        import fcntl, sys, time
        with open(sys.argv[1], "w") as file:
            while True:
                fcntl.flock(file, fcntl.LOCK_EX)
                print(end=".", flush=True)
                time.sleep(0.005)
                fcntl.flock(file, fcntl.LOCK_UN)
                time.sleep(0.0001)
    """
    turns: list[int] = []
    outputs: list[int] = []

    def count_turns() -> int:
        turns.extend(len(os.read(output, 1 << 20)) for output in outputs)
        return sum(turns)

    with ExitStack() as processes:
        for _ in range(count):
            command = [sys.executable, "-S", "-c", loop, str(path)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0)
            processes.enter_context(process)
            processes.callback(process.kill)
            assert process.stdout is not None
            process.stdout.read(1)
            outputs.append(process.stdout.fileno())
        yield count_turns


def wait_until_no_thread_locks() -> None:
    """Wait for the threads whose lock was released before they had it: each has it once."""
    wait_for("threads to have had the lock", lambda: "hostrouting-lock" not in _threads())


def _threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}
