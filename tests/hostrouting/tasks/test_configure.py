"""Configure and Remove, where nothing is wanted, and their report."""

import json
from typing import Any

import pytest

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError
from hostrouting.install.results import CheckResult
from hostrouting.tasks.configure import TASKS, Configure, Remove
from hostrouting.testing import FakeHost, h200
from tests.support.tasks import LAYOUT, WANTED, config, manager_of, ours, paths_on, run


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
    assert routes["changes"] == [f"add {route}" for route in ours(host)]
    assert (check["verdict"], check["findings"]) == ("ok", [])
    assert "=" not in json.dumps([files, routes, probes, check])
    result = report.result
    assert isinstance(result, CheckResult)
    assert str(result.report).startswith("OK: every address of 172.16.0.0/16 leaves through eth0")
    first, *_, last = str(result).splitlines()
    assert first == f"changed {LAYOUT.program_path}"
    assert last == str(result.changes[-1])

    again = run(Configure(WANTED, host=host))
    assert isinstance(again, CheckResult)
    assert not again.changed

    unchecked = Configure(config("10.9.0.0/16"), host=host, allow_removal=True)
    without = run(unchecked)
    assert isinstance(without, CheckResult)
    assert without.changed
    assert without.findings == ()
    assert run(unchecked) == phases.Skip("everything is as it should be")

    run(Remove(host=host))
    assert paths_on(host) == set()


def test_something_else_than_a_configuration_or_a_host() -> None:
    """It is named when the task is made, and not in the middle of a run."""
    wrong: Any = {}
    with pytest.raises(TypeError, match="'config' must be"):
        Configure(wrong)
    with pytest.raises(TypeError, match="'host' must be"):
        Configure(HostRoutingConfig(), host=wrong)
