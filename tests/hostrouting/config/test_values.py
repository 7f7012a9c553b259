"""Single values of a configuration: which are refused, and how the others are read."""

import copy
import json
import re
import socket
from ipaddress import IPv4Address, IPv4Interface, IPv6Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.config.settings import HostRoutingConfig, Mode, RouteOverlapConfig, StaticRoute
from hostrouting.errors import ConfigError
from tests.support.config_strategies import near_texts

RIGHT: dict[str, Any] = {
    "staticRoutes": {"enabled": True, "routes": [{"destination": "10.1.0.0/16"}]},
    "routeOverlap": {
        "expectedCidrs": ["10.0.0.0/8"],
        "serviceCidrs": ["10.0.0.0/8"],
        "podCidrs": ["10.0.0.0/8"],
        "expectedDevs": ["eth0"],
        "allowedDevs": ["wg*"],
        "intendedRules": [{"rule": "fwmark 0x1", "reason": "x" * 200}],
    },
    "probeRewrite": {"enabled": True, "interfaces": ["eth0"]},
    "azureVnetCleanup": {"managed": ["10.0.0.0/8", "fd00::/32"], "protect": ["10.0.0.1"], "uplinks": ["eth0"]},
    "guard": {},
    "gate": {"units": ["kubelet.service"]},
}
ROUTE, CHECK = "staticRoutes.routes[0].", "routeOverlap."
# Where a value is put; how its fault begins after the path and the value; and the values, as JSON.
TABLE = r"""
staticRoutes.routes[0].dev | is not a device name: 1 to 15 letters, digits, '_', '.' and '-' | ["eth0;reboot", "$(reboot)", "`id`", "a|b", "eth 0", "eth0\n", "\u001b[2J", "\u0435th0", "a/b", ".", "..", "eeeeeeeeeeeeeeee"]
staticRoutes.routes[0].dev | is not a text of up to | ["\ud800"]
staticRoutes.routes[0].metric | is not an integer from 0 to 4294967295 | [-1, 4294967296, 2037035976334486086268445688409378161051468393665936250636140449354381299763336706183397376, true, 1.0, NaN, "1", {}]
staticRoutes.routes[0].destination | is not a network; write an address, a slash and a length | ["10/8", "010.0.0.0/8", "10.0.0.0/33", "10.0.0.0/08", "10.0.0.0/255.0.0.0", " 10.0.0.0/8", "fd00::/", "10.0.0.0/\u0668", "fe80::1%eth0/64", "$(reboot)/8"]
staticRoutes.routes[0].destination | has no prefix length; write "10.0.0.1/32" for that one address | ["10.0.0.1"]
staticRoutes.routes[0].destination | has host bits set; write "172.16.0.0/16", or "172.16.5.4/32" for that one address | ["172.16.5.4/16"]
staticRoutes.routes[0].destination | is the default route; list the networks | ["0.0.0.0/0", "::/0"]
staticRoutes.routes[0].destination | lies in a reserved range | ["127.0.0.0/8", "224.0.0.0/3", "255.255.255.255/32", "fe80::/64"]
staticRoutes.routes[0].destination | is not a text | [5, ["10.0.0.0/8"]]
staticRoutes.routes[0].gateway | is not an address | ["10.0.0.256", "10.0.0.1/24", "fe80::1%eth0"]
staticRoutes.routes[0].gateway | lies in a reserved range, which has no routers | ["::1", "ff02::1", "127.0.0.1", "224.0.0.5"]
staticRoutes.routes[0].gateway | is IPv6, and the destination is not | ["fd00::1"]
routeOverlap.expectedCidrs | is not a list; write [...] | ["10.0.0.0/8", 5, {}]
routeOverlap.expectedCidrs[0] | has no prefix length | ["10.0.0.0"]
routeOverlap.serviceCidrs[0] | is not a network; write an address, a slash and a length | ["x", ""]
routeOverlap.podCidrs[0] | has no prefix length | ["10.0.0.0"]
routeOverlap.expectedDevs[0] | is not a device name: 1 to 15 letters, digits, '_', '.' and '-' | ["eth 0", ""]
routeOverlap.allowedDevs[0] | allows every device | ["*", "??*"]
routeOverlap.allowedDevs[0] | is not a device pattern; write one such as | ["", "aaaaaaaaaaaaaaaa", "eth[0-9]", "wg* wireguard"]
routeOverlap.mode | is not one of WARN, STRICT | ["LOUD", " WARN", "\u017ftrict"]
routeOverlap.mode | is not a text | [true]
routeOverlap.intendedRules[0].rule | is not a list of selectors; write it as | ["fwmark", "iif $(id)"]
routeOverlap.intendedRules[0].reason | is not one line of 1 to 200 characters | ["a\nb", "", " "]
manageForeign | is not one of leave, keep | ["no"]
gate.units | is empty: no unit would wait | [[]]
gate.units[0] | is not the name of a service; write one | ["a.socket", "a/b.service", "@.service", "a*.service", "a", "%n.service"]
gate.units[0] | is needed for the network, or by the gate | ["hostrouting-guard.service", "systemd-networkd.service", "nftables.service", "NetworkManager.service"]
guard.enabled | is not true or false | [1, "yes"]
probeRewrite.interfaces[0] | is the loopback device | ["lo"]
probeRewrite.linkLocal | is not in fe80::/10 | ["fec0::1", "169.254.0.1"]
probeRewrite.globalAddress | is not in 2000::/3 | ["fe80::1", "fd00::1", "::ffff:10.0.0.1"]
probeRewrite.ensureRoute | is not true or false | ["no"]
azureVnetCleanup.managed | is empty, so nothing would be deleted | [[]]
azureVnetCleanup.managed[0] | has host bits set; write "172.16.0.0/16", or "172.16.5.4/32" for that one address | ["172.16.5.4/16"]
azureVnetCleanup.managed[0] | is too wide for a network of pods | ["10.0.0.0/7", "fd00::/31"]
azureVnetCleanup.protect[0] | is not a network; write an address, a slash and a length | ["x"]
azureVnetCleanup.uplinks[0] | is not a device name: 1 to 15 letters, digits, '_', '.' and '-' | ["eth 0"]
azureVnetCleanup.dryRun | is not true or false | [0]
"""
ROWS: list[tuple[str, str, list[Any]]] = [
    (key, rule, json.loads(values)) for key, rule, values in (row.split(" | ") for row in TABLE.strip().splitlines())
]
ROWS += [
    (ROUTE + "dev", "is not a text of up to 255", ["e" * 256]),
    (CHECK + "intendedRules[0].reason", "is not one line of 1 to 200 characters", ["x" * 201]),
    ("gate.units[0]", "is not the name of a service", [f"{'k' * 246}.service"]),
    (ROUTE + "metric", "is not an integer", [{1}]),
    (ROUTE + "destination", "is not a text", [b"10.0.0.0/8"]),
    (ROUTE + "gateway", "is not an address", [IPv4Interface("10.0.0.1/25")]),
    (CHECK + "expectedCidrs", "is not a list; write [...]", [b"x"]),
]


