"""apply: a plan is carried out whole or not at all, whatever goes wrong and at whichever step."""

import errno
import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import Mock, patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import phases
from hostrouting.errors import ApplyError, BackendError, RouteConflict
from hostrouting.host.effects import effects_of
from hostrouting.kernel.base import RouteRequest
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import OURS, NextHop, Route
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.apply import Applied, apply_plan, put_back, take_away
from hostrouting.routes.plan import RoutePlan, plan_exactly, plan_routes
from hostrouting.routes.uplink import DesiredRoute
from hostrouting.testing import Faults, MemoryBackend, plain_vm
from hostrouting.testing.kernel import Moment
from tests.support.notes import notes_of

FOREIGN = 4
DESTINATIONS = [Prefix.parse(text) for text in ("10.1.0.0/16", "10.1.0.0/17", "10.1.0.0/24", "10.2.0.0/16")]
GATEWAYS = [as_ip(f"10.0.0.{number}") for number in (1, 2, 3)]

wishes = st.lists(
    st.builds(
        DesiredRoute,
        st.sampled_from(DESTINATIONS),
        gateway=st.sampled_from([*GATEWAYS, None]),
        metric=st.sampled_from([0, 5]),
    ),
    unique_by=lambda wish: wish.key,
    max_size=5,
)


def route(destination: Prefix, gateway: object, metric: int, protocol: int) -> Route:
    """A route by eth0 through one of the gateways."""
    return Route(destination, (NextHop("eth0", gateway=as_ip(str(gateway))),), metric=metric, protocol=protocol)


present = st.lists(
    st.builds(
        route,
        st.sampled_from(DESTINATIONS),
        st.sampled_from(GATEWAYS),
        st.sampled_from([0, 5]),
        st.sampled_from([OURS, OURS, FOREIGN]),
    ),
    max_size=6,
)


def host(routes: list[Route]) -> MemoryBackend:
    """A plain VM with these routes, as far as the kernel takes them."""
    kernel = plain_vm()
    kernel.change([RouteRequest("append", route) for route in routes])
    return kernel


def planned(kernel: MemoryBackend, wanted: list[DesiredRoute]) -> tuple[RoutePlan, Snapshot]:
    """The plan for the host, and the snapshot that it was made from."""
    before = kernel.snapshot()
    return plan_routes(wanted, before), before


def routes_of(kernel: MemoryBackend | Snapshot) -> tuple[Route, ...]:
    """The routes to the destinations that the tests are about, in the kernel's order."""
    snapshot = kernel if isinstance(kernel, Snapshot) else kernel.snapshot()
    return tuple(route for route in snapshot.routes if route.prefix in DESTINATIONS)


def by_key(routes: tuple[Route, ...]) -> dict[object, tuple[Route, ...]]:
    """The routes by what the kernel tells them apart by: only among those of one key does the order matter."""
    keys = {route.key for route in routes}
    return {key: tuple(route for route in routes if route.key == key) for key in keys}


def as_taken(routes: tuple[Route, ...]) -> dict[object, tuple[Route, Counter[Route]]]:
    """By key the route that the kernel takes, and those behind it in any order: so far a table can be restored."""
    return {key: (them[0], Counter(them[1:])) for key, them in by_key(routes).items()}


def moments(kernel: MemoryBackend) -> list[set[Route]]:
    """The routes just before each change from now on; a list that grows."""
    seen: list[set[Route]] = []
    for nth in range(1, 60):
        kernel.faults.meanwhile("change", lambda: seen.append(set(routes_of(kernel._now()))), nth=nth)
    return seen


def is_made_before_broken(seen: list[set[Route]], before: Snapshot, plan: RoutePlan) -> bool:
    """Whether each route that goes was there as long as one that comes was not, and so also in a rollback."""
    then, wanted = set(routes_of(before)), set(routes_of(plan.apply_to(before)))
    return not any((then - wanted) - there and (wanted - then) - there for there in seen)


