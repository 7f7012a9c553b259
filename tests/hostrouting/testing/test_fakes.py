"""The contract suite on the fakes, planned changes in a wait, and faults."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from hostrouting.errors import BackendError
from hostrouting.kernel.base import RouteBackend, RouteRequest
from hostrouting.model.route import Route
from hostrouting.testing import FakeKernel, FaultyBackend, contract, h200
from hostrouting.testing.contract import BackendContract, contract_host

CHANGES = [
    RouteRequest("add", Route.to(f"10.{number}.0.0/16", dev="eth0", protocol=213))
    for number in (8, 9)
]


class TestFakeKernel(BackendContract):
    """The contract on the fake kernel, in a backend that could fail, and does not."""

    @contextmanager
    def make(self) -> Iterator[RouteBackend]:
        """The fake kernel of the suite."""
        with FaultyBackend(contract_host()) as backend:
            yield backend


def test_a_suite_says_what_is_wrong() -> None:
    """A failure of the contract suite is a sentence, with what was seen."""

    class Deaf(FakeKernel):
        def snapshot(self, **_: object) -> object:  # type: ignore[override]
            return super().snapshot(family=4)

    class Suite(BackendContract):
        @contextmanager
        def make(self) -> Iterator[RouteBackend]:
            yield Deaf()

    with pytest.raises(AssertionError, match="a snapshot has each device with its state; seen: "):
        Suite().test_snapshot_holds_the_host()


def test_a_suite_without_a_backend() -> None:
    """It says what is missing."""
    with pytest.raises(NotImplementedError, match=r"override make\(\)"):
        BackendContract().test_snapshot_holds_the_host()


def test_a_suite_names_what_differs() -> None:
    """Of two snapshots, the failure names the field that differs, and of lists what only one has."""
    host = h200().snapshot()
    more = host.with_routes([Route.to("10.9.0.0/16", dev="eth0")])
    with pytest.raises(AssertionError) as caught:
        contract._equal(more, host, "nothing was added")
    said = str(caught.value)
    assert (
        said
        == "nothing was added (routes); seen: ['10.9.0.0/16 dev eth0 proto unspec scope link']; promised: []"
    )


def test_planned_changes() -> None:
    """A wait calls the planned functions until one changes something; then the next wait goes on."""
    kernel, calls = h200(), list[str]()
    with kernel.watch() as watch:
        kernel.later(lambda: calls.append("nothing"))
        kernel.later(lambda: kernel.delete_link("ib0"))
        kernel.later(lambda: kernel.delete_link("ib1"))
        assert [watch.wait(60), "ib1" in str(kernel.snapshot().links)] == [True, True]
        assert [watch.wait(60), watch.wait(60), calls] == [True, False, ["nothing"]]


class TestFaults:
    """Faults happen once, at their moment."""

    def test_a_refusal_is_the_outcome_of_one_route(self) -> None:
        """An errno, or an error with a route, is an outcome, and the other routes are added."""
        for error in (errno.ENOBUFS, BackendError("no", kind="refused", route="default")):
            backend = FaultyBackend(h200())
            backend.fail("change", error, nth=2)
            assert [outcome.ok for outcome in backend.change(CHANGES)] == [True, False]
            assert backend.waiting == 0
            assert [outcome.ok for outcome in backend.change(CHANGES)] == [False, True]

    @pytest.mark.parametrize("done", [False, True])
    def test_a_timeout_stops_the_change(self, *, done: bool) -> None:
        """The routes after it are not tried; the one at which it came may be there."""
        backend = FaultyBackend(h200())
        backend.fail("change", BackendError("too late", kind="timeout"), done=done)
        with pytest.raises(BackendError, match="too late"):
            backend.change(CHANGES)
        routes = [route for route in backend.snapshot().routes if route.protocol == 213]
        assert routes == [CHANGES[0].route] * done

    def test_each_call_can_fail(self) -> None:
        """A snapshot, a lookup and the beginning of a watch raise the error, once."""
        backend = FaultyBackend(h200())
        calls = (
            ("snapshot", backend.snapshot),
            ("lookup", lambda: backend.lookup([])),
            ("watch", backend.watch),
        )
        for moment, call in calls:
            backend.fail(moment, BackendError("busy"))  # type: ignore[arg-type]  # it is one of them
            with pytest.raises(BackendError, match="busy"):
                call()
            call()

    def test_somebody_else(self) -> None:
        """An act of another program comes just before the moment."""
        backend = FaultyBackend(h200())
        backend.meanwhile("change", lambda: backend.inner.change(CHANGES[1:]), nth=2)
        assert [outcome.ok for outcome in backend.change(CHANGES)] == [True, False]
        with pytest.raises(ValueError, match="the next call is 1"):
            backend.meanwhile("change", list, nth=0)
        with pytest.raises(TypeError, match="takes a function, such as lambda"):
            backend.meanwhile("change", None)  # type: ignore[arg-type]  # the mistake that is tested

    def test_a_backend_without_a_method(self) -> None:
        """It cannot be made: otherwise a run would fail after it has changed routes."""
        lacking: Any = type("Lacking", (RouteBackend,), {})
        with pytest.raises(
            TypeError, match=r"abstract methods.*change.*close.*lookup.*snapshot.*watch"
        ):
            lacking()

    def test_a_word_that_does_not_exist(self) -> None:
        """It is refused at once, with those that exist."""
        kernel, moment, verb = h200(), cast("Any", "chang"), cast("Any", "replace")
        with pytest.raises(
            ValueError, match="'chang' is not one of change, snapshot, lookup, watch"
        ):
            FaultyBackend(kernel).fail(moment, errno.ENOBUFS)
        with pytest.raises(
            ValueError, match="'chang' is not one of change, snapshot, lookup, watch"
        ):
            FaultyBackend(kernel).meanwhile(moment, list)
        with pytest.raises(ValueError, match="'replace' is not one of add, append, delete"):
            kernel.ip_route(verb, CHANGES[0].route)
