"""Concern: which changes matter to an answer. That nothing else does is tried on Linux: tests/hostrouting/tasks/guard."""

import attrs
import pytest

from hostrouting.check.examine import concern_of, examine_snapshot
from hostrouting.kernel.concern import Concern
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Address, Link, Snapshot
from tests.support.tasks import config

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
        Rule(family=4, priority=0, table=255),
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
    NODE, [Prefix.parse("172.16.0.0/16"), Prefix.parse("fd00:9::/32")], names=("cilium_*", "later"), protocols={213}
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
        ("198.51.100.0/24", True),
        ("fe80::/64", False),
        ("10.0.7.0/24", False),
        ("10.0.8.0/24", False),
        # what a rule is about
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
    """Of the routes that matter, the one that expires first counts; routes that have expired do not."""
    assert CONCERN.expires == 40
    assert Concern.of(attrs.evolve(NODE, routes=()), [], protocols={213}).expires is None


def test_any_table_while_there_are_vrfs() -> None:
    """The rule for VRFs looks up the table of a device, so every table counts."""
    vrf = attrs.evolve(NODE, rules=(*NODE.rules, Rule(family=4, priority=1000, l3mdev=True)))
    found = Concern.of(vrf, [Prefix.parse("172.16.0.0/16")], protocols={213})
    assert found.has_route(4, 77, 4, int(as_ip("172.16.1.0")), 24)
    assert found.has_device(LINKS.index("pod0") + 1) is False


@pytest.mark.parametrize("is_first", [True, False])
def test_own_addresses_where_another_table_is_looked_up_first(*, is_first: bool) -> None:
    """A route to an address of this host then matters, and so does each new address of the family."""
    local = Rule(family=4, priority=0 if is_first else 50, table=255)
    found = Concern.of(attrs.evolve(NODE, rules=(*NODE.rules[1:], local)), [], protocols={213})
    assert found.has_route(4, 100, 4, int(as_ip("192.0.2.9")), 32) is not is_first
    assert found.has_device(LINKS.index("aside") + 1) is not is_first
    assert found.has_address(99, Prefix.parse("20.1.0.0/24")) is not is_first
    assert not found.has_address(99, Prefix.parse("fd00:a::/64"))


@pytest.mark.parametrize(("source", "matters"), [("fd00:b::/32", False), ("::/1", True)])
def test_the_sources_of_routes(source: str, *, matters: bool) -> None:
    """An address that the route is for matters, and each one if packets without a source yet are among them."""
    route = attrs.evolve(Route.to("::/0", gateway="fe80::1", dev="eth0"), source=Prefix.parse(source))
    aside = Address(ip=as_ip("fd00:d::4"), length=64, dev="aside")
    node = attrs.evolve(NODE, addresses=(aside,), routes=[route])
    found = Concern.of(node, [Prefix.parse("fd00:9::/32")], protocols={213})
    assert found.has_device(LINKS.index("aside") + 1) is matters
    assert found.has_address(99, Prefix.parse("fd00:b::/64"))
    assert found.has_address(99, Prefix.parse("fd00:c::/64")) is matters
    assert not found.has_address(99, Prefix.parse("20.1.0.0/24"))


@pytest.mark.parametrize(
    ("prefix", "loses"),
    [
        ("172.16.0.0/32", True),
        ("172.16.4.0/24", True),
        ("172.0.0.0/12", True),
        ("0.0.0.0/8", True),
        ("172.32.0.0/16", False),
        ("172.15.255.255/32", False),
        ("128.0.0.0/16", True),
        ("192.0.0.0/24", False),
        ("2001:db8::/32", False),
    ],
)
def test_the_place_in_a_list(prefix: str, *, loses: bool) -> None:
    """A route that matters may begin at the same address; without such an IPv6 route, none can be missed."""
    found = Concern.of(Snapshot(), [Prefix.parse("172.16.0.0/13")], protocols={213})
    assert found.loses_place(Prefix.parse(prefix)) is loses
    assert CONCERN.loses_place(Prefix.parse("2001:db8::/32"))


@pytest.mark.parametrize("change", ["route", "address"])
def test_a_verdict_that_depends_on_own_addresses(change: str) -> None:
    """Where another table is looked up before table local, a change that ends the delivery to an own address matters."""
    here = Address(ip=as_ip("10.0.0.4"), length=24, dev="eth0")
    new = Address(ip=as_ip("198.51.100.4"), length=24, dev="pod0")
    default, behind = Route.to("0.0.0.0/0", gateway="10.0.0.1", dev="eth0"), Rule(family=4, priority=0, table=100)
    local = [attrs.evolve(Route.to(Prefix.of(one.ip), dev=one.dev, type="local"), table=255) for one in (here, new)]
    aside = [attrs.evolve(Route.to(prefix, dev="ib0"), table=100) for prefix in ("198.51.100.0/24", "10.0.0.4/32")]
    rules = (behind, Rule(family=4, priority=1, table=255), Rule(family=4, priority=2, table=254))
    links = tuple(attrs.evolve(link, up=True, master=None) for link in NODE.links)
    before = Snapshot(links=links, addresses=(here,), rules=rules, routes=[default, local[0], aside[0]])
    after = attrs.evolve(before, routes=[*before.routes, aside[1]])
    if change == "address":
        after = attrs.evolve(before, addresses=(here, new), routes=[*before.routes, local[1]])
    asked = config(cidrs=("172.16.0.0/16",))
    assert [examine_snapshot(node, asked).verdict for node in (before, after)] == ["ok", "undecided"]
    concern = concern_of(before, asked)
    if change == "address":
        assert concern.has_address(LINKS.index("pod0") + 1, new.network)
    else:
        assert concern.has_route(4, 100, 4, aside[1].prefix.network, 32)
