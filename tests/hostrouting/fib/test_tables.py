"""hostrouting.fib.tables: which routes, rules and devices of a host belong to a table."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from hostrouting.errors import InputError
from hostrouting.fib.engine import Fib
from hostrouting.fib.tables import Tables
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import TABLE_LOCAL, TABLE_MAIN, NextHop, Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Link, Snapshot

MAIN, OTHER = Route.to("10.1.0.0/16", dev="eth0"), Route.to("10.1.2.0/24", dev="eth0", metric=5)


def fib(*routes: Route, rules: tuple[Rule, ...] = (), **eth1: Any) -> Fib:
    """A host with these routes; eth1 has these settings."""
    links = (Link(name="eth0", index=2), attrs.evolve(Link(name="eth1", index=3), **eth1))
    return Fib(Snapshot(links=links, rules=(*default_rules(4), *default_rules(6), *rules), routes=routes))


@pytest.mark.parametrize(
    ("prefix", "setting"),
    [("10.1.0.0/16", "ignore_routes_with_linkdown"), ("fd01::/16", "ipv6_ignore_routes_with_linkdown")],
)
@pytest.mark.parametrize(
    ("ignores", "up", "devs"), [(True, True, ("eth0", "eth1")), (True, False, ("eth0",)), (False, True, ("eth0",))]
)
def test_a_dead_next_hop(prefix: str, setting: str, *, ignores: bool, up: bool, devs: tuple[str, ...]) -> None:
    """Linux calls a next hop without carrier dead if its device ignores those; it may have a share while that is up."""
    legs = (NextHop(dev="eth0"), NextHop(dev="eth1", dead=True, linkdown=True))
    route = attrs.evolve(Route.to(prefix, dev="eth0"), legs=legs)
    eth1: dict[str, Any] = {"up": up, setting: ignores}
    assert fib(route, **eth1).lookup(route.prefix.to_network()[1]).devs == devs


@pytest.mark.parametrize(
    ("prefix", "setting"),
    [("10.1.0.0/16", "ignore_routes_with_linkdown"), ("fd01::/16", "ipv6_ignore_routes_with_linkdown")],
)
def test_a_route_without_carrier(prefix: str, setting: str) -> None:
    """It wins, unless its device ignores such routes, in its family."""
    first = attrs.evolve(Route.to(prefix, dev="eth1", metric=1), legs=(NextHop(dev="eth1", linkdown=True),))
    routes = first, Route.to(prefix, dev="eth0", metric=2)
    both = {"ignore_routes_with_linkdown", "ipv6_ignore_routes_with_linkdown"}
    address = str(Prefix.parse(prefix)).partition("/")[0] + ("1" if ":" in prefix else "")
    assert fib(*routes).lookup(address).devs == ("eth1",)
    other: dict[str, Any] = dict.fromkeys(both - {setting}, True)
    mine: dict[str, Any] = {setting: True}
    assert fib(*routes, **mine).lookup(address).devs == ("eth0",)
    assert fib(*routes, **other).lookup(address).devs == ("eth1",)


QUESTIONS: dict[str, Callable[[Fib], object]] = {
    "lookup": lambda fib: fib.lookup("fd01::1"),
    "cells": lambda fib: fib.cells("fd01::/16"),
    "doubtful_cells": lambda fib: [*fib.doubtful_cells([Prefix.parse("fd01::/16")], lambda _: True)],
    "defaults": lambda fib: [*fib.defaults(6)],
    "suppressed_defaults": lambda fib: fib.suppressed_defaults(6),
    "routes": lambda fib: fib.routes(Prefix.parse("fd01::/16")),
    "skips": lambda fib: fib.skips(Prefix.parse("fd01::/16")),
    "is_empty": lambda fib: fib.is_empty(6, 7),
    "within": lambda fib: [*fib.within(Prefix.parse("fd01::/16"))],
    "around": lambda fib: [*fib.around(as_ip("fd01::1"))],
    "around, in any table": lambda fib: [*fib.around(as_ip("fd01::1"), table=None)],
    "covering": lambda fib: [*fib.covering(as_ip("fd01::1"), TABLE_MAIN)],
    "a route is added": lambda fib: fib.with_routes([Route.to("fd01::/16", dev="eth0")]),
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_a_family_that_was_not_read(question: Callable[[Fib], object]) -> None:
    """No question about it is answered, because there may be routes; the other family has all of its answers.

    Kills: what was not read is taken for empty.
    """
    whole = fib(MAIN).snapshot
    question(Fib(whole))
    alone = Fib(attrs.evolve(whole, family=4, rules=default_rules(4)))
    with pytest.raises(InputError, match="nothing of IPv6 was read"):
        question(alone)
    assert (alone.lookup("10.1.2.3"), alone.merged) == (Fib(whole).lookup("10.1.2.3"), True)


def test_rules_of_the_other_family() -> None:
    """They decide nothing."""
    assert fib(MAIN, rules=(Rule(family=6, priority=1, action="blackhole"),)).lookup("10.1.2.3").kind == "unicast"


def test_whether_local_and_main_are_one() -> None:
    """They are while the rules are Linux's own, whatever protocol the kernel reports; or as the caller said once."""
    own = tuple(attrs.evolve(rule, protocol=0) for rule in default_rules(4))
    for rules, said, merged in (
        (default_rules(4), None, True),
        (own, None, True),
        ((*own, Rule(family=4, priority=5, table=9)), None, False),
        (own, False, False),
        (own[:1], True, True),
    ):
        assert Fib(Snapshot(rules=rules), merged=said).with_links(()).merged is merged


def test_the_routes_of_one_table() -> None:
    """While local and main are one, each still has its own; those of one prefix come in the kernel's order."""
    local = Route.to("10.1.2.0/24", dev="eth0", table=TABLE_LOCAL, type="local")
    first = attrs.evolve(OTHER, metric=2)
    tables = Tables(Snapshot(rules=default_rules(4), routes=(MAIN, OTHER, local, first)), merged=None)
    prefix = Prefix.parse("10.1.2.0/24")
    assert tables.routes(4, TABLE_MAIN, prefix.network, prefix.length) == (first, OTHER)
    assert sorted(route.metric for route in tables.within(prefix, TABLE_MAIN)) == [2, 5]
    assert [*tables.around(4, TABLE_MAIN, prefix.first)] == [first, OTHER, MAIN]
    assert tables.find(4, 0) is tables.main(4), "a rule for the table of a VRF, outside of one, looks up main"
