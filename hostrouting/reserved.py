"""Addresses that are what they are, whatever a route says of them.

Here: the ranges, and what each is. Not here: what is refused or left alone because of it. Importing this loads nothing
but ipaddress: a configuration is read with it.
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
"""Where no static route of IPv4 may lead, no gateway can be, and what each range is; in order."""


def _joined() -> tuple[tuple[int, int], ...]:
    ends = [(int(block.network_address), int(block.broadcast_address)) for block, _ in RESERVED]
    behind, before = {last + 1 for _, last in ends}, {first - 1 for first, _ in ends}
    firsts = [first for first, _ in ends if first not in behind]
    lasts = [last for _, last in ends if last not in before]
    return tuple(zip(firsts, lasts, strict=True))


RESERVED_RANGES: dict[int, tuple[tuple[int, int], ...]] = {4: _joined(), 6: ()}
"""The same by family, as first and last addresses, in the fewest ranges."""


def is_reserved(family: int, first: int, last: int) -> bool:
    """Whether all of first … last is reserved."""
    return any(low <= first and last <= high for low, high in RESERVED_RANGES[family])


def reserved_for(address: IPv4Address) -> str | None:
    """The range that the address is in, and what that is for; None for an ordinary address."""
    return next((f"{block} ({what})" for block, what in RESERVED if address in block), None)
