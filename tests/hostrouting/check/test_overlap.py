"""hostrouting.check.overlap: expected CIDRs against what the kernel would do."""

from ipaddress import IPv4Network

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostrouting.check.exceptions import PodBlocks
from hostrouting.check.overlap import Judge, OverlapReport, check_overlap, follow_kernel
from hostrouting.config.settings import IntendedRule
from hostrouting.fib.decision import Decision
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import ANY, Flow
from hostrouting.model.prefix import Prefix, as_ip, ip_at
from hostrouting.model.route import NextHop, Route, RouteType
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing import vpn_node
from tests.support.examples import scaled
from tests.support.strategies import blocks, prefixes, routes, snapshots
from tests.support.topologies import h200, host, plain
from tests.tables.topologies import TOPOLOGIES

BLOCK = blocks()
CIDR = Prefix.parse("172.16.0.0/16")
DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=16)
ETH0 = ("eth0", "10.0.0.4/24")
PROHIBIT = Decision("prohibit", None, None, ())


def check(snapshot: Snapshot, *cidrs: str, **options: object) -> OverlapReport:
    """Check CIDRs given as text."""
    return check_overlap(Fib(snapshot), map(Prefix.parse, cidrs), **options)  # type: ignore[arg-type]  # as named


def ranges(report: OverlapReport) -> list[str]:
    """The findings, each as kind, range and devices."""
    return [
        f"{escape.kind} {ip_at(4, escape.first)}-{ip_at(4, escape.last)} {','.join(escape.devs)}".strip()
        for escape in report.escapes
    ]


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
        for finding in report.escapes:
            for address in range(finding.first, finding.last + 1):
                assert address not in found, "findings of one CIDR are disjoint"
                found[address] = (finding.kind, finding.devs)
        assert list(report.escapes) == sorted(report.escapes, key=lambda finding: finding.first)
        for address in range(cidr.first, cidr.last + 1):
            decision = fib.lookup(ip_at(4, address))
            escape = judge.escape(decision)
            if escape is None and address in found:
                assert decision.own
            else:
                assert found.get(address) == escape
        assert (report.verdict == "overlap") == bool(report.escapes)
        for finding in report.escapes:
            assert any(judge.escape(fib.lookup(ip_at(4, n))) for n in range(finding.first, finding.last + 1))
            assert finding.prefixes[0].first == finding.first
            assert finding.prefixes[-1].last == finding.last
        # A kernel that answers what its tables say changes no finding.
        told = {cell.first: cell.decision for cell in fib.cells(cidr)}
        followed = follow_kernel(report, fib, told)
        assert [finding._replace(surprise=False) for finding in followed.escapes] == [*report.escapes]

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
        assert (one.verdict, one.escapes) == (other.verdict, other.escapes)

    def test_the_prefixes_of_an_escape(self) -> None:
        """A finding has the prefixes that make up its range."""
        hole = [Route.to(text, dev="eth0", gateway="10.0.0.1") for text in ("172.16.0.0/22", "172.16.4.0/24")]
        assert check(h200(), "172.16.0.0/16").escapes[0].prefixes == (CIDR,)
        assert len(check(h200().with_routes(hole), "172.16.0.0/16").escapes[0].prefixes) == 7

    def test_wg_quick(self) -> None:
        """Under wg-quick main's default route is reported as suppressed, unless its tunnel is down or expected by name."""
        tunnel = vpn_node().snapshot(family=4)
        report = check(tunnel, "172.16.0.0/16")
        assert [(remark.name, remark.target) for remark in report.remarks] == [("unused-default-route", "eth0")]
        # The tunnel's own packets, which have the mark, leave by eth0.
        assert [(note.escapes, note.decision.devs) for note in report.notes] == [(True, ("eth0",))]
        assert check(tunnel, "172.16.0.0/16", expected_devs=["wg0"]).remarks == ()
        # It says nothing if the default route that is used leaves by the same device.
        by_eth0 = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", table=51820)
        same = [by_eth0 if route.table == 51820 else route for route in tunnel.routes]
        assert check(attrs.evolve(tunnel, routes=same), "172.16.0.0/16").remarks == ()
        down = TOPOLOGIES["the rules of wg-quick without its route"].kernel().snapshot(family=4)
        assert check(down, "172.16.0.0/16").remarks == ()


