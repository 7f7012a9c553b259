"""Configure and Remove, where nothing is wanted, and their report."""

import json
from ipaddress import ip_address
from typing import Any

import pytest

import phases
from hostrouting.config.settings import GateConfig, GuardConfig, HostRoutingConfig
from hostrouting.errors import BackendError
from hostrouting.install.results import CheckResult
from hostrouting.tasks.configure import TASKS, Configure, Remove
from hostrouting.testing import FakeHost, h200
from tests.support.tasks import LAYOUT, WANTED, config, manager_of, paths_on, run


@pytest.mark.parametrize("make", [Configure, *TASKS])
def test_nothing_is_configured(make: type[Any]) -> None:
    """Nothing is written or locked, and the kernel stays."""
    host = FakeHost()
    host.faults.fail("change", BackendError("touched"))
    before = host.kernel.snapshot()
    result = run(make(HostRoutingConfig(), host=host))
    assert isinstance(result, phases.Skip)
    assert result.reason == "nothing is configured, and nothing is installed"
    assert host.files.writes == []
    assert manager_of(host).calls == []
    assert host.kernel.snapshot() == before


def test_report() -> None:
    """The check is last, and sees what the others did. A second run changes nothing."""
    host = FakeHost(kernel=h200())
    report = phases.run(Configure(WANTED, host=host))
    assert ["/".join(step.path) for step in report.walk()] == [
        "configure-host-routing",
        "configure-host-routing/install-files",
        "configure-host-routing/ask-systemd",
        "configure-host-routing/configure-static-routes",
        "configure-host-routing/rewrite-probe-source",
        "configure-host-routing/check-route-overlap",
    ]
    children = json.loads(report.to_json())["children"]
    files, _, routes, probes, check = (child["result"] for child in children)
    assert files["files"][0] == LAYOUT.program_path
    assert routes["changes"] == [
        "add 172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting",
        "add 172.16.128.0/17 via 10.0.0.1 dev eth0 proto hostrouting",
    ]
    assert check["verdict"] == "ok"
    assert check["findings"] == []
    assert "=" not in json.dumps([files, routes, probes, check])
    result = report.result
    assert isinstance(result, CheckResult)
    assert str(result.report).startswith("OK: every address of 172.16.0.0/16 leaves through eth0")
    first, *_, last = str(result).splitlines()
    assert first == f"changed {LAYOUT.program_path}"
    assert last == str(result.changes[-1])
    assert result.report is not None
    assert result.report.node_ips == {4: ip_address("10.0.0.4")}

    again = run(Configure(WANTED, host=host))
    assert isinstance(again, CheckResult)
    assert not again.changed

    without = run(Configure(config("10.9.0.0/16"), host=host, allow_removal=True))
    assert isinstance(without, CheckResult)
    assert without.changed
    assert without.findings == ()
    skipped = run(Configure(config("10.9.0.0/16"), host=host, allow_removal=True))
    assert skipped == phases.Skip("everything is as it should be")

    assert not Remove(host=host).plan().is_empty
    run(Remove(host=host))
    assert paths_on(host) == set()


def test_the_tasks_one_by_one() -> None:
    """Together they install what Configure does, with the gate, the guard and manageForeign."""
    whole = WANTED._replace(
        gate=GateConfig(("kubelet.service",)),
        guard=GuardConfig(enabled=True),
        manage_foreign="keep",
    )
    host = FakeHost(kernel=h200())
    tasks = phases.serial(*(make(whole, host=host) for make in TASKS))
    assert phases.run(tasks).ok
    at_once = FakeHost(kernel=h200())
    run(Configure(whole, host=at_once))
    assert host.files.texts == at_once.files.texts
    assert LAYOUT.drop_in_path("kubelet.service") in host.files.texts
    assert phases.undo(tasks).ok
    assert paths_on(host) == set()
