"""Waiting for the memory kernel: changes are reported, and time passes on the clock of the run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from hostrouting.errors import BackendError
from hostrouting.testing import FakeHost, plain_vm
from hostrouting.testing.kernel import FakeKernel
from phases.context import SystemClock
from phases.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from phases import Clock


def test_everything_that_happens_is_heard() -> None:
    """Changes of devices, addresses, rules and routes are reported; a refused one may be, no change is not."""
    kernel = FakeKernel()
    watch = kernel.watch()
    happenings: list[Callable[[], object]] = [
        partial(kernel.add_link, "eth0"),
        partial(kernel.add_address, "eth0", "10.0.0.4/24"),
        partial(kernel.set_carrier, "eth0", carrier=False),
        partial(kernel.set_down, "eth0"),
        partial(kernel.delete_address, "eth0", "10.0.0.4/24"),
        partial(kernel.delete_link, "eth0"),
    ]
    for happening in happenings:
        assert watch.wait(0) is False
        happening()
        assert watch.wait(0) is True


def test_what_is_to_come_comes_while_somebody_waits() -> None:
    """`later` is for changes during a wait: each wait calls the next ones until one changes something."""
    kernel = FakeKernel()
    kernel.later(lambda: kernel.add_link("eth0"))
    kernel.later(lambda: None)
    kernel.later(lambda: kernel.add_address("eth0", "10.0.0.4/24"))
    with kernel.watch() as watch:
        assert kernel.snapshot().link("eth0") is None
        assert [watch.wait(30), watch.wait(30), watch.wait(30)] == [True, True, False]
    assert kernel.snapshot().addresses[0].dev == "eth0"


def test_the_seconds_pass_on_the_clock_of_the_run() -> None:
    """A wait without a change takes its seconds from the clock; a wait with a pending change takes none."""
    kernel, clock = FakeKernel(), FakeClock()
    with kernel.watch() as watch:
        kernel.add_link("eth0")
        assert watch.wait(7, clock=clock) is True
        watch.wake()
        kernel.set_down("eth0")
        assert watch.wait(8, clock=clock) is False
        assert watch.wait(8, clock=clock) is True
        assert clock.now() == 0
        assert watch.wait(9, clock=clock) is False
    assert clock.now() == 9


@pytest.mark.parametrize("make", [FakeClock, SystemClock])
def test_a_change_from_another_thread_ends_the_wait(make: Callable[[], Clock]) -> None:
    """A change by another thread ends the wait at once, on a fake clock and on the machine's."""
    kernel, clock = FakeKernel(), make()

    def change() -> None:
        clock.event().wait(0.02)
        kernel.add_link("eth0")

    began = clock.now()
    with kernel.watch() as watch:
        thread = clock.start(change, name="change")
        assert watch.wait(60, clock=clock) is True
        thread.join()
    assert 0.02 <= clock.now() - began < 30


def test_changes_of_nftables() -> None:
    """A fake host's watches hear the changes of its nftables, as long as they listen to them."""
    host = FakeHost()
    with host.kernel.watch() as watch:
        host.tables.load("add table ip6 one\n")
        assert not watch.wait(0)
        watch.listen(nftables=True)
        changes: list[Callable[[], object]] = [
            partial(host.tables.load, "add table ip6 one\n"),
            partial(host.tables.load, "delete table ip6 one\n"),
            host.tables.flush,
        ]
        for change in changes:
            change()
            assert watch.wait(0)
            assert not watch.wait(0)
        watch.listen(nftables=False)
        host.tables.load("add table ip6 one\n")
        assert not watch.wait(0)


def test_a_closed_watch_is_of_no_use() -> None:
    """Waiting on a closed watch raises BackendError; the kernel continues without it."""
    kernel = plain_vm()
    watch = kernel.watch()
    watch.close()
    kernel.set_down("eth0")
    with pytest.raises(BackendError, match="closed"):
        watch.wait(0)
