"""hostrouting.install.host_check: the check of a host, by the names of its findings;
tests/hostrouting/cli has its pages.
"""

import pytest

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError, HostError
from hostrouting.finding import ESCAPES
from hostrouting.install.host_check import HostCheck, check_host
from hostrouting.model.route import Route
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeHost, FakeKernel, h200, plain_vm, vpn_node
from phases.testing import FakeClock
from tests.support.tasks import (
    CIDR,
    GUARDED,
    REPAIR,
    config,
    configured,
    type_routes,
)


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


def test_two_devices_to_choose() -> None:
    """Each way names its device, with the options that are typed; there is no third way."""
    kernel = plain_vm()
    kernel.add_link("eth1")
    kernel.add_address("eth1", "10.0.1.4/24")
    kernel.ip_route("append", Route.to("0.0.0.0/0", dev="eth1", gateway="10.0.1.1", metric=100))
    [doubt] = check_of(kernel).doubts
    first = doubt.remedy
    assert first is not None
    second = first.otherwise
    assert second is not None
    assert f"hostrouting repair {CIDR} --dev eth0 |" in first.command
    assert f"hostrouting repair {CIDR} --dev eth1 |" in second.command
    assert second.otherwise is None


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
        assert finding.remedy.command == check.repair_line()


def test_a_repair_that_takes_something_away() -> None:
    """Its command says so; the losses are those of the configuration that is repaired."""
    host = configured(GUARDED)
    check = check_host(config(cidrs=(CIDR,)), host)
    assert [loss.path for loss in check.losses] == ["guard.enabled"]
    assert check.repair_line().endswith(" --allow-removal")
    assert check_host(GUARDED, host).losses == ()


def test_systemd_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check needs no systemd; nobody says then that the guard is masked."""

    def show(*_: object) -> None:
        raise HostError("systemctl did not answer", what="systemd", kind="no-answer")

    host = configured(GUARDED)
    monkeypatch.setattr(type(host.manager), "show", show)
    assert list(check_host(GUARDED, host).findings) == []
