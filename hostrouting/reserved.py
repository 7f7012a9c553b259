"""Reserved address ranges, whose meaning does not depend on routes.

Here: the ranges, and the meaning of each. Not here: what is refused or ignored because of them. This module imports
only ipaddress, because it is loaded with every configuration.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Network

__all__ = ["LOOPBACK", "MULTICAST", "RESERVED", "RESERVED_RANGES", "is_reserved", "reserved_for"]

LOOPBACK = IPv4Network("127.0.0.0/8")

MULTICAST: dict[int, IPv4Network | IPv6Network] = {4: IPv4Network("224.0.0.0/4"), 6: IPv6Network("ff00::/8")}

RESERVED: tuple[tuple[IPv4Network, str], ...] = (
    (IPv4Network("0.0.0.0/8"), '"this network"'),
    (LOOPBACK, "the host itself"),
    (IPv4Network("224.0.0.0/4"), "multicast"),
    (IPv4Network("240.0.0.0/4"), "reserved"),
)
"""IPv4 ranges that cannot have a static route or contain a gateway, each with its meaning; in order."""


def _joined() -> tuple[tuple[int, int], ...]:
    ends = [(int(block.network_address), int(block.broadcast_address)) for block, _ in RESERVED]
    behind, before = {last + 1 for _, last in ends}, {first - 1 for first, _ in ends}
    firsts = [first for first, _ in ends if first not in behind]
    lasts = [last for _, last in ends if last not in before]
    return tuple(zip(firsts, lasts, strict=True))


RESERVED_RANGES: dict[int, tuple[tuple[int, int], ...]] = {4: _joined(), 6: ()}
"""The same by family, as pairs of first and last address, merged into the fewest ranges."""


def is_reserved(family: int, first: int, last: int) -> bool:
    """Whether every address of first … last is reserved."""
    return any(low <= first and last <= high for low, high in RESERVED_RANGES[family])


def reserved_for(address: IPv4Address) -> str | None:
    """The reserved range that contains the address, and its meaning; None for an ordinary address."""
    return next((f"{block} ({what})" for block, what in RESERVED if address in block), None)
