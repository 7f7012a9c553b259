"""Plans of many routes, most of them kept: comparing shapes gives the same as comparing each route."""

import pickle
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hostrouting.model.prefix import Prefix, as_ip, ip_at
from hostrouting.model.route import OURS, NextHop, Route
from hostrouting.model.route_table import RouteTable
from hostrouting.model.snapshot import Address, Snapshot
from hostrouting.routes import plan as plan_module
from hostrouting.routes.plan import RoutePlan, Steps, plan_routes
from hostrouting.routes.uplink import DesiredRoute
from tests.support.examples import scaled
from tests.support.growth import grows_evenly
from tests.support.topologies import plain

BLOCKS = [Prefix(4, (30 << 24) + (number << 16), 16) for number in range(6)]
BLOCKS += [half for block in BLOCKS[:2] for half in block.halves()]
BLOCKS24 = [Prefix(4, (30 << 24) + (number << 8), 24) for number in range(100)]
GATEWAYS = [None, as_ip("10.0.0.1"), as_ip("10.0.0.7")]
WISHES = st.lists(
    st.builds(
        DesiredRoute,
        st.sampled_from(BLOCKS) | st.just(Prefix.parse("fd00:30::/32")),
        gateway=st.sampled_from([*GATEWAYS, as_ip("10.9.9.9")]),
        dev=st.sampled_from([None, "eth0", "gone"]),
        metric=st.sampled_from([0, 0, 0, 7]),
    ),
    max_size=10,
    unique_by=lambda wish: wish.key,
)


def routes_on(block: Prefix, **said: Any) -> Route:
    """One of our routes, as the plan makes it unless the arguments say otherwise."""
    made = Route(block, (NextHop("eth0", gateway=as_ip("10.0.0.1")),), protocol=OURS)
    return attrs.evolve(made, **said)


ROUTES = st.lists(
    st.builds(
        routes_on,
        st.sampled_from(BLOCKS),
        legs=st.sampled_from([(NextHop("eth0", gateway=hop),) for hop in GATEWAYS] + [(NextHop("wg0"),)] * 2),
        metric=st.sampled_from([0, 0, 0, 7]),
        protocol=st.sampled_from([OURS] * 5 + [77, 3]),
        table=st.sampled_from([254] * 6 + [255, 100]),
        tos=st.sampled_from([0] * 9 + [16]),
        type=st.sampled_from(["unicast"] * 9 + ["throw"]),
        scope=st.sampled_from([0, 253]),
    )
    | st.sampled_from([*map(routes_on, BLOCKS), routes_on(BLOCKS[0])]),
    max_size=10,
)


ADDRESSES = st.lists(
    st.builds(
        lambda block, metric: Address(ip=ip_at(4, block.first + 1), length=block.length, dev="eth0", metric=metric),
        st.sampled_from([block for block in BLOCKS if block.family == 4 and block.length < 31]),
        st.sampled_from([0, 0, 7]),
    ),
    max_size=2,
)


def host_with(routes: Sequence[Route], addresses: Sequence[Address] = ()) -> Snapshot:
    """A plain host with these routes added; none has been accessed yet."""
    whole = plain().with_routes(routes)
    return attrs.evolve(whole, addresses=(*whole.addresses, *addresses))


def planned_plainly(wishes: Sequence[DesiredRoute], host: Snapshot) -> RoutePlan:
    """The plan that is made route by route, without shapes."""
    with patch.object(plan_module, "_as_wanted", lambda desired, *_: ({}, list(desired))):
        return plan_routes(wishes, host)


