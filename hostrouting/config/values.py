"""The rule for each single value of a configuration: its form, its limits, and the fault if it breaks them.

Here: one reader for each setting that several sections could have, and addresses and networks as text. Not here: rules
about several values, or for one section only (`settings` and the other sections).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import TypeAlias, TypeVar

from hostrouting.config.json import Spot, list_of, text_of
from hostrouting.model.prefix import LINK_LOCAL, is_reserved, reserved_for

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network
E = TypeVar("E", bound="Word")

_LENGTHS = {str(length): length for length in range(129)}
_FORM = 'write an address, a slash and a length, such as "10.0.0.0/8" or "fd00::/8"'

_NAME_LENGTH = 15  # IFNAMSIZ without its closing zero
_NAME_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")


class Word(str, Enum):
    """One of a few words. str() is the word itself, as with StrEnum, which Python 3.10 does not have."""

    __str__ = str.__str__


class Upkeep(Word):
    """Whether something that other programs take away is kept."""

    LEAVE = "leave"
    KEEP = "keep"


class Mode(Word):
    """What to do about an overlap: WARN logs it and passes; STRICT fails and keeps the gated unit from starting."""

    WARN = "WARN"
    STRICT = "STRICT"


def address_in(raw: object, at: Spot, remedy: str) -> Address:
    """One address. `remedy` must say how to write one."""
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
    """One network without host bits, or with `or_address` also one address without a length."""
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
    if "," in text:
        raise at.faulty(raw, "is several networks in one text", "write each by itself, without the comma")
    meant = _meant(text)
    if meant is not None:
        raise at.faulty(raw, "is not written as address/length", f'write "{meant}"')
    if address is not None:
        raise at.faulty(raw, f"is not a network: the length must be from 0 to {address.max_prefixlen}", _FORM)
    raise at.faulty(raw, "is not a network", _FORM)


@lru_cache(64)  # many routes share a few gateways, and reading an address is a fifth of reading a route
def _address(text: str) -> Address | None:
    if "%" in text:
        return None
    try:
        return IPv6Address(text) if ":" in text else IPv4Address(text)
    except AddressValueError:
        return None


def _around(address: Address, length: int) -> Network:
    if isinstance(address, IPv4Address):
        return IPv4Network((int(address), length), strict=False)  # of an address, it would parse the text again
    return IPv6Network((int(address), length), strict=False)


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


def switch(raw: object, at: Spot) -> bool:
    """A boolean; numbers and text are faults."""
    if isinstance(raw, bool):
        return raw
    raise at.faulty(raw, "is not true or false", "write true or false, without quotes")


def destination(raw: object, at: Spot) -> Network:
    """The destination of a static route: a network of either family without host bits, and not in a reserved range."""
    network = network_in(raw, at)
    if network.prefixlen == 0:
        remedy = "list the networks that need one"
        raise at.faulty(raw, "is the default route, which cannot be a static route here", remedy)
    # A wide prefix that begins in a reserved range may also contain ordinary networks.
    # Not broadcast_address, which makes two more objects: a fifth of the time of a configuration with 1,000 routes.
    first = int(network.network_address)
    if is_reserved(network.version, first, first | (1 << network.max_prefixlen - network.prefixlen) - 1):
        taken = reserved_for(network.network_address)
        raise at.faulty(raw, f"lies in {taken}, which cannot have a static route", "remove this route")
    return network


def gateway(raw: object, at: Spot) -> Address | None:
    """The unicast address of a neighbour; empty means the default gateway."""
    if raw == "":
        return None
    remedy = 'write an address such as "10.0.0.1" or "fe80::1", or leave it out for the default gateway'
    address = address_in(raw, at, remedy)
    if is_reserved(address.version, int(address), int(address)) and address not in LINK_LOCAL:
        remedy = "write the address of a router next to this host, or leave it out for the default gateway"
        raise at.faulty(raw, f"lies in {reserved_for(address)}, which has no routers", remedy)
    return address


def dev(raw: object, at: Spot) -> str | None:
    """The name of a device; empty means the device of the default route."""
    return None if raw == "" else device_name(raw, at)


def device_name(raw: object, at: Spot) -> str:
    """The name of a device, not empty."""
    text = text_of(raw, at, 'write the name of a device, such as "eth0"')
    remedy = "write the name as `ip link` shows it, without '@' and what follows"
    if not _NAME_LETTERS.issuperset(text):
        raise at.faulty(raw, "is not a device name: use only letters, digits, '_', '.' and '-'", remedy)
    if not 1 <= len(text) <= _NAME_LENGTH:
        raise at.faulty(raw, f"is not a device name: it must have 1 to {_NAME_LENGTH} characters", remedy)
    if text in {".", ".."}:
        raise at.faulty(raw, "is not a device name: the kernel reserves it", remedy)
    return text


def metric(raw: object, at: Spot) -> int:
    """The metric of a route: an unsigned 32-bit integer; the lowest metric wins."""
    highest = 2**32 - 1
    remedy = f"write an integer from 0 to {highest}, without quotes or decimal point"
    return integer(raw, at, highest, remedy)


def mode(raw: object, at: Spot) -> Mode:
    """WARN or STRICT, in upper or lower case; empty means WARN."""
    text = text_of(raw, at, 'write "WARN" or "STRICT"')
    if text == "":
        return Mode.WARN
    # Some letters beyond ASCII become these letters in upper case.
    if text.isascii() and text.upper() in Mode.__members__:
        return Mode[text.upper()]
    remedy = 'write "WARN" to log overlaps, "STRICT" to keep the gated unit from starting, or "" for WARN'
    raise at.faulty(raw, "is not a mode", remedy)


def one_of(kind: type[E], what: str) -> Callable[[object, Spot], E]:
    """A reader for the values of this enum."""
    words = {str(word): word for word in kind}
    *others, last = (f'"{word}"' for word in words)
    remedy = f"write {', '.join(others)} or {last}"

    def read(raw: object, at: Spot) -> E:
        word = words.get(text_of(raw, at, remedy))
        if word is None:
            raise at.faulty(raw, f"is not {what}", remedy)
        return word

    return read


def integer(raw: object, at: Spot, highest: int, remedy: str) -> int:
    """An integer from 0 to `highest`. `remedy` must name these limits."""
    if isinstance(raw, bool) or not isinstance(raw, int):
        raise at.faulty(raw, "is not an integer", remedy)
    if not 0 <= raw <= highest:
        raise at.faulty(raw, "is out of range", remedy)
    return int(raw)


def _glob(raw: object, at: Spot) -> str:
    # Only * and ?, which mean the same in Python and in the shell of the boot check.
    example = 'write a pattern such as "cali*"'
    text = text_of(raw, at, example)
    name, gap, kind = text.partition(" ")
    letters = name.replace("*", "").replace("?", "")
    if not _NAME_LETTERS.issuperset(letters):
        rule = "is not a device pattern: use only letters, digits, '_', '.', '-', '*' and '?'"
        raise at.faulty(raw, rule, example)
    if gap and not (kind and _NAME_LETTERS.issuperset(kind)):
        rule = "is not a device pattern: after one space, it needs the kind that `ip -details link` prints"
        raise at.faulty(raw, rule, 'write a pattern such as "wg* wireguard"')
    if len(name.replace("*", "")) > _NAME_LENGTH:
        raise at.faulty(raw, f"matches no device: a name has at most {_NAME_LENGTH} characters", example)
    if not name:
        raise at.faulty(raw, "matches no device", example)
    if not letters:
        raise at.faulty(raw, "allows every device, so no overlap would ever be found", example)
    return text


cidrs = list_of(lambda raw, at: network_with_host_bits(raw, at)[0])
"""Expected CIDRs of both families, with host bits masked."""
devs = list_of(device_name)
"""Names of devices."""
globs = list_of(_glob)
"""Patterns for the names of devices, each perhaps with a kind."""
