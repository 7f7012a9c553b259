"""hostrouting.fib with unknown packet fields: exactly the possible answers are reported."""

from itertools import product
from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hostrouting.fib import rules as branches
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import ANY, ANYTHING, PLAIN, Ask, Flow
from hostrouting.fib.trace import trace_route
from hostrouting.model.prefix import Prefix, ip_at, width_of
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.routes.uplink import outbound_devs
from tests.support.examples import scaled
from tests.support.strategies import blocks, snapshots

LOCAL, *REST = default_rules(4)
LINKS = (Link(name="eth0", index=2), Link(name="wg0", index=3))
DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1")
BY_WG0 = Route.to("0.0.0.0/0", dev="wg0", table=7)


def with_rules(*rules: Rule, routes: tuple[Route, ...] = (DEFAULT, BY_WG0)) -> Fib:
    """A host that leaves by eth0, and by wg0 where a rule looks up table 7."""
    return Fib(Snapshot(links=LINKS, rules=(LOCAL, *rules, *REST), routes=routes))


def others(fib: Fib, address: str = "172.16.0.1") -> list[tuple[str, list[str]]]:
    """The other devices that packets may leave by, and the conditions."""
    return [
        (
            ", ".join(variant.decision.devs) or variant.decision.kind,
            [" + ".join(map(str, case)) for case in variant.cases],
        )
        for variant in fib.lookup(address).variants
    ]


def marked(priority: int, mark: int, mask: int = 0xFF, *, target: int = 0, table: int = 0) -> Rule:
    """A rule for packets with a mark: a goto, or one that looks up a table."""
    action = "goto" if target else "to_table"
    return Rule(
        family=4,
        priority=priority,
        action=action,  # type: ignore[arg-type]  # one of the two
        table=table,
        target=target or None,
        fwmark=mark,
        fwmask=mask,
    )


def packets(snapshot: Snapshot, family: int) -> list[Flow]:
    """One packet of every kind that the rules of a snapshot can distinguish."""
    rules = [rule for rule in snapshot.rules if rule.family == family]
    blocks_of_sources = [
        it for it in (*(rule.src for rule in rules), *(route.source for route in snapshot.routes)) if it
    ]
    ends = {end for source in blocks_of_sources if source.family == family for end in (source.network, source.last)}
    # Prefixes of sources nest: there is a packet between the ends of two of them, too.
    sources = ends | {end + 1 for end in ends if end < (1 << width_of(family)) - 1}
    ports = {port for rule in rules for span in (rule.sports, rule.dports) if span for port in (*span, span[1] + 1)}
    values: dict[str, set[object]] = {
        "source": {PLAIN.source if family == 4 else ip_at(6, 0), *(ip_at(family, number) for number in sources)},
        "iif": {"lo", "other", *(rule.iif for rule in rules if rule.iif)},
        "mark": {0, 1, 2, 3, *(rule.fwmark for rule in rules)} if any(rule.fwmask for rule in rules) else {0},
        "tos": {0, 0x10, *([0xFC] if any(rule.dscp for rule in rules) else [])},
        "uid": {0, 5000, *(rule.uids[0] for rule in rules if rule.uids)},
        "ipproto": {17, 1, *(rule.ipproto for rule in rules if rule.ipproto)},
        "sport": {0, *ports} if any(rule.sports for rule in rules) else {0},
        "dport": {0, *ports} if any(rule.dports for rule in rules) else {0},
    }
    return [
        Flow(oif="", **dict(zip(values, chosen, strict=True)))  # type: ignore[arg-type]  # as listed above
        for chosen in product(*(sorted(them, key=str) for them in values.values()))
    ]


