"""hostrouting.check.overlap: expected CIDRs against what the kernel would do."""

from ipaddress import IPv4Network

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostrouting.check.cni import PodBlocks
from hostrouting.check.overlap import Judge, OverlapReport, check_overlap
from hostrouting.check.repair import propose_repair
from hostrouting.fib import Decision, Fib, Flow
from hostrouting.model import NextHop, Prefix, Route, RouteType, Rule, Snapshot, as_ip, default_rules, ip_at
from hostrouting.testing.strategies import blocks, prefixes, routes, snapshots
from tests.support.examples import scaled
from tests.support.topologies import h200, host, plain

BLOCK = blocks()
CIDR = Prefix.parse("172.16.0.0/16")
DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=16)
ETH0 = ("eth0", "10.0.0.4/24")


def check(snapshot: Snapshot, *cidrs: str, **options: object) -> OverlapReport:
    """Check CIDRs given as text."""
    return check_overlap(Fib(snapshot), map(Prefix.parse, cidrs), **options)  # type: ignore[arg-type]  # as named


def ranges(report: OverlapReport) -> list[str]:
    """The findings, each as kind, range and devices."""
    return [f"{it.kind} {ip_at(4, it.first)}-{ip_at(4, it.last)} {','.join(it.devs)}".strip() for it in report.findings]


def test_cidrs_may_be_texts() -> None:
    """A CIDR may be text, and text that is not a CIDR raises an error that says what is wrong with it."""
    fib = Fib(h200())
    assert check_overlap(fib, ["172.16.0.0/16"]) == check_overlap(fib, [Prefix.parse("172.16.0.0/16")])
    with pytest.raises(ValueError, match=r"172\.16\.5\.9/16 has host bits set"):
        check_overlap(fib, ["172.16.5.9/16"])


