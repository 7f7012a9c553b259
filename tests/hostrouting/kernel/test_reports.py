"""hostrouting.kernel.reports: waits that a report of the kernel ends earlier."""

from unittest import mock

from hostrouting.errors import BackendError
from hostrouting.kernel.reports import Reports
from hostrouting.testing import FakeKernel
from phases.testing import FakeClock


def test_how_long_a_caller_sleeps() -> None:
    """A rest after a report, nothing after none, and all the time if it may not listen."""
    clock = mock.Mock(for_watch=FakeClock())
    kernel = FakeKernel()
    with Reports(kernel, clock) as reports:
        kernel.add_link("eth0")
        reports.wait(7.0)
        kernel.add_link("eth1")
        reports.forget()
        reports.wait(7.0)
    deaf = mock.Mock(side_effect=BackendError("x", kind="not-permitted"))
    broken = mock.Mock(wait=deaf)
    for watch in (deaf, mock.Mock(return_value=broken)):
        with Reports(mock.Mock(watch=watch), clock) as reports:
            reports.forget()
            reports.wait(7.0)
    assert broken.close.called
    assert clock.for_watch.now() == 7
    assert [call.args for call in clock.sleep.mock_calls] == [(0.1,), (0.0,), (7.0,), (7.0,)]
