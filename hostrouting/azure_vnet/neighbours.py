"""MAC addresses and neighbours: the interface of what reads them and deletes neighbours
(`LinkLayer`), and its implementation, which asks Linux by netlink.

Netlink marks a list that changed while it was read (NLM_F_DUMP_INTR): `Netlink.list_has_changed` is
true then, and entries may be missing from the list.
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
    """The MAC address of the other end of each veth, in whatever namespace; veths whose other end
    cannot be read are left out.
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
        """Read the MAC addresses of all devices and of the other end of each veth, the permanent
        neighbours (IPv4 and IPv6), and the MAC addresses that bridges have learned.

        Neighbours are read first, then devices, then what bridges have learned: so the view never
        has the neighbour of a new pod without its device. If a list changes while it is read, or
        has a port that came after the devices were read, everything is read again. BackendError of
        kind unsettled if the lists still change at the fifth reading.

        Neighbours that another program maintains (`extern_learn`) are left out. To read the other
        end of a veth in another namespace needs CAP_NET_ADMIN there.
        """

    def delete_neighbour(self, neighbour: Neighbour) -> bool:
        """Delete the neighbour if its entry is unchanged. Return True if it is gone now, also if it
        or its device was absent already. Return False, with nothing deleted, if the address has
        another entry now, or if the entry is missing from a list that Linux marked as incomplete.

        The entries are read again just before, because Linux deletes by address and device,
        whatever the MAC address is.
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
_ABSENT_ERRNOS = {errno.ENOENT, errno.ENODEV}
"""The errors of a deletion if the entry or its device is absent."""


class KernelLinkLayer:
    """The link layer of the calling thread's network namespace."""

    def look(self) -> LinkLayerView:
        # If the kernel fails, `kernel_errors` makes a BackendError that says what was tried.
        with kernel_errors("read devices and neighbours"), closing(Netlink()) as netlink:
            for _ in range(_READINGS):
                # `_look_once` makes this true if a list changes while it is read, or if two lists
                # do not fit together.
                netlink.list_has_changed = False
                view = _look_once(netlink)
                if not netlink.list_has_changed:
                    return view
            raise KernelError(errno.EINTR)  # the lists kept changing

    def delete_neighbour(self, neighbour: Neighbour) -> bool:
        # If the kernel fails, `kernel_errors` makes a BackendError that says what was tried.
        with (
            kernel_errors(f"delete the neighbour {neighbour}"),
            closing(Netlink()) as netlink,
        ):
            return _delete_if_unchanged(netlink, neighbour)


def _look_once(netlink: Netlink) -> LinkLayerView:
    """Read everything once. `netlink.list_has_changed` is true afterwards if something may be
    missing, so that the caller reads again.
    """
    # Neighbours come first: otherwise the view could have a new pod's neighbour without its device.
    entries = _entries(netlink, AF_UNSPEC)
    # Read this list to its end first, because `_peer_mac` sends its requests by the same socket.
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
        if entry.is_permanent and entry.ifindex in names:  # the device may have gone since
            ip = ip_address(entry.packed_ip)
            neighbours.append(Neighbour(ip, entry.mac, names[entry.ifindex]))

    learned: set[tuple[str, str]] = set()
    for entry in _entries(netlink, AF_BRIDGE):
        if entry.ifindex not in names:
            netlink.list_has_changed = True  # the port has come since the devices were read
        elif not entry.is_permanent:  # a permanent entry is the port's own MAC address
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
    """The index of its device."""
    packed_ip: bytes
    """The address in binary form. Each neighbour has one; an entry of a forwarding table need not.
    """
    mac: str
    is_permanent: bool
    """Whether Linux never forgets the neighbour; in a forwarding table, whether the MAC address is
    that of the bridge or the port itself, and not of what is behind it. Entries that another
    program maintains (`extern_learn`) do not count as permanent, because this program may forget
    them.
    """


def _entries(netlink: Netlink, family: int) -> list[_Entry]:
    """List the neighbours of an address family, or of both (AF_UNSPEC). With AF_BRIDGE, list the
    forwarding tables of all bridges instead, because Linux lists them in the same form.
    """
    entries: list[_Entry] = []
    for answer in netlink.dump(_RTM_GETNEIGH, _NEIGHBOUR.pack(family, 0, 0, 0)):
        (_family, index, state, flags), attributes = parts_of(answer, _NEIGHBOUR)
        # With NTF_EXT_LEARNED, an entry belongs to a program that deletes it again. So it does not
        # count as permanent, even if it has this state.
        is_permanent = bool(state & _NUD_PERMANENT) and not flags & _NTF_EXT_LEARNED
        mac = attributes.get(_NDA_LLADDR, b"").hex(":")
        entries.append(_Entry(index, attributes.get(_NDA_DST, b""), mac, is_permanent))
    return entries


def _peer_mac(netlink: Netlink, link: Mapping[int, bytes]) -> str:
    """Return the MAC address of the other end of a veth; empty if it cannot be read, or if the
    device is not a veth.

    IFLA_LINK is the index of the other end. If that end is in another namespace, the index is one
    of that namespace, and IFLA_LINK_NETNSID is the namespace's id.
    """
    if kind_of(link) != "veth":
        return ""
    netns_id = link.get(_IFLA_LINK_NETNSID)
    # Without IFLA_LINK, the index is 0, which Linux refuses.
    request = LINK.pack(0, number_in(link, _IFLA_LINK) or 0, 0)
    if netns_id is not None:
        request += attribute(_IFLA_TARGET_NETNSID, netns_id)
    (peer,) = netlink.ask(RTM_GETLINK, [request])
    if isinstance(peer, KernelError):
        return ""
    _, peer_link = parts_of(peer, LINK)
    return peer_link.get(_IFLA_ADDRESS, b"").hex(":")


def _delete_if_unchanged(netlink: Netlink, neighbour: Neighbour) -> bool:
    """Delete the neighbour if its entry is still as it was read. Return True if the entry is gone
    now, also if it was absent already. Return False, with nothing deleted, if the entry has
    changed, or is missing from a list that is incomplete.
    """
    family = AF_OF[neighbour.ip.version]
    indexes = {link.name: link.index for link in list_links(netlink)}
    index = indexes.get(neighbour.dev, 0)  # 0 if the device is gone: it has no entries then
    packed_ip = neighbour.ip.packed
    expected = _Entry(index, packed_ip, neighbour.mac, is_permanent=True)
    # What this device has for this address now: an entry begins with the index and the address.
    present = [entry for entry in _entries(netlink, family) if entry[:2] == expected[:2]]
    if not present:
        return not netlink.list_has_changed  # else the list of entries may lack this one
    if present != [expected]:  # another MAC address, or no permanent entry any more
        return False
    request = _NEIGHBOUR.pack(family, index, 0, 0) + attribute(_NDA_DST, packed_ip)
    refused = netlink.send_changes([message(_RTM_DELNEIGH, 0, request)])
    for error in refused.values():
        if error.number not in _ABSENT_ERRNOS:  # an absent entry is as good as a deleted one
            raise error
    return True