def raised_by(call: Callable[[], object]) -> BaseException | None:
    """What the call raises."""
    try:
        call()
    except BaseException as error:  # noqa: BLE001  it is looked at
        return error
    return None


@given(present, wishes)
def test_what_is_planned_is_what_there_is(routes: list[Route], wanted: list[DesiredRoute]) -> None:
    """After a plan was applied the table is what it says, a new plan is empty, and others' routes are untouched."""
    kernel = host(routes)
    plan, before = planned(kernel, wanted)
    if plan.conflicts:
        with pytest.raises(RouteConflict) as caught:
            apply_plan(plan, kernel, before=before)
        assert len(caught.value.findings) == len(plan.conflicts)
        assert kernel.snapshot() == before
        return
    seen = moments(kernel)
    applied = apply_plan(plan, kernel, before=before)
    assert is_made_before_broken(seen, before, plan)
    assert by_key(routes_of(kernel)) == by_key(routes_of(plan.apply_to(before)))
    assert planned(kernel, wanted)[0].changes == ()
    assert [it for it in routes_of(kernel) if it.protocol == FOREIGN] == [
        it for it in routes_of(before) if it.protocol == FOREIGN
    ]
    assert bool(applied.changes) == bool(plan.changes)


FAULTS: dict[str, Callable[[MemoryBackend, int], None]] = {
    "refused": lambda kernel, nth: kernel.faults.fail("change", errno.EINVAL, nth=nth),
    "gateway gone": lambda kernel, nth: kernel.faults.fail("change", errno.ENETUNREACH, nth=nth),
    "not permitted": lambda kernel, nth: kernel.faults.fail(
        "change", BackendError("no", kind="not-permitted"), nth=nth
    ),
    "hangs": lambda kernel, nth: kernel.faults.hang("change", nth=nth),
    "hangs, but does it": lambda kernel, nth: kernel.faults.hang("change", nth=nth, done=True),
    "cannot be read back": lambda kernel, nth: kernel.faults.hang("snapshot", nth=nth),
    "is never at rest": lambda kernel, nth: kernel.faults.fail(
        "snapshot", BackendError("busy", kind="unsettled"), nth=nth
    ),
}
AS_BEFORE = "every change was rolled back: the route table is as it was before"
BETWEEN = [route(DESTINATIONS[0], f"10.0.0.{at}", 0, OURS if at == 2 else FOREIGN) for at in (1, 2, 3)]


# Of two of ours before another's route, the second went and the first did not: it cannot be put between them.
TWO_BEFORE = [
    route(DESTINATIONS[0], f"10.0.0.{last}", 0, protocol) for last, protocol in ((1, OURS), (2, OURS), (1, FOREIGN))
]


@example(TWO_BEFORE, [], "gateway gone", 1)
@given(present, wishes, st.sampled_from(sorted(FAULTS)), st.integers(1, 9))
@example(BETWEEN, [], "cannot be read back", 1)
@example([BETWEEN[1], BETWEEN[0]], [DesiredRoute(DESTINATIONS[0], gateway=as_ip("10.0.0.3"))], "is never at rest", 1)
def test_all_or_nothing(routes: list[Route], wanted: list[DesiredRoute], fault: str, nth: int) -> None:
    """Whatever fails at whichever step: the table is the one before or the one planned, and the report says which.

    Before means: the kernel takes the same routes, and behind them are the same, whose order cannot always be restored.
    """
    kernel = host(routes)
    plan, before = planned(kernel, wanted)
    if plan.conflicts:
        return
    FAULTS[fault](kernel, nth)
    seen = moments(kernel)
    error = raised_by(lambda: apply_plan(plan, kernel, before=before))
    kernel.faults = Faults()
    assert is_made_before_broken(seen, before, plan)
    if error is None:
        assert by_key(routes_of(kernel)) == by_key(routes_of(plan.apply_to(before)))
    else:
        assert isinstance(error, ApplyError)
        assert as_taken(routes_of(kernel)) == as_taken(routes_of(before)), str(error)
        exactly = by_key(routes_of(kernel)) == by_key(routes_of(before))
        assert error.after.startswith(AS_BEFORE)
        assert exactly == (error.after == AS_BEFORE)
        assert exactly or ", but where there are several routes to 10." in error.after