class TestEveryAddressIsJudged:
    """Escapes: another device; no route; unreachable, blackhole, prohibit. Not: own, broadcast, multicast."""

    @given(st.data(), BLOCK)
    @settings(max_examples=scaled(200))
    def test_findings_are_the_escapes(self, data: st.DataObject, block: Prefix) -> None:
        """An address is in a finding exactly if it escapes, except for included single own addresses."""
        fib = Fib(data.draw(snapshots(block)))
        cidr = data.draw(prefixes(block))
        report = check_overlap(fib, [cidr], expected_devs=["eth0"], allowed_devs=["wg*"])
        judge = Judge(("eth0",), ("wg*",), blocks=PodBlocks(fib, (cidr,), ("wg*",)))
        found: dict[int, tuple[object, ...]] = {}
        for finding in report.findings:
            for address in range(finding.first, finding.last + 1):
                assert address not in found, "findings of one CIDR are disjoint"
                found[address] = (finding.kind, finding.devs)
        assert list(report.findings) == sorted(report.findings, key=lambda finding: finding.first)
        for address in range(cidr.first, cidr.last + 1):
            decision = fib.lookup(ip_at(4, address))
            escape = judge.escape(decision)
            if escape is None and address in found:
                assert decision.own
            else:
                assert found.get(address) == escape
        assert (report.verdict == "overlap") == bool(report.findings)
        for finding in report.findings:
            assert any(judge.escape(fib.lookup(ip_at(4, n))) for n in range(finding.first, finding.last + 1))
            assert finding.prefixes[0].first == finding.first
            assert finding.prefixes[-1].last == finding.last

    @given(st.data(), BLOCK)
    @settings(max_examples=scaled(100))
    def test_routes_outside_do_not_matter(self, data: st.DataObject, block: Prefix) -> None:
        """Routes outside a CIDR never change its verdict."""
        snapshot = data.draw(snapshots(block))
        cidr = data.draw(prefixes(block))
        others = data.draw(st.lists(routes(block), max_size=5))
        outside = [route for route in others if route.prefix.last < cidr.first or route.prefix.first > cidr.last]
        more = snapshot.with_routes(outside)
        one, other = (check_overlap(Fib(it), [cidr], expected_devs=["eth0"]) for it in (snapshot, more))
        assert (one.verdict, one.findings) == (other.verdict, other.findings)

    def test_h200(self) -> None:
        """On the H200 host there is one finding, which includes own and broadcast addresses of the fabric."""
        report = check(h200(), "172.16.0.0/16")
        assert report.verdict == "overlap"
        assert report.expected_devs == ("eth0",)
        assert ranges(report) == ["overlap 172.16.0.0-172.16.255.255 ib0"]
        assert report.findings[0].prefixes == (CIDR,)

    def test_part_of_a_cidr(self) -> None:
        """A wider CIDR escapes only in the fabric's network; each CIDR has its own findings."""
        assert ranges(check(h200(), "172.16.0.0/12", "172.16.4.0/24", "10.0.0.0/8")) == [
            "overlap 172.16.0.0-172.16.255.255 ib0",
            "overlap 172.16.4.0-172.16.4.255 ib0",
        ]

    def test_a_hole(self) -> None:
        """A more specific route by the expected device splits the finding around it."""
        hole = Route.to("172.16.0.0/22", dev="eth0", gateway="10.0.0.1")
        other = Route.to("172.16.4.0/24", dev="eth0", gateway="10.0.0.1")
        report = check(h200().with_routes([hole, other]), "172.16.0.0/16")
        assert ranges(report) == ["overlap 172.16.5.0-172.16.255.255 ib0"]
        assert len(report.findings[0].prefixes) == 7

    def test_a_hole_in_the_middle(self) -> None:
        """An expected range in between splits the escape of one route into two findings."""
        hole = Route.to("172.16.64.0/24", dev="eth0", gateway="10.0.0.1")
        assert ranges(check(h200().with_routes([hole]), "172.16.0.0/16")) == [
            "overlap 172.16.0.0-172.16.63.255 ib0",
            "overlap 172.16.65.0-172.16.255.255 ib0",
        ]

    def test_own_addresses_of_others(self) -> None:
        """An own address is included only within the prefix of the neighbouring finding's route."""
        fabric = Route.to("172.16.4.0/24", dev="ib0", protocol=2)
        beside = host([ETH0, ("eth0", "172.16.5.0/32"), ("eth0", "172.16.3.255/32")], [DEFAULT, fabric])
        within = host([ETH0, ("eth0", "172.16.4.0/32"), ("eth0", "172.16.4.255/32")], [DEFAULT, fabric])
        for snapshot in (beside, within):
            assert ranges(check(snapshot, "172.16.0.0/16")) == ["overlap 172.16.4.0-172.16.4.255 ib0"]

    @pytest.mark.parametrize("kind", ["unreachable", "blackhole", "prohibit"])
    def test_routes_without_a_way(self, kind: RouteType) -> None:
        """A route that refuses packets has its own kind of escape."""
        route = attrs.evolve(Route.to("172.16.4.0/24"), type=kind)
        assert ranges(check(plain().with_routes([route]), "172.16.0.0/16")) == [f"{kind} 172.16.4.0-172.16.4.255"]

    def test_no_route(self) -> None:
        """Without any route the finding is no-route; with named devices the verdict is not no-default-route."""
        nowhere = host([ETH0])
        assert ranges(check(nowhere, "172.16.0.0/16", expected_devs=["eth0"])) == ["no-route 172.16.0.0-172.16.255.255"]
        assert check(nowhere, "172.16.0.0/16") == OverlapReport("no-default-route", (CIDR,), ())

    def test_own_addresses(self) -> None:
        """Own addresses of this host in an expected CIDR are not an overlap."""
        report = check(plain(), "10.0.0.0/24", "224.0.0.0/4", "127.0.0.0/8", "255.255.255.255/32")
        assert report.verdict == "ok"

    def test_all_legs_of_ecmp_are_expected(self) -> None:
        """With an ECMP default the devices of all next hops are expected; a route by any other device escapes."""
        both = (NextHop("eth0", gateway=as_ip("10.0.0.1")), NextHop("eth1", gateway=as_ip("10.1.0.1")))
        mixed = (NextHop("eth1", gateway=as_ip("10.1.0.1")), NextHop("ib0"))
        snapshot = host(
            [ETH0, ("eth1", "10.1.0.4/24"), ("ib0", "192.168.0.1/24")],
            [Route(Prefix.parse("0.0.0.0/0"), both), Route(Prefix.parse("172.16.8.0/24"), mixed)],
        )
        report = check(snapshot, "172.16.0.0/16")
        assert report.expected_devs == ("eth0", "eth1")
        assert ranges(report) == ["overlap 172.16.8.0-172.16.8.255 ib0"]

    def test_lowest_metric(self) -> None:
        """Of several default routes, the one with the lowest metric gives the expected device."""
        wifi = Route.to("0.0.0.0/0", dev="wlan0", gateway="192.168.0.1", metric=600)
        snapshot = host([ETH0, ("wlan0", "192.168.0.4/24")], [wifi, attrs.evolve(DEFAULT, metric=100)])
        assert check(snapshot, "172.16.0.0/16").expected_devs == ("eth0",)

    @pytest.mark.parametrize("kind", ["broadcast", "multicast", "anycast"])
    def test_ranges_that_are_sent_out(self, kind: RouteType) -> None:
        """A route of type broadcast, multicast or anycast to several addresses sends its packets out by its device."""
        away = Route.to("172.16.8.0/24", dev="ib0", type=kind)
        assert ranges(check(plain().with_routes([away]), "172.16.0.0/16")) == [
            "overlap 172.16.8.0-172.16.8.255 ib0",
        ]
        back = attrs.evolve(away, legs=(NextHop("eth0"),))
        assert check(plain().with_routes([back]), "172.16.0.0/16").verdict == "ok"

    @pytest.mark.parametrize("kind", ["broadcast", "multicast", "anycast"])
    def test_single_addresses_are_own(self, kind: RouteType) -> None:
        """For a single address, or inside the multicast range, such a route only concerns the host's local networks."""
        single = Route.to("172.16.8.9/32", dev="ib0", type=kind)
        groups = Route.to("224.0.0.0/4", dev="ib0", type=kind)
        found = check(plain().with_routes([single, groups]), "172.16.0.0/16", "224.0.0.0/4")
        assert (found.verdict, found.findings) == ("ok", ())

    def test_allowed_devices(self) -> None:
        """A device that matches an allowed pattern may carry part of a CIDR."""
        pods = Route.to("172.16.3.0/24", dev="cni0")
        snapshot = plain().with_routes([pods])
        assert check(snapshot, "172.16.0.0/16").verdict == "overlap"
        assert check(snapshot, "172.16.0.0/16", allowed_devs=["veth*", "cni[0-9]"]).verdict == "ok"

    def tunnel(self, *routes: Route) -> Snapshot:
        """A host with wg-quick's rules, and these routes in its table."""
        local, *rest = default_rules(4)
        rules = [
            Rule(family=4, priority=32764, table=254, suppress_prefixlength=0),
            Rule(family=4, priority=32765, table=51820, fwmark=51820, fwmask=0xFFFFFFFF, invert=True),
        ]
        return host([ETH0], [DEFAULT, *routes], rules=[local, *rules, *rest])

    def test_wg_quick(self) -> None:
        """Under wg-quick the tunnel is expected, because plain packets use it; main's default is reported."""
        report = check(self.tunnel(Route.to("0.0.0.0/0", dev="wg0", table=51820)), "172.16.0.0/16")
        assert (report.expected_devs, report.findings) == (("wg0",), ())
        assert [(it.route, it.rule.priority) for it in report.suppressed] == [(DEFAULT, 32764)]
        # The tunnel's own packets, which have the mark, leave by eth0.
        assert report.verdict == "undecided"
        assert [(note.escapes, note.decision.devs) for note in report.notes] == [(True, ("eth0",))]

    def test_wg_quick_without_its_tunnel(self) -> None:
        """While the tunnel is down, packets use the default route of main by the last rule: nothing is suppressed."""
        report = check(self.tunnel(), "172.16.0.0/16")
        assert (report.verdict, report.expected_devs, report.suppressed) == ("ok", ("eth0",), ())
        named = check(
            self.tunnel(Route.to("0.0.0.0/0", dev="wg0", table=51820)), "172.16.0.0/16", expected_devs=["wg0"]
        )
        assert named.suppressed == ()

    def test_vpn_halves(self) -> None:
        """Two halves of the address space beat the default route without being one."""
        halves = [Route.to("0.0.0.0/1", dev="wg0"), Route.to("128.0.0.0/1", dev="wg0")]
        report = check(plain().with_routes(halves), "172.16.0.0/16")
        assert report.expected_devs == ("eth0",)
        assert ranges(report) == ["overlap 172.16.0.0-172.16.255.255 wg0"]


