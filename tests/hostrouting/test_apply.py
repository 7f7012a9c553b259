"""apply: a plan is carried out whole or not at all, whatever goes wrong and at whichever step."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import phases
from hostrouting.apply import Applied, apply_plan
from hostrouting.backends.base import Change
from hostrouting.errors import ApplyError, BackendError, NotPermitted, RouteConflict
from hostrouting.model import OURS, NextHop, Prefix, Route, Snapshot, as_ip
from hostrouting.plan import RoutePlan, plan_routes
from hostrouting.testing import Faults, MemoryBackend, h200, plain_vm
from hostrouting.uplink import DesiredRoute

if TYPE_CHECKING:
    from collections.abc import Callable

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
    kernel.change([Change("append", it) for it in routes])
    return kernel


def planned(kernel: MemoryBackend, wanted: list[DesiredRoute]) -> tuple[RoutePlan, Snapshot]:
    """The plan for the host, and the snapshot that it was made from."""
    before = kernel.snapshot()
    return plan_routes(wanted, before), before


def routes_of(kernel: MemoryBackend | Snapshot) -> tuple[Route, ...]:
    """The routes to the destinations that the tests are about, in the kernel's order."""
    snapshot = kernel if isinstance(kernel, Snapshot) else kernel.snapshot()
    return tuple(it for it in snapshot.routes if it.prefix in DESTINATIONS)


def by_key(routes: tuple[Route, ...]) -> dict[object, tuple[Route, ...]]:
    """The routes by what the kernel tells them apart by: only among those of one key does the order matter."""
    keys = {it.key for it in routes}
    return {key: tuple(it for it in routes if it.key == key) for key in keys}


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
        assert len(caught.value.conflicts) == len(plan.conflicts)
        assert kernel.snapshot() == before
        return
    applied = apply_plan(plan, kernel, before=before)
    assert by_key(routes_of(kernel)) == by_key(routes_of(plan.apply_to(before)))
    assert planned(kernel, wanted)[0].changes == ()
    assert [it for it in routes_of(kernel) if it.protocol == FOREIGN] == [
        it for it in routes_of(before) if it.protocol == FOREIGN
    ]
    assert bool(applied.changes) == bool(plan.changes)


FAULTS: dict[str, Callable[[MemoryBackend, int], None]] = {
    "refused": lambda kernel, nth: kernel.faults.fail("change", errno.EINVAL, nth=nth),
    "gateway gone": lambda kernel, nth: kernel.faults.fail("change", errno.ENETUNREACH, nth=nth),
    "not permitted": lambda kernel, nth: kernel.faults.fail("change", NotPermitted("no"), nth=nth),
    "hangs": lambda kernel, nth: kernel.faults.hang("change", nth=nth),
    "hangs, but does it": lambda kernel, nth: kernel.faults.hang("change", nth=nth, done=True),
    "cannot be read back": lambda kernel, nth: kernel.faults.hang("snapshot", nth=min(nth, 1)),
}


# Of two of ours before another's route, the second went and the first did not: it cannot be put between them.
BETWEEN = [
    route(DESTINATIONS[0], f"10.0.0.{last}", 0, protocol) for last, protocol in ((1, OURS), (2, OURS), (1, FOREIGN))
]


@example(BETWEEN, [], "gateway gone", 1)
@given(present, wishes, st.sampled_from(sorted(FAULTS)), st.integers(1, 9))
def test_all_or_nothing(routes: list[Route], wanted: list[DesiredRoute], fault: str, nth: int) -> None:
    """Whatever fails at whichever step: the table is the one before or the one planned, and the report says which."""
    kernel = host(routes)
    plan, before = planned(kernel, wanted)
    if plan.conflicts:
        return
    FAULTS[fault](kernel, nth)
    error = raised_by(lambda: apply_plan(plan, kernel, before=before))
    kernel.faults = Faults()
    if error is None:
        assert by_key(routes_of(kernel)) == by_key(routes_of(plan.apply_to(before)))
    else:
        assert isinstance(error, ApplyError)
        assert by_key(routes_of(kernel)) == by_key(routes_of(before)), str(error)
        assert error.after == "what had been done was undone: the route table is as it was before"


@given(present, wishes, st.integers(0, 9))
def test_stopped_at_any_step(routes: list[Route], wanted: list[DesiredRoute], nth: int) -> None:
    """Told to stop at whichever step, everything is as before, and the order to stop comes out with a note of it."""
    kernel = host(routes)
    plan, before = planned(kernel, wanted)
    if plan.conflicts or not plan.changes:
        return
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks > nth:
            raise phases.Cancelled("SIGTERM")

    stopped = raised_by(lambda: apply_plan(plan, kernel, before=before, check=check))
    if stopped is None:
        assert by_key(routes_of(kernel)) == by_key(routes_of(plan.apply_to(before)))
    else:
        assert isinstance(stopped, phases.Cancelled)
        assert by_key(routes_of(kernel)) == by_key(routes_of(before))
        assert stopped.__notes__ == ["what had been done was undone: the route table is as it was before"]


