"""The rule of each single value, one reader each; what several values say together belongs to settings."""

from __future__ import annotations

from enum import StrEnum
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
"""Devices that lead to this node's pods and services, or through the cluster's tunnel to other nodes' pods.

No name of a network card is among them. Nor is docker0: no cluster network ends there, and its 172.17.0.0/16
can take a part of a cluster's 172.16.0.0/12 away just as InfiniBand's route does.
"""

_PREFIX_LENGTHS = {str(length): length for length in range(33)}
_NAME_LENGTH = 15  # IFNAMSIZ without its closing zero
_NAME_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")

# Whoever takes a number that is in use would have other programs' routes taken for ours, and removed.
_PROTOCOLS_IN_USE = (
    (0, 0, "0 is no protocol, and every route has it that names none"),
    (1, 1, "the kernel gives it to routes learned from ICMP redirects"),
    (2, 2, "the kernel gives it to the connected routes of every interface"),
    (3, 3, "it is on every route that is typed by hand"),
    (4, 4, "network managers give it to an administrator's static routes"),
    (8, 16, "routing daemons and DHCP clients have it"),
    (17, 17, "kube-router has it"),
    (18, 18, "keepalived has it"),
    (42, 42, "babel has it"),
    (66, 66, "some cloud images have it"),
    (80, 80, "Calico has it"),
    (99, 99, "openr has it"),
    (186, 198, "FRRouting and its kin have it"),
)


E = TypeVar("E", bound=StrEnum)


class Mode(StrEnum):
    """What an overlap does: WARN logs and passes, STRICT fails and keeps the machine from starting."""

    WARN = "WARN"
    STRICT = "STRICT"


def switch(raw: object, at: Spot) -> bool:
    """True or false, and nothing that could be taken for it."""
    if isinstance(raw, bool):
        return raw
    raise at.faulty(raw, "where true or false belongs", "write true or false, without quotes")


def destination(raw: object, at: Spot) -> IPv4Network:
    """The network that a static route leads to: exactly `a.b.c.d/len`, and one that may be routed."""
    address, length = _address_and_length(raw, at)
    network = raw if type(raw) is IPv4Network else IPv4Network((address, length), strict=False)
    if network.network_address != address:
        remedy = f'write "{network}", or "{address}/32" for that one address'
        raise at.faulty(raw, f"has host bits set: the network meant is {network}", remedy)
    if length == 0:
        remedy = "name the networks that need a route of their own"
        raise at.faulty(raw, "is the default route, which stays the host's own", remedy)
    taken = reserved_for(address)
    # A wide prefix that begins in a reserved range may hold ordinary networks too.
    if taken and is_reserved(4, int(address), int(network.broadcast_address)):
        raise at.faulty(raw, f"lies in {taken}, where no static route leads", "remove this route")
    return network


def cidrs(raw: object, at: Spot) -> tuple[IPv4Network, ...]:
    """Expected CIDRs in their order, host bits masked; one that is the same after masking is dropped."""
    return items_read(raw, at, _cidr)


def gateway(raw: object, at: Spot) -> IPv4Address | None:
    """A neighbour's unicast address; empty is the default gateway."""
    if raw == "":
        return None
    remedy = 'write "a.b.c.d", or leave it out for the default gateway'
    address = raw if type(raw) is IPv4Address else _address(text_of(raw, at, remedy))
    if address is None:
        text = str(raw)
        _refuse_ipv6(text, raw, at)
        rule = "has a prefix length, and a gateway is one address" if "/" in text else "is not an IPv4 address"
        raise at.faulty(raw, rule, remedy)
    taken = reserved_for(address)
    if taken:
        remedy = "write the address of a router next to this host, or leave it out for the default gateway"
        raise at.faulty(raw, f"lies in {taken}, where no router is", remedy)
    return address


def dev(raw: object, at: Spot) -> str | None:
    """A network interface's name; empty is the device of the default route."""
    return None if raw == "" else device_name(raw, at)


def device_name(raw: object, at: Spot) -> str:
    """A network interface's name, and never an empty one."""
    text = text_of(raw, at, 'write the name of a network interface, such as "eth0"')
    remedy = "write the name as `ip link` shows it"
    if not _NAME_LETTERS.issuperset(text):
        raise at.faulty(raw, "is no device name: only letters, digits, '_', '.' and '-' may be in one", remedy)
    if not 1 <= len(text) <= _NAME_LENGTH:
        raise at.faulty(raw, f"is no device name: one has 1 to {_NAME_LENGTH} characters", remedy)
    if text in {".", ".."}:
        raise at.faulty(raw, "is no device name: the kernel keeps it for directories", remedy)
    return text