class TestAllThatIsPossibleIsSaidAndNoMore:
    """The variants of an answer are the answers to possible packets."""

    @given(st.data(), st.sampled_from([4, 6]).flatmap(blocks))
    @settings(max_examples=scaled(150))
    def test_every_variant_has_a_packet(self, data: st.DataObject, block: Prefix) -> None:
        """For each variant there is such a packet, and every packet gets one of the reported answers."""
        snapshot = data.draw(snapshots(block, max_rules=3))
        address = ip_at(block.family, data.draw(st.integers(block.first, block.last)))
        fib = Fib(snapshot)
        answer = fib.lookup(address, Flow(oif=""))
        said = {(it.kind, it.route) for it in (answer, *(variant.decision for variant in answer.variants))}
        kinds = packets(snapshot, block.family)
        if len(kinds) > 2000:
            kinds = data.draw(st.lists(st.sampled_from(kinds), min_size=50, max_size=50))
            assert {(kind.kind, kind.route) for kind in (fib.lookup(address, flow) for flow in kinds)} <= said
        else:
            assert {(kind.kind, kind.route) for kind in (fib.lookup(address, flow) for flow in kinds)} == said

    def test_a_dscp_whose_packets_a_route_with_that_tos_has_taken(self) -> None:
        """A rule by DSCP and a route by tos ask for bits of one number."""
        taking = attrs.evolve(BY_WG0, tos=0x10)
        rule = Rule(family=4, priority=2, action="prohibit", dscp=(4, 0x3F))
        fib = with_rules(attrs.evolve(marked(1, 0, table=7), fwmask=0), rule, routes=(DEFAULT, taking))
        assert others(fib) == [("wg0", ["tos 0x10 (rule 1)"])]
        assert others(with_rules(rule, routes=(DEFAULT,))) == [("prohibit", ["dscp 0x4/0x3f (rule 2)"])]

    @given(st.data())
    def test_gotos_upon_gotos(self, data: st.DataObject) -> None:
        """With many gotos on marks no end is missed, even after walks have dropped their assumptions."""
        bits = st.sampled_from([1, 2, 4, 8])
        jumps = st.builds(
            lambda at, mark, mask, on: marked(at, mark & mask, mask, target=at + on),
            st.integers(1, 30),
            bits,
            bits,
            st.integers(1, 10),
        )
        ends = st.builds(
            lambda at, mark, table: marked(at, mark, mark, table=table),
            st.integers(1, 40),
            bits,
            st.sampled_from([7, 8, 9]),
        )
        rules = sorted(data.draw(st.lists(jumps | ends, max_size=12)), key=lambda rule: rule.priority)
        routes = (DEFAULT, *(Route.to("0.0.0.0/0", dev=f"wg{table}", table=table) for table in (7, 8, 9)))
        before = branches.BUDGET
        branches.BUDGET = data.draw(st.sampled_from([0, 5, before]))
        try:
            fib = with_rules(*rules, routes=routes)
            answer = fib.lookup("172.16.0.1")
        finally:
            branches.BUDGET = before
        said = {it.devs for it in (answer, *(variant.decision for variant in answer.variants))}
        possible = {fib.lookup("172.16.0.1", attrs.evolve(PLAIN, mark=mark)).devs for mark in range(16)}
        assert possible <= said
        assert all(all(variant.cases) for variant in answer.variants)

    def test_many_rules_that_do_the_same(self) -> None:
        """A thousand rules that lead to one table give one variant, with all their packets."""
        rules = [Rule(family=4, priority=1000 + n, src=Prefix(4, (10 << 24) + n, 32), table=7) for n in range(1000)]
        ((devs, cases),) = others(with_rules(*rules))
        assert (devs, len(cases)) == ("wg0", 1000)
        assert cases[999] == "from 10.0.3.231/32 (rule 1999)"

    def test_many_marks_that_lead_on(self) -> None:
        """Twenty-six independent gotos allow an astronomic number of packet kinds, and are still answered."""
        rules = [marked(100 + n, 1 << n, 1 << n, target=1000 + n) for n in range(26)]
        rules += [marked(1000 + n, 3 << n, 3 << n, target=2000) for n in range(26)]
        ((devs, cases),) = others(with_rules(*rules, marked(2000, 5, table=7)))
        assert devs == "wg0"
        assert all(cases)

    @pytest.mark.parametrize("name", ["tun_id", "flowlabel"])
    def test_what_nobody_can_tell(self, name: str) -> None:
        """An unknown selector is a condition like any other, and never matches a plain packet."""
        rule = Rule(family=4, priority=10, table=7, others=((name, "5"),))
        assert others(with_rules(rule)) == [("wg0", [f"{name} 5 (rule 10)"])]
        assert with_rules(rule).lookup("172.16.0.1", PLAIN).variants
        # What the first rule takes does not reach a second one that asks the same.
        same = attrs.evolve(rule, priority=11, action="prohibit", table=0)
        assert others(with_rules(rule, same)) == others(with_rules(rule))
        again = Rule(family=4, priority=9, action="goto", target=10, others=((name, "4"),))
        assert others(with_rules(again, attrs.evolve(rule, priority=9, table=254), attrs.evolve(rule, priority=10)))

    @pytest.mark.parametrize("tos", [0x20, 0xB0])
    def test_a_tos_that_no_packet_has(self, tos: int) -> None:
        """A route for a tos with bits that IPv4 ignores matches no packet, and causes no doubt."""
        routes = (attrs.evolve(Route.to("172.16.0.0/16", dev="wg0"), tos=tos), DEFAULT)
        fib = with_rules(routes=routes)
        assert others(fib) == []
        assert fib.lookup("172.16.0.1", Flow(tos=tos)).devs == ("eth0",)

    @given(st.data())
    @settings(max_examples=scaled(60))
    def test_rules_that_collide(self, data: st.DataObject) -> None:
        """For up to seven rules on a few marks, users and tos, exactly the possible answers are reported."""
        rules = sorted(data.draw(st.lists(colliding(), min_size=1, max_size=7)), key=lambda rule: rule.priority)
        fib = with_rules(*rules, routes=data.draw(st.lists(tabled(), max_size=5).map(lambda it: (DEFAULT, *it))))
        answer = fib.lookup("172.16.0.1", Flow(oif="", iif="lo", source=PLAIN.source, ipproto=17, sport=0, dport=0))
        flows = [
            attrs.evolve(PLAIN, mark=mark, uid=uid, tos=tos)
            for mark, uid, tos in product(range(4), (0, 1, 5, 9), (0, 4, 8, 12))
        ]
        found = {(it.kind, it.route) for it in (fib.lookup("172.16.0.1", flow) for flow in flows)}
        said = [(it.kind, it.route) for it in (answer, *(variant.decision for variant in answer.variants))]
        assert found <= set(said)
        assert len(said) == len(set(said))
        # Refusals that together leave nothing are not noticed; that takes two rules that refuse.
        if len(rules) < 3:
            assert found == set(said)