def with_value(key: str, value: object) -> dict[str, Any]:
    """The right configuration with another value of this key."""
    document = copy.deepcopy(RIGHT)
    *way, last = [int(step) if step.isdigit() else step for step in key.replace("[0]", ".0").split(".")]
    place: Any = document
    for step in way:
        place = place[step]
    place[last] = value
    return document


@pytest.mark.parametrize(("key", "rule", "values"), ROWS, ids=range(len(ROWS)))
def test_refused(key: str, rule: str, values: list[Any]) -> None:
    """A value that breaks its rule is the only fault, with its path, the value, the rule and perhaps a remedy."""
    HostRoutingConfig.from_mapping(RIGHT)
    for value in values:
        with pytest.raises(ConfigError) as caught:
            HostRoutingConfig.from_mapping(with_value(key, value))
        (fault,) = caught.value.faults
        assert str(fault).startswith(f"{key}: {fault.value} {rule}")
        assert str(fault).isascii()
        assert str(fault).isprintable()


@given(near_texts().filter(lambda text: ":" not in text))
def test_destination_is_what_the_grammar_says(text: str) -> None:
    """An IPv4 destination is valid exactly if it is a.b.c.d/len, without host bits, and not in a reserved range."""
    match = re.fullmatch(r"((?:(?:0|[1-9][0-9]{0,2})(?:\.(?!/)|(?=/))){4})/(0|[1-9]|[12][0-9]|3[0-2])", text)
    right = False
    if match and all(int(octet) <= 255 for octet in match[1].split(".")):
        a, b, c, d = map(int, match[1].split("."))
        number, length = (a << 24) + (b << 16) + (c << 8) + d, int(match[2])
        special = (a >= 224 and length >= 3) or (length >= 8 and a in {0, 127}) or length == 0
        right = number % 2 ** (32 - length) == 0 and not special
    try:
        route = StaticRoute(text)
    except ConfigError:
        assert not right
    else:
        assert right
        assert str(route.destination) == text