def devs(raw: object, at: Spot) -> tuple[str, ...]:
    """Names of network interfaces in their order, each once."""
    return items_read(raw, at, device_name)


def globs(raw: object, at: Spot) -> tuple[str, ...]:
    """Patterns for names of network interfaces in their order, each once."""
    return items_read(raw, at, _glob)


def metric(raw: object, at: Spot) -> int:
    """A route's priority: an unsigned 32-bit integer, of which the lowest wins."""
    highest = 2**32 - 1
    remedy = f"write an integer from 0 to {highest}, without quotes or decimal point"
    return integer(raw, at, highest, remedy)


def protocol(raw: object, at: Spot) -> int:
    """The route protocol number that marks our routes, and nobody else's."""
    remedy = f"write an integer from 200 to 254, where no other program is known, such as {OURS}"
    number = integer(raw, at, 255, remedy)
    for first, last, owner in _PROTOCOLS_IN_USE:
        if first <= number <= last:
            raise at.faulty(raw, f"cannot mark routes as ours: {owner}", remedy)
    return number


def mode(raw: object, at: Spot) -> Mode:
    """WARN or STRICT in any case; empty is WARN."""
    text = text_of(raw, at, 'write "WARN" or "STRICT"')
    if text == "":
        return Mode.WARN
    # Beyond ASCII there are letters that only become these when they are raised to upper case.
    if text.isascii() and text.upper() in Mode.__members__:
        return Mode[text.upper()]
    raise at.faulty(raw, "is not a mode", 'write "WARN" to log overlaps, "STRICT" to refuse to start, or "" for WARN')


def one_of(kind: type[E], what: str) -> Callable[[object, Spot], E]:
    """The reader of a word out of a few."""
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
    """An integer from the lowest to the highest; the remedy tells them."""
    if isinstance(raw, bool) or not isinstance(raw, int):
        raise at.faulty(raw, "where an integer belongs", remedy)
    if not lowest <= raw <= highest:
        raise at.faulty(raw, "is out of range", remedy)
    return int(raw)


def text_of(raw: object, at: Spot, remedy: str) -> str:
    """Text; an address or a network that is made already stands for its text."""
    if isinstance(raw, str):
        return str(raw)
    # What Python code passes ready-made is held to the rules of what is written in a file.
    if isinstance(raw, IPv4Address | IPv4Network | IPv6Address | IPv6Network):
        return str(raw)
    raise at.faulty(raw, "where text belongs", remedy)


def _address_and_length(raw: object, at: Spot) -> tuple[IPv4Address, int]:
    if type(raw) is IPv4Network:
        return raw.network_address, raw.prefixlen
    text = text_of(raw, at, 'write it as "a.b.c.d/len"')
    host, slash, suffix = text.partition("/")
    address, length = _address(host), _PREFIX_LENGTHS.get(suffix)
    if address is not None and length is not None:
        return address, length
    if address is not None and not slash:
        remedy = f'write "{address}/32" for that one address, or its network, such as "{_network_around(address)}"'
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
    """The network that an address without a length seems to be: that of its bytes up to the last that is not zero."""
    zeros = len(address.packed) - len(address.packed.rstrip(b"\0"))
    return IPv4Network((address, min(32 - 8 * zeros, 24)), strict=False)


def _network_meant(text: str) -> IPv4Network | None:
    """What a looser reader would make of the text: a netmask, a length with zeros, blanks around it."""
    try:
        return IPv4Network(text.strip(), strict=False)
    except ValueError:
        return None


def _cidr(raw: object, at: Spot) -> IPv4Network:
    return IPv4Network(_address_and_length(raw, at), strict=False)


def _glob(raw: object, at: Spot) -> str:
    # No more than * and ?, which mean the same to Python and to the shell that checks at boot.
    example = 'write one such as "cali*"'
    text = text_of(raw, at, example)
    letters = text.replace("*", "").replace("?", "")
    if not _NAME_LETTERS.issuperset(letters):
        rule = "is no device pattern: only letters, digits, '_', '.', '-', '*' and '?' may be in one"
        raise at.faulty(raw, rule, example)
    if len(text.replace("*", "")) > _NAME_LENGTH:
        raise at.faulty(raw, f"matches no device: a name has at most {_NAME_LENGTH} characters", example)
    if not text:
        raise at.faulty(raw, "matches no device", example)
    if not letters:
        raise at.faulty(raw, "allows any device, so that no overlap would be found", example)
    return text


def _refuse_ipv6(text: str, raw: object, at: Spot) -> None:
    try:
        IPv6Address(text)
    except AddressValueError:
        return
    raise at.faulty(raw, "is IPv6, and only IPv4 is routed and checked here", "remove it")