@st.composite
def colliding(draw: st.DrawFn) -> Rule:
    """A rule that may conflict with others of its kind."""
    priority = draw(st.integers(1, 12))
    action = draw(st.sampled_from(["goto", "to_table", "to_table", "to_table", "blackhole"]))
    mask = draw(st.sampled_from([0, 1, 2, 3]))
    return Rule(
        family=4,
        priority=priority,
        action=action,  # type: ignore[arg-type]  # one of those
        target=priority + draw(st.integers(1, 6)) if action == "goto" else None,
        table=draw(st.sampled_from([7, 8, 254])) if action == "to_table" else 0,
        fwmark=draw(st.integers(0, 3)) & mask,
        fwmask=mask,
        uids=draw(st.sampled_from([None, None, None, (0, 0), (1, 5), (5, 9)])),
        tos=draw(st.sampled_from([0, 0, 0, 4, 8])),
        invert=draw(st.integers(0, 3)) == 0,
        suppress_prefixlength=draw(st.sampled_from([None, None, None, 0, 16])),
    )


@st.composite
def tabled(draw: st.DrawFn) -> Route:
    """A route of the tables that those rules look up."""
    table, prefix = draw(st.sampled_from([7, 8, 254])), draw(st.sampled_from(["0.0.0.0/0", "172.16.0.0/16"]))
    kind = draw(st.sampled_from(["unicast", "unicast", "unicast", "throw", "prohibit"]))
    route = Route.to(prefix, dev=f"wg{table}" if kind == "unicast" else None, table=table, type=kind, metric=table)  # type: ignore[arg-type]  # one of those
    return attrs.evolve(route, tos=draw(st.sampled_from([0, 0, 4, 8])))