@given(present, wishes, st.integers(0, 9), st.sampled_from([1, 2, 5_000]))
@example(
    [BETWEEN[1], BETWEEN[2], route(DESTINATIONS[0], "10.0.0.1", 0, OURS)],
    [DesiredRoute(DESTINATIONS[0], gateway=as_ip("10.0.0.1"))],
    1,
    2,
)
def test_stopped_at_any_step(routes: list[Route], wanted: list[DesiredRoute], nth: int, at_once: int) -> None:
    """Told to stop at whichever step, everything is as before, and the order to stop comes out with a note of it."""
    kernel = host(routes)
    plan, before = planned(kernel, wanted)
    if plan.conflicts or not plan.changes:
        return
    looks, seen = 0, moments(kernel)

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks > nth:
            raise phases.Cancelled("SIGTERM")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hostrouting.routes.apply._AT_ONCE", at_once)
        stopped = raised_by(lambda: apply_plan(plan, kernel, before=before, check=check))
    if stopped is None:
        assert by_key(routes_of(kernel)) == by_key(routes_of(plan.apply_to(before)))
    else:
        assert isinstance(stopped, phases.Cancelled)
        assert as_taken(routes_of(kernel)) == as_taken(routes_of(before))
        [note] = notes_of(stopped)
        assert note.startswith(AS_BEFORE)
        assert len(effects_of(stopped).changes) == len(seen)


somebodys = st.builds(
    RouteRequest,
    st.sampled_from(["add", "append", "prepend", "replace", "delete"]),
    st.builds(
        route,
        st.sampled_from(DESTINATIONS),
        st.sampled_from(["10.0.0.1", "10.0.0.9"]),
        st.sampled_from([0, 5]),
        st.sampled_from([FOREIGN, FOREIGN, OURS]),
    ),
)


@given(present, wishes, somebodys, st.sampled_from(["change", "snapshot"]), st.integers(1, 6))
@example(
    [BETWEEN[1], BETWEEN[2]],
    [DesiredRoute(DESTINATIONS[0], gateway=as_ip("10.0.0.1"))],
    RouteRequest("prepend", route(DESTINATIONS[0], "10.0.0.9", 0, FOREIGN)),
    "change",
    1,
)
@example(  # a route that is kept
    [route(DESTINATIONS[0], GATEWAYS[0], 0, OURS)],
    [DesiredRoute(destination, gateway=GATEWAYS[0]) for destination in DESTINATIONS[:2]],
    RouteRequest("delete", route(DESTINATIONS[0], GATEWAYS[0], 0, OURS)),
    "change",
    1,
)
def test_somebody_else_at_the_same_time(
    routes: list[Route], wanted: list[DesiredRoute], theirs: RouteRequest, moment: Moment, nth: int
) -> None:
    """Whatever other programs do meanwhile, their routes stay, and ours are applied all or not at all."""
    kernel = host(routes)
    plan, before = planned(kernel, wanted)
    if plan.conflicts:
        return
    foreign = [foreigners(before)]

    def somebody_else() -> None:
        MemoryBackend.change(kernel, [theirs])
        foreign.append(foreigners(kernel.snapshot()))

    kernel.faults.meanwhile(moment, somebody_else, nth=nth)
    error = raised_by(lambda: apply_plan(plan, kernel, before=before))
    kernel.faults = Faults()
    assert foreigners(kernel.snapshot()) == foreign[-1]
    if error is None:
        concerned = {step.route.key for step in plan.steps}
        now, then = by_key(routes_of(kernel)), by_key(routes_of(plan.apply_to(before)))
        assert {key: now.get(key) for key in concerned} == {key: then.get(key) for key in concerned}
    else:
        assert isinstance(error, ApplyError)
        assert set(ours_of(kernel)) >= set(ours_of(before)), str(error)
        assert error.after.startswith(AS_BEFORE) == (as_taken(routes_of(kernel)) == as_taken(routes_of(before)))


