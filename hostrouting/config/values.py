"""The type of each single value of a configuration, with its rules. Not here: which setting has which type."""

from enum import Enum
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Annotated, TypeAlias

from hostrouting.model.prefix import LINK_LOCAL, Prefix, as_ip, is_reserved
from hostrouting.model.reader import must

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

MACHINES = "systemd-nspawn@.service"
"""The template of the machines that systemd-nspawn runs."""

_ALPHANUMERIC = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_NAME_LETTERS = frozenset(f"{_ALPHANUMERIC}_.-")
_NAME_LENGTH = 15  # IFNAMSIZ without its closing zero
_RULE_LETTERS = frozenset(f"{_ALPHANUMERIC}_.-/: ")
_UNIT_LETTERS = frozenset(f"{_ALPHANUMERIC}:_.\\-@")
_LONGEST_UNIT = 255 - len("00.d")  # of a file name, for the folder of its drop-ins
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_WIDEST = {4: 8, 6: 32}  # networks of pods

# Units that cannot wait for the gate; of the early ones, how their names begin.
_OWN = ("static-routes.service", "check-route-overlap.service", "probe-rewrite.service", "hostrouting-guard.service")
_EARLY = (
    *("systemd-", "dbus", "NetworkManager", "networking.", "network.", "netplan", "ifup", "dhcpcd", "dhclient"),
    *("wpa_supplicant", "cloud-init", "openibd.", "nftables"),
)


class Mode(str, Enum):
    """What to do about an overlap: WARN logs it and passes; STRICT fails and keeps the gated unit from starting."""

    WARN = "WARN"
    STRICT = "STRICT"

    __str__ = str.__str__  # the word itself, as with StrEnum of Python 3.11

    @classmethod
    def _missing_(cls, value: object) -> "Mode":
        """In upper or lower case; empty is as good as absent."""
        for mode in cls:
            if mode.lower() == str(value or "WARN").lower():
                return mode
        raise ValueError(f"is not one of {', '.join(cls)}")


@lru_cache(64)
def _parsed(text: str) -> tuple[Address, Network]:
    host, _, length = text.partition("/")
    address = as_ip(host)
    if "/" not in text:
        return address, Prefix.of(address).to_network()
    network = Prefix.around(address.version, int(address), int(length)).to_network()
    if str(network.prefixlen) != length:  # Python also reads 08, and digits of other alphabets
        raise ValueError(length)
    return address, network


def _network(text: str, *, has_length: bool = True, is_exact: bool = False) -> Network:
    """A network; its host bits are masked, or refused if it has to be exact. One address may do without a length."""
    try:
        address, network = _parsed(text)
    except ValueError:
        raise ValueError("is not a network", 'write an address, a slash and a length: "10.0.0.0/8"') from None
    if has_length and "/" not in text:
        raise ValueError("has no prefix length", f'write "{network}" for that one address')
    if is_exact and network.network_address != address:
        raise ValueError("has host bits set", f'write "{network}", or "{Prefix.of(address)}" for that one address')
    return network


_network_or_address = partial(_network, has_length=False, is_exact=True)


def _is_ordinary(network: Network) -> bool:
    return not is_reserved(network.version, int(network.network_address), int(network.broadcast_address))


def _can_route(address: Address) -> bool:
    return address in LINK_LOCAL or not is_reserved(address.version, int(address), int(address))


def _is_device(name: str) -> bool:
    return 1 <= len(name) <= _NAME_LENGTH and _NAME_LETTERS.issuperset(name) and name not in {".", ".."}


def _bare(pattern: str) -> str:
    return pattern.replace("*", "").replace("?", "")


def _is_pattern(text: str) -> bool:
    # Only * and ?, which mean the same in Python and in the shell of the boot check.
    return 1 <= len(text.replace("*", "") or text) <= _NAME_LENGTH and _NAME_LETTERS.issuperset(_bare(text))


def _is_service(unit: str) -> bool:
    name = unit.removesuffix(".service")
    is_named = name[:1] not in {"", "@"} and _UNIT_LETTERS.issuperset(name) and len(unit) <= _LONGEST_UNIT
    return is_named and unit.endswith(".service")


def _can_wait(unit: str) -> bool:
    return unit not in _OWN and (unit.partition("@")[0] == "systemd-nspawn" or not unit.startswith(_EARLY))


def _is_selection(text: str) -> bool:
    return _RULE_LETTERS.issuperset(text) and len(text.split()) > 1


def _is_line(text: str) -> bool:
    return bool(text.strip()) and len(text) <= 200 and text.isprintable()


Masked: TypeAlias = Annotated[Network, _network]
Destination: TypeAlias = Annotated[
    Network,
    partial(_network, is_exact=True),
    must(lambda network: network.prefixlen > 0, "is the default route", "list the networks that need a static route"),
    must(_is_ordinary, "lies in a reserved range, which cannot have a static route"),
]
Exact: TypeAlias = Annotated[Network, _network_or_address]
Pods: TypeAlias = Annotated[
    Network,
    _network_or_address,
    must(lambda network: network.prefixlen >= _WIDEST[network.version], "is too wide for a network of pods"),
]
Router: TypeAlias = Annotated[Address, must(_can_route, "lies in a reserved range, which has no routers")]
ProbeSource: TypeAlias = Annotated[IPv6Address, must(lambda address: address in LINK_LOCAL, f"is not in {LINK_LOCAL}")]
Global: TypeAlias = Annotated[
    IPv6Address, must(lambda address: address in _GLOBAL_UNICAST, f"is not in {_GLOBAL_UNICAST}")
]

_DEVICE = must(_is_device, f"is not a device name: 1 to {_NAME_LENGTH} letters, digits, '_', '.' and '-'")
Device: TypeAlias = Annotated[str, _DEVICE]
Uplink: TypeAlias = Annotated[
    str, _DEVICE, must(lambda name: name != "lo", "is the loopback device, where no probe arrives")
]
Pattern: TypeAlias = Annotated[
    str,
    must(_is_pattern, "is not a device pattern", 'write one such as "cali*"'),
    must(_bare, "allows every device, so no overlap would ever be found"),
]
Unit: TypeAlias = Annotated[
    str,
    must(_is_service, "is not the name of a service", f'write one such as "kubelet.service" or "{MACHINES}"'),
    must(_can_wait, "is needed for the network, or by the gate itself: each would wait for the other"),
]
Selection: TypeAlias = Annotated[
    str, must(_is_selection, "is not a list of selectors", 'write it as "ip rule" does, such as "fwmark 0x1/0xff"')
]
Line: TypeAlias = Annotated[str, must(_is_line, "is not one line of 1 to 200 characters")]
