"""A snapshot without what names a site: its addresses and devices are replaced, and every verdict stays.

Here: which addresses and names stay, and what the others become. Not here: saving a snapshot (`saved`).

Addresses. Two addresses with a common prefix of n bits, and not more, have one of n bits afterwards, so that every
prefix contains what it contained. Each bit is kept or flipped, depending on the bits before it and on a key. So a
prefix of n bits becomes one of n bits, and two different prefixes stay different. A block whose meaning is known to
Linux or to a CNI stays where it is, because no bit above it is flipped; so the first bits of an address near such a
block stay, too. In some blocks each address has a meaning; there, no bit is flipped either. The method is that of
tcpdpriv and Crypto-PAn.

Devices. The name of a device that a CNI makes keeps the part by which it is recognised, and the rest is a number. Every
other device is called dev and a number; what it is, such as InfiniBand, stands beside the name in the snapshot.

The key is random and is not kept. What stays visible: the lengths of prefixes, metrics, tables, marks, users and ports,
and which of the devices and addresses are the same. Whoever knows a part of the addresses knows what they became.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from hashlib import blake2b
from ipaddress import IPv4Address, IPv6Address
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.config.cni import DEFAULT_ALLOWED_DEVS
from hostrouting.model.prefix import IP, IPV4, IPV6, Prefix, width_of
from hostrouting.model.route_table import RouteTable

if TYPE_CHECKING:
    from hostrouting.config.values import Network
    from hostrouting.model.snapshot import Snapshot

_FIXED: dict[int, tuple[Prefix, ...]] = {
    IPV4: tuple(map(Prefix.parse, ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", "168.63.129.16/32"))),
    IPV6: tuple(map(Prefix.parse, ("::/127", "ff00::/8"))),
}
"""By family: blocks in which each address has a meaning; the last of IPv4 is Azure's own server."""
_PLACED: dict[int, tuple[Prefix, ...]] = {
    # Private networks, and the addresses that carriers, Tailscale and Kube-OVN use.
    IPV4: tuple(map(Prefix.parse, ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16"))),
    # An address of a link may contain a MAC address.
    IPV6: tuple(map(Prefix.parse, ("::ffff:0:0/96", "fc00::/7", "fe80::/64"))),
}
"""By family: blocks that stay where they are, but the addresses in them are replaced."""
_ABOVE = {
    family: {
        (depth, block.network >> (width_of(family) - depth))
        for block in (*_FIXED[family], *_PLACED[family])
        for depth in range(block.length)
    }
    for family in _FIXED
}
"""By family: the length and bits of each prefix that contains one of these blocks."""

_GLOBS = tuple(dict.fromkeys(dev.partition(" ")[0] for dev in DEFAULT_ALLOWED_DEVS))
_TRIES = 10_000  # more devices than any host has of one CNI

DEVICE_FIELDS = frozenset({"name", "master", "dev", "iif", "oif"})
"""The fields of a snapshot's values that contain the name of a device."""


class Redaction:
    """One way to replace addresses and names, the same throughout."""

    def __init__(self, key: bytes | None = None) -> None:
        """Take a random key; a test gives one."""
        self._key = token_bytes(32) if key is None else key
        self._coins: dict[tuple[int, int, int], int] = {}
        self.devices = {"lo": "lo", "default": "default"}
        """The new name of each device that was seen."""

    def snapshot(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot, redacted."""
        found: Snapshot = self._of(snapshot)
        return found

    def network(self, network: Network) -> Network:
        """A CIDR, redacted as in the snapshot."""
        return self.prefix(Prefix.of(network)).to_network()

    def prefix(self, prefix: Prefix) -> Prefix:
        """The prefix that replaces this one."""
        family, length = prefix.family, prefix.length
        if any(prefix in block for block in _FIXED[family]):
            return prefix
        width, flips = width_of(family), 0
        for depth in range(length):
            flips = flips << 1 | self._coin(family, depth, prefix.network >> (width - depth))
        return Prefix(family, prefix.network ^ flips << (width - length), length)

    def address(self, address: IP) -> IP:
        """The address that replaces this one."""
        return self.prefix(Prefix.of(address)).ip

    def device(self, name: str) -> str:
        """The name that replaces this one; it matches the patterns of the same CNIs."""
        if name not in self.devices:
            taken, globs = set(self.devices.values()), _globs_of(name)
            alike = (_filled(glob, number) for glob in globs for number in range(_TRIES))
            fits = (new for new in alike if new not in taken and _globs_of(new) == globs)
            others = (f"dev{number}" for number in range(1, len(taken) + 2))
            self.devices[name] = next(fits, None) or next(new for new in others if new not in taken)
        return self.devices[name]

    def _of(self, value: Any, field: str = "") -> Any:
        if isinstance(value, str):
            return self.device(value) if field in DEVICE_FIELDS else value
        if isinstance(value, Prefix):
            return self.prefix(value)
        if isinstance(value, IPv4Address | IPv6Address):
            return self.address(value)
        if isinstance(value, tuple | RouteTable):
            return tuple(self._of(item) for item in value)
        if attrs.has(type(value)):
            names = (each.name for each in attrs.fields(type(value)))
            return attrs.evolve(value, **{name: self._of(getattr(value, name), name) for name in names})
        return value

    def _coin(self, family: int, depth: int, bits: int) -> int:
        """Whether to flip the bit that follows these bits."""
        coin = self._coins.get((family, depth, bits))
        if coin is None:
            said = f"{family}/{depth}/{bits:x}".encode()
            tossed = blake2b(said, key=self._key, digest_size=1).digest()[0] & 1
            coin = self._coins[family, depth, bits] = 0 if (depth, bits) in _ABOVE[family] else tossed
        return coin


def _globs_of(name: str) -> list[str]:
    return [glob for glob in _GLOBS if fnmatchcase(name, glob)]


def _filled(glob: str, number: int) -> str:
    """The pattern with a number in place of its wildcards."""
    if "*" in glob:
        return glob.replace("*", str(number))
    places = glob.count("?")
    return glob.replace("?" * places, f"{number:0{places}}") if places else glob
