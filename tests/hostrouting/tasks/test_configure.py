"""Configure and Remove, where nothing is wanted, and their report."""

import json
from typing import Any
from unittest import mock

import pytest

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError
from hostrouting.install.results import CheckResult
from hostrouting.install.wanted import Request
from hostrouting.tasks import task
from hostrouting.tasks.configure import TASKS, Configure, Remove
from hostrouting.testing import FakeHost, h200
from tests.support.tasks import LAYOUT, WANTED, config, configured, manager_of, ours, paths_on, run


@pytest.mark.parametrize("make", [Configure, *TASKS])
def test_nothing_is_configured(make: type[Any]) -> None:
    """Nothing is written, locked or changed. What is set without a task is asked of each."""
    host = FakeHost()
    host.faults.fail("change", BackendError("touched"))
    result = run(make(HostRoutingConfig(), host=host))
    assert isinstance(result, phases.Skip)
    assert result.reason == "nothing is configured, and nothing is installed"
    assert host.files.writes == []
    assert manager_of(host).calls == []
    keeping = HostRoutingConfig(manage_foreign="keep")
    names = (make.section, "manage_foreign") if make.section else ()
    assert make(keeping, host=host).request == Request(keeping, names)


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
    assert report.children[3].reason == "no probe rewrite is configured, and none is loaded"
    assert (check["verdict"], check["findings"]) == ("ok", [])
    assert "=" not in json.dumps([files, routes, probes, check])
    result = report.result
    assert isinstance(result, CheckResult)
    assert str(result.report).startswith("OK: every address of 172.16.0.0/16 leaves through eth0")

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


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"wait": "60"}, "'>=' not supported"),
        ({"wait": -1}, "Configure: wait is -1; it must be 0 seconds or more"),
        ({"wait": float("nan")}, "Configure: wait is nan; "),
        ({"allow_removal": "no"}, "Configure: allow_removal is 'no'; it must be True or False"),
    ],
)
def test_arguments_that_are_refused(wrong: dict[str, Any], words: str) -> None:
    """When the task is made, because a run would see them after its first change, or never."""
    with pytest.raises((TypeError, ValueError), match=f"^{words}"):
        Configure(WANTED, host=FakeHost(), **wrong)


def test_something_else_than_a_host() -> None:
    """Nothing is done: a dry run and a run fail at once."""
    wrong: Any = "gpu-1"
    for task_of in (Configure(WANTED, host=wrong), Remove(host=wrong)):
        assert not phases.plan(task_of).ok
        assert not phases.run(task_of).ok


@pytest.mark.parametrize(("release", "is_older"), [("9.0.0", True), ("10.0.0", False)])
def test_a_program_of_another_release(release: str, *, is_older: bool) -> None:
    """If this release is older than the installed one, the plan says so."""
    host = configured(WANTED)
    host.files.programs[LAYOUT.program_path] = b'\n__version__ = "10.0.0rc9"\n'
    with mock.patch.object(task, "__version__", release):
        assert Configure(WANTED, host=host).plan().is_downgrade is is_older
