"""The lock of a file, as flock(2) and flock(1) take it: how it is awaited, and who has it."""

import fcntl
import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress

from hostrouting.host.base import LockHolder


class FileLock:
    """The lock of an open file, which this process alone has, or waits for.

    A thread waits in flock(2), because Linux wakes it when the lock is free: whoever asks from time
    to time instead waits long beside processes that lock the file again and again. Nothing ends
    such a wait, so a thread whose lock is released before it has it stays until it has it, and then
    gives it back.
    """

    def __init__(self, descriptor: int, wake: Callable[[], object]) -> None:
        """Take the lock, or begin to wait for it. See `Files.lock`; the descriptor is closed when
        the lock is released.
        """
        self._descriptor = descriptor
        self._wake = wake
        self._changes = threading.Lock()
        self._is_held = False
        self._is_released = False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._is_held = True
        except BlockingIOError:
            # A daemon: the process can end while the thread waits.
            threading.Thread(target=self._wait, name="hostrouting-lock", daemon=True).start()

    def is_held(self) -> bool:
        return self._is_held

    def release(self) -> None:
        with self._changes:
            self._is_released = True
            if self._is_held:
                os.close(self._descriptor)

    def _wait(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        with self._changes:
            self._is_held = True
            if self._is_released:
                os.close(self._descriptor)
        self._wake()


def lock_holders(place: str) -> tuple[LockHolder, ...]:
    """The processes that have the lock of this file: see `Files.lock_holders`."""
    pids: set[str] = set()
    for pid in _pids():
        with suppress(OSError):  # it has ended, or belongs to another user
            numbers = os.listdir(f"/proc/{pid}/fd")
            if any(_is_locked(pid, number, place) for number in numbers):
                pids.add(pid)
    holders: list[LockHolder] = []
    for pid in sorted(pids):
        with suppress(OSError):  # as above
            holders.append(_holder(pid, pids))
    return tuple(holders)


def _pids() -> list[str]:
    """The numbers of all processes; none on a system that does not list them."""
    with suppress(OSError):
        return [name for name in os.listdir("/proc") if name.isdigit()]
    return []


def _is_locked(pid: str, number: str, place: str) -> bool:
    """Whether this open file of a process is the file at `place`, and has its lock.

    In /proc/locks is the process that took the lock, and that may have ended: flock(1) takes it for
    its shell. The file itself comes last: one on a network may not answer.
    """
    name = os.path.basename(place)
    opened = f"/proc/{pid}/fd/{number}"
    with suppress(OSError):  # it was closed
        if not os.readlink(opened).endswith(f"/{name}"):
            return False
        with open(f"/proc/{pid}/fdinfo/{number}", encoding="ascii") as info:
            return " FLOCK " in info.read() and os.path.samefile(opened, place)
    return False


def _holder(pid: str, pids: set[str]) -> LockHolder:
    """The process, which is one of those that have the lock."""
    groups = _text_of(pid, "cgroup")
    service = service_of(groups)
    of_service = _processes_in(groups) if service else []
    is_of_all = bool(of_service) and set(of_service) <= pids
    return LockHolder(int(pid), _text_of(pid, "comm").strip(), service, is_of_all)


def _text_of(pid: str, name: str) -> str:
    with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
        return file.read()


def _processes_in(control_groups: str) -> list[str]:
    """The processes in the unified one of these control groups; none on a machine without it."""
    group = re.search(r"^0::(.*)$", control_groups, re.MULTILINE)
    if group is None:
        return []
    with (
        suppress(OSError),
        open(f"/sys/fs/cgroup{group[1]}/cgroup.procs", encoding="ascii") as pids,
    ):
        return pids.read().split()
    return []


def service_of(control_groups: str) -> str:
    """The service to which a process with these control groups, as in /proc/PID/cgroup, belongs;
    empty for one of a session or of a container. systemd runs the commands before the main process
    of some services in a group `.control`.
    """
    service = re.search(r"/([^/\n]+\.service)(/\.control)?$", control_groups, re.MULTILINE)
    return "" if service is None else service[1]
