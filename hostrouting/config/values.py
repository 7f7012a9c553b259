"""The rule for each single value, with one reader each; rules about several values are in `settings`."""

from __future__ import annotations

from enum import Enum
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, TypeVar

from hostrouting.config.objects import items_read
from hostrouting.reserved import is_reserved, reserved_for
from hostrouting.route_protocol import OURS

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.config.objects import Spot

__all__ = [
    "DEFAULT_ALLOWED_DEVS",
    "Mode",
    "Word",
    "cidrs",
    "destination",
    "dev",
    "device_name",
    "devs",
    "gateway",
    "globs",
    "integer",
    "metric",
    "mode",
    "one_of",
    "protocol",
    "switch",
    "text_of",
]


DEFAULT_ALLOWED_DEVS = (
    "antrea-gw*",  # Antrea's gateway to the pods of this node
    "azure*",  # Azure CNI: bridge mode's azure0
    "azv*",  # Azure CNI: transparent mode's veths
    "cali*",  # Calico's veths
    "cbr0",  # kubenet's bridge
    "cilium_*",  # Cilium: cilium_host, cilium_net, cilium_vxlan, cilium_wg0
    "cni0",  # the bridge of the reference bridge plugin, and flannel's
    "flannel*",  # flannel's VXLAN and WireGuard devices
    "gke*",  # GKE's veths
    "kube-bridge",  # kube-router's bridge
    "kube-ipvs0",  # kube-proxy in IPVS mode holds the service addresses here
    "lxc*",  # Cilium's veths
    "nodelocaldns",  # NodeLocal DNSCache holds its service address here
    "ovn-k8s-mp*",  # OVN-Kubernetes' port to the pods of this node
    "tunl0",  # Calico's IP-in-IP tunnel
    "veth*",  # the veths of the bridge plugin, kubenet and flannel
    "vxlan.calico",  # Calico's VXLAN device
    "weave",  # Weave Net's bridge
)
"""Devices for this node's pods and services, or for the cluster's tunnel to the pods of other nodes.

The list has no names of network cards, and not docker0 either: no cluster network uses docker0, and its 172.17.0.0/16
can capture part of a cluster's 172.16.0.0/12 just as InfiniBand's route does.
"""

_PREFIX_LENGTHS = {str(length): length for length in range(33)}
_NAME_LENGTH = 15  # IFNAMSIZ without its closing zero
_NAME_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")

# With a number that is in use, other programs' routes would be taken for ours, and deleted.
_PROTOCOLS_IN_USE = (
    (0, 0, "0 is not a protocol: routes without a protocol have it"),
    (1, 1, "the kernel gives it to routes learned from ICMP redirects"),
    (2, 2, "the kernel gives it to the connected routes of every interface"),
    (3, 3, "every route added by hand has it"),
    (4, 4, "network managers use it for the administrator's static routes"),
    (8, 16, "routing daemons and DHCP clients use it"),
    (17, 17, "kube-router uses it"),
    (18, 18, "keepalived uses it"),
    (42, 42, "babel uses it"),
    (66, 66, "some cloud images use it"),
    (80, 80, "Calico uses it"),
    (99, 99, "openr uses it"),
    (186, 198, "FRRouting and related daemons use it"),
)


E = TypeVar("E", bound="Word")


class Word(str, Enum):
    """A word out of a fixed few. In text it is the word itself, as with StrEnum, which Python 3.10 does not have."""

    __str__ = str.__str__


class Mode(Word):
    """What to do about an overlap: WARN logs it and passes; STRICT fails and keeps the machine from starting."""

    WARN = "WARN"
    STRICT = "STRICT"


def switch(raw: object, at: Spot) -> bool:
    """A boolean; numbers and text are faults."""
    if isinstance(raw, bool):
        return raw
    raise at.faulty(raw, "is not true or false", "write true or false, without quotes")


def destination(raw: object, at: Spot) -> IPv4Network:
    """The destination of a static route: exactly `a.b.c.d/len`, and not in a reserved range."""
    address, length = _address_and_length(raw, at)
    network = raw if type(raw) is IPv4Network else IPv4Network((address, length), strict=False)
    if network.network_address != address:
        remedy = f'write "{network}", or "{address}/32" for that one address'
        raise at.faulty(raw, f"has host bits set: the network meant is {network}", remedy)
    if length == 0:
        remedy = "list the networks that need one"
        raise at.faulty(raw, "is the default route, which cannot be a static route here", remedy)
    taken = reserved_for(address)
    # A wide prefix that begins in a reserved range may also contain ordinary networks.
    if taken and is_reserved(4, int(address), int(network.broadcast_address)):
        raise at.faulty(raw, f"lies in {taken}, which cannot have a static route", "remove this route")
    return network


def cidrs(raw: object, at: Spot) -> tuple[IPv4Network, ...]:
    """Expected CIDRs in the given order, with host bits masked and duplicates dropped."""
    return items_read(raw, at, _cidr)


def gateway(raw: object, at: Spot) -> IPv4Address | None:
    """The unicast address of a neighbour; empty means the default gateway."""
    if raw == "":
        return None
    remedy = 'write "a.b.c.d", or leave it out for the default gateway'
    address = raw if type(raw) is IPv4Address else _address(text_of(raw, at, remedy))
    if address is None:
        text = str(raw)
        _refuse_ipv6(text, raw, at)
        rule = "has a prefix length, but a gateway is a single address" if "/" in text else "is not an IPv4 address"
        raise at.faulty(raw, rule, remedy)
    taken = reserved_for(address)
    if taken:
        remedy = "write the address of a router next to this host, or leave it out for the default gateway"
        raise at.faulty(raw, f"lies in {taken}, which has no routers", remedy)
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


