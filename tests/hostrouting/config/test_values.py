"""Single values: the allowed values, and the exact message for each fault."""

from __future__ import annotations

import json
import re
import socket
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.config import (
    DEFAULT_ALLOWED_DEVS,
    HostRoutingConfig,
    Mode,
    RouteOverlapConfig,
    StaticRoute,
)
from hostrouting.config.values import Word
from hostrouting.errors import ConfigError
from hostrouting.testing.config_strategies import near_texts

METRICS = "write an integer from 0 to 4294967295, without quotes or decimal point"
NETWORK = 'write an address, a slash and a length, such as "10.0.0.0/8" or "fd00::/8"'
NULL = "null is not a value; leave out the key, or give it a value"
LEADS = ", which cannot have a static route; remove this route"
ADDRESS = 'write an address such as "10.0.0.1" or "fe80::1", or leave it out for the default gateway'
ROUTER = "write the address of a router next to this host, or leave it out for the default gateway"
LOOK = "write the name as `ip link` shows it, without '@' and what follows"
ITS_NETWORK = "or its network, such as"
LETTERS = f"is not a device name: use only letters, digits, '_', '.' and '-'; {LOOK}"
OURS = "write an integer from 200 to 254, which no known program uses, such as 213"


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


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            "172.16.5.4/16",
            (
                '"172.16.5.4/16" has host bits set: the network meant is 172.16.0.0/16; '
                'write "172.16.0.0/16", or "172.16.5.4/32" for that one address'
            ),
        ),
        (
            "10.0.0.1",
            f'"10.0.0.1" has no prefix length; write "10.0.0.1/32" for that one address, {ITS_NETWORK} "10.0.0.0/24"',
        ),
        ("10.0.0.0/255.0.0.0", '"10.0.0.0/255.0.0.0" is not written as address/length; write "10.0.0.0/8"'),
        ("10.0.0.0/08", '"10.0.0.0/08" is not written as address/length; write "10.0.0.0/8"'),
        (" 10.0.0.0/8\n", r'" 10.0.0.0/8\n" is not written as address/length; write "10.0.0.0/8"'),
        ("010.0.0.0/8", f'"010.0.0.0/8" is not a network; {NETWORK}'),
        ("10.0.0.0/33", f'"10.0.0.0/33" is not a network: the length must be from 0 to 32; {NETWORK}'),
        ("fd00::/129", f'"fd00::/129" is not a network: the length must be from 0 to 128; {NETWORK}'),
        ("fd00::/", f'"fd00::/" is not a network: the length must be from 0 to 128; {NETWORK}'),
        ("10/8", f'"10/8" is not a network; {NETWORK}'),
        ("10.0.0.0/\u0668", rf'"10.0.0.0/\u0668" is not a network: the length must be from 0 to 32; {NETWORK}'),
        ("10.0.0.0:80", f'"10.0.0.0:80" is not a network; {NETWORK}'),
        ("", f'"" is not a network; {NETWORK}'),
        ("$(reboot)/8", f'"$(reboot)/8" is not a network; {NETWORK}'),
        ("9" * 90, f'"{"9" * 60}"... (90 characters) is not a network; {NETWORK}'),
        ("fd00::/010", '"fd00::/010" is not written as address/length; write "fd00::/10"'),
        ("fd00::x/8", f'"fd00::x/8" is not a network; {NETWORK}'),
        ("fe80::1%eth0/64", '"fe80::1%eth0/64" has a zone, but the device is a separate setting; write "fe80::1"'),
        (
            "fd00::1/64",
            (
                '"fd00::1/64" has host bits set: the network meant is fd00::/64; '
                'write "fd00::/64", or "fd00::1/128" for that one address'
            ),
        ),
        (
            "fd00::1:0:0:9",
            (
                f'"fd00::1:0:0:9" has no prefix length; write "fd00::1:0:0:9/128" for that one address, {ITS_NETWORK} '
                '"fd00::/64"'
            ),
        ),
        (
            IPv6Network("::/0"),
            '"::/0" is the default route, which cannot be a static route here; list the networks that need one',
        ),
        ("::1/128", f'"::1/128" lies in ::/127 (the host itself){LEADS}'),
        ("fe80::/64", f'"fe80::/64" lies in fe80::/10 (the addresses of each single link){LEADS}'),
        ("ff02::/16", f'"ff02::/16" lies in ff00::/8 (multicast){LEADS}'),
        (
            "0.0.0.0/0",
            ('"0.0.0.0/0" is the default route, which cannot be a static route here; list the networks that need one'),
        ),
        ("0.1.0.0/16", f'"0.1.0.0/16" lies in 0.0.0.0/8 ("this network"){LEADS}'),
        ("127.0.0.0/8", f'"127.0.0.0/8" lies in 127.0.0.0/8 (the host itself){LEADS}'),
        (IPv4Network("127.0.0.0/9"), f'"127.0.0.0/9" lies in 127.0.0.0/8 (the host itself){LEADS}'),
        ("224.0.0.0/3", f'"224.0.0.0/3" lies in 224.0.0.0/4 (multicast){LEADS}'),
        ("255.255.255.255/32", f'"255.255.255.255/32" lies in 240.0.0.0/4 (reserved){LEADS}'),
        (5, f"5 is not a string; {NETWORK}"),
        (["10.0.0.0/8"], f"a list is not a string; {NETWORK}"),
        (b"10.0.0.0/8", f"bytes is not a string; {NETWORK}"),
        (None, NULL),
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_destination_refused(value: object, said: str) -> None:
    """A destination has a strict form and no reserved range; otherwise the message says what was meant."""
    assert message_of_route(destination=value) == f"destination: {said}"


