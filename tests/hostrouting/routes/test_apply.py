"""A plan is carried out whole or not at all, on the fake kernel and on Linux."""

import errno
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, assume, example, given, settings, strategies as st

import phases
from hostrouting.config.settings import StaticRoute
from hostrouting.errors import ApplyError, BackendError, RouteConflict
from hostrouting.kernel.base import RouteBackend, RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import IPV4, IPV6, Prefix
from hostrouting.model.route import OURS, NextHop, Route, RouteKey, bare
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.apply import apply_plan
from hostrouting.routes.plan import plan_static_routes
from hostrouting.routes.steps import RoutePlan
from hostrouting.testing import FaultyBackend
from hostrouting.testing.faults import FaultPoint
from tests.hostrouting.routes.own_routes import (
    EVERY,
    FOREIGN,
    HOPS,
    ON_LO,
    PREFIXES,
    configured,
    entry,
    fake,
    hosts,
    put,
    routes_to,
    wishes,
)
from tests.support.commands import furnish
from tests.support.examples import scaled
from tests.support.namespace import private_namespace
from tests.support.programs import completed

PLACE, OTHER_PLACE, THIRD_PLACE = PREFIXES[IPV4]
ROUTER_1, ROUTER_2, _, BY_ETH1 = HOPS[IPV4]
SIX = PREFIXES[IPV6][0]
SIX_1, SIX_2, SIX_3 = HOPS[IPV6][:3]
THEIRS_WITH_SOURCE = entry(PLACE, ROUTER_1, protocol=FOREIGN)._replace(prefsrc=ON_LO[IPV4])
WITH_SOURCE = entry(Prefix(IPV6, 0, 0), SIX_1)._replace(protocol=9, prefsrc=ON_LO[IPV6])
NOT_KNOWN = "whether every change could be rolled back is not known: "
AS_BEFORE = "every change was rolled back: the route table is as it was before"
laws = settings(max_examples=scaled(150), suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def linux() -> Iterator[NetlinkBackend]:
    with private_namespace() as namespace:
        furnish(namespace, ("eth0", "eth1"), lost=("eth1",))
        namespace.batch(f"address add {address} dev lo" for address in ON_LO.values())
        with namespace.inside(), NetlinkBackend() as backend:
            yield backend


def by(prefix: Prefix, hop: NextHop, metric: int = 0) -> StaticRoute:
    return StaticRoute(prefix.to_network(), gateway=hop.gateway, dev=hop.dev, metric=metric)


def planned(backend: RouteBackend, wanted: list[StaticRoute]) -> tuple[RoutePlan, Snapshot]:
    """The plan, and the snapshot that it was made from."""
    before = backend.snapshot()
    return plan_static_routes(configured(*wanted), before), before


def error_of(
    plan: RoutePlan,
    backend: RouteBackend,
    before: Snapshot,
    check: Callable[[], object] = lambda: None,
) -> BaseException | None:
    try:
        apply_plan(plan, backend, before=before, done=[], raise_if_cancelled=check)
    except BaseException as error:  # noqa: BLE001  it is looked at
        return error
    return None


def says_what_is_true(error: BaseException, now: Snapshot, before: Snapshot) -> bool:
    """Whether the error, or its note, says rightly if the routes are as before."""
    after = error.after if isinstance(error, ApplyError) else vars(error)["__notes__"][0]
    if after.startswith("not every change could be rolled back"):
        return table(now) != table(before)
    return after == AS_BEFORE and table(now) == table(before)


def table(host: Snapshot) -> dict[RouteKey, list[tuple[object, ...]]]:
    """Of each route, by its key, what is compared: IPv6 has no order of next hops."""
    routes: dict[RouteKey, list[tuple[object, ...]]] = {}
    for route in routes_to(EVERY, host):
        hops = [(hop.dev, hop.gateway, hop.weight) for hop in route.next_hops]
        shown = frozenset(hops) if route.prefix.family == IPV6 else tuple(hops)
        of_route = (route.protocol, route.scope, route.prefsrc, shown)
        routes.setdefault(route.key, []).append(of_route)
    return routes


Owned = set[tuple[RouteKey, NextHop]]


def put_and_own(backend: RouteBackend, there: list[Route]) -> tuple[Owned, Owned]:
    """Put these routes there, and return our next hops and those of the other program."""
    put(backend, there)
    owned = take_owned(backend)
    put(backend, there)
    return owned


def take_owned(backend: RouteBackend) -> tuple[Owned, Owned]:
    """Whose next hops there are: ours and theirs. In IPv6, who can delete one owns it."""
    owned: tuple[Owned, Owned] = (set(), set())
    # Linux may list those of another program only when ours are gone.
    for protocol, hops in zip((OURS, FOREIGN), owned, strict=True):
        for route in routes_to(EVERY, backend.snapshot()):
            for hop in route.next_hops:
                if route.prefix.family == IPV4:
                    is_owned = route.protocol == protocol
                else:
                    deleted = entry(route.prefix, hop, route.metric, protocol)
                    [outcome] = backend.change([RouteRequest("delete", deleted)])
                    is_owned = outcome.ok
                if is_owned:
                    hops.add((route.key, hop))
    return owned


@pytest.mark.linux
@pytest.mark.needs("root")
@laws
@given(there=hosts(), wanted=wishes())
@example([], [by(PLACE, ROUTER_1), by(SIX, SIX_1)])
@example([entry(PLACE, ROUTER_1, protocol=FOREIGN)], [by(PLACE, ROUTER_2)])
@example(
    [THEIRS_WITH_SOURCE, entry(PLACE, ROUTER_1), entry(PLACE, ROUTER_1, 5)], [by(PLACE, ROUTER_1)]
)
@example([entry(SIX, SIX_1), entry(SIX, SIX_2, protocol=FOREIGN)], [by(SIX, SIX_3)])
@example([entry(SIX, SIX_1), entry(SIX, SIX_2, protocol=FOREIGN)], [])
def test_all_routes_or_none(
    linux: NetlinkBackend, there: list[Route], wanted: list[StaticRoute]
) -> None:
    """Only the wanted routes of ours are there then, and others' are as they were."""
    ours, theirs = put_and_own(linux, there)
    plan, before = planned(linux, wanted)

    error = error_of(plan, linux, before)

    now = linux.snapshot()
    if plan.conflicts:
        assert isinstance(error, RouteConflict)
        assert now == before
    elif error is not None:
        assert isinstance(error, ApplyError | RouteConflict)
        assert may_be_misread(before)
        assert says_what_is_true(error, now, before)
    else:
        again, _ = planned(linux, wanted)
        assert again.changes == ()
        shared = {key for key, _ in ours} & {key for key, _ in theirs}
        settled = table(plan.apply_to(before))
        for key, routes in table(now).items():
            are_as_planned = settled.pop(key, None) == routes
            assert are_as_planned or key in shared or may_be_misread(before)
        assert settled.keys() <= shared
    assert take_owned(linux)[1] == theirs


def in_any_order(host: Snapshot) -> dict[RouteKey, Counter[tuple[object, ...]]]:
    """The routes to the prefixes, however those of one key are ordered."""
    return {key: Counter(routes) for key, routes in table(host).items()}


def may_be_misread(host: Snapshot) -> bool:
    """Whether an IPv6 route has several next hops, which Linux may list otherwise; or a source,
    which Linux lists for all next hops once another one has joined the route.
    """
    routes = [route for route in host.routes if route.prefix in PREFIXES[IPV6]]
    return any(len(route.next_hops) > 1 or route.prefsrc is not None for route in routes)


LATE = BackendError("the kernel did not answer in time", kind="timeout")
FAULTS: dict[str, tuple[FaultPoint, BackendError | int, bool]] = {
    "refused": ("change", errno.EINVAL, False),
    "not permitted": ("change", BackendError("no", kind="not-permitted"), False),
    "hangs": ("change", LATE, False),
    "hangs, but does it": ("change", LATE, True),
    "cannot be read back": ("snapshot", LATE, False),
}
INTERRUPTIONS: dict[str, FaultPoint] = {
    "interrupted at a change": "change",
    "interrupted at a reading": "snapshot",
}
ctrl_c = Mock(side_effect=KeyboardInterrupt)


def test_a_rollback_that_is_ended() -> None:
    """What interrupts a rollback that has begun again leaves in effect what was done."""
    kernel = FaultyBackend(fake())
    plan, before = planned(kernel, [by(PLACE, ROUTER_1), by(OTHER_PLACE, ROUTER_1)])
    kernel.meanwhile("change", ctrl_c, nth=2)
    kernel.meanwhile("snapshot", ctrl_c, nth=1)
    done: list[RouteRequest] = []
    with pytest.raises(KeyboardInterrupt):
        apply_plan(plan, kernel, before=before, done=done)
    assert [str(request.route.prefix) for request in done] == [str(PLACE), str(OTHER_PLACE)]


routes_of_somebody = st.builds(
    entry,
    st.sampled_from(PREFIXES[IPV4]),
    st.sampled_from(HOPS[IPV4]),
    st.sampled_from([0, 5]),
    st.sampled_from([FOREIGN, FOREIGN, OURS]),
)


@laws
@given(
    hosts(),
    wishes(),
    st.builds(RouteRequest, st.sampled_from(["add", "append", "delete"]), routes_of_somebody),
    st.sampled_from(["change", "snapshot"]),
    st.integers(1, 6),
)
@example(
    [entry(Prefix(IPV4, 0, 0), ROUTER_1)._replace(protocol=9, prefsrc=ON_LO[IPV4])],
    [by(PLACE, ROUTER_1)],
    RouteRequest("append", entry(PLACE, ROUTER_1, protocol=FOREIGN)),
    "change",
    1,
)
def test_somebody_else_at_the_same_time(
    there: list[Route], wanted: list[StaticRoute], theirs: RouteRequest, point: FaultPoint, nth: int
) -> None:
    """Its routes stay; and the wanted ones are there, or the error says what is."""
    kernel = FaultyBackend(fake())
    put(kernel, there)
    plan, before = planned(kernel, wanted)
    assume(not plan.conflicts)
    foreign = foreign_routes(before)

    def somebody_else() -> None:
        nonlocal foreign
        kernel.inner.change([theirs])
        foreign = foreign_routes(kernel.snapshot())

    kernel.meanwhile(point, somebody_else, nth=nth)

    error = error_of(plan, kernel, before)

    now = kernel.inner.snapshot()
    assert foreign_routes(now) == foreign
    keys = {step.route.key for step in plan.steps}
    if error is not None:
        assert isinstance(error, ApplyError | RouteConflict)
        assert says_what_is_true(error, with_keys(keys, now), with_keys(keys, before)), error
    else:
        again, _ = planned(kernel.inner, wanted)
        left_to_do = {step.action for step in again.steps if step.route.key in keys}
        assert left_to_do <= {"keep", "delete"}


def foreign_routes(host: Snapshot) -> list[Route]:
    return [route for route in routes_to(PREFIXES[4], host) if route.protocol == FOREIGN]


def with_keys(keys: set[RouteKey], host: Snapshot) -> Snapshot:
    """The host with nothing but the routes that have these keys."""
    return host._replace(routes=tuple(route for route in host.routes if route.key in keys))


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.parametrize("family", [4, IPV6])
@pytest.mark.parametrize(
    ("point", "nth"),
    [
        pytest.param("change", 1, id="before ours is added"),
        pytest.param("snapshot", 1, id="before ours is read back"),
        pytest.param("change", 2, id="before the old one is deleted"),
    ],
)
def test_another_program_takes_the_place(
    linux: NetlinkBackend, family: int, point: FaultPoint, nth: int
) -> None:
    """It stays, whenever it comes."""
    kernel = FaultyBackend(linux)
    prefix, *_ = PREFIXES[family]
    old_hop, new_hop, their_hop, _ = HOPS[family]
    old, new = entry(prefix, old_hop), entry(prefix, new_hop)
    theirs = entry(prefix, their_hop, protocol=FOREIGN)
    put(kernel.inner, [old])
    plan, before = planned(kernel, [by(prefix, new_hop)])
    take_the_place = [
        RouteRequest("delete", old),
        RouteRequest("delete", new),
        RouteRequest("add", theirs),
    ]
    kernel.meanwhile(point, lambda: kernel.inner.change(take_the_place), nth=nth)

    with pytest.raises(ApplyError) as caught:
        apply_plan(plan, kernel, before=before, done=[])

    assert kernel.waiting == 0
    assert f"there should be [{new}], but there is [{prefix} " in str(caught.value)
    now = kernel.snapshot()
    assert [bare(route) for route in routes_to([prefix], now)] == [theirs]
    assert says_what_is_true(caught.value, now, before)


def typed(family: int) -> st.SearchStrategy[list[Route]]:
    """Routes of ours to one destination, as somebody may have typed them."""
    first, second, third, _ = HOPS[family]
    plain = entry(PREFIXES[family][0], first)
    ways = [(first,), (second,), (first, second), (first, third)]
    forms = [plain._replace(next_hops=way) for way in ways if family == IPV4 or way == (first,)]
    single = (plain._replace(nexthop_id=7), plain._replace(mtu=1400, advmss=1200))
    several = st.lists(st.sampled_from(forms), min_size=1, max_size=3, unique=True)
    return several | st.sampled_from(single).map(lambda route: [route])


def listed(host: Snapshot) -> list[str]:
    """The routes to the prefixes, as text; those to one prefix in their order."""
    routes = sorted(routes_to(EVERY, host), key=lambda route: route.prefix)
    return [str(route) for route in routes]


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.parametrize("family", [IPV4, IPV6])
@laws
@given(data=st.data(), refused=st.sampled_from([None, None, 1, 2, 3]))
def test_typed_routes_that_a_request_could_confuse(
    linux: NetlinkBackend, family: int, data: st.DataObject, refused: int | None
) -> None:
    """A deletion takes the first route that fits it: all the same, what is planned is done."""
    kernel = FaultyBackend(linux)
    there = data.draw(typed(family))
    hops = tuple(HOPS[family][: data.draw(st.integers(1, 2))])
    default = entry(Prefix(family, 0, 0), hops[0], protocol=9)._replace(next_hops=hops)
    put(linux, [default])
    place, other_place, _ = PREFIXES[family]
    nexthop = entry(place, hops[0]).way.split()
    completed(["ip", "nexthop", "replace", "id", "7", *nexthop], check=True)
    linux.change(RouteRequest("append", route) for route in there)
    as_the_default = StaticRoute(place.to_network())
    wanted = data.draw(st.sampled_from([[], [by(place, hops[0])], [as_the_default]]))
    plan, before = planned(kernel, [*wanted, by(other_place, hops[0])])
    if refused is not None:
        kernel.fail("change", errno.EINVAL, nth=min(refused, len(plan.changes)))

    error = error_of(plan, kernel, before)

    now = listed(kernel.snapshot())
    if refused is None:
        assert error is None
        assert now == listed(plan.apply_to(before))
    else:
        assert isinstance(error, ApplyError)
        assert (error.after == AS_BEFORE) is (now == listed(before))
        if len(there) == 1:
            assert error.after == AS_BEFORE


@settings(laws, max_examples=scaled(400))
@given(
    hosts(),
    wishes(),
    st.sampled_from([*FAULTS, *INTERRUPTIONS, "cancelled"]),
    st.integers(1, 9),
    st.sampled_from([0, 0, 1]),
)
@example([], [by(PLACE, ROUTER_1), by(OTHER_PLACE, ROUTER_1)], "cannot be read back", 1, 1)
@example([WITH_SOURCE, entry(SIX, SIX_1)], [by(SIX, SIX_1)], "interrupted at a reading", 1, 0)
@example([], [by(PLACE, ROUTER_1)], "cannot be read back", 2, 1)
@example([entry(PLACE, ROUTER_1, 5)], [by(PLACE, ROUTER_1, 5), by(PLACE, ROUTER_1)], "hangs", 1, 0)
@example([], [by(PLACE, ROUTER_1)], "cancelled", 2, 0)
def test_a_fault_at_any_request(
    there: list[Route], wanted: list[StaticRoute], fault: str, nth: int, refusals: int
) -> None:
    """Whatever fails, the table is the planned one, the one before, or what the error says."""
    kernel = FaultyBackend(fake())
    _, theirs = put_and_own(kernel, there)
    plan, before = planned(kernel, wanted)
    assume(not plan.conflicts)
    for _ in range(refusals):
        kernel.fail("change", errno.EINVAL)
    check = Mock()
    if fault in FAULTS:
        point, error, is_done = FAULTS[fault]
        after_refusals = refusals if point == "change" else 0
        kernel.fail(point, error, nth=nth + after_refusals, done=is_done)
    elif fault in INTERRUPTIONS:
        kernel.meanwhile(INTERRUPTIONS[fault], ctrl_c, nth=nth)
    else:
        check.side_effect = chain(repeat(None, nth - 1), repeat(phases.Cancelled("SIGTERM")))

    raised = error_of(plan, kernel, before, check)

    if fault in FAULTS:
        assert isinstance(raised, ApplyError | RouteConflict | None)
    elif fault == "cancelled" and nth <= 2 - refusals and plan.changes:
        assert isinstance(raised, phases.Cancelled)
    without_faults = kernel.inner
    now = without_faults.snapshot()
    if raised is None:
        again, _ = planned(without_faults, wanted)
        assert again.changes == ()
    elif isinstance(raised, ApplyError) and raised.after.startswith(NOT_KNOWN):
        assert fault == "cannot be read back"
    else:
        assert says_what_is_true(raised, now, before), raised
        of_ours = [route.key for route in before.routes if route.protocol == OURS]
        # If Linux does not delete one of two of ours, the next deletion can take it for its own.
        has_two_of_ours = len(of_ours) > len({*of_ours})
        planned_routes = before._replace(routes=tuple(step.route for step in plan.steps))
        is_misread = may_be_misread(before) or may_be_misread(planned_routes)
        if refusals == 0 and not is_misread and not has_two_of_ours:
            assert in_any_order(now) == in_any_order(before)
    assert take_owned(without_faults)[1] == theirs


def test_several_of_ours_come_back() -> None:
    """After a rollback, routes with one key have their order again."""
    kernel = FaultyBackend(fake())
    put(kernel, [entry(PLACE, ROUTER_1), entry(PLACE, ROUTER_2)])
    plan, before = planned(kernel, [])
    kernel.fail("snapshot", LATE)
    assert AS_BEFORE in str(error_of(plan, kernel, before))
    kernel.fail("snapshot", LATE)
    kernel.fail("change", LATE, nth=3)
    reason = f"rolled back ({LATE}): there is now no route instead of ["
    assert reason in str(error_of(plan, kernel, before))


def test_two_that_are_refused() -> None:
    """The error names just the routes that are refused; the second one is deleted again."""
    kernel = FaultyBackend(fake())
    put(kernel, [entry(PLACE, ROUTER_2)])
    plan, before = planned(kernel, [by(place, ROUTER_1) for place in PREFIXES[IPV4]])
    kernel.fail("change", errno.EINVAL, nth=1)
    kernel.fail("change", errno.ENETDOWN, nth=3)
    done: list[RouteRequest] = []
    with pytest.raises(ApplyError) as caught:
        apply_plan(plan, kernel, before=before, done=done)
    first, third = caught.value.reasons
    assert str(PLACE) in first
    assert f"{THIRD_PLACE}" in third
    assert "its device is down" in third
    assert not caught.value.can_retry
    assert caught.value.after == AS_BEFORE
    assert done == []


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.parametrize("family", [IPV4, IPV6])
@laws
@given(data=st.data(), refused=st.sampled_from([None, None, 1, 2]))
def test_packets_never_lack_a_route_that_changes(
    linux: NetlinkBackend, family: int, data: st.DataObject, refused: int | None
) -> None:
    """Not while it moves, unless its new next hops begin with those of the old one."""
    hops = HOPS[family]
    ways: list[tuple[NextHop, ...]] = [(hop,) for hop in hops]
    if family == IPV4:
        ways += [tuple(hops[:2]), tuple(hops[1:3]), (hops[1], hops[0])]
    old, new = data.draw(st.sampled_from(ways)), data.draw(st.sampled_from(ways))
    assume(set(old) != set(new))
    place = PREFIXES[family][0]
    default = entry(Prefix(family, 0, 0), new[0], protocol=9)._replace(next_hops=new)
    put(linux, [default])
    route = entry(place, old[0])._replace(next_hops=old)
    linux.change([RouteRequest("add", route)])
    kernel = FaultyBackend(linux)
    wish = by(place, new[0]) if len(new) == 1 else StaticRoute(place.to_network())
    plan, before = planned(kernel, [wish])
    assert [step.action for step in plan.steps] == ["delete", "add"]
    if refused is not None:
        kernel.fail("change", errno.EINVAL, nth=refused)
    routes: list[Route | None] = []
    for nth in (1, 2, 3, 4):
        kernel.meanwhile(
            "change", lambda: routes.append(linux.lookup([place.ip])[0].route), nth=nth
        )

    error = error_of(plan, kernel, before)

    assert isinstance(error, ApplyError) is (refused is not None)
    if new[: len(old)] != old:
        assert {route and route.prefix for route in routes} == {place}
    if error is not None:
        assert listed(kernel.snapshot()) == listed(before)
