"""The contract suite on the fakes, planned changes in a wait, and faults."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hostrouting.errors import BackendError
from hostrouting.kernel.base import RouteBackend, RouteRequest
from hostrouting.model.prefix import as_ip
from hostrouting.model.route import Route
from hostrouting.testing import FaultyBackend, h200
from hostrouting.testing.contract import BackendContract, contract_host
from tests.support.kinds import raises

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


def test_a_suite_without_a_backend() -> None:
    """It says what is missing."""
    with pytest.raises(NotImplementedError, match=r"override make\(\)"):
        BackendContract().test_snapshot_has_the_rules()


@pytest.mark.parametrize(
    "route",
    [
        Route.to("2001:db8:1::/64", dev="eth0", gateway="10.0.0.1"),
        Route.to("192.0.2.0/24", dev="eth0")._replace(prefsrc=as_ip("2001:db8::4")),
        Route.to("2001:db8:1::/64", dev="eth0")._replace(prefsrc=as_ip("10.0.0.4")),
    ],
    ids=str,
)
def test_a_route_with_an_address_of_the_other_family(route: Route) -> None:
    """It is refused, as by Linux, although the host has the address."""
    [outcome] = contract_host().change([RouteRequest("add", route)])
    assert outcome.error is not None
    assert outcome.error.kind == "invalid"


def test_planned_changes() -> None:
    """A wait calls the planned functions until one changes something;
    then the next wait goes on.
    """
    kernel, calls = h200(), list[str]()
    with kernel.watch() as watch:
        kernel.later(lambda: calls.append("nothing"))
        kernel.later(lambda: kernel.delete_link("ib0"))
        kernel.later(lambda: kernel.delete_link("ib1"))

        assert watch.wait(60) is True
        assert calls == ["nothing"]
        names = {link.name for link in kernel.snapshot().links}
        assert "ib0" not in names
        assert "ib1" in names

        assert watch.wait(60) is True
        assert "ib1" not in {link.name for link in kernel.snapshot().links}
        assert watch.wait(60) is False
        assert calls == ["nothing"]


def test_a_second_address_in_a_network() -> None:
    """It is refused in IPv4, because a test would rely on what the fake kernel does not know."""
    with pytest.raises(BackendError, match="one address for each network of a device"):
        h200().add_address("eth0", "10.0.0.5/24")


def test_an_address_with_another_length() -> None:
    """Linux has it beside the first in IPv4, and refuses it in IPv6, as the same address."""
    kernel = h200(dual_stack=True)
    kernel.add_address("eth0", "10.0.0.4/16")
    with pytest.raises(BackendError, match="the address is assigned already"):
        kernel.add_address("eth0", "2001:db8::4/56")


def test_a_watch_that_was_closed() -> None:
    """A wait is an error, as on Linux."""
    with h200().watch() as watch:
        watch.close()
        with raises(BackendError, "unusable", match="the watch was closed"):
            watch.wait(0)


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
            backend.fail(moment, BackendError("busy"))  # type: ignore[arg-type]  # one of them
            with pytest.raises(BackendError, match="busy"):
                call()
            call()

    @pytest.mark.parametrize(
        ("moment", "error", "nth", "kind", "said"),
        [
            (
                "change",
                OSError("x"),
                1,
                TypeError,
                (
                    r"error is OSError\('x'\); "
                    "it must be a BackendError or an errno, such as errno.ENOBUFS"
                ),
            ),
            (
                "snapshot",
                BackendError,
                1,
                TypeError,
                "error is <class .*; it must be a BackendError",
            ),
            (
                "chnage",
                5,
                1,
                ValueError,
                "moment is 'chnage'; it must be one of change, snapshot, lookup, watch",
            ),
            ("change", 5, 0, ValueError, "nth is 0; it must be a whole number, 1 or more"),
            ("watch", 5, 1.5, ValueError, "nth is 1.5; it must be a whole number"),
        ],
    )
    def test_a_fault_that_cannot_happen(
        self, moment: Any, error: Any, nth: Any, kind: type[Exception], said: str
    ) -> None:
        """It is refused when the test sets it: the test would prove nothing, or fail elsewhere."""
        backend = FaultyBackend(h200())
        with pytest.raises(kind, match=said):
            backend.fail(moment, error, nth=nth)
        if kind is ValueError:
            with pytest.raises(kind, match=said):
                backend.meanwhile(moment, list, nth=nth)
        assert backend.waiting == 0

    def test_an_act_that_has_happened(self) -> None:
        """What a call returned, in the place of the function."""
        backend = FaultyBackend(h200())
        with pytest.raises(TypeError, match="happening is None; it must be a function"):
            backend.meanwhile("change", None)  # type: ignore[arg-type]  # the mistake under test

    def test_a_late_event_that_has_happened(self) -> None:
        """What a call returned, in the place of the function."""
        with pytest.raises(TypeError, match="happening is None; it must be a function"):
            h200().later(None)  # type: ignore[arg-type]  # the mistake under test

    @pytest.mark.parametrize(
        ("verb", "route", "said"),
        [
            ("replace", Route.to("10.9.0.0/16", dev="eth0"), "verb is 'replace'; it must be add, "),
            ("add", "10.9.0.0/16 dev eth0", r"route is '10.9.*; it must be a Route: Route.to\("),
        ],
    )
    def test_a_route_as_ip_writes_it(self, verb: Any, route: Any, said: str) -> None:
        """It is refused with what the fake kernel takes."""
        with pytest.raises(TypeError, match=said):
            h200().ip_route(verb, route)

    def test_two_errors_of_one_call(self) -> None:
        """The second is refused when the test sets it: one of them could not happen."""
        backend = FaultyBackend(h200())
        backend.fail("change", errno.ENOBUFS, nth=2)
        backend.change(CHANGES[:1])
        with pytest.raises(ValueError, match="nth is 1, and that call has an error already"):
            backend.fail("change", errno.EBUSY)
        assert backend.waiting == 1

    def test_two_acts_before_one_call(self) -> None:
        """Both happen, in their order, and both are waited for."""
        acts: list[str] = []
        backend = FaultyBackend(h200())
        backend.meanwhile("lookup", lambda: acts.append("first"))
        backend.meanwhile("lookup", lambda: acts.append("second"))
        assert backend.waiting == 2
        backend.lookup([])
        assert acts == ["first", "second"]
        assert backend.waiting == 0

    def test_the_errno_of_a_fault(self) -> None:
        """It is in the message, as the kernel would have worded it."""
        backend = FaultyBackend(h200())
        backend.fail("change", errno.ENOBUFS)
        [outcome, _] = backend.change(CHANGES[:2])
        assert "(kernel: No buffer space available)" in str(outcome.error)

    def test_a_backend_that_is_restless_itself(self) -> None:
        """Its snapshots stay restless, whatever the test sets."""
        restless = FaultyBackend(h200())
        restless.is_restless = True
        assert FaultyBackend(restless).snapshot().restless

    def test_somebody_else(self) -> None:
        """An act of another program comes just before the moment."""
        backend = FaultyBackend(h200())
        backend.meanwhile("change", lambda: backend.inner.change(CHANGES[1:]), nth=2)
        assert [outcome.ok for outcome in backend.change(CHANGES)] == [True, False]

    def test_a_backend_without_a_method(self) -> None:
        """It cannot be made: otherwise a run would fail after it has changed routes."""
        lacking: Any = type("Lacking", (RouteBackend,), {})
        with pytest.raises(
            TypeError, match=r"abstract methods.*change.*close.*lookup.*snapshot.*watch"
        ):
            lacking()