@pytest.mark.parametrize(
    "text", ["172.16.0.0/17", "10.1.2.3/32", "0.0.0.0/1", "128.0.0.0/1", "126.0.0.0/7", "169.254.169.254/32"]
)
def test_destination_accepted(text: str) -> None:
    """Any other network is a valid destination: single hosts, link-local networks, and the halves of everything."""
    assert StaticRoute(text).destination == IPv4Network(text)


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


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("10.0.0.256", f'"10.0.0.256" is not an address; {ADDRESS}'),
        ("10.0.0.1/24", f'"10.0.0.1/24" has a prefix length, but must be a single address; {ADDRESS}'),
        (
            IPv4Interface("10.0.0.1/25"),
            f'"10.0.0.1/25" has a prefix length, but must be a single address; {ADDRESS}',
        ),
        (
            "fd00::1",
            (
                '"fd00::1" is IPv6, but the destination is IPv4; write an IPv4 address, or leave it out for the '
                "default gateway"
            ),
        ),
        (IPv6Address("::1"), f'"::1" lies in ::/127 (the host itself), which has no routers; {ROUTER}'),
        ("ff02::1", f'"ff02::1" lies in ff00::/8 (multicast), which has no routers; {ROUTER}'),
        ("fe80::1%eth0", '"fe80::1%eth0" has a zone, but the device is a separate setting; write "fe80::1"'),
        (
            IPv4Address(0),
            f'"{IPv4Address(0)}" lies in 0.0.0.0/8 ("this network"), which has no routers; {ROUTER}',
        ),
        ("127.0.0.1", f'"127.0.0.1" lies in 127.0.0.0/8 (the host itself), which has no routers; {ROUTER}'),
        ("224.0.0.5", f'"224.0.0.5" lies in 224.0.0.0/4 (multicast), which has no routers; {ROUTER}'),
        (
            "255.255.255.255",
            f'"255.255.255.255" lies in 240.0.0.0/4 (reserved), which has no routers; {ROUTER}',
        ),
        (1, f"1 is not a string; {ADDRESS}"),
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_gateway_refused(value: object, said: str) -> None:
    """A gateway is one unicast address, of the destination's family."""
    assert message_of_route(gateway=value) == f"gateway: {said}"


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


@pytest.mark.parametrize("text", ["fd00::/8", "2001:db8::/32", "64:ff9b::/96", "2001:db8::1/128", "::/1", "8000::/1"])
def test_ipv6_destination_accepted(text: str) -> None:
    """Any IPv6 network that is not reserved is a valid destination."""
    assert StaticRoute(text).destination == IPv6Network(text)


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


