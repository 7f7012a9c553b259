"""hostrouting.check.repair: the fewest routes that close every escape, and what no route can close."""

from itertools import combinations
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostrouting.check.exceptions import PodBlocks
from hostrouting.check.overlap import Judge, OverlapReport, check_overlap
from hostrouting.check.repair import TOO_MANY, Repair, propose_repair
from hostrouting.config.settings import StaticRoute
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import PLAIN
from hostrouting.model.prefix import Prefix, as_ip, ip_at
from hostrouting.model.route import OURS, TABLE_LOCAL, NextHop, Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Link, Snapshot
from tests.support.examples import scaled
from tests.support.strategies import blocks, links, prefixes, routes, rules
from tests.support.topologies import connected, h200, host, plain
from tests.tables.topologies import TOPOLOGIES

BLOCK = blocks(bits=3)
DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=16)
WAY = {("eth0", as_ip("10.0.0.1"))}


def networks(block: Prefix) -> st.SearchStrategy[Route]:
    """A network of a device within the block, as the kernel or an administrator adds it."""
    return st.builds(
        lambda prefix, dev, metric, protocol: Route.to(prefix, dev=dev, metric=metric, protocol=protocol),
        prefixes(block),
        st.sampled_from(["ib0", "ib0", "ib0", "wg0", "eth0"]),
        st.sampled_from([0, 0, 100]),
        st.sampled_from([2, 2, 3, OURS]),
    )


@st.composite
def hosts(draw: st.DrawFn, block: Prefix) -> Snapshot:
    """A host with a default route by eth0, and with networks of devices and any other routes within the block."""
    own_rules = draw(st.lists(rules(block), max_size=3)) if draw(st.booleans()) else []
    near = draw(st.lists(networks(block), min_size=1, max_size=7))
    others = draw(st.lists(routes(block), max_size=4))
    return Snapshot(
        links=draw(links()),
        rules=tuple(sorted([*default_rules(4), *own_rules], key=lambda rule: rule.priority)),
        # No kernel has the same route twice.
        routes=tuple(dict.fromkeys([DEFAULT, *connected("eth0", "10.0.0.4/24"), *near, *others])),
    )


def repaired(snapshot: Snapshot, *cidrs: Prefix) -> tuple[OverlapReport, Repair]:
    """The check and its repair."""
    fib = Fib(snapshot)
    report = check_overlap(fib, cidrs, expected_devs=["eth0"], allowed_devs=["wg*"])
    return report, propose_repair(fib, report)


def applied(snapshot: Snapshot, destinations: list[Prefix]) -> Fib:
    """The host with our routes to these destinations; ours with the same keys are replaced."""
    new = [Route.to(prefix, dev="eth0", gateway="10.0.0.1", protocol=OURS) for prefix in destinations]
    keys = {route.key for route in new}
    gone = [route for route in snapshot.routes if route.protocol == OURS and route.key in keys]
    return Fib(snapshot.with_routes(new, without=gone))


def ways(fib: Fib, block: Prefix) -> dict[int, tuple[str, object]]:
    """The decision for each address of the block: its kind, and the devices and gateways."""
    decisions = {address: fib.lookup(ip_at(4, address)) for address in range(block.first, block.last + 1)}
    return {
        address: (it.kind, {(leg.dev, leg.gateway) for leg in (it.route.legs if it.route else ())})
        for address, it in decisions.items()
    }


def escaping(fib: Fib, block: Prefix) -> set[int]:
    """The addresses of the block that escape, by looking up each one."""
    judge = Judge(("eth0",), ("wg*",), blocks=PodBlocks(fib, (block,), ("wg*",)))
    addresses = range(block.first, block.last + 1)
    return {address for address in addresses if judge.escape(fib.lookup(ip_at(4, address))) is not None}


def holders(snapshot: Snapshot, prefix: Prefix) -> list[Route]:
    """The routes that are not ours and hold the key which a repair of this prefix would have."""
    key = Route.to(prefix, dev="eth0").key
    return [route for route in snapshot.routes if route.key == key and route.protocol != OURS]