class TestWhatCannotBeSeenIsSaid:
    """If a rule selects on something unknown, the report names the exception: the verdict is never a bare ok."""

    def snapshot(self, **selectors: object) -> Snapshot:
        """A host on which the selected packets for 172.16.4.0/24 go by wg0."""
        rule = Rule(family=4, priority=100, table=77, **selectors)  # type: ignore[arg-type]  # a rule's own
        local, *rest = default_rules(4)
        return host([ETH0], [DEFAULT, Route.to("172.16.4.0/24", dev="wg0", table=77)], rules=[local, rule, *rest])

    @pytest.mark.parametrize("kind", ["nat", "xresolve", "unspec"])
    def test_types_that_no_kernel_makes(self, kind: RouteType) -> None:
        """If a route's device is unknown, it is never fine."""
        route = attrs.evolve(Route.to("172.16.0.0/16", dev="eth0"), type=kind)
        report = check(host([ETH0], [DEFAULT, route]), "172.16.0.0/16")
        assert [finding.kind for finding in report.findings] == ["overlap"]

    @pytest.mark.parametrize(
        "selectors",
        [
            {"fwmark": 1, "fwmask": 1},
            {"uids": (1000, 2000)},
            {"dports": (53, 53)},
            {"sports": (53, 53)},
            {"ipproto": 6},
            {"tos": 0x10},
            {"iif": "eth0"},
            {"oif": "eth0"},
            {"src": Prefix.parse("10.9.0.0/16")},
        ],
        ids=lambda selectors: next(iter(selectors)),
    )
    def test_undecided(self, selectors: dict[str, object]) -> None:
        """Packets that may match and would escape make the verdict undecided, with the rule named."""
        report = check(self.snapshot(**selectors), "172.16.0.0/16")
        assert report.verdict == "undecided"
        assert not report.findings
        (note,) = report.notes
        assert note.escapes
        assert note.cases[0][0].rule.priority == 100
        assert (str(ip_at(4, note.first)), str(ip_at(4, note.last))) == ("172.16.4.0", "172.16.4.255")

    def test_what_is_known_decides(self) -> None:
        """With a known flow there are no notes."""
        report = check(self.snapshot(fwmark=1, fwmask=1), "172.16.0.0/16", flow=Flow(mark=0))
        assert (report.verdict, report.notes) == ("ok", ())
        assert check(self.snapshot(fwmark=1, fwmask=1), "172.16.0.0/16", flow=Flow(mark=1)).findings

    def test_elsewhere_it_does_not_matter(self) -> None:
        """A rule whose table has no route for a CIDR causes no doubt about it."""
        assert check(self.snapshot(fwmark=1, fwmask=1), "172.17.0.0/16").verdict == "ok"

    def test_escapes_but_for_some(self) -> None:
        """If a CIDR escapes anyway, marked packets that would not are noted, and the verdict stays overlap."""
        snapshot = attrs.evolve(
            self.snapshot(fwmark=1, fwmask=1),
            routes=[
                DEFAULT,
                Route.to("172.16.0.0/16", dev="ib0"),
                Route.to("0.0.0.0/0", dev="eth0", table=77),
            ],
        )
        report = check(snapshot, "172.16.0.0/16")
        assert report.verdict == "overlap"
        assert [note.escapes for note in report.notes] == [False]