@pytest.mark.parametrize("value", ["", None])
def test_gateway_automatic(value: str | None) -> None:
    """An empty gateway is the default gateway."""
    assert StaticRoute("10.0.0.0/8", gateway=value).gateway is None


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


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("eth0;reboot", f'"eth0;reboot" {LETTERS}'),
        ("$(reboot)", f'"$(reboot)" {LETTERS}'),
        ("`reboot`", f'"`reboot`" {LETTERS}'),
        ("eth0|x", f'"eth0|x" {LETTERS}'),
        ("eth 0", f'"eth 0" {LETTERS}'),
        ("eth0\n", rf'"eth0\n" {LETTERS}'),
        ("\x1b[2J", rf'"\u001b[2J" {LETTERS}'),
        ("\ud800", rf'"\ud800" {LETTERS}'),
        ("\u0435th0", rf'"\u0435th0" {LETTERS}'),  # a Cyrillic letter that looks like e
        ("a/b", f'"a/b" {LETTERS}'),
        ("eth0:1", f'"eth0:1" {LETTERS}'),
        ("e" * 16, f'"{"e" * 16}" is not a device name: it must have 1 to 15 characters; {LOOK}'),
        (".", f'"." is not a device name: the kernel reserves it; {LOOK}'),
        ("..", f'".." is not a device name: the kernel reserves it; {LOOK}'),
        (7, '7 is not a string; write the name of a device, such as "eth0"'),
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_dev_refused(value: object, said: str) -> None:
    """A device name is valid if the kernel allows it and it has no shell characters."""
    assert message_of_route(dev=value) == f"dev: {said}"


@pytest.mark.parametrize("value", ["eth0", "e", "a.b-c_9", "...", "-", "e" * 15])
def test_dev_accepted(value: str) -> None:
    """Any other name of 1 to 15 characters is valid."""
    assert StaticRoute("10.0.0.0/8", dev=value).dev == value


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
    ("value", "said"),
    [
        (-1, f"-1 is out of range; {METRICS}"),
        (2**32, f"4294967296 is out of range; {METRICS}"),
        (10**4000, f"an integer of 13288 bits is out of range; {METRICS}"),
        (True, f"true is not an integer; {METRICS}"),
        (False, f"false is not an integer; {METRICS}"),
        (100.0, f"100.0 is not an integer; {METRICS}"),
        (float("nan"), f"NaN is not an integer; {METRICS}"),
        (float("-inf"), f"-Infinity is not an integer; {METRICS}"),
        ("100", f'"100" is not an integer; {METRICS}'),
        ({}, f"an object is not an integer; {METRICS}"),
        ({1}, f"a Python set is not an integer; {METRICS}"),
        (None, NULL),
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_metric_refused(value: object, said: str) -> None:
    """A metric is an unsigned 32-bit integer; text, floats and booleans are refused."""
    assert message_of_route(metric=value) == f"metric: {said}"


@pytest.mark.parametrize("value", [0, 1, 2**32 - 1])
def test_metric_accepted(value: int) -> None:
    """Both ends of the range are valid."""
    assert StaticRoute("10.0.0.0/8", metric=value).metric == value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0 cannot mark our routes: 0 means that a route has no protocol"),
        (1, "1 cannot mark our routes: the kernel gives it to routes learned from ICMP redirects"),
        (2, "2 cannot mark our routes: the kernel gives it to the connected routes of every interface"),
        (3, "3 cannot mark our routes: every route added by hand has it"),
        (16, "16 cannot mark our routes: routing daemons and DHCP clients use it"),
        (80, "80 cannot mark our routes: Calico uses it"),
        (256, "256 is out of range"),
        (-1, "-1 is out of range"),
        (True, "true is not an integer"),
        ("213", '"213" is not an integer'),
    ],
)
def test_protocol_refused(value: Any, said: str) -> None:
    """A protocol number of another program is refused: its routes would be deleted as ours."""
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig(protocol=value)
    assert str(caught.value) == f"protocol: {said}; {OURS}"


def test_protocols_left_for_us() -> None:
    """Every number that neither the kernel nor a known program uses is valid."""
    known = {*range(5), *range(8, 19), 42, 66, 80, 99, *range(186, 199)}
    refused = set()
    for number in range(256):
        try:
            assert HostRoutingConfig(protocol=number).protocol == number
        except ConfigError:
            refused.add(number)
    assert refused == known


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


