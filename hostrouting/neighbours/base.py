"""The contract of a link-layer edge, and its input and output values. This module does not talk to any kernel.

It is the only access to MAC addresses and neighbours, real or fake. The contract suite in `hostrouting.testing` checks
these promises on any implementation.
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
    """A MAC address in lower case, with two digits for each byte; ValueError if it is not one."""
    if not _MAC.fullmatch(text):
        raise ValueError(
            f"{text!a} is not a MAC address; write hexadecimal bytes with colons, such as 0a:0b:0c:0d:0e:0f"
        )
    return ":".join(byte.zfill(2) for byte in text.lower().split(":"))


def _mac_or_none(text: str) -> str:
    return canonical_mac(text) if text else ""


@attrs.frozen
class PeerMac:
    """The MAC address of the other end of a veth."""

    mac: str = attrs.field(converter=canonical_mac)

    def __str__(self) -> str:
        return self.mac


@attrs.frozen
class UnknownPeer:
    """The other end of a veth could not be read, so its MAC address is not known."""

    reason: str

    def __str__(self) -> str:
        return f"unknown ({self.reason})"


@attrs.frozen(kw_only=True)
class EthernetLink:
    """A network device with its Ethernet properties."""

    name: str
    index: int
    kind: str = ""
    """Its kind as in `ip -details link` ("bridge", "veth"); empty for hardware."""
    mac: str = attrs.field(default="", converter=_mac_or_none)
    """Empty for a device without a MAC address, such as a tunnel."""
    master: str | None = None
    """The bridge, bond or VRF that it belongs to."""
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
    """An entry that maps an address to a MAC address on one device. `str()` is the line of `ip neigh`."""

    ip: IP = attrs.field(converter=as_ip)
    mac: str = attrs.field(converter=_mac_or_none)
    """Empty while it is not known."""
    dev: str
    state: State = "permanent"
    externally_learned: bool = False
    """Whether a program learned it and maintains it (`extern_learn`)."""

    def __str__(self) -> str:
        words = [f"{self.ip} dev {self.dev}"]
        words += [f"lladdr {self.mac}"] * bool(self.mac)
        words += ["extern_learn"] * self.externally_learned
        return " ".join([*words, self.state.upper()])


def require_permanent(neighbour: Neighbour) -> None:
    """ValueError for an entry that only the kernel creates."""
    if neighbour.state != "permanent" or neighbour.mac.count(":") != 5:
        raise ValueError(f"{neighbour} cannot be added: it must be a permanent entry with a MAC address of six bytes")


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
        """The device with this name; None if it does not exist."""
        return next((it for it in self.links if it.name == name), None)


class LinkLayer(Protocol):
    """MAC addresses, and the neighbours that have them.

    Each verb raises a BackendError if the kernel cannot be reached (NetlinkUnavailable, NotPermitted), does not answer
    (BackendTimeout) or refuses. No verb retries unless its docstring says so.
    """

    def look(self) -> LinkLayerView:
        """The devices, the other end of each veth, and the neighbours of both families.

        Each list is consistent: one that changed while it was read is read again, a few times; then Unsettled.
        Neighbours are read first, and the other ends last; something may change in between. If the other end of a veth
        cannot be read, it is an UnknownPeer, not an error. Proxy entries and those of a bridge's forwarding table are
        not included. Reading other namespaces requires CAP_NET_ADMIN in them; without it their ends are unknown.
        """
        ...

    def delete_neighbour(self, neighbour: Neighbour) -> bool:
        """Delete the entry; False if a different entry for its address exists, which stays.

        The kernel deletes by address and device, whatever the MAC address. So the entry is read again just before, and
        must be equal in every field. Idempotent: an absent entry or device is fine.
        """
        ...

    def add_neighbour(self, neighbour: Neighbour) -> bool:
        """Add the entry; False if a different entry for its address exists, which stays.

        Idempotent. ValueError unless its state is permanent and its MAC address has six bytes. BackendError if the
        device does not exist.
        """
        ...