@pytest.mark.parametrize("legs", [(), (NextHop(None, gateway=as_ip("10.0.0.9")),)], ids=["no leg", "no device"])
def test_a_way_that_is_not_known(legs: tuple[NextHop, ...]) -> None:
    """A route with an unknown device still takes packets, so it is always an escape."""
    route = Route(Prefix.parse("172.16.4.0/24"), legs, nexthop_id=7)
    assert ranges(check(plain().with_routes([route]), "172.16.0.0/16")) == ["overlap 172.16.4.0-172.16.4.255"]


def test_nothing_to_check() -> None:
    """Without expected CIDRs the verdict is ok, even without a default route."""
    assert check(host([ETH0])).verdict == "ok"


def test_networks_of_ipaddress() -> None:
    """CIDRs may be `ipaddress` networks."""
    assert check_overlap(Fib(h200()), [IPv4Network("172.16.0.0/16")]) == check(h200(), "172.16.0.0/16")


def test_one_family_at_a_time() -> None:
    """CIDRs of both families are refused; IPv6 CIDRs are checked against the IPv6 default route."""
    six = Route.to("::/0", dev="eth1", gateway="fe80::1")
    both = attrs.evolve(plain().with_routes([six]), rules=default_rules(4) + default_rules(6))
    with pytest.raises(ValueError, match="IPv4 and IPv6 CIDRs cannot be checked together"):
        check(both, "172.16.0.0/16", "fd00::/16")
    report = check(both, "fd00::/16")
    assert (report.verdict, report.expected_devs) == ("ok", ("eth1",))