def foreigners(snapshot: Snapshot) -> dict[object, tuple[Route, ...]]:
    """The routes of others by key, in their order."""
    return by_key(tuple(it for it in routes_of(snapshot) if it.protocol != OURS))


def ours_of(kernel: MemoryBackend | Snapshot) -> list[Route]:
    """Our routes."""
    return [it for it in routes_of(kernel) if it.protocol == OURS]


@pytest.mark.parametrize(
    ("standing", "wanted", "expected"),
    [
        ([((2,), OURS), ((3,), FOREIGN), ((1,), OURS)], (1,), [((1,), OURS), ((3,), FOREIGN)]),
        ([((1,), OURS), ((3,), FOREIGN)], (1, 2), [((1, 2), OURS), ((3,), FOREIGN)]),
        ([((1, 2), OURS), ((3,), FOREIGN)], (1,), [((1,), OURS), ((3,), FOREIGN)]),
        ([((1, 2), OURS)], (), []),
        ([((1,), OURS)], (1, 2), [((1, 2), OURS)]),
    ],
    ids=["wanted one behind", "the same first next hop", "the same first of two next hops", "two next hops", "alone"],
)
def test_which_of_several_is_deleted(
    standing: list[tuple[tuple[int, ...], int]], wanted: tuple[int, ...], expected: list[tuple[tuple[int, ...], int]]
) -> None:
    """Linux deletes the first route that looks like the one of the request, so ours goes before its like comes."""

    def routes(those: list[tuple[tuple[int, ...], int]]) -> list[Route]:
        legs = [tuple(NextHop("eth0", gateway=GATEWAYS[hop - 1]) for hop in hops) for hops, _ in those]
        return [Route(DESTINATIONS[0], hops, protocol=by) for hops, (_, by) in zip(legs, those, strict=True)]

    kernel = host([*routes(standing), route(DESTINATIONS[3], GATEWAYS[0], 0, OURS)])
    before, new = kernel.snapshot(), routes([(wanted, OURS)] if wanted else [])
    plan = plan_exactly(new, before, about=[DESTINATIONS[0], DESTINATIONS[3]])
    seen = moments(kernel)
    apply_plan(plan, kernel, before=before)
    assert len(standing) > 1 or is_made_before_broken(seen, before, plan)
    assert routes_of(kernel) == (*routes(expected),) == routes_of(plan.apply_to(before))


