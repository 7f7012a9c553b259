"""Child processes: for what a test must not do in its own, and programs beside it."""

import ctypes
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

LONGEST = 300.0
"""No child may take longer, in seconds: no test fails because the machine is busy."""
_FORK = get_context("fork")
_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000  # os.CLONE_NEWNET, which Python has since 3.12


def in_child(work: Callable[[], T]) -> T:
    """Call this in a fork of this process. Returns what it returns, and raises what it raises."""
    ours, theirs = _FORK.Pipe(duplex=False)
    child = _FORK.Process(target=answer, args=(theirs, work))
    with ours:
        with theirs:
            child.start()
        try:
            value: T = received(ours, child)
        finally:
            child.join()
    return value


def answer(writer: Connection, work: Callable[[], object]) -> None:
    """Send what this returns, or the error that it raises."""
    try:
        writer.send((None, work()))
    except BaseException as error:  # noqa: BLE001  raised again in the parent
        writer.send((error, None))


def received(reader: Connection, child: BaseProcess) -> Any:
    """What the child has answered; if it is an error, that is raised."""
    if not reader.poll(LONGEST):
        child.kill()
        raise TimeoutError(f"the child did not answer within {LONGEST:g} s")
    error, value = reader.recv()
    if error is not None:
        raise error
    return value


def enter_namespaces(*paths: str) -> None:
    with ExitStack() as stack:
        # All are opened before any is entered: in the new ones, these are other files.
        for opened in [stack.enter_context(Path(path).open()) for path in paths]:
            if _LIBC.setns(opened.fileno(), 0):
                raise OSError(ctypes.get_errno(), f"setns: {opened.name}")


def leave_network() -> None:
    """Leave this thread's network namespace for a new one, permanently."""
    if _LIBC.unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
