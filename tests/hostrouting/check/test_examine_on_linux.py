"""hostrouting.check.examine on Linux: what the kernel answers is what its tables say, where it only says it otherwise."""

import os
from collections.abc import Iterable
from contextlib import closing

import pytest

import phases
from hostrouting.check.examine import Examination, examine
from hostrouting.check.report import check_document, remarks
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.fib.engine import Fib
from hostrouting.kernel.base import RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.kernel.netlink import read as reading
from hostrouting.kernel.netlink.watch import Wanted, disturbed
from hostrouting.model.route import OURS, Route
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.uplink import resolve_route
from phases.testing import FakeClock
from tests.support.commands import LINKS, commands_of, furnish
from tests.support.namespace import private_namespace
from tests.support.tasks import config
from tests.tables.topologies import TOPOLOGIES, escapes_of, repair_of

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

LEGS = "nexthop via fd00:99::1 dev eth0 nexthop via fd00:9::1 dev eth1"
CIDRS = tuple(f"fd00:16:{number:x}::/48" for number in range(16))


def examined(*lines: str, cidrs: tuple[str, ...] = CIDRS) -> Examination:
    """The check of a host to which these IPv6 routes and rules were added."""
    with private_namespace() as namespace:
        furnish(namespace, LINKS)
        namespace.batch(["address add fd00:9::4/64 dev eth1 nodad", *lines], family=6)
        with closing(NetlinkBackend(netns=namespace.path)) as backend:
            return examine(phases.Context(clock=FakeClock(), observers=[]), backend, config(cidrs=cidrs), wait=0)


def test_the_legs_of_an_ipv6_route_in_any_order() -> None:
    """Linux lists the legs from the one that it chose for the address; the route is the same. Kills: legs in order."""
    found = examined(f"route add default {LEGS}")
    assert (found.verdict, found.surprises) == ("ok", ())


def test_an_escape_over_several_legs() -> None:
    """So an escape through such a route is one that the tables explain, and a repair closes it."""
    found = examined(
        "route add default via fd00:99::1 dev eth0", f"route add fd00:16::/32 {LEGS}", cidrs=("fd00:16::/32",)
    )
    assert (found.verdict, found.surprises, found.unsafe) == ("overlap", (), ())
    assert found.routes


def test_a_rule_by_an_alternative_name() -> None:
    """Linux does not list for which device it is: that of lo is for the host's own packets.

    Kills: the name is that of no device; a name without a device is an alternative one.
    """
    lines = [
        "link property add dev lo altname loop0",
        "route add default via fd00:99::1 dev eth0",
        "route add fd00:16:5::/64 dev ib0 table 100",
        "rule add pref 9 iif gone lookup 100",
    ]
    assert examined(*lines).verdict == "ok"
    assert examined(*lines, "rule add pref 8 oif loop0 lookup 100").verdict == "undecided"
    found = examined(*lines, "rule add pref 8 iif loop0 lookup 100")
    assert (found.verdict, [escape.devs for escape in found.escapes]) == ("overlap", [("ib0",)])


def test_routes_of_one_object() -> None:
    """Linux may name another route of the same nexthop object, which says nothing about the address that was asked.

    Kills: the answer's anycast route, which would make an escape the host's own address.
    """
    found = examined(
        "route add default via fd00:99::1 dev eth0",
        "nexthop add id 42 dev ib0",
        "route add fd00:16::/48 nhid 42",
        "route add anycast fd99::7/128 nhid 42",
        *["route get fd99::7"] * 8,
        cidrs=("fd00:16::/48",),
    )
    assert (found.verdict, found.surprises) == ("overlap", ())


def test_a_repair_through_a_gateway_on_a_network_of_another_device() -> None:
    """A repair that Linux would refuse is not proposed, and the report names the route. Kills: onlink is accepted."""
    found = examined(
        "route add default via fd00:77::1 dev eth0 onlink", "route add fd00::/16 dev ib0", cidrs=("fd00:16::/64",)
    )
    assert (found.verdict, found.routes) == ("overlap", ())
    (unsafe,) = found.unsafe
    assert (unsafe.reason, unsafe.missing) == ("refused", "via fd00:77::1 dev eth0 onlink")
    assert unsafe.against is not None
    assert unsafe.against.route is not None
    assert str(unsafe.against.route.prefix) == "fd00::/16"


