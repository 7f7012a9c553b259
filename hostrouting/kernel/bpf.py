"""Finds the BPF programs that process a packet arriving on a device before the prerouting chains of nftables.

Here: finding them, and a phrase for each program. Not here: whether one of them is a fault. A program may pass on every
packet, or redirect some of them to a pod so that no nftables rule sees them; this cannot be told from outside.

A packet passes three hooks in this order: XDP, tcx, and tc filters. It passes them at each device on its way, so the
members of a bond, the virtual function below a cloud's network card and the parent of a VLAN are also checked. Netlink
reports XDP programs and filters by number; bpf(2) reports tcx programs, and the names of programs. Netkit devices are
for pods, not for uplinks, and are not checked. Anything that cannot be checked is reported, and never counted as
"none".
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import attrs

from hostrouting.errors import BackendError, Unsettled
from hostrouting.kernel.netlink import numbers as n
from hostrouting.kernel.netlink.channel import (
    Channel,
    Interrupted,
    KernelError,
    attributes_of,
    message,
    numbered,
    open_socket,
)
from hostrouting.kernel.netlink.read import as_number, as_text, ask_list, read_device
from hostrouting.text import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hostrouting.kernel.netlink.channel import Listing

__all__ = [
    "CLSACT_INGRESS",
    "TCMSG",
    "Entrance",
    "Filter",
    "Programs",
    "ProgramsAt",
    "entrances_of",
    "filters_at",
    "programs_at",
]


_TIMEOUT = 5.0


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
    for attached in filters:
        if attached.kind == "bpf":
            unnamed = f"tc filter of BPF program{_called(attached.program)}" if attached.program else "tc filter (bpf)"
            yield f"tc filter {show(attached.name)} (bpf){where}" if attached.name else f"{unnamed}{where}", True
    for kind in dict.fromkeys(attached.kind for attached in filters if attached.kind != "bpf"):
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


# What netlink tells: XDP programs and tc filters

TCMSG = struct.Struct("=BxxxiIII")
"""struct tcmsg: family, number of the device, handle, parent, info."""
CLSACT_INGRESS = 0xFFFFFFF2
"""The parent of ingress filters, whether the qdisc is called clsact or ingress."""

_RTM_GETTFILTER = 46
_LINK_SIZE = 32  # of a header and struct ifinfomsg
# IFLA_…, and nested in IFLA_LINKINFO and IFLA_XDP
_LINK, _MASTER, _LINKINFO, _LINK_NETNSID, _XDP, _INFO_KIND = 5, 10, 18, 37, 43, 1
_XDP_ATTACHED, _XDP_IDS = 2, (4, 5, 6, 7)  # PROG_ID, then the same for each attach mode
# Devices whose packets first arrive on another device, their link (IFLA_LINK). A veth's link is its peer.
_STACKED = frozenset({"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "macsec"})
_TCA_KIND, _TCA_OPTIONS, _TCA_BPF_NAME, _TCA_BPF_ID = 1, 2, 7, 11
_ATTEMPTS = 5


@attrs.frozen
class Entrance:
    """A device on which packets arrive, with its XDP programs."""

    name: str
    index: int
    xdp: tuple[int, ...] | None
    """The ids of the programs, 0 for an id that the kernel does not give; None if the kernel does not support XDP."""
    is_below_elsewhere: bool = False
    """Whether its packets first arrive on a device in another namespace."""


@attrs.frozen
class Filter:
    """A tc filter."""

    kind: str
    name: str = ""
    program: int = 0
    """The id of a BPF program; 0 if there is none, or the kernel does not give it."""


def entrances_of(channel: Channel, dev: str) -> tuple[Entrance, ...]:
    """The device, and the devices on which its packets first arrive: members of a bond, the parent of a VLAN.

    Empty if the device does not exist; BackendError if the kernel does not list its devices.
    """
    found = _listed(channel, ask_list(n.RTM_GETLINK, 0), "devices")
    links = {}
    for data in found:
        index, name = read_device(data)
        links[index] = name, attributes_of(data, _LINK_SIZE)
    wanted = [index for index, (name, _) in links.items() if name == dev]
    for index in wanted:  # the list grows during the loop
        wanted += [below for below in _below(index, links) if below not in wanted]
    return tuple(_entrance(index, *links[index]) for index in wanted)


def filters_at(channel: Channel, index: int) -> tuple[Filter, ...]:
    """The tc filters at the ingress of the device with this number, in their order."""
    asked = message(_RTM_GETTFILTER, TCMSG.pack(0, index, 0, CLSACT_INGRESS, 0), flags=n.NLM_F_DUMP)
    found = (attributes_of(data, 16 + TCMSG.size) for data in _listed(channel, asked, "tc filters"))
    # An entry without options only announces a priority.
    return tuple(_filter(raw) for raw in found if _TCA_OPTIONS in raw)


def _below(index: int, links: Mapping[int, tuple[str, dict[int, bytes]]]) -> Iterable[int]:
    yield from (other for other, (_, raw) in links.items() if as_number(raw, _MASTER) == index)
    raw = links[index][1]
    if _is_stacked(raw) and _LINK_NETNSID not in raw and (parent := as_number(raw, _LINK)) in links:
        yield parent


def _is_stacked(raw: Mapping[int, bytes]) -> bool:
    return as_text(attributes_of(raw.get(_LINKINFO, b""), 0).get(_INFO_KIND, b"")) in _STACKED


def _entrance(index: int, name: str, raw: Mapping[int, bytes]) -> Entrance:
    elsewhere = _is_stacked(raw) and _LINK_NETNSID in raw
    if _XDP not in raw:
        return Entrance(name, index, None, elsewhere)
    said = attributes_of(raw[_XDP], 0)
    numbers = dict.fromkeys(number for kind in _XDP_IDS if (number := as_number(said, kind)))
    return Entrance(name, index, tuple(numbers) or (0,) * bool(as_number(said, _XDP_ATTACHED)), elsewhere)


def _filter(raw: Mapping[int, bytes]) -> Filter:
    kind = as_text(raw.get(_TCA_KIND, b""))
    if kind != "bpf":
        return Filter(kind)
    said = attributes_of(raw[_TCA_OPTIONS], 0)
    return Filter(kind, as_text(said.get(_TCA_BPF_NAME, b"")), as_number(said, _TCA_BPF_ID))


def _listed(channel: Channel, asked: bytes, what: str) -> Listing:
    for _ in range(_ATTEMPTS):
        try:
            return channel.listing(partial(numbered, asked))
        except Interrupted:
            continue
        except KernelError as error:
            text = f"the kernel did not return its {what}"
            raise BackendError(text, errno=error.number, kernel=error.words) from error
    raise Unsettled(f"the {what} changed faster than they could be read; try again when they have stopped changing")


# What bpf(2) tells: tcx programs, and names

# The system call number of bpf(2) by machine; 64 bit only, because of the layout of the structures below.
_SYSTEM_CALLS = {
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
    number = _SYSTEM_CALLS.get(processor) if struct.calcsize("P") == 8 else None
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
