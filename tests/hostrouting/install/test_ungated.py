"""A kubelet that does not wait for the gate."""

import pytest

from hostrouting.config.settings import GateConfig, HostRoutingConfig
from hostrouting.install.ungated import find_ungated
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeHost, FakeManager, h200
from tests.support.tasks import CIDR, REPAIR, WANTED, config, manager_of, run

GATED = WANTED._replace(gate=GateConfig(("k3s.service", "kubelet.service")))
NAMES = "k3s k3s-agent rke2-server rke2-agent k0scontroller k0sworker snap.microk8s.daemon-kubelite"
KUBELETS = ["kubelet.service", *(f"{name}.service" for name in NAMES.split())]


def ungated(host: FakeHost, wanted: HostRoutingConfig = WANTED) -> list[str]:
    """The units that are named; in mode WARN, which lets every unit start, in a note."""
    findings = [*find_ungated(wanted, host)]
    severity = "warning" if wanted.route_overlap.is_strict else "note"
    assert {finding.severity for finding in findings} <= {severity}
    return [finding.target for finding in findings]


@pytest.mark.parametrize(
    ("active", "enabled", "is_named"),
    [
        ("active", "disabled", True),
        ("activating", "", True),  # it restarts again and again
        ("reloading", "disabled", True),
        ("inactive", "enabled", True),
        ("failed", "enabled-runtime", True),
        ("inactive", "disabled", False),
        ("failed", "masked", False),
        ("inactive", "", False),  # it does not exist
    ],
)
def test_what_a_used_unit_is(active: str, enabled: str, *, is_named: bool) -> None:
    """A unit that systemd says is running, or is started at boot."""
    used = {"ActiveState": active, "UnitFileState": enabled}
    manager = FakeManager(properties=dict.fromkeys(KUBELETS, used))
    assert ungated(FakeHost(kernel=h200(), manager=manager)) == KUBELETS * is_named


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        (WANTED, ["kubelet.service", "rke2-agent.service"]),
        (GATED, ["rke2-agent.service"]),
        (config(*REPAIR, cidrs=(CIDR,), mode="WARN"), ["kubelet.service", "rke2-agent.service"]),
        (config(*REPAIR), []),  # nothing is checked
    ],
)
def test_what_is_named(wanted: HostRoutingConfig, named: list[str]) -> None:
    """A gated unit is not named."""
    host = FakeHost(kernel=h200())
    for unit in ("kubelet.service", "rke2-agent.service"):
        manager_of(host).states[unit] = "active"
    assert ungated(host, wanted) == named


def test_a_run_and_its_dry_run_say_it(caplog: pytest.LogCaptureFixture) -> None:
    """The plan has the finding, and the run logs it once; neither fails because of it."""
    host = FakeHost(kernel=h200())
    manager_of(host).states["kubelet.service"] = "active"
    plan = Configure(WANTED, host=host).plan()
    [finding] = plan.findings
    assert finding.name == "unit-not-gated"
    remedy = 'write into gate.units: ["systemd-nspawn@.service", "kubelet.service"]'
    assert str(finding.remedy) == remedy
    assert plan.would_fail == ""
    run(Configure(WANTED, host=host))
    [record] = caplog.records
    assert "kubelet.service is used on this host and is not gated" in record.getMessage()
    assert "finding" in vars(record)["phases"], "the command leaves it out"
    run(Configure(GATED, host=host, allow_removal=True))
    assert {each.name for each in Configure(GATED, host=host).plan().findings} == {"unit"}