def every_prefix(snapshot: Snapshot, block: Prefix) -> list[Prefix]:
    """All prefixes in the block whose key is free."""
    found = [block]
    for prefix in found:
        found += prefix.halves() if prefix.length < 32 else ()
    return [prefix for prefix in found if not holders(snapshot, prefix)]


class TestRepairClosesEveryEscape:
    """The fewest static routes that close every escape without touching a route that is not ours."""

    @given(st.data(), BLOCK)
    @settings(max_examples=scaled(200))
    def test_nothing_is_found_afterwards(self, data: st.DataObject, block: Prefix) -> None:
        """With the repair in place, only unsafe ranges escape, and ranges that did not escape are decided as before."""
        snapshot = data.draw(hosts(block))
        report, repair = repaired(snapshot, block)
        destinations = [route.destination for route in repair.routes]
        fib = applied(snapshot, destinations)
        unsafe = {address for it in repair.unsafe for address in range(it.first, it.last + 1)}
        before = escaping(Fib(snapshot), block)
        assert bool(before) == bool(report.escapes)
        assert escaping(fib, block) == before & unsafe
        was, now = ways(Fib(snapshot), block), ways(fib, block)
        assert all(now[address] in (was[address], ("unicast", WAY)) for address in was)
        assert all(now[address] == was[address] for address in was if address not in before)
        assert not any(holders(snapshot, prefix) for prefix in destinations)
        assert all(it.reason != "still-open" for it in repair.unsafe)
        assert repair.proof == check_overlap(fib, [block], expected_devs=["eth0"], allowed_devs=["wg*"])

    @given(st.data(), BLOCK)
    @settings(max_examples=scaled(150))
    def test_none_can_be_left_out(self, data: st.DataObject, block: Prefix) -> None:
        """Leaving out any route of the repair leaves an escape."""
        snapshot = data.draw(hosts(block))
        _, repair = repaired(snapshot, block)
        destinations = [route.destination for route in repair.routes]
        whole = escaping(applied(snapshot, destinations), block)
        for left_out in destinations:
            rest = [prefix for prefix in destinations if prefix != left_out]
            assert escaping(applied(snapshot, rest), block) > whole

    @given(st.data(), BLOCK)
    @settings(max_examples=scaled(60))
    def test_as_few_as_brute_force(self, data: st.DataObject, block: Prefix) -> None:
        """No smaller set of prefixes closes the same escapes."""
        snapshot = data.draw(hosts(block))
        _, repair = repaired(snapshot, block)
        goal = escaping(applied(snapshot, [route.destination for route in repair.routes]), block)
        was, before = ways(Fib(snapshot), block), escaping(Fib(snapshot), block)
        for size in range(min(len(repair.routes), 4)):
            for few in combinations(every_prefix(snapshot, block), size):
                fib = applied(snapshot, list(few))
                now = ways(fib, block)
                spared = all(now[address] == was[address] for address in was if address not in before)
                assert not (spared and escaping(fib, block) == goal), f"{few} would do"

    @given(st.data(), BLOCK)
    @settings(max_examples=scaled(100))
    def test_unsafe_means_unsafe(self, data: st.DataObject, block: Prefix) -> None:
        """None of our routes with a free key closes any part of an unsafe range, unless no such route can be added."""
        snapshot = data.draw(hosts(block))
        _, repair = repaired(snapshot, block)
        for it in repair.unsafe:
            if it.reason in {"no-way", "refused"}:
                continue
            for prefix in every_prefix(snapshot, block):
                open_still = escaping(applied(snapshot, [prefix]), block)
                assert open_still >= {n for n in range(it.first, it.last + 1) if n in escaping(Fib(snapshot), block)}

    @given(st.data(), BLOCK)
    @settings(max_examples=scaled(50))
    def test_several_cidrs(self, data: st.DataObject, block: Prefix) -> None:
        """Overlapping and adjacent CIDRs are repaired together, and nothing outside of them changes."""
        snapshot = data.draw(hosts(block))
        cidrs = data.draw(st.lists(prefixes(block), min_size=1, max_size=3))
        _, repair = repaired(snapshot, *cidrs)
        fib = applied(snapshot, [route.destination for route in repair.routes])
        unsafe = {address for it in repair.unsafe for address in range(it.first, it.last + 1)}
        was, now = ways(Fib(snapshot), block), ways(fib, block)
        for address in range(block.first, block.last + 1):
            if any(cidr.first <= address <= cidr.last for cidr in cidrs):
                assert address in unsafe or address not in escaping(fib, block)
            else:
                assert now[address] == was[address]


