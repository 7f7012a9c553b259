"""Faults of the fakes: those of the memory kernel happen once, at the moment that was named; those of the others may stay."""

import errno
from collections.abc import Callable
from operator import methodcaller
from typing import Any

import pytest

from hostrouting.errors import BackendError, HostError
from hostrouting.kernel.base import RouteRequest
from hostrouting.model.prefix import as_ip
from hostrouting.model.route import OURS, Route
from hostrouting.testing import plain_vm
from hostrouting.testing.filters import FakeEbtables, FakeLinkLayer, FakeNftables
from tests.support.filter_contracts import CONTRACT_RULES, contract_table, contract_view
from tests.support.kinds import kind_of, raises

CHANGES = [
    RouteRequest("add", Route.to(f"192.0.2.{16 * n}/28", dev="eth0", gateway="10.0.0.1", protocol=OURS))
    for n in (0, 1, 2)
]


def test_an_errno_is_the_outcome_of_that_change_alone() -> None:
    """The n-th change is refused with the errno, as if by the kernel; the changes around it are done."""
    kernel = plain_vm()
    kernel.faults.fail("change", errno.EEXIST, nth=2)
    outcomes = kernel.change(CHANGES)
    assert [kind_of(outcome.error) for outcome in outcomes] == ["", "exists", ""]
    assert len(kernel.snapshot(protocol=OURS).routes) == 2
    assert kernel.faults.waiting == 0


def test_another_error_is_raised_and_ends_it() -> None:
    """An error other than a BackendError is raised; the changes before it were made, those after it were not."""
    kernel = plain_vm()
    kernel.faults.fail("change", BackendError("not you", kind="not-permitted"), nth=2)
    with raises(BackendError, "not-permitted"):
        kernel.change(CHANGES)
    assert [route.prefix for route in kernel.snapshot(protocol=OURS).routes] == [CHANGES[0].route.prefix]


@pytest.mark.parametrize("done", [False, True])
def test_a_time_out_leaves_open_whether_it_was_done(done: bool) -> None:  # noqa: FBT001  a parameter of the test
    """A change that hangs ends with a timeout at once; the test chooses whether it was made."""
    kernel = plain_vm()
    kernel.faults.hang("change", done=done)
    with raises(BackendError, "timeout"):
        kernel.change(CHANGES[:1])
    assert len(kernel.snapshot(protocol=OURS).routes) == int(done)


def test_snapshots_lookups_and_watches_fail_too() -> None:
    """Every kind of moment can fail, is counted separately, and works again afterwards."""
    kernel = plain_vm()
    kernel.faults.fail("snapshot", BackendError("too fast", kind="unsettled"), nth=2)
    kernel.faults.hang("lookup")
    kernel.faults.fail("watch", errno.ENOBUFS)
    kernel.snapshot()
    with raises(BackendError, "unsettled"):
        kernel.snapshot()
    with raises(BackendError, "timeout"):
        kernel.lookup([as_ip("192.0.2.1")])
    with pytest.raises(Exception, match="refused a watch"):
        kernel.watch()
    kernel.faults.fail("wait", errno.ENOBUFS)
    kernel.faults.fail("listen", errno.ENOMEM)
    with kernel.watch() as watch:
        assert watch.wait(0)
        assert [trouble.partition(" (")[0] for trouble in watch.troubles] == [
            "cannot listen to changes of routes: the kernel refused a wait"
        ]
        kernel.set_down("eth0")
        assert watch.wait(0), "it listens again, and may have missed something"
        assert not watch.wait(0)
        watch.listen(nftables=True)
        assert [trouble.partition(": ")[0] for trouble in watch.troubles] == ["cannot listen to changes of nftables"]
        assert watch.wait(0)
        assert watch.troubles == ()
    assert (kernel.snapshot().rules, kernel.lookup([as_ip("10.0.0.4")])[0].kind) == (kernel.snapshot().rules, "local")


def test_a_link_vanishes_in_between() -> None:
    """A change injected between two changes affects the second."""
    kernel = plain_vm()
    kernel.faults.meanwhile("change", lambda: kernel.delete_link("eth0"), nth=2)
    assert [kind_of(it.error) for it in kernel.change(CHANGES)] == ["", "no-such-device", "no-such-device"]


def test_somebody_else_changes_a_route_in_between() -> None:
    """A change by another program between two of ours has the same effect as on a real host."""
    kernel = plain_vm()
    kernel.faults.meanwhile("change", lambda: kernel.ip_route("add", CHANGES[1].route), nth=2)
    assert [kind_of(it.error) for it in kernel.change(CHANGES)] == ["", "exists", ""]


def test_several_faults_of_one_moment() -> None:
    """If several faults are due at once, all happenings run, and the first error is raised."""
    kernel = plain_vm()
    kernel.faults.meanwhile("change", lambda: kernel.set_down("eth0"))
    kernel.faults.fail("change", errno.ENETUNREACH)
    kernel.faults.fail("change", errno.EEXIST)
    (outcome,) = kernel.change(CHANGES[:1])
    assert kind_of(outcome.error) == "gateway-not-on-link"
    assert kernel.snapshot(family=4, table=254).routes == ()


def test_nth_begins_with_one() -> None:
    """The lowest value of nth is 1."""
    with pytest.raises(ValueError, match="the lowest value is 1"):
        plain_vm().faults.hang("change", nth=0)


# The fakes with one kind of call. The first verb reads, the second changes something.

ARP, NEIGHBOUR = [CONTRACT_RULES[0]], contract_view().neighbours[0]
EBTABLES = [("save",), ("delete", ARP)]
NFTABLES = [("listing", "first"), ("load", contract_table()), ("counts", "first"), ("names",)]
NEIGHBOURS = [("look",), ("delete_neighbour", NEIGHBOUR)]
FAKES: dict[str, tuple[Callable[[], Any], list[tuple[Any, ...]]]] = {
    "ebtables": (lambda: FakeEbtables(ARP), EBTABLES),
    "nftables": (lambda: FakeNftables(contract_table()), NFTABLES),
    "link layer": (lambda: FakeLinkLayer(contract_view().links, contract_view().neighbours), NEIGHBOURS),
}


@pytest.mark.parametrize("name", FAKES)
@pytest.mark.parametrize("done", [False, True])
def test_faults_of_the_others(name: str, *, done: bool) -> None:
    """A fault that stays is raised by every verb, and nothing is done; one at the nth call may happen after the work."""
    make, verbs = FAKES[name]
    fake, fault = make(), HostError("no", what="nft", kind="refused")
    fake.fault = fault
    for verb in verbs:
        with pytest.raises(HostError, match=r"^no$"):
            methodcaller(*verb)(fake)
    fake.fault = None
    assert fake.writes == []
    fake.fail(fault, nth=2, done=done)
    methodcaller(*verbs[0])(fake)
    with pytest.raises(HostError, match=r"^no$"):
        methodcaller(*verbs[1])(fake)
    assert bool(fake.writes) is done
    methodcaller(*verbs[0])(fake)
    with pytest.raises(ValueError, match="nth is 0, but the next call is 1"):
        fake.fail(fault, nth=0)
