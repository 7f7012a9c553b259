"""Programs attached for incoming packets: XDP programs of a device and of the devices below it, and tc ingress filters.

Here: reading them, as the kernel's numbers and names. Not here: names of programs, which netlink does not give, and the
consequences of a program.
"""

from __future__ import annotations

import struct
from functools import partial
from sys import byteorder
from typing import TYPE_CHECKING

import attrs

from hostrouting.backends.netlink import numbers as n
from hostrouting.backends.netlink.lists import as_text, ask_list, read_device
from hostrouting.backends.netlink.messages import Interrupted, KernelError, attributes_of, message, numbered
from hostrouting.errors import BackendError, Unsettled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hostrouting.backends.netlink.channel import Channel
    from hostrouting.backends.netlink.messages import Listing

__all__ = ["CLSACT_INGRESS", "TCMSG", "Entrance", "Filter", "entrances_of", "filters_at"]

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
    yield from (other for other, (_, raw) in links.items() if _number(raw, _MASTER) == index)
    raw = links[index][1]
    if _is_stacked(raw) and _LINK_NETNSID not in raw and (parent := _number(raw, _LINK)) in links:
        yield parent


def _is_stacked(raw: Mapping[int, bytes]) -> bool:
    return as_text(attributes_of(raw.get(_LINKINFO, b""), 0).get(_INFO_KIND, b"")) in _STACKED


def _entrance(index: int, name: str, raw: Mapping[int, bytes]) -> Entrance:
    elsewhere = _is_stacked(raw) and _LINK_NETNSID in raw
    if _XDP not in raw:
        return Entrance(name, index, None, elsewhere)
    said = attributes_of(raw[_XDP], 0)
    numbers = dict.fromkeys(number for kind in _XDP_IDS if (number := _number(said, kind)))
    return Entrance(name, index, tuple(numbers) or (0,) * bool(_number(said, _XDP_ATTACHED)), elsewhere)


def _filter(raw: Mapping[int, bytes]) -> Filter:
    kind = as_text(raw.get(_TCA_KIND, b""))
    if kind != "bpf":
        return Filter(kind)
    said = attributes_of(raw[_TCA_OPTIONS], 0)
    return Filter(kind, as_text(said.get(_TCA_BPF_NAME, b"")), _number(said, _TCA_BPF_ID))


def _number(raw: Mapping[int, bytes], kind: int) -> int:
    return int.from_bytes(raw.get(kind, b""), byteorder)


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
