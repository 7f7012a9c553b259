"""A program that tries what a sandbox should refuse, and prints the result of each attempt as one
line of JSON.

The system's own python3 runs it, inside a unit. Here: the attempts. Not here: which of them may
succeed (the tests).
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial

_LIBC = ctypes.CDLL(None, use_errno=True)
_IO_URING_SETUP = 425


def _write(folder: str) -> None:
    path = f"{folder}/probe"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    os.unlink(path)


def _change(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


def _read_root() -> None:
    if not os.listdir("/root"):  # a sandbox shows an empty one
        raise FileNotFoundError("/root")


def _open_any_socket() -> None:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()


def _use_io_uring() -> None:
    if _LIBC.syscall(_IO_URING_SETUP, 1, ctypes.create_string_buffer(120)) < 0:
        raise OSError(ctypes.get_errno(), "io_uring_setup")


def _ip(*words: str) -> None:
    done = subprocess.run(("ip", *words), capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise OSError(errno.EPERM, done.stderr)


FOLDERS = ("/etc", "/usr", "/run", "/run/systemd", "/run/aks-flex-node", "/run/hostrouting")


def attempts(other: int) -> dict[str, Callable[[], None]]:
    """The attempts; `other` is a process of another unit."""
    by_name: dict[str, Callable[[], None]] = {}
    for folder in FOLDERS:
        by_name[f"write in {folder}"] = partial(_write, folder)
    return by_name | {
        "change a setting of the kernel": partial(_change, "/proc/sys/net/ipv4/ip_forward"),
        "have the kernel kill another unit": partial(_change, f"/proc/{other}/oom_score_adj"),
        "signal another unit": lambda: os.kill(other, 0),
        "read /root": _read_root,
        "socket packet": _open_any_socket,
        "io_uring": _use_io_uring,
        "route get": lambda: _ip("route", "get", "10.0.0.1"),
        "route add": lambda: _ip("route", "replace", "10.99.0.0/16", "via", "10.0.0.1"),
        # Last, because every attempt after it would be refused.
        "another user": lambda: os.setuid(1000),
    }


def main(other: int) -> None:
    """Make all attempts."""
    said = {}
    for name, attempt in attempts(other).items():
        try:
            attempt()
        except OSError as error:
            said[name] = errno.errorcode.get(error.errno or 0, str(error))
        else:
            said[name] = ""
    sys.stdout.write(f"PROBED {json.dumps(said)}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