@pytest.mark.parametrize("done", range(4))
def test_deletions_are_undone_in_place(done: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After any of the deletions, each route is put back where it was, around those of another program."""
    monkeypatch.setattr("hostrouting.routes.apply._AT_ONCE", 1)
    owners = (OURS, OURS, FOREIGN, FOREIGN, OURS, OURS)
    kernel = host([route(DESTINATIONS[0], f"10.0.0.{at}", 0, by) for at, by in enumerate(owners, 1)])
    plan, before = planned(kernel, [])
    check = Mock(side_effect=[*[None] * done, KeyboardInterrupt])
    with pytest.raises(KeyboardInterrupt):
        apply_plan(plan, kernel, before=before, check=check)
    assert routes_of(kernel) == routes_of(before)


def test_a_device_without_a_carrier() -> None:
    """Next hops that are down now are still those of the plan."""
    kernel = plain_vm()
    plan, before = planned(kernel, [DesiredRoute(DESTINATIONS[0], gateway=GATEWAYS[0])])
    kernel.set_carrier("eth0", carrier=False)
    apply_plan(plan, kernel, before=before)
    assert [leg.linkdown for it in routes_of(kernel) for leg in it.legs] == [True]


@pytest.mark.parametrize(
    ("more", "about"),
    [
        ([], {"family": 4, "table": 254, "prefixes": {DESTINATIONS[0]}}),
        (["fd00:9::/32", "10.9.0.0/16"], {"family": None, "table": None}),
    ],
)
def test_what_is_read_back(more: list[str], about: dict[str, object]) -> None:
    """Only the routes that the plan is about are read: once if nothing is deleted, and after a rollback until it is right."""
    kernel = plain_vm()
    kernel.add_address("eth0", "fd10::9/64")
    before = kernel.snapshot()
    new = [Route.to(text, dev="eth0", table=100 + at, metric=1024, protocol=OURS) for at, text in enumerate(more)]
    new += [route(DESTINATIONS[0], GATEWAYS[0], 0, OURS)]
    plan = plan_exactly(new, before, about=[])
    with patch.object(kernel, "snapshot", wraps=kernel.snapshot) as read:
        apply_plan(plan, kernel, before=before)
    (call,) = read.call_args_list
    assert {**call.kwargs, **about} == call.kwargs
    undone = plan_exactly([], kernel.snapshot(), about=[DESTINATIONS[0]])
    check = Mock(side_effect=[None, KeyboardInterrupt])
    with patch.object(kernel, "snapshot", wraps=kernel.snapshot) as read, pytest.raises(KeyboardInterrupt):
        apply_plan(undone, kernel, before=kernel.snapshot(), check=check)
    assert read.call_count == 3 + 1


@pytest.mark.parametrize("is_known", [True, False])
def test_a_table_that_never_rests(is_known: bool) -> None:  # noqa: FBT001  parametrised
    """What was read last is enough to roll back, and not to go on; without it, the error says that nothing is known."""
    kernel = plain_vm()
    plan, before = planned(kernel, [DesiredRoute(DESTINATIONS[0])])
    calm = kernel.snapshot

    def restless(**about: Any) -> Snapshot:
        raise BackendError("busy", kind="unsettled", last=calm(**about) if is_known else None)

    with patch.object(kernel, "snapshot", restless), pytest.raises(ApplyError, match="busy") as caught:
        apply_plan(plan, kernel, before=before)
    unknown = "rolling back failed too (busy); the present state of the route table is not known"
    assert caught.value.after == (AS_BEFORE if is_known else unknown)
    assert bool(routes_of(kernel)) is not is_known


@st.composite
def changed_tables(draw: st.DrawFn) -> tuple[tuple[Route, ...], tuple[Route, ...]]:
    """The routes of one key before a plan, and now: others' are the same, some of ours are gone, and others came."""
    all_routes = [route(DESTINATIONS[0], hop, 0, by) for hop in GATEWAYS for by in (OURS, FOREIGN)]
    then = draw(st.lists(st.sampled_from(all_routes), unique=True, max_size=5))
    new = [it for it in all_routes if it.protocol == OURS and it not in then and draw(st.booleans())]
    there = [it for it in then if it.protocol == FOREIGN or draw(st.booleans())]
    at = draw(st.integers(0, len(new)))
    return tuple(then), (*new[:at], *there, *new[at:])


@given(changed_tables())
def test_the_way_back(tables: tuple[tuple[Route, ...], tuple[Route, ...]]) -> None:
    """Each change can be made, and leads back to the routes before; if routes are only missing, none is deleted."""
    then, now = tables
    there = list(now)
    changes = [*put_back(now, then), *take_away(now, then)]
    for change in changes:
        assert change.verb != "add" or not there
        assert (change.route in there) is (change.verb == "delete")
        if change.verb == "delete":
            there.remove(change.route)
        else:
            there.insert(0 if change.verb == "prepend" else len(there), change.route)
    assert as_taken(tuple(there)) == as_taken(then)
    if set(now) <= set(then):
        assert "delete" not in {change.verb for change in changes}


def test_what_somebody_put_in_our_place_stays_first() -> None:
    """A restored route of hostrouting is behind a route that another program put first meanwhile, and the error says so."""
    kernel = host(BETWEEN[1:])
    plan, before = planned(kernel, [DesiredRoute(DESTINATIONS[0], gateway=as_ip("10.0.0.1"))])
    theirs = route(DESTINATIONS[0], "10.0.0.9", 0, FOREIGN)
    kernel.faults.meanwhile("change", lambda: kernel.ip_route("replace", theirs), nth=2)
    with pytest.raises(ApplyError, match="not every change could be rolled back") as caught:
        apply_plan(plan, kernel, before=before)
    assert routes_of(kernel) == (theirs, BETWEEN[2], BETWEEN[1])
    assert str(theirs) in caught.value.after


def test_nothing_to_do_writes_nothing() -> None:
    """A plan that changes nothing is done without a write and without reading back."""
    kernel = plain_vm()
    wanted = [DesiredRoute(DESTINATIONS[0])]
    plan, before = planned(kernel, wanted)
    apply_plan(plan, kernel, before=before)
    plan, before = planned(kernel, wanted)
    for moment in ("change", "snapshot"):
        kernel.faults.fail(moment, BackendError("touched"))
    assert apply_plan(plan, kernel, before=before) == Applied(plan)
    assert kernel.faults.waiting == 2


def test_words_of_a_failure() -> None:
    """A failure names the route, the reason in the kernel's words, and what is true now."""
    kernel = plain_vm()
    plan, before = planned(kernel, [DesiredRoute(DESTINATIONS[0]), DesiredRoute(DESTINATIONS[3])])
    kernel.faults.fail("change", errno.ENETUNREACH, nth=2)
    with pytest.raises(ApplyError) as caught:
        apply_plan(plan, kernel, before=before)
    assert str(caught.value).startswith("the routes could not be applied: ")
    assert "10.2.0.0/16" in str(caught.value)
    assert str(caught.value).endswith("; every change was rolled back: the route table is as it was before")
    assert isinstance(caught.value.__cause__, BackendError)
    kernel = host([route(DESTINATIONS[0], GATEWAYS[0], 0, OURS)])
    plan, before = planned(kernel, [])
    kernel.faults.fail("change", errno.EBUSY)
    with pytest.raises(ApplyError, match=f"could not be applied: .*{os.strerror(errno.EBUSY)}"):
        apply_plan(plan, kernel, before=before)


def test_undoing_that_fails_too() -> None:
    """If the rollback fails as well, both errors are reported."""
    kernel = plain_vm()
    plan, before = planned(kernel, [DesiredRoute(destination) for destination in DESTINATIONS])
    kernel.faults.fail("change", errno.EINVAL, nth=4)
    kernel.faults.fail("change", BackendError("the capability is gone", kind="not-permitted"), nth=5)
    with pytest.raises(
        ApplyError,
        match=r"rolling back failed too .the capability is gone.; not every change could be rolled back: there is now",
    ):
        apply_plan(plan, kernel, before=before)


def test_undoing_is_tried_again() -> None:
    """What fails in the undoing, and may go well a moment later, is tried again."""
    kernel = plain_vm()
    plan, before = planned(kernel, [DesiredRoute(destination) for destination in DESTINATIONS])
    kernel.faults.fail("change", errno.EINVAL, nth=4)
    for nth in (1, 2):
        kernel.faults.hang("snapshot", nth=nth)
    with pytest.raises(ApplyError) as caught:
        apply_plan(plan, kernel, before=before)
    assert caught.value.after == AS_BEFORE
    assert kernel.faults.waiting == 0
    assert ours_of(kernel) == []


def test_undoing_that_cannot() -> None:
    """Each route that cannot be restored is named."""
    kernel = host([route(DESTINATIONS[0], "10.0.0.2", 0, OURS)])
    plan, before = planned(kernel, [])
    kernel.faults.meanwhile("snapshot", lambda: kernel.set_down("eth0"))
    with pytest.raises(ApplyError) as caught:
        apply_plan(
            plan._replace(steps=(*plan.steps, *planned(plain_vm(), [DesiredRoute(DESTINATIONS[3])])[0].steps)),
            kernel,
            before=before,
        )
    assert "not every change could be rolled back: there is now no route instead of [10.1.0.0/16" in str(caught.value)


def test_a_plan_that_is_not_ready() -> None:
    """A plan that waits for something is not carried out in part."""
    kernel = MemoryBackend()
    plan, before = planned(kernel, [DesiredRoute(DESTINATIONS[0])])
    with pytest.raises(ValueError, match=r"the plan is not ready: 10.1.0.0/16: waiting for an IPv4 default route"):
        apply_plan(plan, kernel, before=before)


def test_many_failures_are_counted() -> None:
    """Of very many reasons the message has the first ten and a count; the error has all."""
    error = ApplyError(*map(str, range(30)), after="all is as before")
    assert str(error).endswith("9 (and 20 more); all is as before")
    assert len(error.reasons) == 30


def test_the_routes_that_are_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the keys of all routes that are refused, from however many batches, or that do not stay.

    While any is missing, the route that is no longer wanted is not deleted. Kills: verify_made is left out.
    """
    monkeypatch.setattr("hostrouting.routes.apply._AT_ONCE", 1)
    kernel = host([route(DESTINATIONS[3], GATEWAYS[0], 0, OURS)])
    plan, before = planned(kernel, [DesiredRoute(destination, gateway=GATEWAYS[0]) for destination in DESTINATIONS[:3]])
    keys = [step.route.key for step in plan.changes]

    def undo() -> None:
        kernel.ip_route("delete", plan.changes[1].route)

    for faults, expected in (
        ([partial(kernel.faults.fail, "change", errno.EINVAL, nth=nth) for nth in (1, 3)], {keys[0], keys[2]}),
        ([partial(kernel.faults.meanwhile, "snapshot", undo)], {keys[1]}),
        ([partial(kernel.faults.fail, "change", BackendError("no", kind="not-permitted"))], set()),
    ):
        for fault in faults:
            fault()
        with pytest.raises(ApplyError) as caught:
            apply_plan(plan, kernel, before=before)
        assert caught.value.refused == expected
        assert caught.value.after == AS_BEFORE
        assert plan.changes[3].route not in [change.route for change in effects_of(caught.value).changes]
    apply_plan(plan, kernel, before=before)


@pytest.mark.parametrize("theirs", [OURS, FOREIGN])
def test_another_of_ours_was_quicker(theirs: int) -> None:
    """A route that came meanwhile, exactly as wanted, is fine: the boot script and the task may run at the same time.

    Anything else in its place is one, and is left alone.
    """
    kernel = plain_vm()
    wanted = [DesiredRoute(destination, gateway=GATEWAYS[0]) for destination in DESTINATIONS]
    plan, before = planned(kernel, wanted)
    theirs_now = route(DESTINATIONS[0], GATEWAYS[0], 0, theirs)
    kernel.faults.meanwhile("change", lambda: kernel.ip_route("add", theirs_now))
    if theirs == OURS:
        apply_plan(plan, kernel, before=before)
        assert {it.protocol for it in routes_of(kernel)} == {OURS}
        assert planned(kernel, wanted)[0].changes == ()
    else:
        with pytest.raises(ApplyError, match="File exists"):
            apply_plan(plan, kernel, before=before)
        assert routes_of(kernel) == (theirs_now,)
