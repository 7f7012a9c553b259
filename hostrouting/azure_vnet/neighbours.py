"""MAC addresses and neighbours: the contract of an edge that reads them and deletes neighbours,
and the edge to Linux.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping
from contextlib import closing
from ipaddress import ip_address
from socket import AF_BRIDGE, AF_UNSPEC
from typing import NamedTuple, Protocol

import attrs

from hostrouting.kernel.netlink.host import IFNAME, LINK, kind_of, list_links, parts_of
from hostrouting.kernel.netlink.numbers import AF_OF, RTM_GETLINK, number_in, text_of
from hostrouting.kernel.netlink.socket import (
    KernelError,
    Netlink,
    attribute,
    kernel_errors,
    message,
)
from hostrouting.model.prefix import IP, as_ip


@attrs.frozen
class Neighbour:
    """A permanent entry that maps an address to a MAC address on one device: it stays until it is
    deleted. `str()` is the line of `ip neigh`.
    """

    ip: IP = attrs.field(converter=as_ip)
    mac: str
    """Empty if the entry has none."""
    dev: str

    def __str__(self) -> str:
        return f"{self.ip} dev {self.dev} lladdr {self.mac} PERMANENT"


@attrs.frozen(kw_only=True)
class LinkLayerView:
    """The MAC addresses and the neighbours of one host. A MAC address is lower-case text, such as
    02:00:5e:10:00:01.
    """

    macs: Mapping[str, str] = attrs.field(factory=dict)
    """The MAC address of each device that has one."""
    peers: Mapping[str, str] = attrs.field(factory=dict)
    """The MAC address of the other end of each veth, whatever namespace that is in, if it can be
    read.
    """
    neighbours: tuple[Neighbour, ...] = ()
    learned: tuple[tuple[str, str], ...] = ()
    """Each MAC address that a bridge has learned or was told, with the port that leads to it."""


class LinkLayer(Protocol):
    """MAC addresses, and the neighbours that have them.

    Each verb raises a BackendError if the kernel cannot be reached (unavailable, not-permitted),
    does not answer (timeout) or refuses. No verb retries unless its docstring says so.
    """

    def look(self) -> LinkLayerView:
        """The devices, the other end of each veth, and the permanent neighbours of both families.

        If a list changes while it is read, or a bridge has learned something behind a port that has
        come since the devices were read, all are read again, a few times; then BackendError is
        raised (unsettled). Neighbours are read first, then devices, then what bridges have learned:
        so the view does not have the neighbour of a new pod without the pod. Proxy entries,
        those of a bridge's forwarding table and those that another program maintains
        (`extern_learn`) are not among the neighbours. The other end of a veth in
        another namespace is read only with CAP_NET_ADMIN there.
        """

    def delete_neighbour(self, neighbour: Neighbour) -> bool:
        """Delete the entry; False if a different entry for its address exists, or may exist. That
        entry is kept.

        The kernel deletes by address and device, whatever the MAC address. So just before the
        deletion, the entries are read again. Idempotent: an absent entry or device is fine.
        """


# The kernel's numbers, by their names in Linux's headers.

_NEIGHBOUR = struct.Struct("=B3xiHBx")  # struct ndmsg: family, number of the device, state, flags
_RTM_DELNEIGH = 29
_RTM_GETNEIGH = 30
_NDA_DST = 1
_NDA_LLADDR = 2
_NUD_PERMANENT = 0x80
_NTF_EXT_LEARNED = 0x10
_IFLA_ADDRESS = 1
_IFLA_LINK = 5
_IFLA_LINK_NETNSID = 37
_IFLA_TARGET_NETNSID = 46

_READINGS = 5
_ABSENT = {errno.ENOENT, errno.ENODEV}
"""The entry or its device is not there."""


class KernelLinkLayer:
    """The link layer of the calling thread's network namespace."""

    def look(self) -> LinkLayerView:
        with kernel_errors("read devices and neighbours"), closing(Netlink()) as netlink:
            for _ in range(_READINGS):
                netlink.is_torn = False  # set by lists that change, or that do not fit together
                view = _look(netlink)
                if not netlink.is_torn:
                    return view
            raise KernelError(errno.EINTR)  # the lists kept changing

    def delete_neighbour(self, neighbour: Neighbour) -> bool:
        with (
            kernel_errors(f"delete the neighbour {neighbour}"),
            closing(Netlink()) as netlink,
        ):
            return _delete(netlink, neighbour)