def texts(repair: Repair) -> list[str]:
    """The routes of a repair as text."""
    return [str(route) for route in repair.routes]


class TestRepairOfKnownHosts:
    """The repair on hosts seen in practice."""

    @pytest.mark.parametrize("name", TOPOLOGIES)
    def test_each_host(self, name: str) -> None:
        """On each host of the table, the repair has the listed routes, and leaves open only what they cannot close."""
        row = TOPOLOGIES[name]
        fib = Fib(row.kernel().snapshot(family=4))
        report = check_overlap(fib, map(Prefix.parse, row.cidrs), expected_devs=row.expected, allowed_devs=row.allowed)
        repair = propose_repair(fib, report)
        destinations = [str(route.destination) for route in repair.routes]
        assert (*destinations, *(it.reason for it in repair.unsafe)) == row.repair
        assert repair.proof.verdict == (row.verdict if repair.unsafe or not row.escapes else "ok")

    def test_the_proof_keeps_local_and_main_apart(self) -> None:
        """If the tables local and main are known to be separate, despite the usual rules, the proof uses that."""
        own = Route(Prefix.parse("192.168.0.0/16"), (NextHop("lo"),), table=TABLE_LOCAL, type="local", scope=254)
        away = [Route.to(prefix, dev="ib0", protocol=2) for prefix in ("192.168.1.0/24", "172.16.0.0/16")]
        fib = Fib(plain().with_routes([own, *away]), merged=False)
        report = check_overlap(fib, [it.prefix for it in away], expected_devs=["eth0"])
        repair = propose_repair(fib, report)
        assert [str(route.destination) for route in repair.routes] == ["172.16.0.0/17", "172.16.128.0/17"]
        assert (repair.proof.verdict, repair.unsafe) == ("ok", ())

    def test_absurd_repair(self) -> None:
        """A repair of thousands of routes is refused: the range is unsafe, with the reason."""
        local, *rest = default_rules(4)
        # The gateway itself must be reachable, or Linux would refuse any route.
        near = Rule(family=4, priority=99, table=254, dst=Prefix.parse("10.0.0.0/24"))
        rule = Rule(family=4, priority=100, table=254, suppress_prefixlength=30)
        other = Rule(family=4, priority=101, action="unreachable")
        snapshot = host([("eth0", "10.0.0.4/24")], [DEFAULT], rules=[local, near, rule, other, *rest])
        _, repair = repaired(snapshot, Prefix.parse("172.16.0.0/16"))
        assert ([it.reason for it in repair.unsafe], repair.routes) == (["too-many"], ())
        _, repair = repaired(snapshot, *map(Prefix.parse, ("172.16.0.0/16", "172.20.0.0/30")))
        assert [it.reason for it in repair.unsafe] == ["too-many"]
        assert texts(repair) == ["172.20.0.0/31", "172.20.0.2/31"]

    @pytest.mark.parametrize(
        ("devs", "gateways", "expected", "told"),
        [
            (("eth0", "eth1"), ("10.0.0.1", "10.1.0.1"), ("eth0", "eth1"), ""),
            (("eth0", "eth1"), ("10.0.0.1", "10.1.0.1"), ("eth0",), " dev eth0"),
            (("eth0", "eth1"), ("10.0.0.1", "10.1.0.1"), ("eth1",), " dev eth1"),
            (("wg9",), (None,), (), ""),
            (("eth0",), ("172.31.1.1",), (), ""),
            (("eth0",), ("fe80::1",), (), ""),
        ],
    )
    def test_what_is_left_to_the_default_route(
        self, devs: tuple[str, ...], gateways: tuple[str | None, ...], expected: tuple[str, ...], told: str
    ) -> None:
        """Gateway and device are left open, whatever they are, unless only one device of several is expected."""
        onlink = len(devs) == 1 and gateways != (None,)
        legs = [
            NextHop(dev, gateway=None if gateway is None else as_ip(gateway), onlink=onlink)
            for dev, gateway in zip(devs, gateways, strict=True)
        ]
        near = [(dev, f"10.{at}.0.4/24") for at, dev in enumerate(devs)]
        default, away = Route(Prefix.parse("0.0.0.0/0"), tuple(legs)), Route.to("172.16.0.0/16", dev="ib0", metric=5)
        repair = proposed(host(near, [default, away]), "172.16.0.0/16", devs=expected)
        assert (texts(repair), repair.proof.verdict) == ([f"172.16.0.0/16{told}"], "ok")

    @pytest.mark.parametrize(
        ("ways", "devs", "told"),
        [
            (("eth0", "eth1"), ("eth0",), "dev eth0 metric 1"),
            (("eth0", "eth1"), ("eth0", "eth1"), "metric 1"),
            (("eth1",), ("eth0", "eth1"), "metric 1"),
        ],
    )
    def test_the_second_family(self, ways: tuple[str, ...], devs: tuple[str, ...], told: str) -> None:
        """An IPv6 repair uses the IPv6 default route, or the expected one of its next hops."""
        legs = tuple(NextHop(dev, gateway=as_ip(f"fe80::{at}")) for at, dev in enumerate(ways, 1))
        snapshot = host(
            [("eth0", "10.0.0.4/24"), ("eth1", "10.1.0.4/24"), ("ib0", "172.16.1.10/16")],
            [Route(Prefix.parse("::/0"), legs, metric=1024), Route.to("fd22::/32", dev="ib0", metric=256), DEFAULT],
        )
        snapshot = attrs.evolve(
            snapshot,
            rules=(*default_rules(4), *default_rules(6)),
            routes=[*snapshot.routes, Route.to("fe80::/64", dev="eth0", metric=256)],
            ipv6_forwarding=True,
        )
        fib = Fib(snapshot)
        repair = propose_repair(fib, check_overlap(fib, [Prefix.parse("fd22::/32")], expected_devs=devs))
        assert (texts(repair), repair.proof.verdict) == ([f"fd22::/32 {told}"], "ok")
        assert [cost.target for cost in repair.costs] == ["fd22::/32"]

    def test_metric_1_only_where_it_is_needed(self) -> None:
        """Of one CIDR, the connected network takes metric 1; longer prefixes than those of an escape do not."""
        devs = [("eth0", "10.0.0.4/24"), ("ib0", "172.16.1.10/16")]
        routes = [
            Route.to("::/0", dev="eth0", gateway="fe80::1", metric=1024),
            Route.to("2001:db8:99:1::/64", dev="ib0", metric=256, protocol=2),
            Route.to("2001:db8:99:6::/64", dev="ib0", metric=1, protocol=3),
            Route.to("2001:db8:99:7::/64", dev="ib0", metric=1024, protocol=OURS),
            Route.to("2001:db8:99:8::/64", dev="ib0", metric=1024, protocol=3),
            Route.to("2001:db8:99:9::9/128", dev="ib0", metric=256, protocol=3),
        ]
        snapshot = attrs.evolve(host(devs, routes), rules=default_rules(6), ipv6_forwarding=True)
        fib = Fib(snapshot)
        repair = propose_repair(fib, check_overlap(fib, [Prefix.parse("2001:db8:99::/48")]))
        assert texts(repair) == [
            "2001:db8:99:1::/64 metric 1",
            *("2001:db8:99:6::/65", "2001:db8:99:6:8000::/65", "2001:db8:99:7::/64"),
            *("2001:db8:99:8::/64 metric 1", "2001:db8:99:9::9/128 metric 1"),
        ]
        assert (repair.proof.verdict, repair.unsafe) == ("ok", ())
        alone = propose_repair(fib, check_overlap(fib, ["2001:db8:99:9::/64"]))
        assert texts(alone) == ["2001:db8:99:9::9/128 metric 1"]

    @pytest.mark.parametrize(
        ("network", "sourced", "cidr", "wanted"),
        [
            ("fd00:16::/124", "fd00:16::4/126", "fd00:16::/125", "fd00:16::/125"),
            ("fd00:16::/64", "fd00:16::2/128", "fd00:16::2/127", "fd00:16::2/127"),
            ("fd00:16::/64", "fd00:16::/125", "fd00:16::/125", "fd00:16::/126 fd00:16::4/126"),
        ],
    )
    def test_a_prefix_with_routes_for_other_sources(self, network: str, sourced: str, cidr: str, wanted: str) -> None:
        """Linux skips a prefix whose routes are for other sources, so a shorter one closes it, and that one does not."""
        theirs = attrs.evolve(
            Route.to(sourced, dev="eth0", gateway="fe80::1", metric=1024), source=Prefix.parse("2001:db8::/32")
        )
        routes = [
            Route.to("::/0", dev="eth0", gateway="fe80::1", metric=1024),
            Route.to(network, dev="ib0", metric=1024),
            theirs,
        ]
        devs = [("eth0", "10.0.0.4/24"), ("ib0", "172.16.1.10/16")]
        fib = Fib(attrs.evolve(host(devs, routes), rules=default_rules(6), ipv6_forwarding=True))
        repair = propose_repair(fib, check_overlap(fib, [Prefix.parse(cidr)]))
        assert (texts(repair), repair.unsafe, repair.proof.escapes) == (wanted.split(), (), ())

    @pytest.mark.parametrize(("length", "wanted"), [(64, "fd00:16::/65 fd00:16:0:0:8000::/65"), (128, "")])
    def test_a_route_for_the_sources_of_plain_packets(self, length: int, wanted: str) -> None:
        """Linux prefers it to a route for any source, whatever the metrics. Kills: a lower metric wins."""
        theirs = attrs.evolve(Route.to(f"fd00:16::/{length}", dev="ib0", metric=1024), source=Prefix.parse("::/1"))
        routes = [Route.to("::/0", dev="eth0", gateway="fe80::1", metric=1024), theirs]
        devs = [("eth0", "10.0.0.4/24"), ("ib0", "172.16.1.10/16")]
        fib = Fib(attrs.evolve(host(devs, routes), rules=default_rules(6), ipv6_forwarding=True))
        repair = propose_repair(fib, check_overlap(fib, [Prefix.parse("fd00:16::/32")]))
        assert texts(repair) == wanted.split()
        assert [unsafe.reason for unsafe in repair.unsafe] == ["longest-prefix"] * (not wanted)

    @pytest.mark.parametrize("protocol", [3, OURS])
    def test_a_key_of_another_tos_is_no_key_of_ours(self, protocol: int) -> None:
        """A route with a tos does not hold the key, whoever added it: the repair need not be split."""
        other = attrs.evolve(Route.to("172.16.0.0/17", dev="ib0", protocol=protocol), tos=0x10)
        fib = Fib(h200().with_routes([other]))
        repair = propose_repair(fib, check_overlap(fib, [Prefix.parse("172.16.0.0/16")], flow=PLAIN), flow=PLAIN)
        assert texts(repair) == ["172.16.0.0/17", "172.16.128.0/17"]
        # It stays, so packets with this tos still escape. Kills: the repair takes its place.
        assert propose_repair(fib, check_overlap(fib, ["172.16.0.0/16"])).proof.verdict == "undecided"

    @pytest.mark.parametrize(("metric", "wanted"), [(1, " metric 1"), (5, " metric 1"), (1024, ""), (2000, "")])
    def test_our_stale_route(self, metric: int, wanted: str) -> None:
        """A repair replaces our route by another device, or has a lower metric. Kills: our lower metric still wins."""
        ours = Route.to("2001:db8:99::/64", dev="ib0", metric=metric, protocol=OURS)
        routes = [Route.to("::/0", dev="eth0", gateway="fe80::1", metric=1024), ours]
        fib = Fib(
            attrs.evolve(host([("eth0", "10.0.0.4/24"), ("ib0", "172.16.1.10/16")], routes), rules=default_rules(6))
        )
        repair = propose_repair(fib, check_overlap(fib, ["2001:db8:99::/64"]))
        assert (texts(repair), repair.unsafe, repair.proof.escapes) == ([f"2001:db8:99::/64{wanted}"], (), ())

    @pytest.mark.parametrize(
        ("does", "ranges"),
        [
            ({"table": 77}, ["172.16.0.0-172.16.6.6", "172.16.6.8-172.16.255.255"]),
            ({"action": "prohibit", "dst": Prefix.parse("172.16.0.0/16")}, ["172.16.0.0-172.16.255.255"]),
        ],
    )
    def test_what_an_earlier_rule_decides(self, does: dict[str, Any], ranges: list[str]) -> None:
        """It cannot be repaired in table main; routes below and own addresses do not split its range, right ones do."""
        rule = Rule(family=4, priority=9, **does)
        below = [Route.to(f"172.16.{number}.0/24", dev="ib0") for number in (3, 4, 77)]
        away = Route.to("172.16.0.0/16", dev="tun0", table=77)
        right = Route.to("172.16.6.7/32", dev="eth0", gateway="10.0.0.1", table=77)
        local, *rest = default_rules(4)
        devs = [("eth0", "10.0.0.4/24"), ("eth0", "172.16.5.1/32")]
        snapshot = host(devs, [DEFAULT, away, right, *below], rules=[local, rule, *rest])
        repair = proposed(snapshot, "172.16.0.0/15" if rule.table == 77 else "172.16.0.0/16")
        assert [f"{ip_at(4, it.first)}-{ip_at(4, it.last)}" for it in repair.unsafe] == ranges
        assert {(it.reason, it.decision.rule) for it in repair.unsafe} == {("earlier-rule", rule)}
        assert (repair.routes, repair.proof.verdict) == ((), "overlap")

    @pytest.mark.parametrize(
        ("dev", "gateway", "wanted"),
        [
            ("wg0", None, ["172.16.0.0/24", "172.16.1.0/25"]),
            ("eth0", "10.0.0.2", ["172.16.0.0/24", "172.16.1.0/25"]),
            ("eth0", "10.0.0.1", ["172.16.0.0/23"]),
        ],
    )
    def test_what_leaves_rightly_keeps_its_way(self, dev: str, gateway: str | None, wanted: list[str]) -> None:
        """A route of the repair covers what leaves rightly only if that has the same gateway. Kills: it always does."""
        to = [Rule(family=4, priority=51, table=77, dst=Prefix.parse(it)) for it in ("172.16.0.0/24", "172.16.1.0/25")]
        rules = [Rule(family=4, priority=50, table=254, suppress_prefixlength=20), *to]
        away = Route.to("172.16.0.0/16", dev="ib0", table=77)
        right = Route.to("172.16.0.0/16", dev=dev, gateway=gateway)
        local, *rest = default_rules(4)
        fib = Fib(host([("eth0", "10.0.0.4/24")], [DEFAULT, away, right], rules=[local, *rules, *rest]))
        report = check_overlap(fib, ["172.16.0.0/16"], expected_devs=["eth0"], allowed_devs=["wg*"])
        repair = propose_repair(fib, report)
        assert (texts(repair), repair.unsafe, repair.proof.verdict) == (wanted, (), "ok")
        assert [" from ib0: packets" in cost.sentence for cost in repair.costs] == [True]

    @pytest.mark.parametrize(("prefix", "reasons"), [("172.16.0.9/32", ["longest-prefix"]), ("172.16.0.8/31", [])])
    def test_a_single_address_whose_key_is_held(self, prefix: str, reasons: list[str]) -> None:
        """A key is held even by a route that is not in use; a shorter prefix closes the address, if it is enough."""
        legs = (NextHop("ib1", dead=True, linkdown=True),)
        held = Route(Prefix.parse("172.16.0.9/32"), legs, protocol=3, scope=253)
        routes = [Route.to(prefix, dev="ib0", metric=5), Route.to("172.16.0.8/32", dev="eth0", gateway="10.0.0.1")]
        lost = Link(name="ib1", index=9, carrier=False, ignore_routes_with_linkdown=True)
        snapshot = host([("eth0", "10.0.0.4/24")], [DEFAULT, held, *routes], links=[lost])
        repair = proposed(snapshot, "172.16.0.0/24")
        assert ([it.reason for it in repair.unsafe], texts(repair)) == (
            reasons,
            ["172.16.0.8/31"] if not reasons else [],
        )

    def test_the_device_of_the_repair_loses_no_neighbours(self) -> None:
        """A repair's cost never names the device that the repair itself uses."""
        near = [(dev, f"172.16.{at}.1/16") for at, dev in enumerate(("ib0", "eth0", "ib1"))]
        own = Route.to("172.16.0.0/16", dev="lo", type="local", metric=9)
        repair = proposed(host([("eth0", "10.0.0.4/24"), *near], [DEFAULT, own]), "172.16.0.0/16")
        assert [" from ib0, ib1: neighbours there" in cost.sentence for cost in repair.costs] == [True]

    def test_open_besides_what_was_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Escapes around the ranges already reported as unsafe are reported too, before and after them."""
        monkeypatch.setattr("hostrouting.check.repair.cover", lambda *_, **__: ())
        theirs = Route.to("172.16.9.9/32", dev="ib0", protocol=3)
        unsafe = proposed(h200().with_routes([theirs]), "172.16.0.0/16").unsafe
        assert [(it.reason, str(ip_at(4, it.first)), str(ip_at(4, it.last))) for it in unsafe] == [
            ("longest-prefix", "172.16.9.9", "172.16.9.9"),
            ("still-open", "172.16.0.0", "172.16.9.8"),
            ("still-open", "172.16.9.10", "172.16.255.255"),
        ]

    @pytest.mark.parametrize(
        ("dev", "missing"),
        [
            (
                "eth7",
                "the device eth7, which expectedDevs names; this host has eth0, ib0, ib1, ib2, ib3, ib4, ib5, ib6, ib7 and 1 more",
            ),
            ("ib0", "an IPv4 default route on ib0"),
        ],
    )
    def test_no_way(self, dev: str, missing: str) -> None:
        """If no gateway is known for the expected device, that is the reason; a mistyped device has the names there are."""
        fib = Fib(h200().with_routes([Route.to("172.16.0.0/17", dev="ib1")])).with_links([Link(name="wg0", index=99)])
        report = check_overlap(fib, [Prefix.parse("172.16.0.0/17")], expected_devs=[dev])
        repair = propose_repair(fib, report)
        (unsafe,) = repair.unsafe
        assert (unsafe.reason, unsafe.missing, repair.proof) == ("no-way", missing, report)


def proposed(snapshot: Snapshot, *cidrs: str, devs: tuple[str, ...] = ()) -> Repair:
    """The repair for the devices of the default route."""
    fib = Fib(snapshot)
    repair = propose_repair(fib, check_overlap(fib, map(Prefix.parse, cidrs), expected_devs=devs))
    for route in repair.routes:
        given = ("" if route.gateway is None else str(route.gateway), route.dev or "", route.metric)
        StaticRoute(str(route.destination), *given)  # accepted without an error
    return repair


HALVES = [Route.to("0.0.0.0/1", dev="wg0"), Route.to("128.0.0.0/1", dev="wg0")]


class TestRepairCanBePasted:
    """The configuration accepts every route of a repair, and it resolves to the route that was proven."""

    @given(
        st.data(),
        st.sampled_from(["0.0.0.0/6", "126.0.0.0/7", "216.0.0.0/5", "240.0.0.0/4", "0.0.0.0/0", "224.0.0.0/3"]),
    )
    @settings(max_examples=scaled(100))
    def test_the_configuration_takes_it(self, data: st.DataObject, cidr: str) -> None:
        """No repair route enters a reserved range, and what stays open is unsafe."""
        block = Prefix.parse(cidr)
        near = data.draw(st.lists(prefixes(Prefix(4, block.network, block.length)), max_size=3))
        extra = [Route.to(prefix, dev="ib0", protocol=3) for prefix in near if prefix.length]
        halves = data.draw(st.sampled_from([[], HALVES]))
        snapshot = plain().with_routes([*halves, *extra])
        repair = proposed(snapshot, cidr)
        assert bool(repair.proof.escapes) == bool(repair.unsafe)
        assert "still-open" not in [it.reason for it in repair.unsafe]

    def test_everything_under_a_vpn(self) -> None:
        """Four quarters of all addresses are better than two halves, because no quarter covers a reserved range."""
        repair = proposed(plain().with_routes(HALVES), "0.0.0.0/0")
        assert [str(route.destination) for route in repair.routes] == [
            "0.0.0.0/2",
            "64.0.0.0/2",
            "128.0.0.0/2",
            "192.0.0.0/2",
        ]
        assert (repair.unsafe, repair.proof.verdict) == ((), "ok")

    @pytest.mark.parametrize(
        ("theirs", "wanted", "lost"),
        [
            (
                [*HALVES, Route.to("240.0.0.0/5", dev="wg0"), Route.to("172.16.0.0/16", dev="ib0")],
                ["0.0.0.0/2", "64.0.0.0/2", "128.0.0.0/2", "172.16.0.0/17", "172.16.128.0/17", "192.0.0.0/2"],
                ["240.0.0.0-247.255.255.255"],
            ),
            (
                [Route.to("0.0.0.0/8", dev="ib0"), Route.to("128.0.0.0/1", dev="ib0")],
                ["128.0.0.0/2", "192.0.0.0/2"],
                ["0.0.0.1-0.255.255.255"],
            ),
            ([Route.to("192.0.0.0/2", dev="wg0")], ["192.0.0.0/3"], ["240.0.0.0-255.255.255.254"]),
            ([Route.to("0.0.0.0/7", dev="wg0")], ["1.0.0.0/8"], ["0.0.0.1-0.255.255.255"]),
            ([Route.to("248.0.0.1/32", dev="wg0", metric=5)], [], ["248.0.0.1-248.0.0.1"]),
        ],
    )
    def test_reserved(self, theirs: list[Route], wanted: list[str], lost: list[str]) -> None:
        """A reserved range is unsafe for that reason, up to its borders, and the rest is still repaired.

        What a route for the rest can close with it is closed. Kills: all reserved ranges are given up because of one.
        """
        repair = proposed(plain().with_routes(theirs), "0.0.0.0/0")
        assert [str(route.destination) for route in repair.routes] == wanted
        assert [f"{ip_at(4, it.first)}-{ip_at(4, it.last)}" for it in repair.unsafe] == lost
        assert {it.reason for it in repair.unsafe} == {"reserved"}

    def test_too_many_in_all(self) -> None:
        """A repair with too many routes is refused as a whole, however few each range takes."""
        many = [Route.to(f"172.16.{number // 64}.{number % 64 * 4}/32", dev="ib0") for number in range(TOO_MANY + 1)]
        beaten = [attrs.evolve(route, metric=5) for route in many]
        repair = proposed(plain().with_routes(beaten), "172.16.0.0/16")
        assert (repair.routes, {it.reason for it in repair.unsafe}) == ((), {"too-many"})
        assert len(proposed(plain().with_routes(beaten[1:]), "172.16.0.0/16").routes) == TOO_MANY