class TestRulesThatAreForNobody:
    """Rules that no packet of this host matches."""

    def test_rules_out_of_order(self) -> None:
        """A saved snapshot may list rules in any order: they are tried by priority, and no goto leads back."""
        goto = Rule(family=4, priority=5, action="goto", target=10)
        snapshot = Snapshot(links=LINKS, rules=(Rule(family=4, priority=10, table=9), goto), routes=(BY_WG0,))
        assert Fib(snapshot).lookup("172.16.0.1").kind == "no-route"
        assert outbound_devs(Fib(snapshot)) == ()
        assert trace_route(snapshot, "172.16.0.1").kind == "no-route"
        reverse = Snapshot(links=LINKS, rules=(*REST, marked(9, 0, 0, table=7), LOCAL), routes=(DEFAULT, BY_WG0))
        assert Fib(reverse).lookup("172.16.0.1").devs == ("wg0",)
        assert trace_route(reverse, "172.16.0.1").devs == ("wg0",)


NUMBERS = st.integers(0, 31)
SPANS = st.builds(
    lambda one, other: Ask("uidrange", ("uidrange", ""), min(one, other), max(one, other), None, plain=False),
    NUMBERS,
    NUMBERS,
)
BITS = st.builds(
    lambda bits, mask: Ask("fwmark", ("fwmark", ""), bits & mask, bits & mask, mask, plain=False), NUMBERS, NUMBERS
)
# The same of few numbers, where one often implies another; and each leaves out some packets.
FEW = st.builds(
    lambda low, more: Ask("uidrange", ("uidrange", ""), low, low + more, None, plain=False),
    st.integers(0, 2),
    st.integers(0, 1),
)
FEW_BITS = st.builds(
    lambda bits, mask: Ask("fwmark", ("fwmark", ""), bits & mask, bits & mask, mask, plain=False),
    st.integers(0, 3),
    st.integers(1, 3),
)

BOTH = st.permutations([FEW_BITS, FEW]).flatmap(lambda both: st.tuples(*both))
USER_0 = Ask("uidrange", ("uidrange", ""), 0, 0, None, plain=False)
MARK_1, MARK_3 = (Ask("fwmark", ("fwmark", ""), mark, mark, mark, plain=False) for mark in (1, 3))


