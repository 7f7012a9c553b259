"""A process that has the lock of a file."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locking(path: Path, option: str, *, sleep: str | bytes = "sleep") -> Iterator[int]:
    """A process that has a lock on this file, which flock(1) has taken for it; its number. It has
    the name of the program by which it sleeps.
    """
    script = 'exec 9<>"$1"; flock "$2" 9; echo; exec "$3" 60'
    command = ["bash", "-c", script, "bash", str(path), option, sleep]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()
