"""Numbers and ranges that mean the same on every host: reserved addresses, and the defaults of a route that is added.

Here: the ranges, each with its meaning, our protocol number, and the metric that Linux gives. Not here: what is refused
or ignored because of them, and the numbers that other programs use (names: `route`; reasons: `config.values`).
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

OURS = 213
"""The protocol number that marks a route as ours; the configuration can set another. No known program uses it."""

DEFAULT_METRIC = {4: 0, 6: 1024}
"""By family: the metric that Linux gives to a route that is added without one."""

LOOPBACK = IPv4Network("127.0.0.0/8")

LINK_LOCAL = IPv6Network("fe80::/10")
"""Every link has these addresses: one of them means nothing without a device."""

MULTICAST: dict[int, IPv4Network | IPv6Network] = {4: IPv4Network("224.0.0.0/4"), 6: IPv6Network("ff00::/8")}

RESERVED: dict[int, tuple[tuple[IPv4Network | IPv6Network, str], ...]] = {
    4: (
        (IPv4Network("0.0.0.0/8"), '"this network"'),
        (LOOPBACK, "the host itself"),
        (MULTICAST[4], "multicast"),
        (IPv4Network("240.0.0.0/4"), "reserved"),
    ),
    6: (
        (IPv6Network("::/127"), "the host itself"),
        (IPv6Network("::ffff:0.0.0.0/96"), "IPv4 addresses in sockets"),
        (LINK_LOCAL, "the addresses of each single link"),
        (MULTICAST[6], "multicast"),
    ),
}
"""By family: the ranges that cannot have a static route, each with its meaning; in order."""


def _joined(family: int) -> tuple[tuple[int, int], ...]:
    ends = [(int(block.network_address), int(block.broadcast_address)) for block, _ in RESERVED[family]]
    behind, before = {last + 1 for _, last in ends}, {first - 1 for first, _ in ends}
    firsts = [first for first, _ in ends if first not in behind]
    lasts = [last for _, last in ends if last not in before]
    return tuple(zip(firsts, lasts, strict=True))


RESERVED_RANGES: dict[int, tuple[tuple[int, int], ...]] = {family: _joined(family) for family in RESERVED}
"""The same, as pairs of first and last address, merged into the fewest ranges."""


def is_reserved(family: int, first: int, last: int) -> bool:
    """Whether every address of first … last is reserved."""
    return any(low <= first and last <= high for low, high in RESERVED_RANGES[family])


def reserved_for(address: IPv4Address | IPv6Address) -> str | None:
    """The reserved range that contains the address, and its meaning; None for an ordinary address."""
    return next((f"{block} ({what})" for block, what in RESERVED[address.version] if address in block), None)
