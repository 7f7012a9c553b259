"""What a strict sandbox of systemd's leaves to a process, without systemd."""

import ctypes
import os
import platform
import struct
from itertools import starmap
from pathlib import Path

_AF_NETLINK = 16
_SOCKET = {"x86_64": 41, "aarch64": 198}[platform.machine()]
"""The number of the system call socket()."""

# The codes load a field of struct seccomp_data, compare it, and return what becomes of the call
# (linux/filter.h, linux/seccomp.h).
_PROGRAM = struct.Struct("@HP")  # struct sock_fprog: how many instructions, and where they are
_INSTRUCTION = struct.Struct("=HBBI")  # struct sock_filter: code, jumps if true and false, operand
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_OF_CALL, _FIRST_ARGUMENT = 0, 16
_ALLOW, _EAFNOSUPPORT = 0x7FFF_0000, 0x0005_0000 | 97
_FILTER = (
    (_LOAD, 0, 0, _NUMBER_OF_CALL),
    (_JUMP_IF_EQUAL, 0, 3, _SOCKET),
    (_LOAD, 0, 0, _FIRST_ARGUMENT),
    (_JUMP_IF_EQUAL, 1, 0, _AF_NETLINK),
    (_RETURN, 0, 0, _EAFNOSUPPORT),
    (_RETURN, 0, 0, _ALLOW),
)
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2


def enter_sandbox(empty: Path) -> None:
    """Have no sockets but those of netlink, as with RestrictAddressFamilies=AF_NETLINK, and none of
    the host's files, as ProcSubset=pid hides /proc/sys: for ever, so call it in a child.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    os.chroot(empty)
    instructions = ctypes.create_string_buffer(b"".join(starmap(_INSTRUCTION.pack, _FILTER)))
    program = ctypes.create_string_buffer(
        _PROGRAM.pack(len(_FILTER), ctypes.addressof(instructions))
    )
    filtered = (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(program), 0, 0)
    for arguments in ((_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), filtered):
        if prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl")
