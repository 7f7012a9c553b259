"""The rule for each single value of a configuration. Not here: which setting has it, and rules about several values."""

from enum import Enum
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, TypeAlias

from hostrouting.model.prefix import LINK_LOCAL, Prefix, as_ip, is_reserved
from hostrouting.model.reader import Must, invalid, text_of

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


def masked_network(value: Any, *, has_length: bool = True, is_exact: bool = False) -> Network:
    """A network; its host bits are masked, or refused if it has to be exact. One address may do without a length."""
    try:
        address, network = _parsed(text := text_of(value))
    except ValueError:
        raise invalid(value, "is not a network", 'write an address, a slash and a length: "10.0.0.0/8"') from None
    if has_length and "/" not in text:
        raise invalid(value, "has no prefix length", f'write "{network}" for that one address')
    if is_exact and network.network_address != address:
        raise invalid(value, "has host bits set", f'write "{network}", or "{Prefix.of(address)}" for that one address')
    return network


network = partial(masked_network, is_exact=True)
network_or_address = partial(masked_network, has_length=False, is_exact=True)


def _is_ordinary(network: Network) -> bool:
    return not is_reserved(network.version, int(network.network_address), int(network.broadcast_address))


def _can_route(address: Address) -> bool:
    return address in LINK_LOCAL or not is_reserved(address.version, int(address), int(address))


def _is_device(name: str) -> bool:
    return 1 <= len(name) <= _NAME_LENGTH and _NAME_LETTERS.issuperset(name) and name not in {".", ".."}


def _is_pattern(text: str) -> bool:
    # Only * and ?, which mean the same in Python and in the shell of the boot check.
    return 1 <= len(text.replace("*", "") or text) <= _NAME_LENGTH and _NAME_LETTERS.issuperset(_bare(text))


def _bare(pattern: str) -> str:
    return pattern.replace("*", "").replace("?", "")


def _is_service(unit: str) -> bool:
    name = unit.removesuffix(".service")
    is_named = name[:1] not in {"", "@"} and _UNIT_LETTERS.issuperset(name) and len(unit) <= _LONGEST_UNIT
    return is_named and unit.endswith(".service")


def _can_wait(unit: str) -> bool:
    return unit not in _OWN and (unit.partition("@")[0] == "systemd-nspawn" or not unit.startswith(_EARLY))


def _is_selection(text: str) -> bool:
    return _RULE_LETTERS.issuperset(text) and len(text.split()) > 1


DESTINATION = (
    Must(lambda network: network.prefixlen > 0, "is the default route", "list the networks that need a static route"),
    Must(_is_ordinary, "lies in a reserved range, which cannot have a static route"),
)
ROUTER = (Must(_can_route, "lies in a reserved range, which has no routers"),)
PODS = (Must(lambda network: network.prefixlen >= _WIDEST[network.version], "is too wide for a network of pods"),)
DEVICE = (Must(_is_device, f"is not a device name: 1 to {_NAME_LENGTH} letters, digits, '_', '.' and '-'"),)
UPLINK = (*DEVICE, Must(lambda name: name != "lo", "is the loopback device, where no probe arrives"))
PATTERN = (
    Must(_is_pattern, "is not a device pattern", 'write one such as "cali*"'),
    Must(lambda text: bool(_bare(text)), "allows every device, so no overlap would ever be found"),
)
UNIT = (
    Must(_is_service, "is not the name of a service", f'write one such as "kubelet.service" or "{MACHINES}"'),
    Must(
        _can_wait,
        "is needed for the network, or by the gate itself: each would wait for the other",
        "name the unit that needs the network, such as kubelet.service",
    ),
)
PROBE_SOURCE = (Must(lambda address: address in LINK_LOCAL, f"is not in {LINK_LOCAL}"),)
GLOBAL = (Must(lambda address: address in _GLOBAL_UNICAST, f"is not in {_GLOBAL_UNICAST}"),)
SELECTION = (
    Must(_is_selection, "is not a list of selectors", 'write them as "ip rule" prints them, such as "fwmark 0x1/0xff"'),
)
REASON = (
    Must(
        lambda text: bool(text.strip()) and len(text) <= 200 and text.isprintable(),
        "is not one line of 1 to 200 characters",
    ),
)
