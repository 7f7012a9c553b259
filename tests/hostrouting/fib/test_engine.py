"""hostrouting.fib: what the kernel would do, from a snapshot alone."""

import tracemalloc
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from typing import Any
from unittest.mock import patch

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostrouting.fib.decision import Decision
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import ANY, PLAIN, Flow
from hostrouting.fib.rules import Rules
from hostrouting.model.prefix import IPV4, IPV6, Prefix, as_ip, ip_at
from hostrouting.model.route import NextHop, Route, RouteType
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Link, Snapshot
from tests.support.examples import scaled
from tests.support.growth import grows_evenly
from tests.support.strategies import DEVICES, blocks, snapshots
from tests.support.topologies import h200, plain
from tests.tables.topologies import TOPOLOGIES

PLAIN_OF = {4: PLAIN, 6: attrs.evolve(PLAIN, source="::")}
BLOCK = st.sampled_from([4, 6]).flatmap(blocks)
ERRORS = {"blackhole", "unreachable", "prohibit"}


@st.composite
def flows(draw: st.DrawFn, family: int, *, known: bool = True) -> Flow:
    """Any packet; with unknown fields unless it has to be `known`."""
    choices: dict[str, st.SearchStrategy[object]] = {
        "source": st.sampled_from([str(PLAIN.source), "172.16.0.3"] if family == 4 else ["::", "fd00:16::3"]),
        "iif": st.sampled_from(["lo", "eth1"]),
        "oif": st.sampled_from(["", "", "ib0"]),
        "mark": st.sampled_from([0, 1, 2]),
        "tos": st.sampled_from([0, 0x10]),
        "uid": st.sampled_from([0, 1000, 5000]),
        "ipproto": st.sampled_from([0, 6]),
        "sport": st.sampled_from([0, 22]),
        "dport": st.sampled_from([0, 53]),
    }
    chosen = {name: draw(values if known else st.none() | values) for name, values in choices.items()}
    return Flow(**chosen)  # type: ignore[arg-type]  # as chosen above


# The naive oracle: it checks every rule and every route, for one destination and a known packet


def rule_matches(rule: Rule, address: int, flow: Flow) -> bool:
    """Whether a rule matches a packet, selector by selector."""
    assert None not in attrs.astuple(flow)
    exists = {"lo", *DEVICES}
    selected = (
        not rule.l3mdev
        and (rule.dst is None or rule.dst.first <= address <= rule.dst.last)
        and (rule.src is None or flow.source in rule.src.to_network())
        and (rule.iif is None or (flow.iif == rule.iif and rule.iif in exists))
        and (rule.oif is None or (flow.oif == rule.oif and rule.oif in exists))
        and (flow.mark or 0) & rule.fwmask == rule.fwmark & rule.fwmask
        and rule.tos in {0, flow.tos}
        and (rule.dscp is None or not ((flow.tos or 0) >> 2 ^ rule.dscp[0]) & rule.dscp[1])
        and (rule.uids is None or rule.uids[0] <= (flow.uid or 0) <= rule.uids[1])
        and rule.ipproto in {0, flow.ipproto}
        and (rule.sports is None or rule.sports[0] <= (flow.sport or 0) <= rule.sports[1])
        and (rule.dports is None or rule.dports[0] <= (flow.dport or 0) <= rule.dports[1])
    )
    return selected != rule.invert