@given(present, wishes, st.sampled_from(DESTINATIONS), st.sampled_from([0, 5]), st.integers(1, 6))
def test_somebody_else_at_the_same_time(
    routes: list[Route], wanted: list[DesiredRoute], destination: Prefix, metric: int, nth: int
) -> None:
    """A route that somebody else puts in between is never overwritten: it is there, and ours are all or nothing."""
    kernel = host(routes)
    plan, before = planned(kernel, wanted)
    if plan.conflicts:
        return
    theirs = Route(destination, (NextHop("eth0", gateway=as_ip("10.0.0.9")),), metric=metric, protocol=FOREIGN)
    put: list[bool] = []

    def somebody_else() -> None:
        [outcome] = MemoryBackend.change(kernel, [Change("add", theirs)])
        put.append(outcome.ok)

    kernel.faults.meanwhile("change", somebody_else, nth=nth)
    ours = [it for it in routes_of(before) if it.protocol == OURS]
    error = raised_by(lambda: apply_plan(plan, kernel, before=before))
    if error is None:
        ours = [it for it in routes_of(plan.apply_to(before)) if it.protocol == OURS]
    else:
        assert isinstance(error, ApplyError)
        assert put == [True], str(error)
    kernel.faults = Faults()
    now = routes_of(kernel)
    assert (theirs in now) == (put == [True])
    assert {it for it in now if it.protocol == OURS} == set(ours)


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


def test_make_before_break() -> None:
    """A route of ours that changes its gateway is there at every moment, by the old gateway or the new."""
    kernel = host([route(DESTINATIONS[0], "10.0.0.2", 0, OURS)])
    seen: list[int] = []
    for nth in (1, 2, 3):
        kernel.faults.meanwhile("change", lambda: seen.append(len(routes_of(kernel))), nth=nth)
    plan, before = planned(kernel, [DesiredRoute(DESTINATIONS[0], gateway=as_ip("10.0.0.3"))])
    applied = apply_plan(plan, kernel, before=before)
    assert [str(change.verb) for change in applied.changes] == ["append", "delete"]
    assert seen == [1, 2]
    assert applied.log_fields() == {"replace": 1}


def test_words_of_a_conflict() -> None:
    """A conflict names the route, its holder and the way out, and nothing was changed."""
    kernel = h200()
    plan, before = planned(kernel, [DesiredRoute(Prefix.parse("172.16.0.0/16"))])
    with pytest.raises(RouteConflict) as caught:
        apply_plan(plan, kernel, before=before)
    assert str(caught.value) == (
        "172.16.0.0/16: its key is held by [172.16.0.0/16 dev ib0 proto kernel scope link src 172.16.1.10], which is "
        "not ours: 172.16.0.0/17 and 172.16.128.0/17 win without touching it"
    )
    assert kernel.snapshot() == before


def test_words_of_a_failure() -> None:
    """A failure names the route, the reason in the kernel's words, and what is true now."""
    kernel = plain_vm()
    plan, before = planned(kernel, [DesiredRoute(DESTINATIONS[0]), DesiredRoute(DESTINATIONS[3])])
    kernel.faults.fail("change", errno.ENETUNREACH, nth=2)
    with pytest.raises(ApplyError) as caught:
        apply_plan(plan, kernel, before=before)
    assert str(caught.value).startswith("the routes could not be applied: ")
    assert "10.2.0.0/16" in str(caught.value)
    assert str(caught.value).endswith("; what had been done was undone: the route table is as it was before")
    assert isinstance(caught.value.__cause__, BackendError)


def test_undoing_that_fails_too() -> None:
    """When the undoing meets trouble as well, both truths are told."""
    kernel = plain_vm()
    plan, before = planned(kernel, [DesiredRoute(destination) for destination in DESTINATIONS])
    kernel.faults.fail("change", errno.EINVAL, nth=4)
    kernel.faults.fail("change", NotPermitted("the capability is gone"), nth=5)
    with pytest.raises(ApplyError, match=r"undoing it failed too .the capability is gone.; what is in the route table"):
        apply_plan(plan, kernel, before=before)


def test_undoing_that_cannot() -> None:
    """What cannot be brought back is named, route by route."""
    kernel = host([route(DESTINATIONS[0], "10.0.0.2", 0, OURS)])
    plan, before = planned(kernel, [])
    kernel.faults.meanwhile("snapshot", lambda: kernel.set_down("eth0"))
    with pytest.raises(ApplyError) as caught:
        apply_plan(
            attrs.evolve(plan, steps=(*plan.steps, *planned(plain_vm(), [DesiredRoute(DESTINATIONS[3])])[0].steps)),
            kernel,
            before=before,
        )
    assert "what had been done could not all be undone: there is now no route instead of [10.1.0.0/16" in str(
        caught.value
    )


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
