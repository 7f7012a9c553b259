"""hostrouting.kernel.awaiting: attempts that are repeated at each change."""

from functools import partial
from unittest import mock

import pytest

import phases
from hostrouting.errors import NotReady
from hostrouting.kernel.awaiting import await_result
from hostrouting.testing import FakeKernel, plain_vm
from phases.testing import FakeClock
from tests.support.tasks import context


def links_of(kernel: FakeKernel, *names: str) -> mock.Mock:
    """An attempt that needs these devices, and counts how often it was made."""

    def attempt() -> tuple[str | None, str]:
        present = [link.name for link in kernel.snapshot().links]
        missing = [name for name in names if name not in present]
        return (None, f"the device {missing[0]}") if missing else ("all", "")

    return mock.Mock(side_effect=attempt)


def test_nobody_waits() -> None:
    """What is there needs no watch. Without a wait, or in a cancelled run, nobody waits."""
    kernel, attempt = mock.Mock(wraps=plain_vm()), links_of(FakeKernel(), "eth0")
    assert await_result(context(), kernel, lambda: ("all", ""), wait=30) == "all"
    with pytest.raises(NotReady, match="gave up after 0 s: the device eth0"):
        await_result(context(), kernel, attempt, wait=0)
    cancelled = context()
    cancelled.cancel("enough")
    with pytest.raises(phases.Cancelled):
        await_result(cancelled, kernel, attempt, wait=0)
    assert attempt.call_count == 1
    assert kernel.watch.call_count == 0


def test_what_comes_ends_the_wait() -> None:
    """At once: the rest of the time is not waited for."""
    kernel, ctx = FakeKernel(), context()
    kernel.later(partial(kernel.add_link, "eth0"))
    assert await_result(ctx, kernel, links_of(kernel, "eth0"), wait=30) == "all"
    assert ctx.clock.now() == 0


def test_what_is_waited_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The log says what is missing, each time that it is another; a failure has the deadline."""
    kernel, ctx = FakeKernel(), context()
    for name in ("eth0", "eth9"):  # the second changes nothing about what is missing
        kernel.later(partial(kernel.add_link, name))
    with (
        caplog.at_level("INFO"),
        pytest.raises(NotReady, match=r"gave up after 12\.5 s: the device eth1"),
    ):
        await_result(ctx, kernel, links_of(kernel, "eth0", "eth1"), wait=12.54)
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == [
        "the device eth0",
        "the device eth1",
    ]
    assert ctx.clock.now() == pytest.approx(12.54)


def test_a_watch_with_a_clock_of_its_own() -> None:
    """The seconds of a fake clock pass at once, also where the watch has another clock."""
    ctx, kernel = context(), mock.Mock(wraps=FakeKernel())
    kernel.watch.return_value = mock.MagicMock(wait=mock.Mock(return_value=False))
    kernel.watch.return_value.__enter__.return_value = kernel.watch.return_value
    attempt = links_of(FakeKernel(), "eth0")
    with pytest.raises(NotReady):
        await_result(ctx, kernel, attempt, wait=30)
    assert ctx.clock.now() == 30
    assert attempt.call_count == 3


@pytest.mark.parametrize(("seconds", "end"), [(12, 11.4), (600, 30)])
def test_a_run_with_a_deadline(seconds: float, end: float) -> None:
    """The deadline ends the wait a little earlier, with what is missing."""
    clock, attempt = FakeClock(), links_of(FakeKernel(), "eth0")
    with (
        pytest.raises(NotReady, match="the device eth0"),
        phases.Context(clock=clock).within(seconds) as ctx,
    ):
        await_result(ctx, FakeKernel(), attempt, wait=30)
    assert clock.now() == pytest.approx(end)
