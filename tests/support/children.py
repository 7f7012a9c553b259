"""Child processes for tests that drop privileges, hang or enter a namespace, which a test must not do in its own process."""

import ctypes
import os
import pickle
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TypeVar

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000


def in_child(work: Callable[[], T], *, seconds: float = 100.0) -> T:
    """Run `work` in a forked child. Returns what it returns, and raises what it raises."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            result: tuple[bool, object] = (True, work())
        except BaseException as error:  # noqa: BLE001  raised again in the parent
            result = (False, error)
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(result, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        if not select.select([pipe], [], [], seconds)[0]:
            os.kill(child, signal.SIGKILL)
        data = pipe.read()
    os.waitpid(child, 0)
    if not data:
        raise TimeoutError(f"the child did not answer within {seconds} s")
    done, value = pickle.loads(data)  # noqa: S301  the data come from our own child
    if not done:
        raise value
    return value  # type: ignore[no-any-return]  # pickle does not know what work returns


@contextmanager
def running(*command: str, seconds: int = 60) -> Iterator[tuple[int, IO[str]]]:
    """A program that runs until the block ends, or for this many seconds at most; yields its id and its output."""
    words = ["timeout", "--foreground", "--kill-after=1", str(seconds), *command]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        assert child.stdout is not None
        try:
            yield child.pid, child.stdout
        finally:
            os.killpg(child.pid, signal.SIGKILL)


def enter_namespace(path: str) -> None:
    """Enter a network namespace, permanently."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(descriptor)
