"""A program that tries what a sandbox should refuse, and prints the result of each attempt as one line of JSON.

The system's own python3 runs it, inside a unit. Here: the attempts. Not here: which of them may succeed (the tests).
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import socket
import struct
import subprocess
import sys
from collections.abc import Callable

# The numbers of system calls for which Python has no function, on x86_64 and on aarch64.
_NUMBERS = {
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fsopen": (430, 430),
    "init_module": (175, 105),
    "io_setup": (206, 0),
    "io_uring_setup": (425, 425),
    "kcmp": (312, 272),
    "keyctl": (250, 219),
    "kexec_load": (246, 104),
    "memfd_create": (319, 279),
    "mq_open": (240, 180),
    "open_by_handle_at": (304, 265),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "pivot_root": (155, 41),
    "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "reboot": (169, 142),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "setns": (308, 268),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "tgkill": (234, 131),
    "tkill": (200, 130),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
_COLUMN = 0 if platform.machine() == "x86_64" else 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_TMP, _SHM = "/tmp", "/dev/shm"  # noqa: S108  the attempt is whether the unit can write there
_PAGE = ctypes.create_string_buffer(4096)


def _call(name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char]) -> None:
    given = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    given += [ctypes.c_long(0)] * (6 - len(given))
    if _LIBC.syscall(ctypes.c_long(_NUMBERS[name][_COLUMN]), *given) < 0:
        raise OSError(ctypes.get_errno(), name)


def _libc(name: str, *arguments: object) -> None:
    if getattr(_LIBC, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


def _write(folder: str) -> None:
    path = f"{folder}/probe"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    os.unlink(path)


def _change(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


def _read(path: str) -> None:
    if os.path.isdir(path):
        os.listdir(path)
    else:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))


def _socket(family: int, kind: int = socket.SOCK_DGRAM, protocol: int = 0) -> None:
    socket.socket(family, kind, protocol).close()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise OSError(errno.EPERM, done.stderr)


def _set_uid_bit() -> None:
    path = f"{_TMP}/probe"
    with open(path, "w"):
        os.chmod(path, 0o4755)  # noqa: S103  the attempt is whether this is refused


def _clock() -> None:
    """Set the clock to an invalid time, because the clock is that of the whole machine."""
    try:
        _call("clock_settime", 0, struct.pack("qq", 0, 2_000_000_000))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


def _other_limits(pid: int) -> None:
    # As systemd sets it for every process that it starts.
    _call("prlimit64", pid, 4, struct.pack("QQ", 0, 2**64 - 1))  # RLIMIT_CORE


def _pidfd(name: str, pid: int, *arguments: int) -> None:
    handle = os.pidfd_open(pid)
    try:
        _call(name, handle, *arguments)
    finally:
        os.close(handle)


def attempts(other: int) -> dict[str, Callable[[], None]]:
    """The attempts; `other` is a process of another unit."""
    found: dict[str, Callable[[], None]] = {}
    for folder in (
        *("/", "/etc", "/run", "/run/systemd/system", "/run/lock", "/dev", _SHM, "/dev/mqueue", "/usr", "/boot"),
        *("/var/lib", "/var/log", "/root", "/home", "/srv", "/sys", "/proc/sys", "/sys/fs/cgroup", "/mnt/some"),
        *("/etc/hostrouting", "/etc/systemd/system", "/run/aks-flex-node", "/run/hostrouting", _TMP, f"/var{_TMP}"),
    ):
        found[f"write in {folder}"] = lambda folder=folder: _write(folder)  # type: ignore[misc]
    for path in (
        *("/proc/sys/net/ipv4/ip_forward", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/power/state"),
        *(
            "/sys/fs/cgroup/cgroup.procs",
            "/run/initctl",
            "/run/some-fifo",
            "/dev/kmsg",
            "/dev/mem",
            "/proc/1/oom_score_adj",
        ),
        *(f"/proc/{other}/oom_score_adj", f"/proc/{other}/mem", "/dev/net/tun"),
    ):
        found[f"change {path}"] = lambda path=path: _change(path)  # type: ignore[misc]
    for path in (
        *("/etc/shadow", "/etc/gshadow", "/root", "/home", _SHM, "/dev/mem", "/dev/kmsg", "/proc/kcore"),
        *(f"/proc/{other}/environ", f"/proc/{other}/mem", f"/proc/{other}/root", "/proc/1/environ", "/proc/kallsyms"),
        *("/run/systemd/private", "/etc/ssh", "/etc/ssl/private", "/proc/keys", "/etc/hosts", f"{_TMP}/others"),
    ):
        found[f"read {path}"] = lambda path=path: _read(path)  # type: ignore[misc]
    for name, pid in (("systemd", 1), ("another unit", other), ("everything", -1)):
        found[f"signal {name}"] = lambda pid=pid: os.kill(pid, 0)  # type: ignore[misc]
    info = ctypes.create_string_buffer(128)
    found |= {
        "tkill": lambda: _call("tkill", other, 0),
        "tgkill": lambda: _call("tgkill", other, other, 0),
        "rt_sigqueueinfo": lambda: _call("rt_sigqueueinfo", other, 0, info),
        "rt_tgsigqueueinfo": lambda: _call("rt_tgsigqueueinfo", other, other, 0, info),
        "pidfd_send_signal": lambda: _pidfd("pidfd_send_signal", other),
        "pidfd_getfd": lambda: _pidfd("pidfd_getfd", other),
        "process_madvise": lambda: _pidfd("process_madvise", os.getpid()),
        "process_vm_readv": lambda: _call("process_vm_readv", os.getpid()),
        "process_vm_writev": lambda: _call("process_vm_writev", os.getpid()),
        "ptrace": lambda: _call("ptrace", 16, other),
        "kcmp": lambda: _call("kcmp", os.getpid(), os.getpid()),
        "limits of another": lambda: _other_limits(other),
        "limits of systemd": lambda: _other_limits(1),
        "priority of another": lambda: os.setpriority(os.PRIO_PROCESS, other, 5),
        "processors of another": lambda: os.sched_setaffinity(other, os.sched_getaffinity(0)),
        "real time": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
        "memory as a file": lambda: _call("memfd_create", b"probe"),
        "message queue": lambda: _call("mq_open", b"probe", os.O_RDWR | os.O_CREAT, 0o600, 0),
        "messages": lambda: _libc("msgget", 0, 0o600),
        "semaphores": lambda: _libc("semget", 0, 1, 0o600),
        "shared memory": lambda: _libc("shmget", 0, 4096, 0o600),
        "mount": lambda: _libc("mount", b"none", b"/tmp", b"tmpfs", 0, None),
        "umount": lambda: _libc("umount2", b"/tmp", 2),
        "fsopen": lambda: _call("fsopen", b"tmpfs"),
        "pivot_root": lambda: _call("pivot_root", b"/", b"/"),
        "chroot": lambda: os.chroot("/"),
        "unshare user": lambda: _call("unshare", 0x10000000),
        "unshare mount": lambda: _call("unshare", 0x00020000),
        "unshare network": lambda: _call("unshare", 0x40000000),
        "setns": lambda: _call("setns", os.open("/proc/self/ns/net", os.O_RDONLY), 0),
        "socket unix": lambda: _socket(socket.AF_UNIX),
        "socket inet": lambda: _socket(socket.AF_INET),
        "socket inet6": lambda: _socket(socket.AF_INET6),
        "socket packet": lambda: _socket(socket.AF_PACKET, socket.SOCK_RAW),
        "socket vsock": lambda: _socket(socket.AF_VSOCK, socket.SOCK_STREAM),
        "socket alg": lambda: _socket(socket.AF_ALG, socket.SOCK_SEQPACKET),
        "systemctl": lambda: _run("systemctl", "show", "--property=Version"),
        "mknod": lambda: os.mknod(f"{_TMP}/device", 0o20600, os.makedev(1, 1)),
        "setuid bit": _set_uid_bit,
        "another owner": lambda: os.chown(_TMP, 1000, 1000),
        "host name": lambda: _libc("sethostname", b"probe", 5),
        "clock": _clock,
        "kernel log": lambda: _call("syslog", 3, _PAGE, 10),
        "init_module": lambda: _call("init_module", _PAGE, 0, _PAGE),
        "delete_module": lambda: _call("delete_module", b"gone", 0),
        "kexec_load": lambda: _call("kexec_load"),
        "reboot": lambda: _call("reboot"),
        "swapon": lambda: _call("swapon", b"/gone"),
        "io_uring": lambda: _call("io_uring_setup", 1, ctypes.create_string_buffer(120)),
        "io_setup": lambda: _call("io_setup", 1, ctypes.create_string_buffer(8)),
        "userfaultfd": lambda: _call("userfaultfd", 1),
        "keyctl": lambda: _call("keyctl", 0, -4, 1),
        "add_key": lambda: _call("add_key", b"user", b"probe", _PAGE, 1, -4),
        "bpf": lambda: _call("bpf", 0, ctypes.create_string_buffer(128), 128),
        "perf": lambda: _call("perf_event_open", ctypes.create_string_buffer(128), 0, -1, -1, 0),
        "open_by_handle_at": lambda: _call("open_by_handle_at", 0, _PAGE, 0),
        "personality": lambda: _call("personality", 0x0400000),
        "audit": _audit,
        "firewall": lambda: _socket(socket.AF_NETLINK, socket.SOCK_RAW, 12),
        "uevents": _uevent,
        "route get": lambda: _run("ip", "route", "get", "10.0.0.1"),
        "route add": lambda: _run("ip", "route", "replace", "10.99.0.0/16", "via", "10.0.0.1"),
        "another user": lambda: os.setuid(1000),  # last, because every attempt after it would be refused
    }
    return found


def _audit() -> None:
    """Write to the audit log."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9) as audit:
        text = b"probe"
        audit.sendto(
            (16 + len(text)).to_bytes(4, "little") + (1107).to_bytes(2, "little") + b"\5\0" + bytes(8) + text, (0, 0)
        )
        answer = audit.recv(64)
        if code := int.from_bytes(answer[16:20], "little", signed=True):
            raise OSError(-code, "audit")


def _uevent() -> None:
    """Announce a device to udev, as the kernel does."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15) as kernel:
        kernel.sendto(b"probe", (0, 2))


def main(other: int) -> None:
    """Make all attempts."""
    said = {}
    for name, attempt in attempts(other).items():
        try:
            attempt()
        except OSError as error:
            said[name] = errno.errorcode.get(error.errno or 0, str(error))
        except Exception as error:  # noqa: BLE001  it is reported, and the next attempt is made
            said[name] = repr(error)
        else:
            said[name] = ""
    sys.stdout.write(f"PROBED {json.dumps(said)}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