def in_ipv6(table: list[Route], links: tuple[Link, ...], address: int, flow: Flow) -> Iterator[Route]:
    """The routes of a table that a packet can use, in the order in which IPv6 prefers them."""
    wary = {link.name for link in links if link.ipv6_ignore_routes_with_linkdown}
    bound, dev = flow.oif, flow.oif or (flow.iif if flow.iif != "lo" else "")
    near = [it for it in table if it.prefix.family == 6 and it.prefix.first <= address <= it.prefix.last]
    skipping = True
    for prefix in sorted({it.prefix for it in near}, key=lambda it: -it.length):
        its = [it for it in near if it.prefix == prefix]
        sources = {it.source for it in its if it.source is not None}
        met = sorted((it for it in sources if flow.source in it.to_network()), key=lambda it: -it.length)
        if skipping and sources and not met and prefix.length:
            continue
        skipping = False
        for source in (*met, None):
            alike = [it for it in its if it.source == source]
            lowest = min((it.metric for it in alike), default=0)
            found: list[tuple[bool, int, int, int, Route]] = []
            for at, route in enumerate(alike):
                devs = {leg.dev for leg in route.legs if not leg.dead and not (leg.linkdown and leg.dev in wary)}
                score = 2 * ["low", "medium", "high"].index(route.preference) + (not dev or dev in devs)
                is_pathless = route.type in {*ERRORS, "throw"}
                is_there = is_pathless or bool(devs)
                if is_there and not route.expired and (not bound or (not is_pathless and bound in devs)):
                    found.append((route.metric != lowest, -score, route.metric, at, route))
            yield from (it[-1] for it in sorted(found, key=lambda it: it[:-1]))


def scan(snapshot: Snapshot, family: int, address: int, flow: Flow) -> tuple[str, Route | None]:
    """The kernel's decision by checking everything: its kind, and the route."""
    links = snapshot.links
    wary = {
        it.name
        for it in links
        if (it.ignore_routes_with_linkdown if family == 4 else it.ipv6_ignore_routes_with_linkdown)
    }
    groups = {link.name: link.group for link in snapshot.links}

    def usable(route: Route) -> bool:
        if route.prefix.family != family or not route.prefix.first <= address <= route.prefix.last:
            return False
        if route.tos and route.tos != flow.tos:
            return False
        legs = [leg for leg in route.legs if not leg.dead and not (leg.linkdown and leg.dev in wary)]
        if route.type in {*ERRORS, "throw"}:
            return True
        return bool(legs) and (not flow.oif or flow.oif in [leg.dev for leg in legs])

    def ask(tables: set[int]) -> Route | None:
        """Longest prefix; local first if local and main are merged; tos; metric; list order."""
        if family == 6:
            return next(in_ipv6([it for it in snapshot.routes if it.table in tables], links, address, flow), None)
        found = [route for route in snapshot.routes if route.table in tables and usable(route)]
        return min(found, key=lambda r: (-r.prefix.length, r.table != 255, -r.tos, r.metric), default=None)

    rules = [rule for rule in snapshot.rules if rule.family == family]
    together = family == 4 and rules == list(default_rules(4))
    at = 0
    while at < len(rules):
        rule = rules[at]
        at += 1
        if not rule_matches(rule, address, flow):
            continue
        if rule.action in ERRORS:
            return rule.action, None
        if rule.action == "goto":
            targets = [place for place, it in enumerate(rules) if it.priority == rule.target]
            at = targets[0] if targets else at
        if rule.action != "to_table":
            continue
        route = ask({254, 255} if together and rule.table == 255 else {rule.table})
        if route is None or route.type == "throw":
            continue
        if route.type not in ERRORS:
            legs = [leg for leg in route.legs if not leg.dead and not (leg.linkdown and leg.dev in wary)]
            if rule.suppress_prefixlength is not None and route.prefix.length <= rule.suppress_prefixlength:
                continue
            # IPv4 checks the first next hop, in use or not. IPv6 has chosen a next hop before; a plain packet is one with
            # a next hop that is kept.
            looked_at = route.legs[:1] if family == 4 else [leg for leg in legs if flow.oif in {"", leg.dev}]
            if rule.suppress_ifgroup is not None and {groups[str(it.dev)] for it in looked_at} == {
                rule.suppress_ifgroup
            }:
                continue
        return route.type, route
    return "no-route", None


def told(decision: Decision) -> tuple[str, Route | None]:
    """A decision in the oracle's terms."""
    return decision.kind, decision.route


def devs_of(route: Route | None) -> tuple[str | None, ...]:
    """The devices of an IPv6 route, each of which is an end; an IPv4 route is one end."""
    return (route and route.prefix.family == 6 and route.devs) or (None,)