class TestQuestionsTogether:
    """Two questions about one field, by brute force over every number."""

    @given(st.tuples(SPANS, SPANS) | st.tuples(BITS, BITS))
    def test_joined_and_implied(self, asks: tuple[Ask, Ask]) -> None:
        """Joined they allow what both do, or nothing; one implies the other if it allows no more."""
        one, other = asks
        numbers = range(32)
        both = [number for number in numbers if one.allows(number) and other.allows(number)]
        joined = one.joined(other)
        assert both == ([number for number in numbers if joined.allows(number)] if joined else [])
        assert one.implies(other) == all(other.allows(number) for number in numbers if one.allows(number))

    @pytest.mark.parametrize("field", [("uidrange", 4, 32), ("iif", 4, 128), ("from", 6, 128)])
    @given(st.data())
    def test_ranges_supposed(self, field: tuple[str, int, int], data: st.DataObject) -> None:
        """For ranges of one field, an assumption is impossible exactly if no number of the field is left."""
        name, family, bits = field
        last = (1 << bits) - 1
        ends = st.sampled_from([0, 1, 2, last // 2, last // 2 + 1, last - 1, last])
        spans = data.draw(st.lists(st.tuples(ends, ends).map(sorted) | st.just([0, last]), min_size=1, max_size=5))
        # Between the ends of two ranges, all numbers have the same answers.
        left = {near for span in spans for end in span for near in (end - 1, end, end + 1) if 0 <= near <= last}
        left |= {0, last}
        rule, supposed = Rule(family=family, priority=1), ANYTHING
        for low, high in spans:
            true = data.draw(st.sampled_from([False, False, True]))
            before, ask = left, Ask(name, (name, ""), low, high, None, plain=False)
            left = {number for number in left if ask.allows(number) == true}
            found = supposed.suppose(rule, (ask,), true=true)
            assert (found is not None) == bool(left)
            if found is None:
                return
            held = supposed.holds.get(name)
            if held is not None and (held.implies(ask) if true else held.joined(ask) is None):
                assert (found, left) == (supposed, before), "it follows from what is assumed, and is not a condition"
            supposed = found

    @given(
        st.lists(st.tuples(BOTH, st.integers(1, 3), st.booleans()), min_size=2, max_size=3).filter(
            lambda asked: sum(not true for _, _, true in asked) < 2
        )
    )
    @example([((MARK_1, USER_0), 1, False), ((MARK_3, USER_0), 1, True)])
    @example([((USER_0, MARK_1), 3, False), ((USER_0, MARK_1), 1, True)])
    @example([((USER_0, MARK_1), 3, False), ((USER_0, MARK_1), 1, True), ((USER_0, MARK_1), 2, True)])
    @settings(max_examples=scaled(300))
    def test_selectors_supposed(self, questions: list[tuple[tuple[Ask, Ask], int, bool]]) -> None:
        """For rules by a mark, a user or both, an assumption is impossible exactly if no packet is left.

        Two that are refused may together leave none, which is not noticed.
        """
        rule, supposed, left = Rule(family=4, priority=1), ANYTHING, set(product(range(4), range(5)))
        for both, which, true in questions:
            asks = tuple(ask for at, ask in enumerate(both) if which >> at & 1)
            left = {
                (mark, uid)
                for mark, uid in left
                if all(ask.allows(uid if ask.mask is None else mark) for ask in asks) == true
            }
            found = supposed.suppose(rule, asks, true=true)
            assert (found is not None) == bool(left)
            if found is None:
                return
            supposed = found


@pytest.mark.parametrize("flow", [PLAIN, ANY], ids=["plain", "any"])
@pytest.mark.parametrize(
    ("says", "matches"),
    [
        ({"src": Prefix.parse("0.0.0.0/31")}, True),
        ({"src": Prefix.parse("0.0.0.1/32")}, False),
        ({"iif": "lo"}, True),
        ({"iif": "eth0"}, False),
        ({"oif": "eth0"}, False),
        ({"fwmark": 0, "fwmask": 1}, True),
        ({"fwmark": 1, "fwmask": 1}, False),
        ({"dscp": (0, 0x3F)}, True),
        ({"dscp": (1, 1)}, False),
        ({"uids": (0, 0)}, True),
        ({"uids": (1, 5)}, False),
        ({"ipproto": 17}, True),
        ({"ipproto": 6}, False),
        ({"sports": (1, 9)}, False),
        ({"dports": (1, 9)}, False),
    ],
    ids=str,
)
def test_plain_packets(says: dict[str, Any], matches: bool, flow: Flow) -> None:  # noqa: FBT001  a row of the table
    """A packet of which nothing is known is answered as `ip route get` answers: from root, without a mark or port."""
    answer = with_rules(Rule(family=4, priority=1, table=7, **says)).lookup("172.16.0.1", flow)
    assert answer.devs == (("wg0",) if matches else ("eth0",))
    assert len(answer.variants) == (flow is ANY)


def test_sources_of_a_plain_packet() -> None:
    """A packet that has no source yet is from ::; what only others do has a condition."""
    routes = [Route.to("::/0", dev="wg0", metric=1024), attrs.evolve(Route.to("::/0", dev="eth0", metric=1024))]
    for source, devs, said in (("::/1", "eth0", "not from ::/1"), ("::1/128", "wg0", "from ::1/128")):
        both = [routes[0], attrs.evolve(routes[1], source=Prefix.parse(source))]
        fib = Fib(Snapshot(links=LINKS, rules=default_rules(6), routes=both))
        assert fib.lookup("2001:db8::1").devs == fib.lookup("2001:db8::1", PLAIN).devs == (devs,)
        [(_, cases)] = others(fib, "2001:db8::1")
        assert cases == [f"{said} (rule 32766)"]