@pytest.mark.parametrize(
    ("value", "shown"),
    [("LOUD", '"LOUD"'), (" WARN", '" WARN"'), ("off", '"off"'), ("\u017ftrict", r'"\u017ftrict"')],
)
def test_mode_refused(value: str, shown: str) -> None:
    """Any other mode is refused with the list of modes, even one that becomes a mode in upper case."""
    assert message_of_overlap(mode=value) == (
        f'mode: {shown} is not a mode; write "WARN" to log overlaps, "STRICT" to keep the machine from starting, or "" for WARN'
    )


def test_mode_that_is_no_text() -> None:
    """A mode is text."""
    assert message_of_overlap(mode=True) == 'mode: true is not a string; write "WARN" or "STRICT"'


def test_expected_cidrs_are_masked_in_order_and_once() -> None:
    """Host bits are masked, the order is kept, and duplicates after masking are dropped."""
    config = RouteOverlapConfig(["172.16.9.9/16", "10.0.0.0/8", "172.16.0.0/16", "172.16.0.0/17"])
    assert [str(network) for network in config.expected_cidrs] == [
        "172.16.0.0/16",
        "10.0.0.0/8",
        "172.16.0.0/17",
    ]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            ["10.0.0.0"],
            f'[0]: "10.0.0.0" has no prefix length; write "10.0.0.0/32" for that one address, {ITS_NETWORK} "10.0.0.0/8"',
        ),
        (
            ["10.0.0.0/8", "fd00::/x"],
            f'[1]: "fd00::/x" is not a network: the length must be from 0 to 128; {NETWORK}',
        ),
        ("10.0.0.0/8", ': "10.0.0.0/8" is not a list; write [...], even around a single item'),
        (5, ": 5 is not a list; write [...], even around a single item"),
        (b"10.0.0.0/8", ": bytes is not a list; write [...], even around a single item"),
        ({}, ": an object is not a list; write [...], even around a single item"),
    ],
)
def test_expected_cidrs_refused(value: object, said: str) -> None:
    """An expected CIDR has the same strict form as a destination, in a list."""
    assert message_of_overlap(expected_cidrs=value) == f"expectedCidrs{said}"


def test_expected_devs() -> None:
    """Expected devices are non-empty names, without duplicates."""
    assert RouteOverlapConfig(expected_devs=["eth1", "eth0", "eth1"]).expected_devs == ("eth1", "eth0")
    assert message_of_overlap(expected_devs=["eth0", ""]) == (
        f'expectedDevs[1]: "" is not a device name: it must have 1 to 15 characters; {LOOK}'
    )


@pytest.mark.parametrize("value", ["cali*", "eth1", "?1", "*x*", "a" * 15 + "*"])
def test_allowed_devs_accepted(value: str) -> None:
    """A pattern is a device name with the wildcards * and ?."""
    assert RouteOverlapConfig(allowed_devs=[value]).allowed_devs == (value,)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("*", "allows every device, so no overlap would ever be found"),
        ("??*", "allows every device, so no overlap would ever be found"),
        ("", "matches no device"),
        ("a" * 16, "matches no device: a name has at most 15 characters"),
        (
            "eth[0-9]",
            "is not a device pattern: use only letters, digits, '_', '.', '-', '*' and '?'",
        ),
    ],
)
def test_allowed_devs_refused(value: str, said: str) -> None:
    """A pattern that matches everything or nothing is refused, and so are other shell characters."""
    message = message_of_overlap(allowed_devs=[value])
    assert message == f'allowedDevs[0]: "{value}" {said}; write a pattern such as "cali*"'


@pytest.mark.parametrize("dev", ["cni0", "cbr0", "cilium_host", "lxc1a2b3c4d5e6f", "veth0a1b2c3d", "cali0123456789a"])
def test_allowed_devs_by_default(dev: str) -> None:
    """A check on a running node does not report the node's own pods as an escape."""
    assert any(fnmatchcase(dev, glob) for glob in RouteOverlapConfig().allowed_devs)


@given(st.sampled_from(["eth", "en", "ib", "bond", "wl", "docker"]), st.text("0123456789abcdefnopsx", max_size=9))
def test_no_network_card_is_allowed_by_default(kind: str, rest: str) -> None:
    """The defaults allow no network card, and in particular no InfiniBand device."""
    assert not [glob for glob in DEFAULT_ALLOWED_DEVS if fnmatchcase(kind + rest, glob)]
