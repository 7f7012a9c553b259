"""Addresses and prefixes: integers in hot code, `ipaddress` in the public API; and the reserved
ranges.
"""

from collections.abc import Iterable, Iterator
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    collapse_addresses,
    ip_address,
    ip_network,
    summarize_address_range,
)
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from hostrouting.reading import register, text_as

IP: TypeAlias = IPv4Address | IPv6Address

IPV4, IPV6 = 4, 6

_WIDTH = {IPV4: 32, IPV6: 128}


def width_of(family: int) -> int:
    """The number of bits in an address of family 4 or 6."""
    return _WIDTH[family]


def as_ip(value: str | IP) -> IP:
    """Read an address from a text, or return an address unchanged. ValueError if it has a zone
    ("fe80::1%eth0"), because a route has another field for the device.
    """
    address = ip_address(value) if isinstance(value, str) else value
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise ValueError(f"{str(address)!a} has a zone; write the address without it")
    return address


def ip_at(family: int, number: int) -> IP:
    """The address with this integer value."""
    return IPv4Address(number) if family == IPV4 else IPv6Address(number)


class _Block(NamedTuple):
    """The fields of a Prefix, which has a `__new__` of its own: a NamedTuple cannot have one."""

    family: int
    first: int
    """The first address, as an integer."""
    length: int
    """The number of fixed bits."""


class Prefix(_Block):
    """A block of addresses.

    Prefixes sort by family, then by first address, the wider one first: a block comes before the
    blocks that it contains.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        # mypy believes that a tuple contains only its members, and refuses `prefix in block`. It
        # accepts this if the class has its own `__eq__`.

        def __eq__(self, other: object) -> bool: ...
        def __hash__(self) -> int: ...

    def __new__(cls, family: int, first: int, length: int) -> "Prefix":  # noqa: PYI034  no subclasses
        """Make a prefix that is valid. ValueError if the family is unknown, if the length or the
        address is out of range, or if host bits are set. `_replace` and `_make` check nothing.
        """
        width = _WIDTH.get(family)
        if width is not None and 0 <= length <= width and 0 <= first < 2**width:
            size = 1 << (width - length)
            if first % size == 0:
                return tuple.__new__(cls, (family, first, length))
        raise ValueError(f"{first:#x} is not the first address of an IPv{family} /{length}")

    @classmethod
    def parse(cls, text: str | IPv4Network | IPv6Network) -> "Prefix":
        """Read a prefix such as `10.0.0.0/8` or `fd00::/8`, or a single address, which is a block
        of one. Host bits raise ValueError.
        """
        return cls.of(ip_network(text))

    @classmethod
    def of(cls, value: IPv4Network | IPv6Network | IP) -> "Prefix":
        """Convert an `ipaddress` network, or a single address, to a block. ValueError if it has a
        zone (`as_ip`).
        """
        if isinstance(value, IPv4Address | IPv6Address):
            return cls(value.version, int(as_ip(value)), value.max_prefixlen)
        return cls(value.version, int(as_ip(value.network_address)), value.prefixlen)

    @classmethod
    def around(cls, family: int, number: int, length: int) -> "Prefix":
        """The block of this length that contains an address; `number` is the address's value."""
        host_bits = _WIDTH[family] - length
        return cls(family, number >> host_bits << host_bits, length)

    @property
    def size(self) -> int:
        """The number of addresses."""
        return 1 << (_WIDTH[self.family] - self.length)

    @property
    def last(self) -> int:
        """The last address, as an integer."""
        return self.first + self.size - 1

    @property
    def is_single(self) -> bool:
        """Whether the block is one address."""
        return self.length == _WIDTH[self.family]

    @property
    def ip(self) -> IP:
        """The first address."""
        return ip_at(self.family, self.first)

    def __contains__(self, other: "Prefix | IP") -> bool:  # type: ignore[override]  # not `object`
        """Whether this block contains the address, or every address of the prefix."""
        inner = other if isinstance(other, Prefix) else Prefix.of(other)
        if inner.family != self.family or inner.length < self.length:
            return False
        return 0 <= inner.first - self.first < self.size

    def overlaps(self, other: "Prefix") -> bool:
        """Whether the blocks have an address in common: then one contains the other."""
        return other in self or self in other

    def halves(self) -> "tuple[Prefix, Prefix]":
        """The two halves of this block, each one bit longer. A single address raises ValueError."""
        lower = Prefix(self.family, self.first, self.length + 1)
        return lower, Prefix(self.family, self.first + lower.size, lower.length)

    def to_network(self) -> IPv4Network | IPv6Network:
        """Convert the block to an `ipaddress` network."""
        network = IPv4Network if self.family == IPV4 else IPv6Network
        return network((self.first, self.length))

    def __str__(self) -> str:
        return f"{self.ip}/{self.length}"

    def __repr__(self) -> str:
        return f"<Prefix {self}>"


def extent(family: int, first: int, last: int) -> str:
    """The addresses from first to last, as text for an operator: one address, one prefix, or else
    both ends, such as 10.0.0.1-10.0.0.9.
    """
    if first == last:
        return str(ip_at(family, first))
    first_block = next(prefixes_between(family, first, last))
    if first_block.last == last:  # one prefix is enough
        return str(first_block)
    return f"{first_block.ip}-{ip_at(family, last)}"


def prefixes_between(family: int, first: int, last: int) -> Iterator[Prefix]:
    """The fewest blocks that together cover exactly the addresses first to last, in order."""
    # Any, because mypy does not know that both addresses are of one family.
    ends: list[Any] = [ip_at(family, first), ip_at(family, last)]
    return map(Prefix.of, summarize_address_range(*ends))


def joined(blocks: Iterable[Prefix]) -> Iterator[Prefix]:
    """Merge blocks of one family into the fewest blocks with the same addresses, in order. For
    example, the two halves of a block become that block, and a block inside another one goes.
    """
    # Any, because mypy does not know that all blocks are of one family.
    networks: list[Any] = [block.to_network() for block in blocks]
    return map(Prefix.of, collapse_addresses(networks))


LINK_LOCAL = Prefix.parse("fe80::/10")
"""Every link uses this range, so one of these addresses means nothing without a device."""

MULTICAST = Prefix.parse("ff00::/8")

_IPV4_MAPPED = Prefix.parse("::ffff:0:0/96")


def as_ipv4(block: Prefix) -> Prefix | None:
    """The IPv4 block (10.0.0.0/8) that is written as an IPv6 block (::ffff:10.0.0.0/104); None for
    every other block.
    """
    if block not in _IPV4_MAPPED:
        return None
    return Prefix.around(IPV4, block.first & 0xFFFFFFFF, block.length - _IPV4_MAPPED.length)


RESERVED = (
    Prefix.parse("0.0.0.0/8"),
    Prefix.parse("127.0.0.0/8"),
    Prefix.parse("224.0.0.0/3"),  # multicast, and what is reserved after it
    Prefix.parse("::/127"),  # "::" and the loopback address
    _IPV4_MAPPED,
    LINK_LOCAL,
    MULTICAST,
)
"""A configuration cannot have static routes to these addresses, though Linux accepts some. A
gateway can be one of these addresses only if it is link-local.
"""


def is_reserved(block: Prefix) -> bool:
    """Whether a reserved range contains the whole block; a wider block is not reserved."""
    return any(block in reserved for reserved in RESERVED)


# How prefixes and addresses are read from JSON.

register(Prefix, text_as(Prefix.parse, "is not a network without host bits"))
for _kind in (IPv4Address, IPv6Address):
    register(_kind, text_as(as_ip, "is not an address"))
