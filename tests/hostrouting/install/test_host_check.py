"""The check of a host, by the names of its findings."""

from collections.abc import Callable

import pytest

from hostrouting.check.repair_line import repair_line
from hostrouting.codes import CODE_OF_VERDICT
from hostrouting.finding import ESCAPES, WRONG
from hostrouting.install.host_check import check_host
from hostrouting.testing import FakeHost, h200
from tests.support.incidents import start_vpn
from tests.support.node import before_dhcp
from tests.support.statuses import start_router
from tests.support.tasks import CIDR, REPAIR, config
from tests.support.topologies import dual_stack_h200, vpn_node


def test_what_escapes() -> None:
    """The findings keep the order of the page, whatever the order of the names is."""
    for configured in (REPAIR[:1], REPAIR):
        wanted = config(*configured, cidrs=(CIDR,))
        check = check_host(wanted, FakeHost(kernel=h200()), repair_options=f" {CIDR}")
        overlap, action = check.findings
        assert check.named("action", "overlap") == [overlap, action]
        assert check.named(*ESCAPES) == [overlap]
        assert check.named("unsafe") == check.named() == []
        assert overlap.severity == "error"
        assert action.remedy is not None
        assert action.remedy.command == repair_line(f" {CIDR}")
        assert (check.document()["mode"], len(check.document()["findings"])) == ("STRICT", 2)
        assert CODE_OF_VERDICT[check.report.verdict] == 1


def test_what_makes_the_verdict_undecided() -> None:
    """A doubt is a finding of the page."""
    check = check_host(config(cidrs=(CIDR,)), FakeHost(kernel=vpn_node()))
    [doubt] = check.doubts
    assert check.named("default-routes") == [doubt]
    assert check.named(*WRONG) == []
    assert CODE_OF_VERDICT[check.report.verdict] == 3


def test_no_default_route() -> None:
    """It is an error, and the verdict cannot be decided."""
    check = check_host(config(cidrs=(CIDR,)), FakeHost(kernel=before_dhcp()))
    assert check.named(*WRONG) == check.named("no-default-route") != []
    assert CODE_OF_VERDICT[check.report.verdict] == 3


@pytest.mark.parametrize("change", [start_vpn, start_router])
def test_a_device_of_one_family(change: Callable[[FakeHost], None]) -> None:
    """No command names it: the other family would have no expected device that works."""
    for cidrs, devs in (((CIDR,), 2), ((CIDR, "fd16::/64"), 1)):
        host = FakeHost(kernel=dual_stack_h200())
        change(host)
        check = check_host(config(cidrs=cidrs), host)
        [finding] = check.named("default-routes", "unsafe")
        assert finding.remedy is not None
        lines = [way.line for way in finding.remedy.ways() if way.command]
        assert len(lines) == devs
        assert lines[0].startswith("if eth0 is right, as root: hostrouting repair --dev eth0 |")
