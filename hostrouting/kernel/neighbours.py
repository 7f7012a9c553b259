"""MAC addresses and neighbours: the contract of an edge that reads and deletes them, and the edge to Linux.

Not here: which neighbours are wanted. The fake is `hostrouting.testing.FakeLinkLayer`; the same tests check both.

The other end of a veth has an index in its own namespace, and the kernel has a number for that namespace in ours. A
request with both returns the device there; without the number, it is the device with that index in our own namespace.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator, Mapping
from contextlib import closing
from ipaddress import ip_address
from socket import AF_BRIDGE, if_nametoindex
from typing import Protocol

import attrs

from hostrouting.kernel.netlink import numbers as n
from hostrouting.kernel.netlink.backend import kernel_errors
from hostrouting.kernel.netlink.host import list_messages
from hostrouting.kernel.netlink.socket import (
    HEADER,
    NUMBER,
    KernelError,
    NetlinkSocket,
    attribute,
    attributes_of,
    error_of,
    is_error,
    message,
)
from hostrouting.model.prefix import IP, as_ip


@attrs.frozen
class Neighbour:
    """An entry that maps an address to a MAC address on one device. `str()` is the line of `ip neigh`."""

    ip: IP = attrs.field(converter=as_ip)
    mac: str
    """Empty while it is not known."""
    dev: str
    permanent: bool = True
    """Whether it stays until it is deleted, and no other program maintains it (`extern_learn`)."""

    def __str__(self) -> str:
        return f"{self.ip} dev {self.dev} lladdr {self.mac}{' PERMANENT' * self.permanent}"


@attrs.frozen(kw_only=True)
class LinkLayerView:
    """The MAC addresses and the neighbours of one host. A MAC address has two lower-case digits for each byte."""

    macs: Mapping[str, str] = attrs.field(factory=dict)
    """The MAC address of each device that has one."""
    peers: Mapping[str, str] = attrs.field(factory=dict)
    """By veth: the MAC address of its other end, in whatever namespace that is, if it can be read."""
    neighbours: tuple[Neighbour, ...] = ()
    learned: tuple[tuple[str, str], ...] = ()
    """Each MAC address that a bridge has learned or was told, with the port behind which it is."""


class LinkLayer(Protocol):
    """MAC addresses, and the neighbours that have them.

    Each verb raises a BackendError if the kernel cannot be reached (unavailable, not-permitted), does not answer
    (timeout) or refuses. No verb retries unless its docstring says so.
    """

    def look(self) -> LinkLayerView:
        """The devices, the other end of each veth, and the neighbours of both families.

        If a list changes while it is read, all are read again, a few times; then BackendError is raised (unsettled).
        Neighbours are read before devices, so every device that existed at that time is in the view. Proxy entries and
        those of a bridge's forwarding table are not neighbours. The other end of a veth in another namespace is read
        only with CAP_NET_ADMIN there.
        """

    def delete_neighbour(self, neighbour: Neighbour) -> bool:
        """Delete the entry; False if a different entry for its address exists, which stays.

        The kernel deletes by address and device, whatever the MAC address. So the entry is read again just before, and
        must be equal in every field. Idempotent: an absent entry or device is fine.
        """


_READINGS = 5
_RTM_DELNEIGH, _RTM_GETNEIGH = 29, 30
_NEIGHBOUR = struct.Struct("=B3xiHBx")  # struct ndmsg: family, number of the device, state, flags
_DST, _LLADDR = 1, 2
_PERMANENT, _EXTERNALLY_LEARNED = 0x80, 0x10
_LINK = struct.Struct("=4xi8x")  # struct ifinfomsg: number
_MAC, _IFNAME, _PEER, _LINKINFO, _PEER_NAMESPACE, _IN_NAMESPACE = 1, 3, 5, 18, 37, 46
_INFO_KIND = 1
_ABSENT = {errno.ENOENT, errno.ENODEV, errno.ESRCH}


class KernelLinkLayer:
    """The link layer of the calling thread's network namespace."""

    def look(self) -> LinkLayerView:
        """See LinkLayer."""
        with kernel_errors("read devices and neighbours"), closing(NetlinkSocket()) as netlink:
            for _ in range(_READINGS):
                netlink.is_torn = False
                view = _look(netlink)
                if not netlink.is_torn:
                    return view
            raise KernelError(errno.EINTR)

    def delete_neighbour(self, neighbour: Neighbour) -> bool:
        """See LinkLayer."""
        try:
            index = if_nametoindex(neighbour.dev)
        except OSError:
            return True
        body = _NEIGHBOUR.pack(n.AF_OF[neighbour.ip.version], index, 0, 0) + attribute(_DST, neighbour.ip.packed)
        with kernel_errors(f"delete the neighbour {neighbour}"), closing(NetlinkSocket()) as netlink:
            try:
                *_, mac, is_permanent = _entry(_asked(netlink, _RTM_GETNEIGH, body))
                if (mac, is_permanent) != (neighbour.mac, neighbour.permanent):
                    return False
                for error in netlink.batch([message(_RTM_DELNEIGH, 0, body)]).values():
                    raise error
            except KernelError as error:
                if error.number not in _ABSENT:
                    raise
        return True


