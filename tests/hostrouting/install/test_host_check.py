"""hostrouting.install.host_check: the check of a host, by the names of its findings;
tests/hostrouting/cli has its pages.
"""

import pytest

import phases
from hostrouting.config.settings import GuardConfig, HostRoutingConfig
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
    LAYOUT,
    REPAIR,
    config,
    configured,
    our_routes,
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


def test_files_of_the_agent_alone() -> None:
    """Nothing is installed, so the next boot loses the routes that were typed."""
    host = FakeHost(kernel=h200())
    type_routes(host, "10.9.0.0/16")
    host.files.write(f"{LAYOUT.state_directory}/of-the-agent", "")
    check = check_host(config(cidrs=("10.9.0.0/16",)), host)
    assert check.managed is None
    [finding] = check.named("route-not-configured")
    assert "is set until the next boot" in finding.sentence


def test_what_else_is_expected() -> None:
    """The check reads the routes to the typed CIDR alone, but a repair is of everything that is
    expected.
    """
    installed = config(cidrs=("10.9.0.0/16", CIDR), mode="WARN")
    kernel = plain_vm()
    kernel.add_link("ib0")
    kernel.add_address("ib0", "10.1.0.4/24")
    host = configured(installed, kernel=kernel)
    typed = config(cidrs=("10.9.0.0/16",))
    fine = check_host(typed, host, to_repair=installed)
    for destination in ("10.200.0.0/24", "172.16.5.0/24"):  # of such routes, the first is read
        far = Route.to(destination, dev="ib0", gateway="10.1.0.1", protocol=4)
        kernel.ip_route("add", far)
    escaping = check_host(typed, host, to_repair=installed)
    assert fine.managed is not None
    assert fine.managed.is_repaired_by_apply
    assert escaping.report.verdict == "ok"
    assert escaping.managed is not None
    assert not escaping.managed.is_repaired_by_apply


SETS_ROUTES = config("10.77.0.0/16", cidrs=(CIDR,))
GUARD = GuardConfig(enabled=True)
DELETERS = {
    "the gate": (
        config("10.77.0.0/16", cidrs=(CIDR,), mode="WARN"),
        "start of a gated unit, apply or boot",
    ),
    "in STRICT, apply is refused": (SETS_ROUTES, "start of a gated unit or boot"),
    "the guard": (
        SETS_ROUTES._replace(guard=GUARD),
        "pass of the guard, start of a gated unit or boot",
    ),
    "a gate that sets no routes": (config(cidrs=(CIDR,))._replace(guard=GUARD), "boot"),
}
"""By the reason: the installed configuration, and what deletes routes that were typed."""


@pytest.mark.parametrize(("installed", "occasions"), DELETERS.values(), ids=DELETERS)
def test_what_deletes_typed_routes(installed: HostRoutingConfig, occasions: str) -> None:
    """Each occasion is named, the first one first."""
    host = FakeHost(kernel=h200())
    phases.run(Configure(installed, host=host), observers=[], clock=FakeClock())
    type_routes(host, *REPAIR)
    [finding] = check_host(installed, host).named("route-not-configured")
    assert finding.sentence.startswith(f"the next {occasions} deletes routes")


def test_strict_without_cidrs() -> None:
    """Nothing is checked then, so apply deletes what only the typed CIDR needs."""
    installed = config("10.77.0.0/16")
    host = FakeHost(kernel=h200())
    phases.run(Configure(installed, host=host), observers=[], clock=FakeClock())
    type_routes(host, *REPAIR)
    typed = config("10.77.0.0/16", cidrs=(CIDR,))
    [finding] = check_host(typed, host).named("route-not-configured")
    occasions = "start of a gated unit, apply or boot"
    assert finding.sentence.startswith(f"the next {occasions} deletes routes")


def test_strict_for_other_cidrs() -> None:
    """For these, nothing escapes without the routes, so apply is not refused."""
    installed = config("10.77.0.0/16", cidrs=("10.9.0.0/16",))
    host = FakeHost(kernel=h200())
    phases.run(Configure(installed, host=host), observers=[], clock=FakeClock())
    type_routes(host, *REPAIR)
    typed = config("10.77.0.0/16", cidrs=(CIDR,))
    both = config("10.77.0.0/16", cidrs=("10.9.0.0/16", CIDR))
    [finding] = check_host(typed, host, to_repair=both).named("route-not-configured")
    occasions = "start of a gated unit, apply or boot"
    assert finding.sentence.startswith(f"the next {occasions} deletes routes")

    applied = phases.run(Configure(installed, host=host), observers=[], clock=FakeClock())
    assert applied.ok
    assert [str(route.prefix) for route in our_routes(host)] == ["10.77.0.0/16"]


def test_systemd_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check needs no systemd; nobody says then that the guard is masked."""

    def show(*_: object) -> None:
        raise HostError("systemctl did not answer", what="systemd", kind="no-answer")

    host = configured(GUARDED)
    monkeypatch.setattr(type(host.manager), "show", show)
    check = check_host(GUARDED, host)
    assert check.managed is not None
    assert not check.managed.is_guard_masked
    assert list(check.findings) == []
