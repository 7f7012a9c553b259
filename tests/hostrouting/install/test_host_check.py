"""hostrouting.install.host_check: the check of a host, by the names of its findings;
tests/hostrouting/cli has its pages.
"""

from hostrouting.finding import ESCAPES
from hostrouting.install.host_check import HostCheck, check_host
from hostrouting.testing import FakeHost, FakeKernel, h200, plain_vm, vpn_node
from tests.support.tasks import CIDR, config


def check_of(kernel: FakeKernel) -> HostCheck:
    """The check of a host with this kernel."""
    wanted = config(cidrs=(CIDR,))
    return check_host(wanted, FakeHost(kernel=kernel), repair_options=f" {CIDR}")


def test_the_findings_with_a_name() -> None:
    """They keep the order of the page, whatever the order of the names is."""
    check = check_of(h200())
    assert [finding.name for finding in check.findings] == ["overlap", "action", "repair-cost"]
    assert check.named("repair-cost", "overlap") == [check.findings[0], check.findings[2]]
    assert check.named(*ESCAPES) == [check.findings[0]]
    assert check.named("unsafe") == []
    assert check.named() == []


def test_what_makes_the_verdict_undecided() -> None:
    """A doubt is the finding of the page, so its remedy has the options that are typed."""
    check = check_of(vpn_node())
    [doubt] = check.doubts
    assert check.named("default-routes") == [doubt]
    assert doubt.remedy is not None
    assert f"hostrouting repair {CIDR} --dev eth0 |" in doubt.remedy.command
    assert not check.is_wrong
    assert check.code() == 3
    ignored = {"default-routes"}
    assert check.code(ignored) == 0


def test_what_escapes() -> None:
    """It escapes for certain: the check is wrong, and has no doubt."""
    check = check_of(h200())
    assert check.is_wrong
    assert check.doubts == []


def test_what_is_right() -> None:
    """There is nothing to find."""
    check = check_of(plain_vm())
    assert list(check.findings) == []
    assert check.doubts == []
    assert not check.is_wrong
