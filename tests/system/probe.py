"""Run in a unit by the system's python3: try what a sandbox should refuse, print what happens."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial

_LIBC = ctypes.CDLL(None, use_errno=True)
_IO_URING_SETUP = 425


def _libc(name: str, *arguments: object) -> None:
    if getattr(_LIBC, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


def _write(folder: str) -> None:
    path = f"{folder}/probe"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    os.unlink(path)


def _change(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


def _read(folder: str) -> None:
    if not os.listdir(folder):  # a sandbox shows an empty one
        raise FileNotFoundError(folder)


def _socket(family: int, kind: int, protocol: int = 0) -> None:
    socket.socket(family, kind, protocol).close()


def _change_limit(pid: int) -> None:
    limits = resource.prlimit(pid, resource.RLIMIT_CORE)
    resource.prlimit(pid, resource.RLIMIT_CORE, limits)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise OSError(errno.EPERM, done.stderr)


FOLDERS = (
    "/etc",
    "/etc/hostrouting",
    "/run",
    "/run/systemd",
    "/usr",
    "/var/lib",
    "/run/aks-flex-node",
    "/run/hostrouting",
)
SETTINGS = ("/proc/sys/net/ipv4/ip_forward", "/proc/sysrq-trigger")


def attempts(other: int) -> dict[str, Callable[[], None]]:
    """The attempts; `other` is a process of another unit."""
    by_name: dict[str, Callable[[], None]] = {}
    for folder in FOLDERS:
        by_name[f"write in {folder}"] = partial(_write, folder)
    for path in (*SETTINGS, f"/proc/{other}/oom_score_adj"):
        by_name[f"change {path}"] = partial(_change, path)
    return by_name | {
        "read /root": lambda: _read("/root"),
        "signal another unit": lambda: os.kill(other, 0),
        "change limits of another unit": lambda: _change_limit(other),
        "io_uring": lambda: _libc("syscall", _IO_URING_SETUP, 1, ctypes.create_string_buffer(120)),
        "mount": lambda: _libc("mount", b"none", b"/tmp", b"tmpfs", 0, None),
        "host name": lambda: _libc("sethostname", b"probe", 5),
        "socket packet": lambda: _socket(socket.AF_PACKET, socket.SOCK_RAW),
        "systemctl": lambda: _run("systemctl", "show", "--property=Version"),
        "firewall": lambda: _socket(socket.AF_NETLINK, socket.SOCK_RAW, 12),
        "route get": lambda: _run("ip", "route", "get", "10.0.0.1"),
        "route add": lambda: _run("ip", "route", "replace", "10.99.0.0/16", "via", "10.0.0.1"),
        # Last, because every attempt after it would be refused.
        "another user": lambda: os.setuid(1000),
    }


def main(other: int) -> None:
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
