"""Addresses and networks as text, of both families: how they are written, and the fault if they are not.

Here: one address or one network. Not here: which of them a setting allows (`values`, and the other sections).
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import TYPE_CHECKING, TypeAlias

from hostrouting.config.objects import text_of

if TYPE_CHECKING:
    from hostrouting.config.objects import Spot

__all__ = ["Address", "Network", "address_in", "network_in", "network_with_host_bits"]

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

_LENGTHS = {str(length): length for length in range(129)}
_FORM = 'write an address, a slash and a length, such as "10.0.0.0/8" or "fd00::/8"'


def address_in(raw: object, at: Spot, remedy: str) -> Address:
    """One address; the remedy must say how to write it."""
    if type(raw) is IPv4Address:
        return raw
    text = text_of(raw, at, remedy)
    address = _address(text)
    if address is not None:
        return address
    if "/" in text:
        raise at.faulty(raw, "has a prefix length, but must be a single address", remedy)
    _refuse_zone(text, raw, at)
    raise at.faulty(raw, "is not an address", remedy)


def network_in(raw: object, at: Spot, *, or_address: bool = False) -> Network:
    """One network, without host bits; with `or_address`, also one address without a length."""
    network, address = network_with_host_bits(raw, at, or_address=or_address)
    if network.network_address != address:
        remedy = f'write "{network}", or "{address}/{network.max_prefixlen}" for that one address'
        raise at.faulty(raw, f"has host bits set: the network meant is {network}", remedy)
    return network


def network_with_host_bits(raw: object, at: Spot, *, or_address: bool = False) -> tuple[Network, Address]:
    """The network around an address with a length, and that address."""
    if type(raw) is IPv4Network:
        return raw, raw.network_address
    text = text_of(raw, at, _FORM)
    host, slash, suffix = text.partition("/")
    address = _address(host)
    length = _LENGTHS.get(suffix)
    if address is not None and not slash and or_address:
        length = address.max_prefixlen
    if address is not None and length is not None and length <= address.max_prefixlen:
        return _around(address, length), address
    _refuse_zone(host, raw, at)
    if address is not None and not slash:
        one, many = f"{address}/{address.max_prefixlen}", _probably(address)
        remedy = f'write "{one}" for that one address, or its network, such as "{many}"'
        raise at.faulty(raw, "has no prefix length", remedy)
    meant = _meant(text)
    if meant is not None:
        raise at.faulty(raw, "is not written as address/length", f'write "{meant}"')
    if address is not None:
        raise at.faulty(raw, f"is not a network: the length must be from 0 to {address.max_prefixlen}", _FORM)
    raise at.faulty(raw, "is not a network", _FORM)


def _address(text: str) -> Address | None:
    if "%" in text:
        return None
    try:
        return IPv6Address(text) if ":" in text else IPv4Address(text)
    except AddressValueError:
        return None


def _around(address: Address, length: int) -> Network:
    if isinstance(address, IPv4Address):
        return IPv4Network((address, length), strict=False)
    return IPv6Network((address, length), strict=False)


def _probably(address: Address) -> Network:
    """The network that an address without a length probably means.

    In IPv4 the bytes up to the last one that is not zero, at most three; in IPv6 the usual size of a network.
    """
    if address.version != 4:
        return _around(address, 64)
    zeros = len(address.packed) - len(address.packed.rstrip(b"\0"))
    return _around(address, min(32 - 8 * zeros, 24))


def _meant(text: str) -> Network | None:
    """The network if the text has a netmask, leading zeros in the length or blanks; None if it still is not one."""
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError:
        return None


def _refuse_zone(text: str, raw: object, at: Spot) -> None:
    host, zone, _ = text.partition("%")
    address = _address(host) if zone else None
    if address is not None:
        raise at.faulty(raw, "has a zone, but the device is a separate setting", f'write "{address}"')
