"""Minimal BPF programs, loaded and attached to a device of a private namespace.

Call these functions in a thread that is in the namespace: see `inside`. A link keeps its program attached to the device
until the link is closed.
"""

from __future__ import annotations

import ctypes
import os
import struct
from contextlib import closing

import pytest

from hostrouting.kernel.bpf import CLSACT_INGRESS, TCMSG, _bpf
from hostrouting.kernel.netlink import numbers as n
from hostrouting.kernel.netlink.channel import Channel, KernelError, message, numbered, open_socket, pack_attributes

__all__ = ["SCHED_CLS", "TCX_INGRESS", "XDP", "XDP_PROGRAM", "add_filter", "drop_privileges", "link", "load"]

SCHED_CLS, XDP_PROGRAM = 3, 6
TCX_INGRESS, XDP = 46, 37
_PROG_LOAD, _LINK_CREATE, _SKB_MODE = 5, 28, 2
_RTM_NEWTFILTER, _ETH_P_ALL = 44, 0x0300
_MOST_LENIENT = {SCHED_CLS: 0xFFFFFFFF, XDP_PROGRAM: 2}  # TCX_NEXT, which is TC_ACT_UNSPEC, and XDP_PASS


def load(kind: int, name: str = "") -> int:
    """Load a program that passes every packet; return its file descriptor."""
    code = struct.pack("=BBhIBBhi", 0xB7, 0, 0, _MOST_LENIENT[kind], 0x95, 0, 0, 0)  # r0 = …; exit
    code_buffer, licence = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
    addresses = ctypes.addressof(code_buffer), ctypes.addressof(licence)
    attributes = struct.pack("=IIQQIIQII16sII", kind, 2, *addresses, 0, 0, 0, 0, 0, name.encode(), 0, 0)
    return _bpf(_PROG_LOAD, attributes)[0]


def link(program: int, index: int, place: int) -> int:
    """Attach a program to a device; return the file descriptor of the link."""
    flags = _SKB_MODE if place == XDP else 0
    return _bpf(_LINK_CREATE, struct.pack("=IIII48x", program, index, place, flags))[0]


def add_filter(index: int, program: int, name: str) -> None:
    """Add a tc filter of kind bpf at the ingress of a device that has a clsact qdisc."""
    options = [(6, struct.pack("=I", program)), (8, struct.pack("=I", 1))]  # FD; FLAGS: direct action
    if name:
        options.append((7, name.encode() + b"\0"))
    body = TCMSG.pack(0, index, 0, CLSACT_INGRESS, _ETH_P_ALL)
    flags = n.NLM_F_CREATE | n.NLM_F_EXCL | n.NLM_F_ACK
    asked = message(_RTM_NEWTFILTER, body, [(1, b"bpf\0"), (2, pack_attributes(options))], flags=flags)
    with closing(Channel(open_socket, 5)) as channel:
        channel.begin()
        with pytest.raises(KernelError) as caught:
            channel.ask(lambda number: numbered(asked, number))
    assert caught.value.number == 0, caught.value  # the kernel's "done"


def drop_privileges() -> None:
    """Drop all capabilities of the calling thread, permanently."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0))
    if libc.capset(header, ctypes.create_string_buffer(24)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