def ends(decision: Decision) -> Iterator[tuple[str, int | None, str | None]]:
    """The kind of a decision and the protocol of its route, with each device."""
    route = decision.route
    for dev in (decision.devs if route is not None and route.prefix.family == 6 else ()) or (None,):
        yield decision.kind, None if route is None else route.protocol, dev


ELSEWHERE = Rule(family=4, priority=512, table=254)
# The group of each device of a host that suppresses.
GROUPS = {"eth0": 0, "eth1": 7, "ib0": 7}
MOSTLY_UNICAST: list[RouteType] = ["unicast", "unicast", "unicast", "throw", "unreachable"]


@st.composite
def suppressing(draw: st.DrawFn, block: Prefix) -> Snapshot:
    """A host whose first rules suppress; the protocol of a route is its number."""
    family, half = block.family, Prefix(block.family, block.first, block.length + 1)
    rules = [
        Rule(
            family=family,
            priority=100 + number,
            table=draw(st.sampled_from([254, 100])),
            suppress_prefixlength=draw(st.sampled_from([None, None, 0, block.length])),
            suppress_ifgroup=draw(st.sampled_from([None, 0, 7])),
        )
        for number in range(draw(st.integers(1, 3)))
    ]
    sources = [None, None, None, Prefix(family, block.first, block.length)] if family == 6 else [None]
    routes: list[Route] = []
    for number in range(draw(st.integers(1, 5))):
        devs = draw(st.lists(st.sampled_from([*GROUPS]), min_size=1, max_size=2, unique=True))
        is_dead = family == 4 and len(devs) > 1 and draw(st.booleans())
        legs = tuple(NextHop(dev, dead=is_dead and dev == devs[0]) for dev in devs)
        kind: RouteType = draw(st.sampled_from(MOSTLY_UNICAST))
        routes.append(
            Route(
                draw(st.sampled_from([Prefix(family, 0, 0), block, half])),
                legs if kind == "unicast" else (),
                table=draw(st.sampled_from([254, 100])),
                type=kind,
                tos=draw(st.sampled_from([0, 0, 0x10])) if family == 4 else 0,
                source=draw(st.sampled_from(sources)),
                metric=number,
                protocol=100 + number,
            )
        )
    links = tuple(Link(name=dev, index=at, group=group) for at, (dev, group) in enumerate(GROUPS.items(), 2))
    first, *others = default_rules(family)
    rules = [first, *rules, *others * draw(st.booleans())]
    return Snapshot(links=links, rules=tuple(rules), routes=routes, ipv6_forwarding=True)


def with_one_next_hop(snapshot: Snapshot, oif: str) -> Iterator[Snapshot]:
    """The host for each choice that IPv6 can make: each of its routes has only the next hop chosen."""
    choices: list[list[Route]] = []
    for route in snapshot.routes:
        bound = [leg for leg in route.legs if leg.dev == oif] or route.legs
        choices.append([attrs.evolve(route, legs=(leg,)) for leg in bound] or [route])
    for routes in product(*choices):
        yield attrs.evolve(snapshot, routes=routes)


