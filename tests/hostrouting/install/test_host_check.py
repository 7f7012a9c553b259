"""The check of a host, by the names of its findings."""

from hostrouting.check.repair_line import repair_line
from hostrouting.finding import ESCAPES, WRONG
from hostrouting.install.host_check import check_host
from hostrouting.testing import FakeHost, h200
from tests.support.node import before_dhcp
from tests.support.tasks import CIDR, REPAIR, config
from tests.support.topologies import vpn_node


def test_what_escapes() -> None:
    """The findings keep the order of the page, whatever the order of the names is. The routes of a
    repair are added to the configuration if it lacks them; if not, `apply` sets or moves them.
    """
    for configured, ways in ((REPAIR[:1], 2), (REPAIR, 1)):
        wanted = config(*configured, cidrs=(CIDR,))
        check = check_host(wanted, FakeHost(kernel=h200()), repair_options=f" {CIDR}")
        overlap, action = check.findings
        assert check.named("action", "overlap") == [overlap, action]
        assert check.named(*ESCAPES) == [overlap]
        assert check.named("unsafe") == check.named() == []
        assert overlap.severity == "error"
        assert action.remedy is not None
        assert action.remedy.command == repair_line(f" {CIDR}")
        assert len(list(action.remedy.ways())) == ways
        assert (check.document()["mode"], len(check.document()["findings"])) == ("STRICT", 2)
        assert check.code() == 1


def test_what_makes_the_verdict_undecided() -> None:
    """A doubt is a finding of the page."""
    check = check_host(config(cidrs=(CIDR,)), FakeHost(kernel=vpn_node()))
    [doubt] = check.doubts
    assert check.named("default-routes") == [doubt]
    assert check.named(*WRONG) == []
    assert check.code() == 3


def test_no_default_route() -> None:
    """It is an error, and the verdict cannot be decided."""
    check = check_host(config(cidrs=(CIDR,)), FakeHost(kernel=before_dhcp()))
    assert check.named(*WRONG) == check.named("no-default-route") != []
    assert check.code() == 3
