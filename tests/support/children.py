"""Child processes for tests that drop privileges or restrict system calls, which a test must not do in its own process."""

import ctypes
import os
import pickle
import select
import signal
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import IO, TypeVar

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2
# The numbers of socket and setsockopt, by machine.
_CALLS = {"x86_64": (41, 54), "aarch64": (198, 208)}
_EAFNOSUPPORT, _ENOPROTOOPT = 97, 92
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000


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


def as_nobody(script: str) -> AbstractContextManager[tuple[int, IO[str]]]:
    """The same for a shell script, as an unprivileged user."""
    return running("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", script)


def enter_namespace(path: str) -> None:
    """Enter a network namespace, permanently."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(descriptor)


def refuse_netlink() -> None:
    """Put this process into a sandbox without netlink."""
    socket, _ = _CALLS[os.uname().machine]
    _seccomp([*_when(0, socket), *_when(16, 16), (_RETURN, 0, 0, _ERROR | _EAFNOSUPPORT)])


def refuse_strict_checking() -> None:
    """Make the kernel refuse NETLINK_GET_STRICT_CHK in this process, as before Linux 4.20."""
    _, setsockopt = _CALLS[os.uname().machine]
    tests = [*_when(0, setsockopt), *_when(24, 270), *_when(32, 12)]
    _seccomp([*tests, (_RETURN, 0, 0, _ERROR | _ENOPROTOOPT)])


def _when(offset: int, value: int) -> list[tuple[int, int, int, int]]:
    """Continue if this word of struct seccomp_data has the value."""
    return [(_LOAD, 0, 0, offset), (_EQUAL, 0, -1, value)]


def _seccomp(program: list[tuple[int, int, int, int]]) -> None:
    """Install the filter. A jump of -1 goes to the end of the filter, which allows the call."""
    program = [*program, (_RETURN, 0, 0, _ALLOW)]
    end = len(program) - 1
    packed = b"".join(
        struct.pack("=HBBI", code, yes, end - place - 1 if no == -1 else no, value)
        for place, (code, yes, no, value) in enumerate(program)
    )
    instructions = ctypes.create_string_buffer(packed)
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(instructions)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(_PR_SET_SECCOMP, _FILTER, header):
        raise OSError(ctypes.get_errno(), "seccomp")
