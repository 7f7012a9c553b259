"""hostrouting.fib.table_ipv4: which of the routes around an address IPv4 takes, and which default routes take turns."""

import attrs
import pytest

from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import PLAIN, Flow, Sought
from hostrouting.fib.table_ipv4 import TableIPv4, taken_in_turn
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import TABLE_LOCAL, TABLE_MAIN, NextHop, Route
from hostrouting.model.route_table import RouteTable
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Snapshot


def fib(*routes: Route, rules: tuple[Rule, ...] = default_rules(4)) -> Fib:
    """A host with these routes."""
    return Fib(Snapshot(rules=rules, routes=routes))


@pytest.mark.parametrize(
    ("hiding", "other", "is_found"),
    [("10.0.0.0/16", "10.0.0.0/16", False), ("10.0.0.0/16", "10.0.0.0/8", False), ("10.1.0.0/16", "10.0.0.0/8", True)],
)
def test_a_nexthop_object_hides_routes_from_a_bound_socket(hiding: str, other: str, is_found: bool) -> None:  # noqa: FBT001
    """Those with the same network address, whatever their length, even if they leave by the device; others are found."""
    first = attrs.evolve(Route.to(hiding, dev="ib0", metric=1), nexthop_id=7)
    routes = first, Route.to(other, dev="eth0", metric=9), Route.to("0.0.0.0/0", dev="eth0", gateway="192.0.2.1")
    found = fib(*routes).lookup("10.1.2.3" if is_found else "10.0.2.3", attrs.evolve(PLAIN, oif="eth0"))
    assert found.route == routes[1 if is_found else 2]


def test_table_local_comes_first() -> None:
    """While the kernel keeps local and main as one, the local one of two routes with one prefix is used."""
    own = Route.to("10.1.0.1/32", dev="eth0", type="local", table=TABLE_LOCAL, metric=9)
    found = fib(Route.to("10.1.0.1/32", dev="ib0"), own).lookup("10.1.0.1")
    assert (found.kind, found.rule) == ("local", default_rules(4)[0])


def test_only_default_routes_take_turns() -> None:
    """Of two others with one metric, the first is used; so it is for bound sockets, and for packets of others."""
    for prefix, devs in (("10.0.0.0/16", ("eth0",)), ("0.0.0.0/0", ("eth0", "eth1"))):
        two = fib(*(Route.to(prefix, dev=f"eth{at}", gateway=f"192.0.2.{at}", metric=5) for at in range(2)))
        for flow, found in (
            (Flow(), devs),
            (Flow(oif="eth0"), ("eth0",)),
            (Flow(iif="ib0"), ("eth0",)),
            (Flow(iif="lo"), devs),
        ):
            assert two.lookup("10.0.0.1", flow).devs == found


def test_a_table_without_types_of_service_is_sure() -> None:
    """No field of a packet makes a difference there; a route for a type of service does."""
    for tos, is_unsure in ((0, False), (0x10, True)):
        route = attrs.evolve(Route.to("10.1.0.0/16", dev="ib0"), tos=tos)
        table = TableIPv4(RouteTable.of([route]), frozenset())
        for column in table.routes.columns:
            table.add(column)
        assert table.best(int(as_ip("10.1.0.1")), Sought(tos=None))[1] is is_unsure


def default(
    dev: str, *, gateway: str = "192.0.2.1", metric: int = 5, tos: int = 0, table: int = TABLE_MAIN,
    scope: int = 0, dead: bool = False,
) -> Route:  # fmt: skip
    """A default route by a gateway."""
    legs = (NextHop(dev, gateway=as_ip(gateway) if gateway else None, dead=dead),)
    return Route(Prefix(4, 0, 0), legs, metric=metric, tos=tos, table=table, scope=scope)


FOUND = default("found")


@pytest.mark.parametrize(
    ("routes", "others"),
    [
        ([FOUND, default("a"), default("b")], ["a", "b"]),
        ([FOUND, default("a"), default("far", metric=6), default("later", metric=7)], ["a"]),
        # What Linux steps over does not end its search.
        ([default("tos", tos=16), FOUND, default("a")], ["a"]),
        ([default("local", table=TABLE_LOCAL), FOUND, default("a")], ["a"]),
        ([FOUND, default("dead", dead=True), default("a")], ["a"]),
        ([FOUND, default("link", scope=253), default("a")], ["a"]),
        ([FOUND, default("onlink", gateway=""), default("a")], ["a"]),
        ([FOUND, Route.to("0.0.0.0/0", type="unreachable", metric=5), default("a")], ["a"]),
        # With a type of service, the first metric of each counts.
        (
            [
                default("found", tos=16),
                default("far", tos=16, metric=6),
                default("a", metric=6),
                default("b", metric=7),
            ],
            ["a"],
        ),
        # A usable one before that was found, and a found one that has no gateway, or several next hops.
        ([default("before"), FOUND, default("a")], []),
        ([default("found", gateway=""), default("a")], []),
        ([attrs.evolve(FOUND, legs=(*FOUND.legs, NextHop("ib0"))), default("a")], []),
    ],
)
def test_default_routes_in_turn(routes: list[Route], others: list[str]) -> None:
    """Those by which Linux replaces the route found, as `fib_select_default` looks for them."""
    [place] = [place for place, route in enumerate(routes) if "found" in route.devs]
    found = taken_in_turn(routes, place, is_dead=lambda leg: leg.dead)
    assert [dev for route in found for dev in route.devs] == others