@given(wishes=WISHES, routes=ROUTES, addresses=ADDRESSES)
@example(  # each next wish differs from the one before in one thing, and the routes are as the first one says
    [
        DesiredRoute(block, gateway=gateway, dev=dev)
        for block, gateway, dev in zip(
            BLOCKS24, (*GATEWAYS[1:], GATEWAYS[1], GATEWAYS[1]), (None, None, None, "gone"), strict=False
        )
    ],
    [*map(routes_on, BLOCKS24[:4])],
    [],
)
@example(  # behind another program's route, and not beside it in the table
    [DesiredRoute(BLOCKS[0], gateway=GATEWAYS[1])],
    [routes_on(BLOCKS[0], legs=(NextHop("wg0"),), protocol=3), routes_on(BLOCKS[1]), routes_on(BLOCKS[0])],
    [],
)
@settings(max_examples=scaled(200))
def test_the_plan_is_the_same(wishes: list[DesiredRoute], routes: list[Route], addresses: list[Address]) -> None:
    """For any present and wanted routes: the steps, their reasons and order, pending routes, and what does not last."""
    host = host_with(routes, addresses)
    plan, plainly = plan_routes(wishes, host), planned_plainly(wishes, host)
    assert plan == plainly
    assert (plan.changes, plan.conflicts, plan.kept, str(plan)) == (
        plainly.changes,
        plainly.conflicts,
        plainly.kept,
        str(plainly),
    )
    assert hash(plan) == hash(plainly)


def test_nothing_is_made_where_nothing_is_to_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a hundred routes that are right, no Route object is created until the steps are read."""
    wishes = [DesiredRoute(block, metric=100 * (block == BLOCKS24[3])) for block in BLOCKS24]
    host = host_with([routes_on(wish.destination, metric=wish.metric) for wish in wishes])
    made: list[Prefix] = []
    make = RouteTable._make

    def noted(table: RouteTable, place: int) -> Route:
        made.append(table._prefix(place))
        return make(table, place)

    monkeypatch.setattr(RouteTable, "_make", noted)
    plan = plan_routes(wishes, host)
    assert isinstance(plan.steps, Steps)
    assert (plan.changes, plan.conflicts, plan.kept, len(plan.steps)) == ((), (), 100, 100)
    assert not set(made) & set(BLOCKS24)
    assert plan.steps == planned_plainly(wishes, host).steps
    assert (plan.steps[3], plan.steps[1:2]) == (tuple(plan.steps)[3], tuple(plan.steps)[1:2])
    assert repr(plan.steps) == repr(tuple(plan.steps))
    assert pickle.loads(pickle.dumps(plan)) == plan  # noqa: S301  our own
    assert set(made) >= set(BLOCKS24)
    assert plan != RoutePlan()
    assert plan.steps != [*plan.steps]


@pytest.mark.parametrize("part", ["plan", "what it leads to"])
def test_many_routes_of_one_prefix(part: str) -> None:
    """Each of many routes of one prefix is deleted for about as much work as one of a few."""
    one = routes_on(Prefix.parse("192.0.2.0/24"))

    def work(size: int) -> Callable[[], object]:
        routes = [attrs.evolve(one, tos=tos, metric=metric) for metric in range(size) for tos in (8, 4, 0)]
        host = host_with(routes)
        plan = plan_routes([], host)
        assert [step.action for step in plan.steps] == ["delete"] * 3 * size
        assert plan.apply_to(host).routes == host_with([]).routes
        return (lambda: plan_routes([], host)) if part == "plan" else (lambda: plan.apply_to(host))

    assert grows_evenly(work, 8)


def test_our_default_route_that_is_the_only_one() -> None:
    """If the only default route may be deleted, no route that takes its gateway from it is settled."""
    ours = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=OURS)
    rest = tuple(route for route in plain().routes if route.prefix.length)
    host = attrs.evolve(plain(), routes=(*rest, ours, *map(routes_on, BLOCKS24)))
    wishes = [DesiredRoute(block) for block in BLOCKS24]
    assert len(plan_routes(wishes, host).pending) == 100


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("gateway", [None, "10.0.0.7"])
def test_two_wishes_for_one_key(gateway: str | None, times: int) -> None:
    """Two different wanted routes with one key are refused, even if the present route equals one of them."""
    hop = None if gateway is None else as_ip(gateway)
    spelled = DesiredRoute(BLOCKS[0], gateway=as_ip("10.0.0.1"))
    host = host_with([routes_on(block) for block in BLOCKS[:1]])
    wishes = [*(attrs.evolve(spelled) for _ in range(times)), *(DesiredRoute(block) for block in BLOCKS[1:4])]
    assert [step.action for step in plan_routes(wishes, host).steps] == ["keep", "add", "add", "add"]
    with pytest.raises(ValueError, match="two different routes are wanted"):
        plan_routes([*wishes, DesiredRoute(BLOCKS[0], gateway=hop)], host)
