"""Concern: which changes matter to an answer. That nothing else does is tried on Linux: tests/hostrouting/tasks/guard."""

from __future__ import annotations

import attrs
import pytest

from hostrouting.kernel.concern import Concern
from hostrouting.model import Address, Link, Prefix, Route, Rule, Snapshot, as_ip

LINKS = ("lo", "eth0", "ib0", "pod0", "bond0", "aside", "of_rule", "cilium_host")
NODE = Snapshot(
    links=tuple(
        Link(name=name, index=number, master="bond0" if name == "eth0" else None)
        for number, name in enumerate(LINKS, 1)
    ),
    addresses=(
        Address(ip=as_ip("172.16.5.4"), length=16, dev="ib0"),
        Address(ip=as_ip("192.0.2.9"), length=24, dev="aside"),
    ),
    rules=(
        Rule(family=4, priority=10, table=100, src=Prefix.parse("203.0.113.0/24")),
        Rule(family=4, priority=20, table=100, iif="of_rule"),
        Rule(family=4, priority=30, table=254, dst=Prefix.parse("0.0.0.0/0")),
    ),
    routes=[
        attrs.evolve(Route.to("0.0.0.0/0", gateway="10.0.0.1", dev="eth0"), prefsrc=as_ip("198.51.100.4")),
        Route.to("172.16.0.0/12", type="blackhole"),
        attrs.evolve(Route.to("172.16.9.0/24", gateway="10.0.7.1", dev="eth0"), table=77),
        Route.to("20.0.0.0/8", gateway="10.0.8.1", dev="pod0"),
        attrs.evolve(Route.to("::/0", gateway="fe80::1", dev="eth0"), expires=90),
        attrs.evolve(Route.to("fd00:9::/48", dev="eth0"), expires=40),
        attrs.evolve(Route.to("2001:db8::/48", dev="eth0"), expires=10),
        attrs.evolve(Route.to("fd00:9::/64", dev="eth0"), expires=-1),
    ],
)
CONCERN = Concern.of(
    NODE, [Prefix.parse("172.16.0.0/16"), Prefix.parse("fd00:9::/32")], names=("cilium_*", "later"), protocol=213
)


@pytest.mark.parametrize(
    ("prefix", "matters"),
    [
        ("172.16.0.0/16", True),
        ("172.16.255.255/32", True),
        ("172.0.0.0/8", True),
        ("0.0.0.0/0", True),
        ("172.32.0.0/16", False),
        ("172.15.255.0/24", False),
        ("20.0.0.0/8", False),
        ("fd00:9:ffff::/48", True),
        ("fd00:a::/32", False),
        # what is needed by a route that overlaps
        ("10.0.0.1/32", True),
        ("10.0.0.0/24", True),
        ("fe80::/64", True),
        ("198.51.100.0/24", True),
        ("10.0.7.0/24", False),
        ("10.0.8.0/24", False),
        # what explains a refusal, and what a rule is about
        ("172.20.0.0/24", True),
        ("203.0.113.7/32", True),
    ],
)
def test_routes(prefix: str, *, matters: bool) -> None:
    """A route matters if it overlaps what is asked about, or something that this depends on."""
    asked = Prefix.parse(prefix)
    assert CONCERN.has_route(asked.family, 254, 4, asked.network, asked.length) is matters


@pytest.mark.parametrize(
    ("table", "protocol", "matters"), [(100, 4, True), (77, 4, False), (77, 213, True), (255, 4, True), (253, 4, True)]
)
def test_tables(table: int, protocol: int, *, matters: bool) -> None:
    """A route matters in a table that a rule looks up, and everywhere if it is ours."""
    assert CONCERN.has_route(4, table, protocol, int(as_ip("172.16.1.0")), 24) is matters
    assert CONCERN.has_route(4, table, protocol, int(as_ip("20.1.0.0")), 24) is (protocol == 213)


@pytest.mark.parametrize("name", LINKS)
def test_devices(name: str) -> None:
    """A device counts by a route, an address, a rule, its ports or its name; only the others do not."""
    number, matters = LINKS.index(name) + 1, name not in {"pod0", "aside"}
    assert CONCERN.has_device(number) is matters
    assert CONCERN.has_device(99, name) is matters, "made again, it has another number"
    assert CONCERN.has_address(number, Prefix.parse("20.1.0.0/24")) is matters
    assert CONCERN.has_address(number, Prefix.parse("172.16.1.0/24"))


def test_other_devices() -> None:
    """A device that is waited for counts before it exists; a negative number stands for all devices."""
    assert [CONCERN.has_device(99, name) for name in ("later", "cilium_net", "laterx", "")] == [
        True,
        True,
        False,
        False,
    ]
    assert [CONCERN.has_device(number) for number in (-1, -2, 99)] == [True, True, False]


def test_the_end_of_a_route() -> None:
    """The first of the routes that matter to end counts, and not one that has ended."""
    assert CONCERN.expires == 40
    assert Concern.of(attrs.evolve(NODE, routes=()), [], protocol=213).expires is None


def test_any_table_while_there_are_vrfs() -> None:
    """The rule for VRFs looks up the table of a device, so every table counts."""
    vrf = attrs.evolve(NODE, rules=(*NODE.rules, Rule(family=4, priority=1000, l3mdev=True)))
    found = Concern.of(vrf, [Prefix.parse("172.16.0.0/16")], protocol=213)
    assert found.has_route(4, 77, 4, int(as_ip("172.16.1.0")), 24)
    assert found.has_device(LINKS.index("pod0") + 1) is False