class TestLookupIsTheKernelsDecision:
    """Rules by priority; longest prefix, tos, metric, list order; types, throw, suppression, goto."""

    @given(st.data(), BLOCK)
    @settings(max_examples=scaled(200))
    def test_equals_a_scan(self, data: st.DataObject, block: Prefix) -> None:
        """Lookup equals a naive scan of all rules and routes, for every address and any packet."""
        snapshot = data.draw(snapshots(block))
        flow = data.draw(flows(block.family))
        fib = Fib(snapshot)
        for address in range(block.first, block.last + 1):
            decision = fib.lookup(ip_at(block.family, address), flow)
            assert told(decision) == scan(snapshot, block.family, address, flow)
            assert not decision.variants

    @given(st.data(), BLOCK)
    @settings(max_examples=scaled(200))
    def test_what_is_not_known_is_said(self, data: st.DataObject, block: Prefix) -> None:
        """Whatever the unknown fields of a packet are, its decision is the answer or one of its variants."""
        snapshot = data.draw(snapshots(block, max_rules=3))
        flow = data.draw(flows(block.family, known=False))
        fib = Fib(snapshot)
        address = data.draw(st.integers(block.first, block.last))
        answer = fib.lookup(ip_at(block.family, address), flow)
        possible = [told(answer), *(told(variant.decision) for variant in answer.variants)]
        truth = data.draw(flows(block.family))
        whole = attrs.evolve(
            flow, **{n: getattr(truth, n) for n in attrs.fields_dict(Flow) if getattr(flow, n) is None}
        )
        if not whole.oif or flow.oif:  # a bound device also limits the usable routes
            assert scan(snapshot, block.family, address, whole) in possible
        assert told(answer) == scan(snapshot, block.family, address, flow.assumed())
        assert all(all(variant.cases) for variant in answer.variants)
        assert told(answer) not in possible[1:]

    @given(st.data(), BLOCK)
    @settings(max_examples=scaled(200))
    def test_suppression(self, data: st.DataObject, block: Prefix) -> None:
        """A lookup has the ends that a scan finds for each tos, source, and next hop that IPv6 may choose.

        If several rules suppress groups in one table, it may have more: the engine does not notice that one of the next
        hops has to be chosen.
        """
        snapshot, oif = data.draw(suppressing(block)), data.draw(st.sampled_from(["", "", "eth1"]))
        unknown = attrs.evolve(PLAIN, oif=oif, **{"tos": None} if block.family == 4 else {"source": None})
        sources = [PLAIN.source] if block.family == 4 else ["::", ip_at(6, block.first)]
        packets = [attrs.evolve(unknown, tos=tos, source=source) for tos in (0, 0x10) for source in sources]
        hosts = [snapshot] if block.family == 4 else [*with_one_next_hop(snapshot, oif)]
        tables = [rule.table for rule in snapshot.rules if rule.suppress_ifgroup is not None]
        for address in (block.first, block.last):
            answer = Fib(snapshot).lookup(ip_at(block.family, address), unknown)
            decisions = (answer, *(variant.decision for variant in answer.variants))
            said = {end for each in decisions for end in ends(each) if end[2] in {None, oif or end[2]}}
            truths = [scan(host, block.family, address, packet) for host in hosts for packet in packets]
            true = {(kind, route and route.protocol, dev) for kind, route in truths for dev in devs_of(route)}
            assert true <= said
            assert true == said or len(tables) > len({*tables})

    def test_each_of_many_packets_has_its_own_rule(self) -> None:
        """With many kinds of packets, the answer still names the rule for the given one; at most 256 are prepared."""
        local, main, default = default_rules(4)
        marked = Rule(family=4, priority=1, table=254, fwmark=1, fwmask=1)
        fib = Fib(attrs.evolve(plain(), rules=(local, marked, main, default)))
        with patch("hostrouting.fib.engine.Rules", side_effect=Rules) as prepared:
            for mark in (*range(300), 298, 0):
                rule = fib.lookup("192.0.2.1", Flow(mark=mark)).rule
                assert rule == (marked if mark & 1 else main)
        assert prepared.call_count == 301