class TestWhatCannotBeSeenIsSaid:
    """If a rule selects on something unknown, the report names the exception: the verdict is never a bare ok."""

    @pytest.mark.parametrize("kind", ["nat", "xresolve", "unspec"])
    def test_types_that_no_kernel_makes(self, kind: RouteType) -> None:
        """A route whose device is unknown is never fine."""
        route = attrs.evolve(Route.to("172.16.0.0/16", dev="eth0"), type=kind)
        report = check(host([ETH0], [DEFAULT, route]), "172.16.0.0/16")
        assert [finding.kind for finding in report.escapes] == ["overlap"]

    @pytest.mark.parametrize(
        "name",
        [name for name, row in TOPOLOGIES.items() if name.startswith("a rule by") and row.verdict == "undecided"],
    )
    def test_undecided(self, name: str) -> None:
        """Packets that may match and would escape make the verdict undecided, with the rule named."""
        (note,) = check(TOPOLOGIES[name].kernel().snapshot(family=4), "172.16.0.0/16").notes
        assert note.escapes
        assert note.cases[0][0].rule.priority == 100
        assert (str(ip_at(4, note.first)), str(ip_at(4, note.last))) == ("172.16.4.0", "172.16.4.255")

    @pytest.mark.parametrize("astray", [1, 2])
    def test_one_rule_of_two(self, astray: int) -> None:
        """Packets that leave rightly all the same are in no note, whichever rule is first; a declared rule stays known."""
        rules = [Rule(family=4, priority=100 + at, fwmark=at, fwmask=7, table=70 + at) for at in (1, 2)]
        fine = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", table=73 - astray)
        given = [fine, Route.to("0.0.0.0/0", dev="ib0", table=70 + astray)]
        fib = Fib(attrs.evolve(plain().with_routes(given), rules=(*default_rules(4), *rules)))
        intended = [IntendedRule(rules[astray - 1].selection, "as it should be")]
        report = check_overlap(fib, [CIDR], intended_rules=intended)
        assert [(note.decision.devs, note.known) for note in report.notes] == [(("ib0",), "intended")]
        assert report.again(fib, ANY) == report

    def test_what_is_known_decides(self) -> None:
        """With a known flow there are no notes."""
        by_mark = TOPOLOGIES["a rule by fwmark 0x1/0x1"].kernel().snapshot(family=4)
        report = check(by_mark, "172.16.0.0/16", flow=Flow(mark=0))
        assert (report.verdict, report.notes) == ("ok", ())
        assert check(by_mark, "172.16.0.0/16", flow=Flow(mark=1)).escapes

    def test_escapes_but_for_some(self) -> None:
        """If a CIDR escapes anyway, marked packets that would not are noted."""
        repaired = TOPOLOGIES["a rule by mark that repairs"].kernel().snapshot(family=4)
        assert [note.escapes for note in check(repaired, "172.16.0.0/16").notes] == [False]


@pytest.mark.parametrize(
    ("legs", "devs"),
    [
        ((), ""),
        ((NextHop(None, gateway=as_ip("10.0.0.9")),), ""),
        ((NextHop("eth0", gateway=as_ip("10.0.0.1")), NextHop("ib0")), " ib0"),
    ],
    ids=["no leg", "no device", "one of two"],
)
def test_a_way_that_is_not_expected(legs: tuple[NextHop, ...], devs: str) -> None:
    """A route with an unknown device still takes packets, so it is always an escape; only wrong devices are named."""
    route = Route(Prefix.parse("172.16.4.0/24"), legs, nexthop_id=7)
    assert ranges(check(plain().with_routes([route]), "172.16.0.0/16")) == [f"overlap 172.16.4.0-172.16.4.255{devs}"]


