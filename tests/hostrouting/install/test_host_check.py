"""The check of a host, by the names of its findings."""

from hostrouting.check.repair_line import repair_line
from hostrouting.finding import ESCAPES, WRONG
from hostrouting.install.host_check import HostCheck, check_host
from hostrouting.testing import FakeFiles, FakeHost, FakeKernel, h200
from tests.support.tasks import CIDR, REPAIR, config
from tests.support.topologies import vpn_node

MANAGED = FakeFiles({"/run/systemd/netif/links/2": "ADMIN_STATE=configured\n"})
"""The files of a host on which systemd-networkd manages a device."""


def check_of(kernel: FakeKernel) -> HostCheck:
    """The check of a host with this kernel, and with networkd."""
    host = FakeHost(kernel=kernel, files=MANAGED)
    return check_host(config(*REPAIR, cidrs=(CIDR,)), host, repair_options=f" {CIDR}")


def test_the_findings_with_a_name() -> None:
    """They keep the order of the page, whatever the order of the names is."""
    check = check_of(h200())
    assert [finding.name for finding in check.findings] == ["overlap", "action"]
    [action] = check.named("action")
    assert action.remedy is not None
    assert action.remedy.command == repair_line(check.repair_options)
    assert check.named("action", "overlap") == [*check.findings]
    assert check.named(*ESCAPES) == [check.findings[0]]
    assert check.named("unsafe") == []
    assert check.named() == []
    assert check.document()["mode"] == "STRICT"
    assert len(check.document()["findings"]) == 2
    assert check.findings[0].severity == "error"
    assert check.code() == 1


def test_the_routes_of_a_repair_are_added_to_the_configuration_if_it_lacks_them() -> None:
    """If it has them, `apply` sets or moves them."""
    host = FakeHost(kernel=h200())
    for configured, ways in ((REPAIR[:1], 2), (REPAIR, 1)):
        check = check_host(config(*configured, cidrs=(CIDR,)), host)
        [action] = check.named("action")
        assert action.remedy is not None
        assert len(list(action.remedy.ways())) == ways


def test_what_makes_the_verdict_undecided() -> None:
    """A doubt is a finding of the page."""
    check = check_of(vpn_node())
    [doubt] = check.doubts
    assert check.named("default-routes") == [doubt]
    assert check.named(*WRONG) == []
    assert check.code() == 3
