"""A kubelet that does not wait for the gate."""

import pytest

from hostrouting.config.settings import GateConfig, HostRoutingConfig
from hostrouting.errors import HostError
from hostrouting.finding import Remedy
from hostrouting.install.typed_commands import GUARD_IS_MASKED, with_gate_command
from hostrouting.install.ungated import find_ungated
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeHost, FakeManager, h200
from tests.support.tasks import CIDR, LAYOUT, REPAIR, WANTED, config, manager_of, run

GATED = WANTED._replace(gate=GateConfig(("k3s.service", "kubelet.service")))
KUBELETS = (
    "kubelet.service",
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
    "rke2-agent.service",
)


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
    assert ungated(FakeHost(kernel=h200(), manager=manager)) == [*KUBELETS] * is_named


@pytest.mark.parametrize("kind", ["a host", "an image", "a container"])
@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        (WANTED, ["kubelet.service", "rke2-agent.service"]),
        (GATED, ["rke2-agent.service"]),
        (config(*REPAIR, cidrs=(CIDR,), mode="WARN"), ["kubelet.service", "rke2-agent.service"]),
        (config(*REPAIR), []),  # nothing is checked
    ],
)
def test_what_is_named(kind: str, wanted: HostRoutingConfig, named: list[str]) -> None:
    """A gated unit is not named. On an image, and where no
    systemd runs, the link counts with which systemd would start a unit at boot.
    """
    host = FakeHost.image() if kind == "an image" else FakeHost(kernel=h200())
    for unit in ("kubelet.service", "rke2-agent.service"):
        if kind == "a host":
            manager_of(host).states[unit] = "active"
        else:
            host.files.links[LAYOUT.enabled_path(unit)] = f"/lib/systemd/system/{unit}"
    if kind == "a container":
        manager_of(host).running = False
    assert ungated(host, wanted) == named


def test_the_command_that_gates_them() -> None:
    """It names all of them; other findings keep their remedy. Without a command, none is said."""
    host = FakeHost(kernel=h200())
    for unit in ("kubelet.service", "rke2-agent.service"):
        manager_of(host).states[unit] = "active"
    findings = (GUARD_IS_MASKED, *find_ungated(WANTED, host))
    other, *ungated_ones = with_gate_command(findings, "apply")
    assert other == GUARD_IS_MASKED
    for finding in ungated_ones:
        assert finding.remedy is not None
        command = "apply --gate kubelet.service --gate rke2-agent.service"
        assert finding.remedy.command == command
    assert [finding.remedy for finding in with_gate_command(findings[1:], "")] == [None, None]
    [agent] = find_ungated(GATED, host)
    units = '["k3s.service", "kubelet.service", "rke2-agent.service"]'
    assert agent.remedy == Remedy(f"write into gate.units: {units}")


def test_systemd_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing is said of units: whatever needs systemd says that it does not answer."""

    def show(*_: object) -> None:
        raise HostError("systemctl did not answer", what="systemd", kind="no-answer")

    host = FakeHost(kernel=h200())
    monkeypatch.setattr(type(host.manager), "show", show)
    assert ungated(host) == []


def test_a_run_and_its_dry_run_say_it(caplog: pytest.LogCaptureFixture) -> None:
    """The plan has the finding, and the run logs it once; neither fails because of it."""
    host = FakeHost(kernel=h200())
    manager_of(host).states["kubelet.service"] = "active"
    plan = Configure(WANTED, host=host).plan()
    assert [finding.name for finding in plan.findings] == ["unit-not-gated"]
    assert plan.would_fail == ""
    run(Configure(WANTED, host=host))
    [record] = caplog.records
    assert "kubelet.service runs on this host and is not gated" in record.getMessage()
    assert "finding" in vars(record)["phases"], "the command leaves it out"
    run(Configure(GATED, host=host))
    assert Configure(GATED, host=host).plan().findings == ()


@pytest.mark.parametrize("mode", ["STRICT", "WARN"])
def test_what_a_run_warns_of(mode: str) -> None:
    """Its result has the warnings of the plan, and not its notes."""
    used = {"ActiveState": "active", "UnitFileState": "enabled"}
    manager = FakeManager(properties={"kubelet.service": used})
    host = FakeHost(kernel=h200(), manager=manager)
    plan = Configure(config(*REPAIR, cidrs=(CIDR,), mode=mode), host=host).plan()
    assert [finding.target for finding in plan.obstacles] == ["kubelet.service"]
    assert bool(plan.warnings) == (mode == "STRICT")
