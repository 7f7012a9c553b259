"""apply on the kernel itself: broken off anywhere, and on a host that never rests."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostrouting.errors import ApplyError, BackendError
from hostrouting.kernel.base import RouteRequest
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.kernel.netlink import read as reading
from hostrouting.kernel.netlink.channel import Channel
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import OURS, NextHop, Route
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.routes.apply import apply_plan
from hostrouting.routes.plan import plan_routes
from hostrouting.routes.uplink import DesiredRoute
from tests.support.commands import furnish
from tests.support.kinds import raises
from tests.support.namespace import Namespace, private_namespace
from tests.support.notes import notes_of

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

FOREIGN = 186
KEYS = [Prefix.parse("20.0.0.0/16"), Prefix.parse("20.0.0.0/24"), Prefix.parse("20.1.0.0/16")]
GATEWAYS = [as_ip(f"10.0.0.{number}") for number in (1, 2, 3)]
ELSEWHERE = [Route.to(f"30.0.{low}.0/24", dev="eth0", gateway="10.0.0.1", protocol=FOREIGN) for low in range(200)]
AS_BEFORE = "every change was rolled back: the route table is as it was before"


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    """eth0 with 10.0.0.4/24, and another program's routes."""
    with private_namespace() as made:
        furnish(made, (Link(name="eth0", index=0),), set())
        with NetlinkBackend(netns=made.path) as backend:
            backend.change(RouteRequest("add", route) for route in ELSEWHERE)
        yield made


@pytest.fixture
def backend(namespace: Namespace) -> Iterator[NetlinkBackend]:
    """A backend there; the prefixes that the tests are about are empty."""
    with NetlinkBackend(netns=namespace.path) as made:
        empty(made)
        yield made


def empty(backend: NetlinkBackend) -> None:
    """Delete all routes to the prefixes that the tests are about."""
    standing = backend.snapshot(prefixes=KEYS).routes
    assert all(outcome.ok for outcome in backend.change(RouteRequest("delete", route) for route in standing))


def table(snapshot: Snapshot) -> dict[object, list[Route]]:
    """By key the routes to these prefixes: the one that the kernel takes, and those behind it in any order."""
    found: dict[object, list[Route]] = {}
    for route in snapshot.routes:
        if route.prefix in KEYS:
            found.setdefault(route.key, []).append(route)
    return {key: [routes[0], *sorted(routes[1:], key=str)] for key, routes in found.items()}


def route(prefix: Prefix, gateway: Any, metric: int, protocol: int) -> Route:
    """A route by eth0."""
    return Route(prefix, (NextHop("eth0", gateway=gateway),), metric=metric, protocol=protocol)


present = st.lists(
    st.builds(
        route,
        st.sampled_from(KEYS),
        st.sampled_from(GATEWAYS),
        st.sampled_from([0, 5]),
        st.sampled_from([OURS, OURS, FOREIGN]),
    ),
    max_size=6,
)
wishes = st.lists(
    st.builds(
        DesiredRoute,
        st.sampled_from(KEYS),
        dev=st.just("eth0"),
        gateway=st.sampled_from(GATEWAYS),
        metric=st.sampled_from([0, 5]),
    ),
    unique_by=lambda wish: wish.key,
    max_size=4,
)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_broken_off_anywhere(backend: NetlinkBackend, data: st.DataObject) -> None:
    """Ctrl-C at any answer of the kernel's: the table is the one before, and the note says so; else the one planned."""
    empty(backend)
    backend.change(RouteRequest("append", it) for it in data.draw(present))
    before = backend.snapshot(family=4)
    plan = plan_routes(data.draw(wishes), before)
    if plan.conflicts or not plan.changes:
        return
    receive, left = Channel.receive, data.draw(st.integers(1, 40))

    def broken(channel: Channel, *, wait: bool = True) -> bytes:
        nonlocal left
        answer = receive(channel, wait=wait)
        left -= 1
        if not left:
            raise KeyboardInterrupt
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Channel, "receive", broken)
        notes = notes_of_interrupted(lambda: apply_plan(plan, backend, before=before))
    assert table(backend.snapshot()) == table(before if notes else plan.apply_to(before))
    assert all(note.startswith(AS_BEFORE) for note in notes)
    assert set(ELSEWHERE) <= set(backend.snapshot(family=4, protocol=FOREIGN).routes)


def notes_of_interrupted(work: Callable[[], object]) -> list[str]:
    """The notes of the KeyboardInterrupt with which the work ends; none if it does not."""
    try:
        work()
    except KeyboardInterrupt as stopped:
        return notes_of(stopped)
    return []


class Restless:
    """A host where another program makes a change each time routes are listed."""

    def __init__(
        self, namespace: Namespace, monkeypatch: pytest.MonkeyPatch, happening: Callable[[int], RouteRequest]
    ) -> None:
        """From now on; `happening` says what, the how-manieth time it is."""
        listing, self.times = reading.list_routes, 0

        def disturbed(*arguments: Any) -> Any:
            with NetlinkBackend(netns=namespace.path) as somebody:
                somebody.change([happening(self.times)])
            self.times += 1
            return listing(*arguments)

        monkeypatch.setattr(reading, "list_routes", disturbed)


