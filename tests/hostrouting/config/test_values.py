"""Single values: the allowed values, and the exact message for each fault."""

import json
import re
import socket
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig, StaticRoute
from hostrouting.config.values import Mode, Word
from hostrouting.errors import ConfigError
from tests.support.config_keys import with_value
from tests.support.config_strategies import near_texts
from tests.tables.refused_values import REFUSED, RIGHT

LOOK = "write the name as `ip link` shows it, without '@' and what follows"


WORDS = [word for kind in Word.__subclasses__() for word in kind]


@pytest.mark.parametrize("word", WORDS, ids=repr)
def test_word_in_text(word: Word) -> None:
    """On every version of Python, a word of the configuration in a text or in JSON is the word itself."""
    text = word.value
    assert (str(word), f"{word}", f"{word:>9}", json.dumps(word)) == (text, text, f"{text:>9}", f'"{text}"')
    assert (word == text, type(word)(text)) == (True, word)
    assert repr(word) == f"<{type(word).__name__}.{word.name}: {text!r}>"


def message_of_route(**fields: Any) -> str:
    """The faults of a route that is valid except for these fields."""
    with pytest.raises(ConfigError) as caught:
        StaticRoute(**({"destination": "10.0.0.0/8"} | fields))
    return str(caught.value)


def message_of_overlap(**fields: Any) -> str:
    """The faults of an overlap section with these fields."""
    with pytest.raises(ConfigError) as caught:
        RouteOverlapConfig(**fields)
    return str(caught.value)


@pytest.mark.parametrize(("key", "value", "said"), REFUSED)
def test_refused(key: str, value: object, said: str) -> None:
    """Each value that breaks its rule is one fault, with its path, the value, the rule and the remedy."""
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_mapping(with_value(key, value, RIGHT))
    told = str(caught.value)
    assert told.startswith(f"{key}{said[:-1]}") if said.endswith("…") else told == f"{key}{said}"


@given(near_texts().filter(lambda text: ":" not in text))
def test_destination_is_what_the_grammar_says(text: str) -> None:
    """An IPv4 destination is valid exactly if it is a.b.c.d/len, without host bits, and not in a reserved range."""
    match = re.fullmatch(r"((?:(?:0|[1-9][0-9]{0,2})(?:\.(?!/)|(?=/))){4})/(0|[1-9]|[12][0-9]|3[0-2])", text)
    right = False
    if match and all(int(octet) <= 255 for octet in match[1].split(".")):
        a, b, c, d = map(int, match[1].split("."))
        number, length = (a << 24) + (b << 16) + (c << 8) + d, int(match[2])
        special = a >= 224 or (length >= 8 and a in {0, 127}) or length == 0
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
    | st.ip_addresses(v=6).map(str)
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
        found = RouteOverlapConfig([f"{text}/128"]).expected_cidrs[0].network_address
    except ConfigError:
        found = None
    assert (None if isinstance(found, IPv4Address) else found) == expected


def test_ipv6_gateway() -> None:
    """A gateway with a link-local address needs a device; any other does not."""
    assert StaticRoute("fd00::/8", "fe80::1", "eth0").gateway == IPv6Address("fe80::1")
    assert StaticRoute("fd00::/8", IPv6Address("2001:db8::1")).dev is None
    assert message_of_route(destination="fd00::/8", gateway="fe80::1") == (
        'gateway: "fe80::1" is link-local, and every link can have this address; '
        "add dev: the device that the router is on"
    )
    assert message_of_route(destination="fd00::/8", gateway="10.0.0.1") == (
        'gateway: "10.0.0.1" is IPv4, but the destination is IPv6; '
        "write an IPv6 address, or leave it out for the default gateway"
    )


@pytest.mark.parametrize("text", ["10.0.0.0", "10.0.0.1", "10.255.255.255"])
def test_gateway_in_its_own_destination(text: str) -> None:
    """A gateway may be inside the destination, as when a cluster's network contains the host's own.

    The first and last address can be routers like any other if the network on the device is larger.
    """
    address = IPv4Address(text)
    assert StaticRoute("10.0.0.0/8", text).gateway == StaticRoute("10.0.0.0/8", address).gateway == address


def test_gateway_that_is_the_destination() -> None:
    """A single address cannot be its own gateway."""
    assert message_of_route(destination="10.0.0.1/32", gateway="10.0.0.1") == (
        'gateway: "10.0.0.1" is the destination itself; write another gateway, or leave it out for the default gateway'
    )


@given(st.text(max_size=17) | st.text("eE0_.-\n/", max_size=17))
def test_dev_is_what_the_pattern_says(text: str) -> None:
    """A device name is accepted exactly if the pattern of the specification matches it."""
    right = bool(re.fullmatch(r"[A-Za-z0-9_.-]{1,15}", text)) and text not in {".", ".."}
    try:
        route = StaticRoute("10.0.0.0/8", dev=text)
    except ConfigError:
        assert text != ""
        assert not right
    else:
        assert route.dev == (text or None)
        assert right or text == ""


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        *[(text, Mode.WARN) for text in ("", "WARN", "warn", "wArN")],
        *[(text, Mode.STRICT) for text in ("STRICT", "strict", "Strict")],
    ],
)
def test_mode_spelling(text: str, meant: Mode) -> None:
    """A mode can be in upper or lower case, and the default is WARN."""
    assert RouteOverlapConfig(mode=text).mode is RouteOverlapConfig(mode=meant).mode is meant


def test_expected_cidrs_are_masked_in_order_and_once() -> None:
    """Host bits are masked, the order is kept, and duplicates after masking are dropped."""
    config = RouteOverlapConfig(["172.16.9.9/16", "10.0.0.0/8", "172.16.0.0/16", "172.16.0.0/17"])
    assert [str(network) for network in config.expected_cidrs] == ["172.16.0.0/16", "10.0.0.0/8", "172.16.0.0/17"]


def test_expected_devs() -> None:
    """Expected devices are non-empty names, without duplicates."""
    assert RouteOverlapConfig(expected_devs=["eth1", "eth0", "eth1"]).expected_devs == ("eth1", "eth0")
    assert message_of_overlap(expected_devs=["eth0", ""]) == (
        f'expectedDevs[1]: "" is not a device name: it must have 1 to 15 characters; {LOOK}'
    )