class TestCellsPartitionThePrefix:
    """A cell is a maximal range of destinations with the same decision."""

    @given(st.data(), BLOCK)
    @settings(max_examples=scaled(200))
    def test_partition(self, data: st.DataObject, block: Prefix) -> None:
        """The cells of a prefix cover it in order, each is constant, and neighbours differ."""
        fib = Fib(data.draw(snapshots(block)))
        flow = data.draw(flows(block.family, known=False))
        cells = fib.cells(block, flow)
        assert cells[0].first == block.first
        assert cells[-1].last == block.last
        for left, right in pairwise(cells):
            assert left.last + 1 == right.first
            assert left.decision != right.decision
        for cell in cells:
            for address in range(cell.first, cell.last + 1):
                assert fib.lookup(ip_at(block.family, address), flow) == cell.decision

    def test_addresses_are_what_they_are(self) -> None:
        """For 0.0.0.0, multicast and broadcast the kind follows from the address, not from the covering route."""
        routes = Route.to("0.0.0.0/0", dev="ib0"), Route.to("::/0", dev="ib0")
        fib = Fib(Snapshot(rules=(*default_rules(4), *default_rules(6)), routes=routes))
        found = {
            str(ip_at(it.prefix.family, cell.first)): cell.decision.kind
            for it in routes
            for cell in fib.cells(it.prefix)
        }
        assert found == {
            "0.0.0.0": "local",  # noqa: S104  not to bind to
            "0.0.0.1": "unicast", "224.0.0.0": "multicast", "240.0.0.0": "unicast",
            "255.255.255.255": "broadcast", "::": "unicast", "ff00::": "multicast",
        }  # fmt: skip

    @pytest.mark.parametrize("destination", ["224.0.0.5", "255.255.255.255", "ff05::1"])
    def test_addresses_that_linux_refuses(self, destination: str) -> None:
        """A route refuses packets of this host for such an address, too; a packet that arrives is not looked up in IPv4.

        Kills: the kind always follows from the address, and it never does where a route refuses.
        """
        family = as_ip(destination).version
        refusal = Route.to("::/0" if family == IPV6 else "0.0.0.0/0", type="prohibit")
        fib = Fib(Snapshot(rules=default_rules(family), routes=[refusal]))
        by_address = "broadcast" if destination.endswith("255") else "multicast"
        unasked = [Flow(oif="eth0"), Flow(iif="eth0"), Flow(source=as_ip("10.0.0.4" if family == IPV4 else "fd10::4"))]
        found = [fib.lookup(destination, flow).kind for flow in (ANY, PLAIN, *unasked)]
        rest = [by_address] * 3 if family == IPV4 else ["no-route", "prohibit", "prohibit"]
        assert found == ["prohibit", "prohibit", *rest]

    @given(st.data(), BLOCK)
    @settings(max_examples=scaled(150))
    def test_contests(self, data: st.DataObject, block: Prefix) -> None:
        """A new route in main decides if its prefix is at least as long as the contest requires, and not skipped.

        It replaces one of ours with its key.
        """
        snapshot = data.draw(snapshots(block, max_routes=6) | suppressing(block))
        metric = data.draw(st.sampled_from([0, 100, 5000]))
        group = data.draw(st.sampled_from([0, 7, 99]))
        snapshot = attrs.evolve(snapshot, links=(*snapshot.links, Link(name="new", index=99, group=group)))
        ours = data.draw(st.sampled_from([-1, *(route.protocol for route in snapshot.routes)]))
        contests = list(Fib(snapshot).contests(block, dev="new", metric=metric, ours=ours))
        assert [c.first for c in contests[1:]] == [c.last + 1 for c in contests[:-1]]
        contest = data.draw(st.sampled_from(contests))
        length = data.draw(st.integers(block.length, 32 if block.family == 4 else 128))
        new = Route(Prefix.around(block.family, contest.first, length), (NextHop("new"),), metric=metric, protocol=213)
        held = [route for route in snapshot.routes if route.key == new.key]
        if any(route.protocol != ours for route in held):
            return  # the key is held, so the route cannot be added
        decided = (
            Fib(snapshot.with_routes([new], without=held)).lookup(ip_at(block.family, contest.first), PLAIN).route
            == new
        )
        is_enough = contest.length is not None and length >= contest.length
        # No prefix is skipped after a longer one whose routes are all unusable, for whichever of its addresses.
        assert decided == is_enough or Fib(snapshot).skips(new.prefix)


def in_order(snapshot: Snapshot, block: Prefix) -> list[Route]:
    """The routes that a plain packet to an address after the block finds, each while those before it are gone."""
    left, found = [*snapshot.routes], list[Route]()
    while (
        route := scan(attrs.evolve(snapshot, routes=left), block.family, block.last + 1, PLAIN_OF[block.family])[1]
    ) is not None:
        found.append(route)
        left.remove(route)
    return found


