"""What the way to the link layer promises, and the values that go in and out of it. No kernel is spoken to here.

It is the only way to MAC addresses and neighbours, real or fake. The promises are checked, on any of them, by the
contract suite in `hostrouting.testing`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable  # noqa: TC003  attrs reads the types of converters
from typing import Literal, Protocol, TypeAlias

import attrs

from hostrouting.model import IP, as_ip

__all__ = [
    "STATES",
    "EthernetLink",
    "LinkLayer",
    "LinkLayerView",
    "Neighbour",
    "PeerMac",
    "State",
    "UnknownPeer",
    "canonical_mac",
    "require_permanent",
]

State: TypeAlias = Literal["none", "incomplete", "reachable", "stale", "delay", "probe", "failed", "noarp", "permanent"]

STATES: dict[int, State] = {
    0x00: "none",
    0x01: "incomplete",
    0x02: "reachable",
    0x04: "stale",
    0x08: "delay",
    0x10: "probe",
    0x20: "failed",
    0x40: "noarp",
    0x80: "permanent",
}
"""The kernel's numbers for the state of a neighbour."""

_MAC = re.compile(r"[0-9a-f]{1,2}(:[0-9a-f]{1,2})*", re.IGNORECASE | re.ASCII)


def canonical_mac(text: str) -> str:
    """A MAC address in lower case, with two digits for each byte; ValueError where it is not one."""
    if not _MAC.fullmatch(text):
        raise ValueError(f"{text!a} is not a MAC address; it is bytes in hexadecimal with colons, 0a:0b:0c:0d:0e:0f")
    return ":".join(byte.zfill(2) for byte in text.lower().split(":"))


def _mac_or_none(text: str) -> str:
    return canonical_mac(text) if text else ""


@attrs.frozen
class PeerMac:
    """The other end of a veth has this MAC address."""

    mac: str = attrs.field(converter=canonical_mac)

    def __str__(self) -> str:
        return self.mac


@attrs.frozen
class UnknownPeer:
    """The other end of a veth could not be asked, so its MAC address is not known."""

    reason: str

    def __str__(self) -> str:
        return f"unknown ({self.reason})"


@attrs.frozen(kw_only=True)
class EthernetLink:
    """A network device, with what Ethernet has to do with it."""

    name: str
    index: int
    kind: str = ""
    """What made it ("bridge", "veth"); empty for hardware."""
    mac: str = attrs.field(default="", converter=_mac_or_none)
    """Empty for a device that has none, such as a tunnel."""
    master: str | None = None
    """The bridge, bond or VRF that it is a port of."""
    up: bool = True
    peer: PeerMac | UnknownPeer | None = None
    """The other end of a veth, in whatever namespace it is; None for any other device."""

    def __str__(self) -> str:
        words = [self.name, self.kind or "hardware", self.mac or "no MAC address", "up" if self.up else "down"]
        words += [f"master {self.master}"] * (self.master is not None)
        words += [f"peer {self.peer}"] * (self.peer is not None)
        return " ".join(words)


@attrs.frozen
class Neighbour:
    """An entry that maps an address to a MAC address on one device. `str()` is what `ip neigh` prints of it."""

    ip: IP = attrs.field(converter=as_ip)
    mac: str = attrs.field(converter=_mac_or_none)
    """Empty while it is not known."""
    dev: str
    state: State = "permanent"
    externally_learned: bool = False
    """Whether a program has learned it and keeps it (`extern_learn`)."""

    def __str__(self) -> str:
        words = [f"{self.ip} dev {self.dev}"]
        words += [f"lladdr {self.mac}"] * bool(self.mac)
        words += ["extern_learn"] * self.externally_learned
        return " ".join([*words, self.state.upper()])


def require_permanent(neighbour: Neighbour) -> None:
    """ValueError for an entry that only the kernel makes."""
    if neighbour.state != "permanent" or neighbour.mac.count(":") != 5:
        raise ValueError(f"{neighbour} cannot be added: only a permanent entry with a MAC address of six bytes can be")


def _links(values: Iterable[EthernetLink]) -> tuple[EthernetLink, ...]:
    return tuple(values)


def _neighbours(values: Iterable[Neighbour]) -> tuple[Neighbour, ...]:
    return tuple(values)


@attrs.frozen
class LinkLayerView:
    """The devices and the neighbours of one host."""

    links: tuple[EthernetLink, ...] = attrs.field(default=(), converter=_links)
    """In the order of their indexes."""
    neighbours: tuple[Neighbour, ...] = attrs.field(default=(), converter=_neighbours)
    """By device, then by address."""

    def link(self, name: str) -> EthernetLink | None:
        """The device of this name."""
        return next((it for it in self.links if it.name == name), None)


class LinkLayer(Protocol):
    """MAC addresses, and the neighbours that are known by them.

    Each verb raises a BackendError where the kernel cannot be asked (NetlinkUnavailable, NotPermitted), does not answer
    (BackendTimeout) or refuses. None of them tries again, except where it says so.
    """

    def look(self) -> LinkLayerView:
        """The devices, what is at the other end of each veth, and the neighbours of both families.

        Each list is of one moment: one that changed meanwhile is read again, a few times; then Unsettled. Neighbours
        are read first, and the other ends last; in between, there is time for changes. The other end of a veth that
        cannot be asked is an UnknownPeer, and no error. Entries for proxying, and those of a bridge's own table, are
        not neighbours here.
        Needs the privilege to ask about other namespaces, CAP_NET_ADMIN in them; without it their ends are unknown.
        """
        ...

    def delete_neighbour(self, neighbour: Neighbour) -> bool:
        """The entry is not there any more; False where there is another one for its address, and that stays.

        The kernel deletes by address and device, whatever the MAC address: so the entry is read again just before, and
        must be the same in everything. Idempotent: an entry or a device that is gone is fine.
        """
        ...

    def add_neighbour(self, neighbour: Neighbour) -> bool:
        """The entry is there; False where there is another one for its address, and that stays.

        Idempotent. ValueError unless its state is permanent and its MAC address has six bytes. BackendError where
        there is no such device.
        """
        ...