@pytest.mark.parametrize("default", ["nhid 41", "nhid 43"])
def test_a_group_and_a_route_of_one_member(default: str) -> None:
    """Linux names the route by which it has used the next hop before, not the one that decides for the address.

    Kills: the answer, with only the next hop of the default route, or with another one, is the verdict.
    """
    objects = [f"nexthop add id {at} via fe80::1 dev {dev}" for at, dev in ((41, "eth0"), (42, "ib0"))]
    special = "nhid 43" if default == "nhid 41" else "nhid 41"
    cidrs = [f"fd00:16::{number:x}0/124" for number in range(1, 16)]
    with private_namespace() as namespace:
        furnish(namespace, LINKS)
        namespace.sysctl("ipv6/conf/all/forwarding", 1)
        namespace.batch(objects, family=6)
        namespace.batch(["nexthop add id 43 group 41/42"])
        namespace.batch(
            [f"route add {at}" for at in (f"default {default}", *(f"{it} {special}" for it in cidrs))], family=6
        )
        for cpu in os.sched_getaffinity(0):
            for number in range(9):
                namespace.run("taskset", "-c", str(cpu), "ip", "-6", "route", "get", f"2001:db8::{number}")
        asked = HostRoutingConfig(route_overlap={"expectedCidrs": cidrs, "expectedDevs": ["eth0"]})
        with closing(NetlinkBackend(netns=namespace.path)) as backend:
            found = examine(phases.Context(clock=FakeClock(), observers=[]), backend, asked, wait=0)
    escaping = {str(escape.cidr) for escape in found.escapes}
    assert (escaping, found.surprises) == (set(cidrs if special == "nhid 43" else ()), ())


def test_a_next_hop_in_a_group_that_a_rule_suppresses() -> None:
    """What the hash decides is open, and no surprise. Kills: the kernel's answer is that of a plain packet."""
    found = examined(
        "route add default via fd00:99::1 dev eth0",
        f"route add fd00:16::/32 table 100 {LEGS}",  # eth1 is in group 7
        "rule add pref 100 lookup 100 suppress_ifgroup 7",
        "route add fd00:16::/32 dev ib0",
    )
    assert (found.verdict, found.surprises) == ("undecided", ())
    note = next(remarks(found.families[0])).sentence
    assert "packets for which Linux does not choose the next hop via fd00:99::1 dev eth0 leave by ib0" in note


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        ("to fd00:16::/32 ipproto udp blackhole", "overlap"),
        ("not ipproto udp blackhole", "undecided"),
        ("ipproto tcp blackhole", "undecided"),
    ],
)
def test_a_rule_by_protocol(rule: str, verdict: str) -> None:
    """The plain packet is UDP in both families: a rule for UDP decides, one for others leaves it open. Kills: no protocol in IPv6."""
    found = examined("route add default via fd00:99::1 dev eth0", f"rule add pref 100 {rule}")
    assert (found.verdict, found.surprises) == (verdict, ())


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_each_host(name: str) -> None:
    """On each host of the table, made on Linux, check and kernel agree with the table, and the repair works."""
    row = TOPOLOGIES[name]
    with private_namespace() as namespace:
        namespace.batch(commands_of(row.kernel()))
        with closing(NetlinkBackend(netns=namespace.path)) as backend:

            def again() -> Examination:
                return examine(phases.Context(clock=FakeClock(), observers=[]), backend, row.config, wait=0)

            found, before = again(), backend.snapshot(family=4)
            wanted = [resolve_route(route, Fib(before)) for route in found.routes]
            changes = [RouteRequest("delete", it) for it in before.routes if it.protocol == OURS and found.routes]
            changes += [RouteRequest("add", it) for it in wanted if isinstance(it, Route)]
            assert all(outcome.ok for outcome in backend.change(changes))
            repaired = again() if found.routes else found
    document = check_document(found, mode="STRICT")
    assert (document["verdict"], document["expectedDevs"]) == (row.verdict, {"ipv4": list(row.devs)})
    assert (escapes_of(document), repair_of(document)) == (row.escapes, row.repair)
    assert repaired.verdict == (row.verdict if found.unsafe or not row.escapes else "ok")
    assert (found.surprises, repaired.surprises) == ((), ())


@pytest.mark.parametrize(("cidr", "restless"), [("172.16.0.0/16", False), ("20.0.0.0/8", True)])
def test_changes_during_each_reading(monkeypatch: pytest.MonkeyPatch, cidr: str, *, restless: bool) -> None:
    """Routes that come and go elsewhere do not make the verdict undecided. Kills: every change spoils a reading."""
    churn = ("route add 20.1.0.0/16 dev ib0", "route del 20.1.0.0/16 dev ib0")
    with private_namespace() as namespace:
        furnish(namespace, LINKS)
        namespace.batch(["route add default via 10.0.0.1 dev eth0"])

        def listening(heard: Iterable[bytes], wanted: Wanted, found: Snapshot) -> bool:
            namespace.batch(churn)
            return disturbed(heard, wanted, found)

        monkeypatch.setattr(reading, "disturbed", listening)
        with closing(NetlinkBackend(netns=namespace.path)) as backend:
            found = examine(phases.Context(clock=FakeClock(), observers=[]), backend, config(cidrs=(cidr,)), wait=0)
    assert [family.restless for family in found.families] == [restless]
