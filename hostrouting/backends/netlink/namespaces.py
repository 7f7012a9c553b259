"""Another network namespace: found by name or path, and entered by a thread of its own that ends at once.

So neither the caller's process nor its thread ever leaves the namespace that it is in. A socket belongs for good to
the namespace in which it was made. No namespace is ever created here.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, TypeVar

from hostrouting.errors import NetlinkUnavailable, NotPermitted

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["inside", "open_namespace"]

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000
_NAMED = "/run/netns"  # where `ip netns` keeps those with a name


def open_namespace(netns: str | os.PathLike[str]) -> int:
    """A descriptor of an existing namespace: a path, or a name as in `ip netns`."""
    text = os.fspath(netns)
    path = text if "/" in text else f"{_NAMED}/{text}"
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else str(error)
        raise NetlinkUnavailable(
            f"there is no network namespace {text!r}: {path}: {problem}; `ip netns` lists those that have a name",
            errno=getattr(error, "errno", None),
        ) from error


def inside(namespace: int, make: Callable[[], T]) -> T:
    """What `make` returns when it is called in the namespace."""
    made: list[T] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            _enter(namespace)
            made.append(make())
        except BaseException as error:  # noqa: BLE001  raised again below, in the caller's thread
            failed.append(error)

    thread = threading.Thread(target=work, name="hostrouting-netns")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def _enter(namespace: int) -> None:
    import ctypes  # noqa: PLC0415  few need it; os.setns is there from Python 3.12 on

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET):
        number = ctypes.get_errno()
        text = os.strerror(number)
        if isinstance(OSError(number, text), PermissionError):
            raise NotPermitted("this process may not enter another network namespace", errno=number, kernel=text)
        raise NetlinkUnavailable("what was given is no network namespace", errno=number, kernel=text)