def devs(raw: object, at: Spot) -> tuple[str, ...]:
    """Names of devices in the given order, without duplicates."""
    return items_read(raw, at, device_name)


def globs(raw: object, at: Spot) -> tuple[str, ...]:
    """Patterns for device names in the given order, without duplicates."""
    return items_read(raw, at, _glob)


def metric(raw: object, at: Spot) -> int:
    """The metric of a route: an unsigned 32-bit integer; the lowest metric wins."""
    highest = 2**32 - 1
    remedy = f"write an integer from 0 to {highest}, without quotes or decimal point"
    return integer(raw, at, highest, remedy)


def protocol(raw: object, at: Spot) -> int:
    """The route protocol number that marks our routes; no other program may use it."""
    remedy = f"write an integer from 200 to 254, which no known program uses, such as {OURS}"
    number = integer(raw, at, 255, remedy)
    for first, last, owner in _PROTOCOLS_IN_USE:
        if first <= number <= last:
            raise at.faulty(raw, f"cannot mark our routes: {owner}", remedy)
    return number


def mode(raw: object, at: Spot) -> Mode:
    """WARN or STRICT, in upper or lower case; empty means WARN."""
    text = text_of(raw, at, 'write "WARN" or "STRICT"')
    if text == "":
        return Mode.WARN
    # Some letters beyond ASCII become these letters in upper case.
    if text.isascii() and text.upper() in Mode.__members__:
        return Mode[text.upper()]
    remedy = 'write "WARN" to log overlaps, "STRICT" to keep the machine from starting, or "" for WARN'
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


def integer(raw: object, at: Spot, highest: int, remedy: str, *, lowest: int = 0) -> int:
    """An integer from `lowest` to `highest`; the remedy must name the range."""
    if isinstance(raw, bool) or not isinstance(raw, int):
        raise at.faulty(raw, "is not an integer", remedy)
    if not lowest <= raw <= highest:
        raise at.faulty(raw, "is out of range", remedy)
    return int(raw)


def text_of(raw: object, at: Spot, remedy: str) -> str:
    """Text; an `ipaddress` object is accepted as its text."""
    if isinstance(raw, str):
        return str(raw)
    # Objects passed from Python code must satisfy the same rules as text in a file.
    if isinstance(raw, IPv4Address | IPv4Network | IPv6Address | IPv6Network):
        return str(raw)
    raise at.faulty(raw, "is not text", remedy)


def _address_and_length(raw: object, at: Spot) -> tuple[IPv4Address, int]:
    if type(raw) is IPv4Network:
        return raw.network_address, raw.prefixlen
    text = text_of(raw, at, 'write it as "a.b.c.d/len"')
    host, slash, suffix = text.partition("/")
    address, length = _address(host), _PREFIX_LENGTHS.get(suffix)
    if address is not None and length is not None:
        return address, length
    if address is not None and not slash:
        network = _network_around(address)
        remedy = f'write "{address}/32" for that one address, or its network, such as "{network}"'
        raise at.faulty(raw, "has no prefix length", remedy)
    _refuse_ipv6(host, raw, at)
    meant = _network_meant(text)
    if meant is not None:
        raise at.faulty(raw, "is not written as a.b.c.d/len", f'write "{meant}"')
    remedy = 'write it as "a.b.c.d/len", with len from 0 to 32 and no leading zeros'
    raise at.faulty(raw, "is not an IPv4 network", remedy)


def _address(text: str) -> IPv4Address | None:
    try:
        return IPv4Address(text)
    except AddressValueError:
        return None


def _network_around(address: IPv4Address) -> IPv4Network:
    """The network that an address without a length probably means: its bytes up to the last one that is not zero."""
    zeros = len(address.packed) - len(address.packed.rstrip(b"\0"))
    return IPv4Network((address, min(32 - 8 * zeros, 24)), strict=False)


def _network_meant(text: str) -> IPv4Network | None:
    """The network if the text has a netmask, leading zeros in the length or blanks; None if it still is not one."""
    try:
        return IPv4Network(text.strip(), strict=False)
    except ValueError:
        return None


def _cidr(raw: object, at: Spot) -> IPv4Network:
    return IPv4Network(_address_and_length(raw, at), strict=False)


def _glob(raw: object, at: Spot) -> str:
    # Only * and ?, which mean the same in Python and in the shell of the boot check.
    example = 'write a pattern such as "cali*"'
    text = text_of(raw, at, example)
    letters = text.replace("*", "").replace("?", "")
    if not _NAME_LETTERS.issuperset(letters):
        rule = "is not a device pattern: use only letters, digits, '_', '.', '-', '*' and '?'"
        raise at.faulty(raw, rule, example)
    if len(text.replace("*", "")) > _NAME_LENGTH:
        raise at.faulty(raw, f"matches no device: a name has at most {_NAME_LENGTH} characters", example)
    if not text:
        raise at.faulty(raw, "matches no device", example)
    if not letters:
        raise at.faulty(raw, "allows every device, so no overlap would ever be found", example)
    return text


def _refuse_ipv6(text: str, raw: object, at: Spot) -> None:
    try:
        IPv6Address(text)
    except AddressValueError:
        return
    raise at.faulty(raw, "is IPv6, but only IPv4 is supported here", "remove it")
