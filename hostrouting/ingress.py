"""Finds the BPF programs that process a packet arriving on a device before the prerouting chains of nftables.

Here: finding them, and a phrase for each program. Not here: whether one of them is a fault. A program may pass on every
packet, or redirect some of them to a pod so that no nftables rule sees them; this cannot be told from outside.

A packet passes three hooks in this order: XDP, tcx, and tc filters. It passes them at each device on its way, so the
members of a bond, the virtual function below a cloud's network card and the parent of a VLAN are also checked. Netlink
reports XDP programs and filters; bpf(2) reports tcx programs and the names of programs. Netkit devices are for pods,
not for uplinks, and are not checked. Anything that cannot be checked is reported, and never counted as "none".
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, TypeAlias

import attrs

from hostrouting.backends.netlink.attached import entrances_of, filters_at
from hostrouting.backends.netlink.channel import Channel
from hostrouting.backends.netlink.sockets import open_socket
from hostrouting.config.objects import show
from hostrouting.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.backends.netlink.attached import Entrance

__all__ = ["Programs", "ProgramsAt", "programs_at"]

_TIMEOUT = 5.0
# The system call number of bpf(2) by machine; 64 bit only, because of the layout of the structures below.
_NUMBERS = {
    "x86_64": 321,
    "aarch64": 280,
    "riscv64": 280,
    "loongarch64": 280,
    "ppc64le": 361,
    "ppc64": 361,
    "s390x": 351,
}
_PROG_GET_FD_BY_ID, _OBJ_GET_INFO_BY_FD, _PROG_QUERY, _TCX_INGRESS = 13, 15, 16, 46
_MOST_TCX = 64  # the kernel's limit for one device
_QUERY = struct.Struct("=IIIIQI4x4Q")  # device, hook, 2 flags; address and count of the numbers; three tables, revision
_COUNT_AT = 24
_BY_ID, _INFO = struct.Struct("=III"), struct.Struct("=IIQ")
_INFO_SIZE, _NAME_AT = 80, 64  # of struct bpf_prog_info, up to the end of the name


@attrs.frozen
class Programs:
    """The programs found at a device, and what could not be checked; each is a phrase for an operator."""

    found: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


ProgramsAt: TypeAlias = Callable[[str], Programs]
"""Returns the programs at the device with this name; never raises. The real one is `programs_at`; tests pass a fake."""


def programs_at(dev: str) -> Programs:
    """The programs that process a packet arriving on this device, in the namespace of the calling thread."""
    found: list[str] = []
    unseen: list[str] = []
    with closing(Channel(open_socket, _TIMEOUT)) as channel:
        channel.begin()
        try:
            entrances = entrances_of(channel, dev)
        except BackendError as error:
            return Programs(unseen=(f"every program at {dev} ({error})",))
        if not entrances:
            return Programs(unseen=(f"every program at {dev} (there is no such device)",))
        for entrance in entrances:
            where = "" if entrance.name == dev else f" on {entrance.name}"
            found += [f"XDP program{_called(number)}{where}" for number in entrance.xdp or ()]
            if entrance.xdp is None:
                unseen.append(f"XDP programs{where} (the kernel does not report any)")
            if entrance.is_below_elsewhere:
                unseen.append(f"programs at the device below {entrance.name} (it is in another network namespace)")
            for phrase, is_found in (*_tcx_at(entrance, where), *_filters_at(channel, entrance, where)):
                (found if is_found else unseen).append(phrase)
    return Programs(tuple(found), tuple(unseen))


def _filters_at(channel: Channel, entrance: Entrance, where: str) -> Iterator[tuple[str, bool]]:
    """A phrase for each tc filter, and whether it is a BPF program; what other kinds do is not known here."""
    try:
        filters = filters_at(channel, entrance.index)
    except BackendError as error:
        yield f"tc filters{where} ({error})", False
        return
    for it in filters:
        if it.kind == "bpf":
            unnamed = f"tc filter of BPF program{_called(it.program)}" if it.program else "tc filter (bpf)"
            yield f"tc filter {show(it.name)} (bpf){where}" if it.name else f"{unnamed}{where}", True
    for kind in dict.fromkeys(it.kind for it in filters if it.kind != "bpf"):
        yield f"what the tc filters of kind {show(kind)}{where} do", False


def _tcx_at(entrance: Entrance, where: str) -> Iterator[tuple[str, bool]]:
    try:
        numbers = _tcx_programs(entrance.index)
    except OSError as error:
        # A kernel older than 6.6, or built without tcx, has no such hook; a kernel without BPF has no such call.
        if error.errno not in {errno.EINVAL, errno.ENOSYS}:
            yield f"tcx programs{where} ({_why_not(error)})", False
        return
    for number in numbers:
        yield f"tcx program{_called(number)}{where}", True


def _why_not(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "requires root"
    return error.strerror or str(error)


def _tcx_programs(index: int) -> tuple[int, ...]:
    """The numbers of the programs in order; raises OSError if the kernel does not report them."""
    import ctypes  # noqa: PLC0415  only checking a device needs it

    numbers = (ctypes.c_uint32 * _MOST_TCX)()
    asked = _QUERY.pack(index, _TCX_INGRESS, 0, 0, ctypes.addressof(numbers), _MOST_TCX, 0, 0, 0, 0)
    answer = _bpf(_PROG_QUERY, asked)[1]
    (count,) = struct.unpack_from("=I", answer, _COUNT_AT)
    return tuple(numbers[:count])


def _called(number: int) -> str:
    """The number and name of a program, as far as they are known, to put after its kind."""
    if not number:
        return ""
    import ctypes  # noqa: PLC0415  only needed if a program was found

    info = ctypes.create_string_buffer(_INFO_SIZE)
    try:
        opened, _ = _bpf(_PROG_GET_FD_BY_ID, _BY_ID.pack(number, 0, 0))
        try:
            _bpf(_OBJ_GET_INFO_BY_FD, _INFO.pack(opened, _INFO_SIZE, ctypes.addressof(info)))
        finally:
            os.close(opened)
    except OSError:  # this requires root; and the program may be gone by now
        return f" {number}"
    name = info.raw[_NAME_AT:].partition(b"\0")[0].decode(errors="backslashreplace")
    return f" {number} ({name})" if name else f" {number}"


def _bpf(command: int, attributes: bytes) -> tuple[int, bytes]:
    """Call bpf(2); return its result and the attributes as the kernel wrote them. Raises OSError if it fails."""
    import ctypes  # noqa: PLC0415  see above

    processor = os.uname().machine
    number = _NUMBERS.get(processor) if struct.calcsize("P") == 8 else None
    if number is None:
        raise OSError(errno.ENOTSUP, f"the number of bpf(2) is not known for {processor}")
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    passed = ctypes.create_string_buffer(attributes, len(attributes))
    result: int = call(ctypes.c_long(number), ctypes.c_int(command), passed, ctypes.c_uint(len(attributes)))
    if result < 0:
        failed = ctypes.get_errno()
        raise OSError(failed, os.strerror(failed))
    return result, passed.raw
