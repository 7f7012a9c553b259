"""What is set aside before a plan is made, against the plan that is made of everything."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from typing import Any, overload

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostrouting.model import OURS, Address, NextHop, Prefix, Route, Snapshot, Sort, as_ip, ip_at
from hostrouting.plan import RoutePlan, Step, plan_routes
from hostrouting.settled import set_aside
from hostrouting.steps import Steps
from hostrouting.uplink import DesiredRoute
from tests.support.examples import scaled
from tests.support.topologies import plain

BLOCKS = [Prefix(4, (30 << 24) + (number << 16), 16) for number in range(6)]
BLOCKS += [half for block in BLOCKS[:2] for half in block.halves()]
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


class SortedRoutes(Sequence[Route]):
    """Routes that say by themselves of which sort they are, some of them; it counts which are looked at."""

    def __init__(self, routes: Iterable[Route], *, apart: Iterable[int] = ()) -> None:
        """Take the routes, and the places of those that are of no sort."""
        self._routes, self._apart, self.seen = tuple(routes), set(apart), set[int]()

    def sorts(self, protocol: int) -> list[Sort]:
        """By all that they say but their destination."""
        found: dict[Route, list[int]] = {}
        for place, route in enumerate(self._routes):
            if place not in self._apart and (route.prefix.family, route.protocol) == (4, protocol):
                found.setdefault(attrs.evolve(route, prefix=Prefix(4, 0, 0)), []).append(place)
        return [
            Sort(like, places, [(self._routes[it].prefix.length, self._routes[it].prefix.network) for it in places])
            for like, places in found.items()
        ]

    def part(self, places: Iterable[int]) -> tuple[Route, ...]:
        """Some of them."""
        return tuple(map(self._routes.__getitem__, places))

    def __len__(self) -> int:
        return len(self._routes)

    @overload
    def __getitem__(self, place: int) -> Route: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Route, ...]: ...

    def __getitem__(self, place: int | slice) -> Route | tuple[Route, ...]:
        if isinstance(place, int):
            self.seen.add(place)
        return self._routes[place]

    def keys(self) -> list[tuple[int, int, int, int, int]]:
        """Where each belongs."""
        return [(it.prefix.family, it.table, it.prefix.network, it.prefix.length, it.protocol) for it in self._routes]


def routes_on(block: Prefix, **said: Any) -> Route:
    """A route of ours as the plan would make it, unless something else is said."""
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
        st.sampled_from([it for it in BLOCKS if it.family == 4 and it.length < 31]),
        st.sampled_from([0, 0, 7]),
    ),
    max_size=2,
)


def sorted_host(
    routes: Sequence[Route], apart: Iterable[int], addresses: Sequence[Address] = ()
) -> tuple[Snapshot, Snapshot]:
    """The same host twice: its routes a tuple, and routes of which the sorts are known."""
    whole = plain().with_routes(routes)
    whole = attrs.evolve(whole, addresses=(*whole.addresses, *addresses))
    return whole, attrs.evolve(whole, routes=SortedRoutes(whole.routes, apart=apart))


@given(
    wishes=WISHES,
    routes=ROUTES,
    apart=st.sets(st.integers(0, 12)),
    former=st.sets(st.just(77)),
    addresses=ADDRESSES,
)
@settings(max_examples=scaled(400))
def test_the_plan_is_the_same(
    wishes: list[DesiredRoute], routes: list[Route], apart: set[int], former: set[int], addresses: list[Address]
) -> None:
    """Whatever is there and wanted: the steps, their reasons and order, what is pending, and what does not last."""
    whole, known = sorted_host(routes, apart, addresses)
    plan, fast = (plan_routes(wishes, it, former=former) for it in (whole, known))
    assert fast == plan
    assert (fast.changes, fast.conflicts, fast.kept, str(fast)) == (plan.changes, plan.conflicts, plan.kept, str(plan))
    assert hash(fast) == hash(plan)


def test_nothing_is_looked_at_where_nothing_is_to_be_done() -> None:
    """Of a hundred routes that are as they are wanted one is looked at, until somebody wants to see the steps."""
    blocks = [Prefix(4, (30 << 24) + (number << 8), 24) for number in range(100)]
    wishes = [DesiredRoute(block, metric=100 * (block == blocks[3])) for block in blocks]
    whole, known = sorted_host([routes_on(it.destination, metric=it.metric) for it in wishes], ())
    plan = plan_routes(wishes, known)
    assert isinstance(plan.steps, Steps)
    assert (plan.changes, plan.conflicts, plan.kept, len(plan.steps)) == ((), (), 100, 100)
    assert isinstance(known.routes, SortedRoutes)
    assert not known.routes.seen
    assert plan.steps == plan_routes(wishes, whole).steps
    assert (plan.steps[3], plan.steps[1:2]) == (tuple(plan.steps)[3], tuple(plan.steps)[1:2])
    assert repr(plan.steps) == repr(tuple(plan.steps))
    assert pickle.loads(pickle.dumps(plan)) == plan  # noqa: S301  our own
    assert len(known.routes.seen) == 100
    assert plan != RoutePlan()
    assert plan.steps != [*plan.steps]


def test_one_of_many_is_wrong() -> None:
    """What is not as it is wanted is planned, and all that is stays aside."""
    blocks = [Prefix(4, (30 << 24) + (number << 8), 24) for number in range(100)]
    routes = [routes_on(block, metric=5 * (block == blocks[7])) for block in blocks]
    whole, known = sorted_host(routes, ())
    wishes = [DesiredRoute(block) for block in blocks]
    plan = plan_routes(wishes, known)
    assert [(step.action, step.route.prefix) for step in plan.changes] == [("add", blocks[7]), ("delete", blocks[7])]
    assert plan.kept == 99
    assert plan == plan_routes(wishes, whole)
    assert len(set_aside(wishes, known, protocol=OURS, former=()).desired) == 1


def test_a_former_default_route_says_nothing() -> None:
    """A default route of a former number may go: it tells nobody where the others lead to."""
    blocks = [Prefix(4, (30 << 24) + (number << 8), 24) for number in range(20)]
    former = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.9", protocol=77)
    whole, known = sorted_host([*map(routes_on, blocks), former], ())
    wishes = [DesiredRoute(block) for block in blocks]
    plan = plan_routes(wishes, known, former={77})
    assert (plan.kept, [step.action for step in plan.changes]) == (20, ["delete"])
    assert len(set_aside(wishes, known, protocol=OURS, former={77}).kept) == 20
    assert plan == plan_routes(wishes, whole, former={77})


def test_a_former_default_route_that_is_the_only_one() -> None:
    """Where the only default route may go, nothing that leaves its way open is settled."""
    blocks = [Prefix(4, (30 << 24) + (number << 8), 24) for number in range(20)]
    former = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=77)
    rest = tuple(route for route in plain().routes if route.prefix.length)
    known = attrs.evolve(plain(), routes=SortedRoutes((*rest, former, *map(routes_on, blocks))))
    wishes = [DesiredRoute(block) for block in blocks]
    assert set_aside(wishes, known, protocol=OURS, former={77}).kept == ()
    assert len(set_aside(wishes, known, protocol=OURS, former=()).kept) == 20
    assert len(plan_routes(wishes, known, former={77}).pending) == 20


@pytest.mark.parametrize("gateway", [None, "10.0.0.7"])
def test_two_wishes_for_one_key(gateway: str | None) -> None:
    """Two different wishes for one key are refused, also where what is there is what one of them says."""
    hop = None if gateway is None else as_ip(gateway)
    spelled = DesiredRoute(BLOCKS[0], gateway=as_ip("10.0.0.1"))
    _, known = sorted_host([routes_on(block) for block in BLOCKS[:1]], ())
    wishes = [spelled, attrs.evolve(spelled), *(DesiredRoute(block) for block in BLOCKS[1:4])]
    assert [step.action for step in plan_routes(wishes, known).steps] == ["keep", "add", "add", "add"]
    with pytest.raises(ValueError, match="two different routes are wanted"):
        plan_routes([*wishes, DesiredRoute(BLOCKS[0], gateway=hop)], known)


def test_steps_of_a_plan_by_hand() -> None:
    """A plan may be made of a tuple of steps; those that keep count too."""
    step = Step("keep", routes_on(BLOCKS[0]), "it is there")
    assert (RoutePlan((step,)).kept, RoutePlan((step,)).changes) == (1, ())