# Last bytes: this host's own address, a route by eth0, another by ib1, and the ends of the findings. ib0 has the /24.
BESIDE: dict[str, tuple[str, str, str, list[str]]] = {
    "inside": ("9/32", "", "", ["0-255 ib0"]),
    "the first of the prefix": ("0/32", "", "", ["0-255 ib0"]),
    "the last of the prefix": ("255/32", "", "", ["0-255 ib0"]),
    "before the prefix": ("7/32", "0/29", "8/29", ["8-15 ib1", "16-255 ib0"]),
    "after a range that is fine": ("5/32", "4/32", "", ["0-3 ib0", "5-255 ib0"]),
    "before a range that is fine": ("3/32", "4/32", "", ["0-3 ib0", "5-255 ib0"]),
    "between two routes": ("4/32", "", "4/30", ["0-4 ib0", "5-7 ib1", "8-255 ib0"]),
}


@pytest.mark.parametrize("own", BESIDE)
def test_own_addresses_beside_a_finding(own: str) -> None:
    """A finding includes single own addresses inside the prefix of its route, and no other address that is fine."""
    *texts, expected = BESIDE[own]
    mine, fine, other = (f"172.16.4.{text}" if text else "" for text in texts)
    given = [Route.to("172.16.4.0/24", dev="ib0")]
    given += [Route.to(fine, dev="eth0", gateway="10.0.0.1")] if fine else []
    given += [Route.to(other, dev="ib1")] if other else []
    fib = Fib(host([ETH0, ("eth0", mine)], [DEFAULT, *given]))
    report = check_overlap(fib, ["172.16.4.0/24"])
    whole = [f"overlap 172.16.4.{ends.replace('-', '-172.16.4.')}" for ends in expected]
    assert ranges(report) == whole
    assert ranges(follow_kernel(report, fib, {0: PROHIBIT})) == whole


def test_only_the_answer_that_differs_is_a_surprise() -> None:
    """The kernel's answer takes the place of one cell; the findings of the others stay what they are."""
    fib = Fib(h200())
    report = check_overlap(fib, ["10.9.0.0/16", "172.16.0.0/16"])
    told = {Prefix.parse("10.9.0.0/16").first: PROHIBIT}
    found = follow_kernel(report, fib, told).escapes
    assert [(escape.kind, escape.surprise) for escape in found] == [("prohibit", True), ("overlap", False)]
    # The CIDR before it is fine.
    assert [escape.cidr for escape in report.escapes] == [CIDR]


EXPIRING = {
    "the default route alone": (60, None, None),
    "the route of the CIDR": (None, 60, None),
    "the route of marked packets": (None, None, 60),
    "the first of all": (90, 60, 70),
}


@pytest.mark.parametrize("name", EXPIRING)
def test_how_long_the_verdict_holds(name: str) -> None:
    """The verdict holds until the first route expires that it depends on, also for the packets of a note."""
    default, mine, marked = EXPIRING[name]
    given = [
        attrs.evolve(Route.to(prefix, dev="eth1", gateway="fe80::1", table=table), expires=seconds)
        for prefix, table, seconds in (("::/0", 254, default), ("fd00::/16", 254, mine), ("fd00::/16", 77, marked))
    ]
    rules = (*default_rules(6), Rule(family=6, priority=100, fwmark=1, fwmask=1, table=77))
    report = check(attrs.evolve(plain().with_routes(given), rules=rules), "fd00::/16")
    assert [remark.facts["seconds"] for remark in report.remarks if remark.name == "expiry"] == [60]


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
    """The text names the route, the next hops in use if not all are, and the kind if the route does not give it."""
    route = Route(CIDR, tuple(map(NextHop, legs)))
    decision = Decision(kind, Rule(family=4, priority=5), route, tuple(map(NextHop, in_use)))
    assert str(decision).endswith(text)