@given(
    st.text("0123456789abcdefABF:.%/", max_size=20)
    | st.ip_addresses(v=6).map(lambda address: address.exploded.upper())
    | st.builds("{}:{}".format, st.ip_addresses(v=6).map(str), st.ip_addresses(v=4))
)
def test_ipv6_address_is_what_the_c_library_says(text: str) -> None:
    """An address is IPv6 exactly if the C library reads it, and means the same."""
    try:
        expected = IPv6Address(socket.inet_pton(socket.AF_INET6, text))
    except OSError:
        expected = None
    try:
        address = RouteOverlapConfig([f"{text}/128"]).expected_cidrs[0].network_address
    except ConfigError:
        address = None
    assert (None if isinstance(address, IPv4Address) else address) == expected


@given(st.text(max_size=17) | st.text("eE0_.-\n/", max_size=17))
def test_dev_is_what_the_pattern_says(text: str) -> None:
    """A device name is accepted exactly if the pattern of the specification matches it; empty means none."""
    right = bool(re.fullmatch(r"[A-Za-z0-9_.-]{1,15}", text)) and text not in {".", ".."}
    try:
        route = StaticRoute("10.0.0.0/8", dev=text)
    except ConfigError:
        assert text
        assert not right
    else:
        assert route.dev == (text or None)
        assert right or not text


@pytest.mark.parametrize("text", ["WARN", "warn", "wArN", "STRICT", "strict", "Strict", ""])
def test_mode(text: str) -> None:
    """A mode can be in upper or lower case; empty means the default. In a text, it is the word itself."""
    mode, word = RouteOverlapConfig(mode=text).mode, text.upper() or "WARN"
    assert mode is Mode[word]
    assert (str(mode), f"{mode:>9}", json.dumps(mode)) == (word, f"{word:>9}", f'"{word}"')


def test_lists() -> None:
    """Host bits of expected CIDRs are masked; the order is that of the file."""
    config = RouteOverlapConfig(["172.16.9.9/16", "10.0.0.0/8"], service_cidrs=["10.0.0.1/8", "fd00::/8"])
    assert [*map(str, config.expected_cidrs)] == ["172.16.0.0/16", "10.0.0.0/8"]
    assert [*map(str, config.cidrs)] == ["172.16.0.0/16", "10.0.0.0/8", "fd00::/8"]


def test_link_local_gateway() -> None:
    """A gateway with a link-local address needs a device; any other does not."""
    assert StaticRoute("fd00::/8", "fe80::1", "eth0").gateway == IPv6Address("fe80::1")
    assert StaticRoute("fd00::/8", IPv6Address("2001:db8::1")).dev is None
    with pytest.raises(
        ConfigError, match=r'^gateway: "fe80::1" is link-local, .*; add dev: the device that the router'
    ):
        StaticRoute("fd00::/8", "fe80::1")