def back_and_forth(prefix: str, **options: Any) -> Callable[[int], RouteRequest]:
    """Another program's route, which changes its gateway each time."""
    return lambda time: RouteRequest(
        "replace", Route.to(prefix, dev="eth0", gateway=str(GATEWAYS[time % 2]), protocol=FOREIGN, **options)
    )


WANTED = [DesiredRoute(KEYS[0], dev="eth0", gateway=GATEWAYS[0])]


@pytest.mark.parametrize(
    "happening",
    [back_and_forth("203.0.113.0/24", table=200), back_and_forth("203.0.113.0/24"), back_and_forth("20.0.9.0/24")],
    ids=["in another table", "elsewhere", "nearby"],
)
def test_on_a_host_that_never_rests(
    namespace: Namespace,
    backend: NetlinkBackend,
    monkeypatch: pytest.MonkeyPatch,
    happening: Callable[[int], RouteRequest],
) -> None:
    """What others do at other prefixes all the time keeps no plan from being carried out, nor from being undone."""
    before = backend.snapshot(family=4)
    plan = plan_routes(WANTED, before)
    restless = Restless(namespace, monkeypatch, happening)
    apply_plan(plan, backend, before=before)
    assert [str(route.prefix) for route in backend.snapshot(prefixes=KEYS).routes] == ["20.0.0.0/16"]
    assert restless.times == 2
    with raises(BackendError, "unsettled"):
        backend.snapshot(family=4)

    looks: list[int] = []

    def stop() -> None:
        looks.append(len(backend.snapshot(prefixes=KEYS).routes))
        if looks[-1] == 0:
            raise KeyboardInterrupt

    before = backend.snapshot(prefixes=KEYS)
    with pytest.raises(KeyboardInterrupt) as caught:
        apply_plan(plan_routes((), before), backend, before=before, check=stop)
    assert looks == [1, 0]
    assert notes_of(caught.value) == [AS_BEFORE]
    assert [str(route.prefix) for route in backend.snapshot(prefixes=KEYS).routes] == ["20.0.0.0/16"]


def test_on_a_host_that_never_rests_at_this_very_place(
    namespace: Namespace, backend: NetlinkBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If other programs keep changing the same prefix, our route is still rolled back, by the last reading."""
    before = backend.snapshot(family=4)
    plan = plan_routes(WANTED, before)
    Restless(namespace, monkeypatch, back_and_forth("20.0.0.0/16", metric=77))
    with pytest.raises(ApplyError, match="changed during each of 8 attempts") as caught:
        apply_plan(plan, backend, before=before)
    assert caught.value.after == AS_BEFORE
    monkeypatch.undo()
    assert [route.metric for route in backend.snapshot(prefixes=KEYS).routes] == [77]


def test_a_link_that_comes_and_goes_matters(
    namespace: Namespace, backend: NetlinkBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deleted device removes its routes without an event for each: all requested prefixes are read again."""
    listing, times = reading.list_routes, 0

    def disturbed(*arguments: Any) -> Any:
        nonlocal times
        times += 1
        if times == 1:
            namespace.batch(["link add dum0 type veth peer name dum1"])
        return listing(*arguments)

    monkeypatch.setattr(reading, "list_routes", disturbed)
    assert backend.snapshot(table=254, prefixes=KEYS).link("dum0")
    assert times == 2


@pytest.mark.parametrize("theirs", [False, True])
def test_one_leg_becomes_two(backend: NetlinkBackend, theirs: bool) -> None:  # noqa: FBT001  parametrised
    """An old route of ours with the same first next hop as the new one is still told apart from it."""
    old = route(KEYS[0], GATEWAYS[0], 0, OURS)
    foreign = [route(KEYS[0], GATEWAYS[2], 0, FOREIGN)] if theirs else []
    verbs = ("add", "append")
    for verb, it in zip(verbs, [old, *foreign], strict=False):
        (outcome,) = backend.change([RouteRequest(verb, it)])  # type: ignore[arg-type]  # one of the two
        assert outcome.ok
    default = Route(Prefix.parse("0.0.0.0/0"), tuple(NextHop("eth0", gateway=gateway) for gateway in GATEWAYS[:2]))
    assert all(outcome.ok for outcome in backend.change([RouteRequest("add", default)]))
    try:
        before = backend.snapshot(family=4)
        plan = plan_routes([DesiredRoute(KEYS[0])], before)
        apply_plan(plan, backend, before=before)
        now = [it for it in backend.snapshot(family=4).routes if it.prefix == KEYS[0]]
        assert [[leg.gateway for leg in it.legs] for it in now] == [
            [*GATEWAYS[:2]],
            *([leg.gateway for leg in it.legs] for it in foreign),
        ]
        assert not plan_routes([DesiredRoute(KEYS[0])], backend.snapshot(family=4)).changes
    finally:
        backend.change([RouteRequest("delete", default)])
