"""hostrouting.fib.trace: the way of one packet, rule by rule."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import Flow
from hostrouting.fib.trace import Passed, Reason, Tried, trace_route
from hostrouting.model.prefix import Prefix, ip_at
from hostrouting.model.route import PREFERENCES, NextHop, Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Link, Snapshot
from tests.support.strategies import blocks, snapshots

HOSTS = st.sampled_from([4, 6]).flatmap(blocks).flatmap(lambda block: st.tuples(st.just(block), snapshots(block)))
FLOWS = st.builds(
    Flow,
    iif=st.sampled_from([None, "lo", "eth1"]),
    oif=st.sampled_from([None, "", "ib0"]),
    mark=st.sampled_from([None, 0, 1, 2]),
    tos=st.sampled_from([None, 0, 0x10]),
    uid=st.sampled_from([None, 1000]),
    dport=st.sampled_from([None, 53]),
)


@given(HOSTS, FLOWS, st.sampled_from([None, False]))
def test_it_ends_where_the_engine_does(host: tuple[Prefix, Snapshot], flow: Flow, merged: bool | None) -> None:  # noqa: FBT001
    """On any host and for any packet, the trace comes to the kind, rule, route and legs that Fib.lookup has."""
    block, snapshot = host
    fib = Fib(snapshot, merged=merged)
    for place in (block.first, block.first + 3, block.last):
        address = ip_at(block.family, place)
        trace, decision = trace_route(snapshot, address, flow, merged=merged), fib.lookup(address, flow.assumed())
        assert (trace.kind, trace.rule, trace.route, trace.legs, trace.devs) == (
            decision.kind,
            decision.rule,
            decision.route,
            decision.legs,
            decision.devs,
        )
        # The turns end where the decision is, and nowhere before.
        ends = [it for it in trace.tried if it.result in {"decides", "refused"}]
        assert ends == list(trace.tried[-1:] if decision.rule is not None else ())
        assert all((end.rule, end.route) == (decision.rule, decision.route) for end in ends)


@given(HOSTS)
def test_every_other_route_has_its_reason(host: tuple[Prefix, Snapshot]) -> None:
    """In the table that decides, each route that covers the address was taken, or passed over for a reason that holds."""
    block, snapshot = host
    trace = trace_route(snapshot, ip_at(block.family, block.first + 1))
    if trace.route is None:
        assert not trace.passed
        return
    taken = trace.route
    for passed in trace.passed:
        route = passed.route
        match passed.reason:
            case "shorter":
                assert route.prefix.length < taken.prefix.length
            case "metric":
                assert route.prefix == taken.prefix
                assert route.metric > taken.metric or route.table != taken.table
            case "tie":
                # Linux lists the routes of the tables local and main together, those of local first.
                same = (route.prefix, route.metric, route.tos) == (taken.prefix, taken.metric, taken.tos)
                assert same or route.table != taken.table
            case "preference":
                assert (route.prefix, route.source) == (taken.prefix, taken.source)
                assert PREFERENCES.index(route.preference) < PREFERENCES.index(taken.preference)
            case "source":
                assert route.source is not None or any(it.source for it in snapshot.routes if it.prefix == route.prefix)
            case "expired":
                assert route.expired
            case "down":
                assert all(leg.dead or leg.linkdown for leg in route.legs)
            case "tos":
                assert route.tos != taken.tos
            case "oif":
                pytest.fail("a plain packet is bound to no device")


SUB, AFTER = Prefix.parse("fd02::/64"), ip_at(6, Prefix.parse("fd02::/64").last + 1)


def a_route(prefix: str, dev: str = "eth0", metric: int = 0, **more: Any) -> Route:
    """A route by this device, with more of its attributes."""
    return attrs.evolve(Route.to(prefix, dev=dev, metric=metric), **more)


@pytest.mark.parametrize(
    ("flow", "taken", "passed", "reason"),
    [
        ({}, a_route("fd00::/16"), a_route("::/0", source=SUB), "source"),
        ({}, a_route("fd00::/16"), a_route("::/0", expires=-1), "expired"),
        ({"source": AFTER}, a_route("fd00::/16"), a_route("::/0", source=SUB), "source"),
        (
            {"source": ip_at(6, SUB.last)},
            a_route("fd00::/16", metric=1, source=SUB),
            a_route("fd00::/16", metric=2, source=SUB),
            "metric",
        ),
        ({}, a_route("10.0.0.0/8"), a_route("0.0.0.0/0", legs=(NextHop(dev="eth1", dead=True),)), "down"),
        ({}, a_route("10.0.0.0/8"), a_route("0.0.0.0/0", tos=0x10), "tos"),
        ({"tos": 0x10}, a_route("10.0.0.0/8", tos=0x10), a_route("10.0.0.0/8", metric=5), "tos"),
        ({"tos": 0x10}, a_route("10.0.0.0/8", tos=0x10), a_route("10.0.0.0/8", tos=0x10, metric=5), "metric"),
        ({"oif": "eth0"}, a_route("10.0.0.0/8"), a_route("0.0.0.0/0", "eth1"), "oif"),
        ({"oif": "eth0"}, a_route("10.0.0.0/8"), a_route("0.0.0.0/0"), "shorter"),
    ],
)
def test_why_a_route_was_not_used(flow: dict[str, Any], taken: Route, passed: Route, reason: Reason) -> None:
    """What is against the route alone comes before what the route that was taken has more."""
    routes, family = (taken, passed), taken.prefix.family
    links = (Link(name="eth0", index=2), Link(name="eth1", index=3))
    host = Snapshot(links=links, rules=default_rules(family), routes=routes)
    trace = trace_route(host, "10.1.2.3" if family == 4 else "fd00::1", Flow(**flow))
    assert (trace.route, trace.passed) == (taken, (Passed(passed, reason),))


def test_past_a_longer_prefix() -> None:
    """In IPv6, a prefix whose routes have sources that do not match is left, with its route for every source."""
    taken, others = a_route("::/0"), (a_route("fd00::/16", source=SUB), a_route("fd00::/16"))
    host = Snapshot(links=(Link(name="eth0", index=2),), rules=default_rules(6), routes=(taken, *others))
    trace = trace_route(host, "fd00::1")
    assert (trace.route, trace.passed) == (taken, tuple(Passed(other, "source") for other in others))


def test_every_way_in_which_a_rule_does_not_decide() -> None:
    """Each rule says what it came to, and a rule that is not for the packet what it asks for."""
    local, main, _ = default_rules(4)
    extra = [
        Rule(family=4, priority=1, dst=Prefix.parse("10.0.0.0/8"), table=100),
        Rule(family=4, priority=2, iif="gone", table=100),
        Rule(family=4, priority=3, action="nop"),
        Rule(family=4, priority=4, action="goto", target=6),
        Rule(family=4, priority=5, action="blackhole"),
        Rule(family=4, priority=6, table=100),
        Rule(family=4, priority=7, l3mdev=True),
    ]
    routes = (Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1"), Route.to("172.16.0.0/16", table=100, type="throw"))
    host = Snapshot(links=(Link(name="eth0", index=2),), rules=(local, *extra, main), routes=routes)
    assert [attrs.astuple(it, recurse=False)[1:] for it in trace_route(host, "172.16.0.9").tried] == [
        ("no-route", None, None),
        ("not-selected", ("to", "10.0.0.0/8"), None),
        ("not-selected", ("iif", "gone"), None),
        ("nothing", None, None),
        ("jump", None, None),
        ("thrown", None, routes[1]),
        ("not-selected", ("in", "a VRF"), None),
        ("decides", None, routes[0]),
    ]
    refusing = attrs.evolve(host, rules=(local, extra[4], main))
    assert trace_route(refusing, "172.16.0.9").tried[-1] == Tried(extra[4], "refused")