class TestDefaultRoutes:
    """The default routes in the order of a plain packet, and those that rules suppress."""

    @given(st.data(), BLOCK)
    @settings(max_examples=scaled(200))
    def test_equal_what_is_found_when_others_are_gone(self, data: st.DataObject, block: Prefix) -> None:
        """Those that no rule suppresses come first, if the first of them takes packets; then the suppressed ones."""
        everywhere = Prefix(block.family, 0, 0)
        drawn = data.draw(snapshots(block) | suppressing(block))
        # A rule for all but some destinations counts only with a table; and the first route speaks for its table's others.
        rules = [
            attrs.evolve(rule, suppress_ifgroup=None, dst=data.draw(st.sampled_from([rule.dst, everywhere])))
            for rule in drawn.rules
            if not (rule.dst and rule.invert and rule.action != "to_table")
        ]
        snapshot = attrs.evolve(
            drawn,
            rules=tuple(rules),
            routes=[
                attrs.evolve(route, prefix=everywhere, protocol=number) for number, route in enumerate(drawn.routes)
            ],
        )
        all_rules = attrs.evolve(
            snapshot, rules=tuple(attrs.evolve(rule, suppress_prefixlength=None) for rule in snapshot.rules)
        )
        taking, every = in_order(snapshot, block), in_order(all_rules, block)
        is_taken = bool(taking) and taking[0].type not in ERRORS
        fib = Fib(snapshot)
        told = [entry.route for entry in fib.defaults(block.family)]
        assert [*dict.fromkeys(told)] == [*dict.fromkeys([*taking * is_taken, *every])]
        hidden = every[: every.index(taking[0])] if is_taken else []
        assert [route for _, route in fib.suppressed_defaults(block.family)] == hidden

    @pytest.mark.parametrize(("kind", "is_hidden"), [("unicast", True), ("unreachable", False)])
    def test_that_of_a_tunnel(self, kind: RouteType, is_hidden: bool) -> None:  # noqa: FBT001
        """It comes before that of main, which a rule suppresses, and hides it; one that refuses packets does not."""
        routes = Route.to("0.0.0.0/0", dev="eth0"), Route.to("0.0.0.0/0", dev="wg0", table=100, type=kind)
        rules = attrs.evolve(ELSEWHERE, suppress_prefixlength=0), Rule(family=4, priority=600, table=100)
        fib = Fib(Snapshot(rules=rules, routes=routes))
        assert [entry.route for entry in fib.defaults(4)] == [*(routes[::-1] if is_hidden else routes)]
        assert fib.suppressed_defaults(4) == (((rules[0], routes[0]),) if is_hidden else ())


NET, NET6 = Prefix.parse("172.16.0.0/16"), Prefix.parse("fd00:16::/64")
SUPPRESSING, SUPPRESSING6 = (attrs.evolve(ELSEWHERE, family=family, suppress_ifgroup=7) for family in (4, 6))


@pytest.mark.parametrize(
    ("rule", "route", "oif", "kind", "devs"),
    [
        (attrs.evolve(ELSEWHERE, suppress_prefixlength=16), Route.to(NET, type="unreachable"), "", "unreachable", ()),
        (SUPPRESSING, Route(NET, (NextHop("eth0"), NextHop("eth1"))), "", "unicast", ("eth0", "eth1")),
        (SUPPRESSING, Route(NET, (NextHop("eth1"), NextHop("eth0"))), "", "no-route", ()),
        (attrs.evolve(ELSEWHERE, suppress_ifgroup=0), Route.to(NET, dev="lo"), "", "no-route", ()),
        (SUPPRESSING6, Route(NET6, (NextHop("eth0"), NextHop("eth1"))), "", "unicast", ("eth0",)),
        (SUPPRESSING6, Route(NET6, (NextHop("eth0"), NextHop("eth1"))), "eth0", "unicast", ("eth0", "eth1")),
        (SUPPRESSING6, Route(NET6, (NextHop("eth0"), NextHop("eth1"))), "eth1", "no-route", ()),
    ],
)
def test_what_a_suppressing_rule_keeps(rule: Rule, route: Route, oif: str, kind: str, devs: tuple[str, ...]) -> None:
    """A route that refuses packets; or one whose next hop is not in the group: in IPv4 the first, in IPv6 the chosen one."""
    links = tuple(Link(name=dev, index=at, group=group) for at, (dev, group) in enumerate(GROUPS.items(), 2))
    host = Snapshot(links=links, rules=(rule,), routes=(route,), ipv6_forwarding=True)
    decision = Fib(host).lookup(ip_at(rule.family, route.prefix.first + 1), attrs.evolve(PLAIN, oif=oif))
    assert (decision.kind, decision.devs) == (kind, devs)