def _asked(netlink: NetlinkSocket, kind: int, body: bytes) -> bytes:
    (answer,) = netlink.ask(kind, [body])
    if is_error(answer):
        raise error_of(answer)
    return answer


def _look(netlink: NetlinkSocket) -> LinkLayerView:
    entries = [entry for family in n.AF_OF.values() for entry in _entries(netlink, family)]
    links = {
        _LINK.unpack_from(message, HEADER.size)[0]: attributes_of(message, HEADER.size + _LINK.size)
        for message in list_messages(netlink, n.RTM_GETLINK, _LINK.pack(0))
    }
    names = {index: link[_IFNAME].rstrip(b"\0").decode(errors="backslashreplace") for index, link in links.items()}
    peers = {names[index]: _peer(netlink, link) for index, link in links.items() if _PEER in link and _is_veth(link)}
    neighbours = [
        Neighbour(ip_address(ip), mac, names[index], permanent=is_permanent)
        for index, ip, mac, is_permanent in entries
        if index in names
    ]
    learned = {
        (mac, names[index])
        for index, _, mac, is_permanent in _entries(netlink, AF_BRIDGE)
        if index in names and not is_permanent
    }
    return LinkLayerView(
        macs={names[index]: link[_MAC].hex(":") for index, link in links.items() if link.get(_MAC)},
        peers={name: mac for name, mac in peers.items() if mac},
        neighbours=tuple(sorted(neighbours, key=str)),
        learned=tuple(sorted(learned)),
    )


def _entries(netlink: NetlinkSocket, family: int) -> Iterator[tuple[int, bytes, str, bool]]:
    return map(_entry, list_messages(netlink, _RTM_GETNEIGH, _NEIGHBOUR.pack(family, 0, 0, 0)))


def _entry(message: bytes) -> tuple[int, bytes, str, bool]:
    """Of one entry the number of its device, its address and its MAC address, and whether it is permanent."""
    _, index, state, flags = _NEIGHBOUR.unpack_from(message, HEADER.size)
    attributes = attributes_of(message, HEADER.size + _NEIGHBOUR.size)
    is_permanent = bool(state & _PERMANENT) and not flags & _EXTERNALLY_LEARNED
    return index, attributes.get(_DST, b""), attributes.get(_LLADDR, b"").hex(":"), is_permanent


def _peer(netlink: NetlinkSocket, link: Mapping[int, bytes]) -> str:
    """The MAC address of the other end of a veth; empty if it cannot be read."""
    namespace = link.get(_PEER_NAMESPACE)
    where = b"" if namespace is None else attribute(_IN_NAMESPACE, namespace)
    try:
        answer = _asked(netlink, n.RTM_GETLINK, _LINK.pack(*NUMBER.unpack(link[_PEER])) + where)
    except KernelError:
        return ""
    peer = attributes_of(answer, HEADER.size + _LINK.size)
    return peer.get(_MAC, b"").hex(":") if _is_veth(peer) else ""


def _is_veth(link: Mapping[int, bytes]) -> bool:
    return attributes_of(link.get(_LINKINFO, b"")).get(_INFO_KIND) == b"veth\0"