def _look(netlink: Netlink) -> LinkLayerView:
    entries = _entries(netlink, AF_UNSPEC)
    # The whole list, because a socket takes no question before a list has been read to its end.
    links = [parts_of(answer, LINK) for answer in netlink.dump(RTM_GETLINK, bytes(LINK.size))]

    names: dict[int, str] = {}
    macs: dict[str, str] = {}
    peers: dict[str, str] = {}
    for (_type, index, _flags), link in links:
        name = text_of(link[IFNAME])
        names[index] = name
        mac = link.get(_IFLA_ADDRESS, b"").hex(":")
        peer_mac = _peer_mac(netlink, link)
        if mac:
            macs[name] = mac
        if peer_mac:
            peers[name] = peer_mac

    neighbours: list[Neighbour] = []
    for entry in entries:
        if entry.is_permanent and entry.ifindex in names:
            ip = ip_address(entry.packed_ip)
            neighbours.append(Neighbour(ip, entry.mac, names[entry.ifindex]))

    learned: set[tuple[str, str]] = set()
    for entry in _entries(netlink, AF_BRIDGE):
        if entry.ifindex not in names:
            netlink.is_torn = True  # the port has come since the devices were read
        elif not entry.is_permanent:
            learned.add((entry.mac, names[entry.ifindex]))

    return LinkLayerView(
        macs=macs,
        peers=peers,
        neighbours=tuple(sorted(neighbours, key=str)),
        learned=tuple(sorted(learned)),
    )


class _Entry(NamedTuple):
    """A neighbour, or an entry of a bridge's forwarding table, as Linux lists it."""

    ifindex: int
    """The number of its device."""
    packed_ip: bytes
    """Each neighbour has one; an entry of a forwarding table need not."""
    mac: str
    is_permanent: bool
    """A neighbour is never forgotten; an entry of a forwarding table is an address of the bridge or
    of its port, and not of what is behind it. In both lists, an entry that another program
    maintains (`extern_learn`) says more of that program than the state does.
    """


def _entries(netlink: Netlink, family: int) -> list[_Entry]:
    """The neighbours of a family, or of all (AF_UNSPEC); the forwarding tables (AF_BRIDGE)."""
    entries: list[_Entry] = []
    for answer in netlink.dump(_RTM_GETNEIGH, _NEIGHBOUR.pack(family, 0, 0, 0)):
        (_family, index, state, flags), attributes = parts_of(answer, _NEIGHBOUR)
        is_permanent = bool(state & _NUD_PERMANENT) and not flags & _NTF_EXT_LEARNED
        mac = attributes.get(_NDA_LLADDR, b"").hex(":")
        entries.append(_Entry(index, attributes.get(_NDA_DST, b""), mac, is_permanent))
    return entries


def _peer_mac(netlink: Netlink, link: Mapping[int, bytes]) -> str:
    """The MAC address of the other end of a veth; empty if it cannot be read, or is not a veth.

    A veth names its other end by an index, which counts in the namespace of that end, and also
    names that namespace if it is not ours. The answer repeats the namespace. Without it, question
    and answer are about our own devices.
    """
    if kind_of(link) != "veth":
        return ""
    namespace = link.get(_IFLA_LINK_NETNSID)
    request = LINK.pack(0, number_in(link, _IFLA_LINK) or 0, 0)  # no device has the index 0
    if namespace is not None:
        request += attribute(_IFLA_TARGET_NETNSID, namespace)
    (peer,) = netlink.ask(RTM_GETLINK, [request])
    if isinstance(peer, KernelError):
        return ""
    _, peer_link = parts_of(peer, LINK)
    if peer_link.get(_IFLA_TARGET_NETNSID) != namespace:
        return ""
    return peer_link.get(_IFLA_ADDRESS, b"").hex(":")


def _delete(netlink: Netlink, neighbour: Neighbour) -> bool:
    """Delete the entry if it is there; False if another one has its address, or may have it."""
    family = AF_OF[neighbour.ip.version]
    indexes = {link.name: link.index for link in list_links(netlink)}
    index = indexes.get(neighbour.dev)
    if index is None:
        return True  # the device has taken its entries along
    packed_ip = neighbour.ip.packed
    expected = _Entry(index, packed_ip, neighbour.mac, is_permanent=True)
    present = [entry for entry in _entries(netlink, family) if entry[:2] == expected[:2]]
    if not present:
        return not netlink.is_torn  # a list that changed meanwhile may lack it
    if present != [expected]:
        return False
    request = _NEIGHBOUR.pack(family, index, 0, 0) + attribute(_NDA_DST, packed_ip)
    refused = netlink.batch([message(_RTM_DELNEIGH, 0, request)])
    for error in refused.values():
        if error.number not in _ABSENT:
            raise error
    return True