def test_a_type_of_service_that_a_table_throws() -> None:
    """Packets with it go on to the next rule, the others do not."""
    throwing = attrs.evolve(Route.to(NET, table=100, type="throw"), tos=0x10)
    routes = throwing, Route.to("0.0.0.0/0", dev="eth0", table=100), Route.to(NET, dev="ib0")
    rules = Rule(family=4, priority=1, action="nop"), attrs.evolve(ELSEWHERE, table=100), ELSEWHERE
    found = Fib(Snapshot(rules=rules, routes=routes)).lookup("172.16.0.1", attrs.evolve(PLAIN, tos=None))
    assert (found.devs, [variant.decision.devs for variant in found.variants]) == (("eth0",), [("ib0",)])


@pytest.mark.parametrize(("dev", "length"), [("eth0", 0), ("eth1", None), (None, 0)])
def test_a_new_route_in_a_group_that_is_suppressed(dev: str | None, length: int | None) -> None:
    """It decides nothing, whatever its length, if another table has a route."""
    links = tuple(Link(name=name, index=at, group=group) for at, (name, group) in enumerate(GROUPS.items(), 2))
    rules = attrs.evolve(ELSEWHERE, suppress_ifgroup=7), Rule(family=4, priority=600, table=100)
    fib = Fib(Snapshot(links=links, rules=rules, routes=(Route.to("0.0.0.0/0", dev="eth0", table=100),)))
    assert [contest.length for contest in fib.contests(NET, dev=dev, metric=0, ours=-1)] == [length]


HELD = Route.to(NET, dev="ib0", metric=100)


@pytest.mark.parametrize(
    ("route", "more", "length"),
    [
        (HELD, {"metric": 99}, 16),
        (HELD, {"metric": 100}, 17),
        (HELD, {"metric": 100, "ours": HELD.protocol}, 16),
        (HELD, {"metric": 101, "ours": HELD.protocol}, 17),
        (attrs.evolve(HELD, tos=0x10), {"metric": 99, "flow": Flow(tos=0x10)}, 17),
        (attrs.evolve(HELD, table=255), {"metric": 99}, 17),
    ],
)
def test_which_route_gives_way(route: Route, more: dict[str, Any], length: int) -> None:
    """One in main with tos 0 and a higher metric, or one of ours with the same key; else a longer prefix is needed."""
    first = next(Fib(plain().with_routes([route])).contests(NET, dev="eth0", **{"ours": -1, **more}))
    assert first.length == length


def test_a_prefix_that_is_skipped() -> None:
    """A plain packet skips a prefix whose routes are for other sources."""
    routes = attrs.evolve(Route.to(NET6, dev="eth0"), source=NET6), Route.to("fd00::/16", dev="eth0")
    fib = Fib(Snapshot(rules=default_rules(6), routes=routes, ipv6_forwarding=True))
    assert [fib.skips(route.prefix) for route in routes] == [True, False]


OWN = Route.to("10.9.0.1/32", dev="eth0", type="local", table=255)


