"""hostrouting.install.host_check: the check of a host, by the names of its findings;
tests/hostrouting/cli has its pages.
"""

import errno
from unittest import mock

import pytest

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError, HostError
from hostrouting.finding import ESCAPES, WRONG
from hostrouting.install.host_check import HostCheck, check_host
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeFiles, FakeHost, FakeKernel, h200
from phases.testing import FakeClock
from tests.support.tasks import (
    CIDR,
    GUARDED,
    REPAIR,
    config,
    configured,
    type_routes,
)
from tests.support.topologies import vpn_node


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
    assert check.named(*WRONG) == []
    assert check.code() == 3
    ignored = {"default-routes"}
    assert check.code(ignored) == 0


def test_an_image() -> None:
    """It has no kernel that could be checked."""
    with pytest.raises(BackendError, match="an image has no kernel; use a snapshot of its host"):
        check_host(config(cidrs=(CIDR,)), FakeHost.image())


def test_routes_that_were_typed() -> None:
    """Whatever is installed, the next boot loses them, and a repair keeps them."""
    for installed in (HostRoutingConfig(), config("10.77.0.0/16", cidrs=(CIDR,))):
        host = FakeHost(kernel=h200())
        phases.run(Configure(installed, host=host), observers=[], clock=FakeClock())
        type_routes(host, *REPAIR)
        check = check_host(config(cidrs=(CIDR,)), host, repair_options=f" {CIDR}")
        [finding] = check.named("route-not-configured")
        assert finding.target == " and ".join(REPAIR)
        assert finding.remedy is not None
        assert finding.remedy.command == check.repair.line()


@pytest.mark.parametrize(("number", "is_said"), [(errno.EACCES, False), (errno.EIO, True)])
def test_a_config_json_that_cannot_be_read(
    number: int, monkeypatch: pytest.MonkeyPatch, *, is_said: bool
) -> None:
    """Nobody knows what it protects; where only the right to read it is missing, root knows."""
    host = configured(GUARDED)
    unreadable = HostError("cannot read it", what="file", errno=number)
    monkeypatch.setattr(FakeFiles, "read", mock.Mock(side_effect=unreadable))
    check = check_host(config(cidrs=(CIDR,)), host)
    assert bool(check.losses) is is_said


def test_a_repair_that_takes_something_away() -> None:
    """Its command says so; the losses are those of the configuration that is repaired."""
    host = configured(GUARDED)
    check = check_host(config(cidrs=(CIDR,)), host)
    assert [loss.path for loss in check.losses] == ["guard.enabled"]
    assert check.repair.line().endswith(" --allow-removal")
    assert check_host(GUARDED, host).losses == ()