def test_reprs() -> None:
    """The repr of a decision, a cell and a finding is one line, with addresses instead of integers."""
    fib = Fib(h200())
    report = check_overlap(fib, [CIDR])
    decision = fib.lookup("172.16.5.9")
    assert repr(decision) == f"<Decision {decision.route} (rule 32766)>"
    assert repr(fib.cells("172.31.0.0/16")) == f"[<Cell 172.31.0.0-172.31.255.255: {fib.lookup('172.31.0.0')}>]"
    [finding] = report.findings
    where = "172.16.0.0-172.16.255.255 of 172.16.0.0/16"
    assert repr(finding) == f"<Finding overlap {where} by ib0: {finding.decision}>"
    assert str(int(as_ip("172.16.0.0"))) not in repr((report, fib.snapshot, propose_repair(fib, report)))


@pytest.mark.parametrize(
    ("legs", "in_use", "kind", "text"),
    [
        ("ab", "ab", "unicast", "172.16.0.0/16 proto unspec nexthop dev a weight 1 nexthop dev b weight 1 (rule 5)"),
        ("ab", "b", "unicast", "nexthop dev b weight 1 by dev b (rule 5)"),
        ("a", "", "unicast", "172.16.0.0/16 dev a proto unspec by nothing (rule 5)"),
        ("a", "a", "multicast", "172.16.0.0/16 dev a proto unspec multicast (rule 5)"),
    ],
)
def test_text_of_a_decision(legs: str, in_use: str, kind: RouteType, text: str) -> None:
    """It names the route, the next hops in use if not all are, and the kind if the route does not give it."""
    route = Route(CIDR, tuple(map(NextHop, legs)))
    decision = Decision(kind, Rule(family=4, priority=5), route, tuple(map(NextHop, in_use)))
    assert str(decision).endswith(text)