class TestTheAnswerNamesItsReasons:
    """A decision has the rule, the route, the devices, and the conditions."""

    @pytest.mark.parametrize("name", TOPOLOGIES)
    def test_each_host(self, name: str) -> None:
        """On each host of the table, an address escapes exactly as the table says."""
        row = TOPOLOGIES[name]
        fib = Fib(row.kernel().snapshot(family=4))
        for address, escape in row.asked().items():
            decision = fib.lookup(address)
            assert decision.own or row.escape_of(decision.kind, decision.devs) == escape, address

    def test_routes_of_a_prefix(self) -> None:
        """The routes of exactly one prefix are returned in the kernel's order."""
        fib = Fib(h200())
        assert [route.devs for route in fib.routes(Prefix.parse("172.16.0.0/16"))] == [
            (f"ib{number}",) for number in range(8)
        ]
        assert fib.routes(Prefix.parse("172.16.0.0/17")) == ()
        assert fib.routes(Prefix.parse("172.16.0.0/16"), table=99) == ()
        assert fib.routes(Prefix.parse("10.0.0.4/32")) == ()
        assert len(fib.routes(Prefix.parse("10.0.0.4/32"), table=255)) == 1
        assert [fib.is_empty(4, table) for table in (99, 255)] == [True, False]


def test_many_routes_of_one_prefix() -> None:
    """For a packet of unknown tos, the work per route of a prefix stays the same for many routes."""

    def work(size: int) -> Callable[[], object]:
        routes = [
            attrs.evolve(Route.to("192.0.2.0/24", dev="eth1", metric=metric), tos=tos)
            for metric in range(size)
            for tos in (16, 8, 4)
        ]
        fib = Fib(attrs.evolve(plain(), routes=(*plain().routes, *routes)))
        decision = fib.lookup("192.0.2.1")
        assert [
            (variant.decision.route.tos, variant.decision.route.metric)
            for variant in decision.variants
            if variant.decision.route
        ] == [(16, 0), (8, 0), (4, 0)]
        return lambda: Fib(fib.snapshot).lookup("192.0.2.1")

    assert grows_evenly(work, 8)


@pytest.mark.parametrize("field", ["dst", "src"])
def test_many_rules_for_single_addresses(field: str) -> None:
    """The work grows in proportion to the rules, as with a CNI that adds a rule for each pod."""

    def work(size: int) -> Callable[[], object]:
        pods = [Prefix.parse(f"{ip_at(4, (172 << 24) + 3 * at)}/32") for at in range(size)]
        rules = [
            attrs.evolve(ELSEWHERE, src=block) if field == "src" else attrs.evolve(ELSEWHERE, dst=block)
            for block in pods
        ]
        found = attrs.evolve(plain(), rules=tuple(sorted([*plain().rules, *rules], key=lambda it: it.priority)))
        return lambda: list(Fib(found).cells(Prefix.parse("172.0.0.0/8")))

    assert grows_evenly(work, 150)


def test_many_routes_for_some_sources() -> None:
    """The work grows in proportion to the IPv6 routes of one prefix, each for other sources."""

    def work(size: int) -> Callable[[], object]:
        route = Route.to("fd00:16::/64", dev="eth0", gateway="fe80::1", metric=1024)
        sources = [Prefix(6, (0x20010DB8 << 96) + (at << 64), 64) for at in range(size)]
        routes = [attrs.evolve(route, source=source) for source in sources]
        found = attrs.evolve(plain(), rules=default_rules(6), routes=routes, ipv6_forwarding=True)
        assert len(Fib(found).lookup("fd00:16::1").variants) == size
        return lambda: Fib(found).lookup("fd00:16::1")

    assert grows_evenly(work, 50)


def test_many_questions_take_little_memory() -> None:
    """An engine that is asked about ever new ranges keeps the decisions of some of them only. Kills: a cache without end."""
    fib, asked = Fib(plain()), [Prefix(4, (20 << 24) + (at << 8), 24) for at in range(10_000)]
    tracemalloc.start()
    try:
        for prefix in asked:
            fib.cells(prefix)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1e6
