"""Configure and Remove, on hosts that exist in memory: what happens if nothing is wanted, reports,
and losses.
"""

import json
import signal
from ipaddress import ip_address
from typing import Any

import pytest

import phases
from hostrouting.azure_vnet.task import CleanStaleAzureVnet
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError
from hostrouting.host.effects import effects_of
from hostrouting.install.task import InstallTask
from hostrouting.tasks.configure import TASKS, Configure, Remove
from hostrouting.tasks.overlap_check import CheckResult
from hostrouting.tasks.probe_rewrite import RewriteProbeSource
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing import FakeHost, h200
from tests.support.tasks import (
    CIDR,
    LAYOUT,
    WANTED,
    config,
    manager_of,
    our_routes,
    run,
    type_routes,
)


@pytest.mark.parametrize("make", [Configure, *TASKS])
def test_nothing_is_configured(make: type[Any]) -> None:
    """Nothing configured and nothing of ours there: not one file is written or locked, and the
    kernel stays.
    """
    host = FakeHost()
    host.faults.fail("change", BackendError("touched"))
    before = host.kernel.snapshot()
    result = run(make(HostRoutingConfig(), host=host))
    assert isinstance(result, phases.Skip)
    assert result.reason == make.reason_to_skip
    assert host.files.writes == []
    assert manager_of(host).calls == []
    assert host.kernel.snapshot() == before


@pytest.mark.parametrize(
    ("make", "host"),
    [
        pytest.param(ConfigureStaticRoutes, FakeHost(kernel=h200()), id="routes"),
        pytest.param(RewriteProbeSource, FakeHost(kernel=h200()), id="probes"),
        pytest.param(Configure, FakeHost(kernel=h200()), id="everything"),
        pytest.param(Configure, FakeHost.image(), id="image"),
    ],
)
def test_a_second_run(make: type[Any], host: FakeHost) -> None:
    """It finds everything as it should be, and is skipped: files, routes and the table alike."""
    wanted = HostRoutingConfig.from_mapping(
        {
            "staticRoutes": {"enabled": True, "routes": [{"destination": "10.77.0.0/16"}]},
            "probeRewrite": {"enabled": True, "interfaces": ["eth0"]},
        }
    )
    task = make(wanted, host=host)
    first = run(task)
    second = run(task)
    assert effects_of(first).changed
    assert isinstance(second, phases.Skip)
    assert second.reason.endswith(("as it should be", "as they should be"))


@pytest.mark.parametrize("leftover", ["route", "table"])
def test_what_is_left_in_the_kernel(leftover: str) -> None:
    """Without any file of ours, a route or table of ours is still removed."""
    host = FakeHost(kernel=h200())
    if leftover == "route":
        type_routes(host, "10.9.0.0/16")
    else:
        host.nftables.tables["hostrouting_slb"] = "table ip6 hostrouting_slb {\n}\n"
    first = run(Remove(host=host))
    second = run(Remove(host=host))
    assert not isinstance(first, phases.Skip)
    assert our_routes(host) == ()
    assert host.nftables.tables == {}
    assert isinstance(second, phases.Skip)


def test_report() -> None:
    """Files, routes, probes, and the check last, which sees what the others did. Each result is
    data, without a repr; that of the whole has what all did, with the report of the check.
    """
    report = phases.run(Configure(WANTED, host=FakeHost(kernel=h200())), observers=[])
    assert ["/".join(step.path) for step in report.walk()] == [
        "configure-host-routing",
        "configure-host-routing/install-files",
        "configure-host-routing/configure-static-routes",
        "configure-host-routing/rewrite-probe-source",
        "configure-host-routing/check-route-overlap",
    ]
    children = json.loads(report.to_json())["children"]
    files, routes, probes, check = (child["result"] for child in children)
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
    verdict, first, *_, last = str(result).splitlines()
    assert verdict.startswith("OK: every address of 172.16.0.0/16 leaves through eth0, or is this ")
    assert first == f"changed {LAYOUT.program_path}"
    assert last == str(result.changes[-1])
    assert result.node_ips == {4: ip_address("10.0.0.4")}


def test_a_run_that_is_stopped_while_files_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written is in the report, as the step that wrote it."""
    host = FakeHost(kernel=h200())

    @phases.task("whole")
    def whole(ctx: phases.Context) -> None:
        monkeypatch.setattr(type(host.manager), "reload", lambda _: ctx.cancel(signal.SIGTERM))
        phases.execute(Configure(WANTED, host=host), ctx)

    report = phases.run(whole, observers=[])
    assert report.status is phases.Status.CANCELLED
    assert report.find(ConfigureStaticRoutes.name).status is phases.Status.CANCELLED
    written = effects_of(report.find("install-files").result).files
    assert LAYOUT.config_path in written


@pytest.mark.parametrize(("mode", "names"), [("WARN", []), ("STRICT", ["overlap"])])
def test_a_dry_run_foresees_the_verdict(mode: str, names: list[str]) -> None:
    """The plan has the check of the host after the planned changes; in STRICT, what escapes would
    make the run fail.
    """
    plan = Configure(config(cidrs=(CIDR,), mode=mode), host=FakeHost(kernel=h200())).plan()
    assert plan.report is not None
    assert plan.report.verdict == "overlap"
    assert [finding.name for finding in plan.failures] == names
    verdict, action = str(plan).splitlines()[-2:]
    assert verdict.startswith("afterwards: OVERLAP: all of 172.16.0.0/16 leaves through ib0")
    assert action.startswith("2 static routes would repair it; ")


@pytest.mark.parametrize("task", [Configure, *TASKS, CleanStaleAzureVnet])
def test_what_is_not_a_configuration(task: type[Any]) -> None:
    """A mapping or a path is refused when the task is made, with the function that reads it; so is
    what is not a host, a time that is none, and what is neither true nor false.
    """
    reads_one = "HostRoutingConfig.from_mapping and .load read one"
    words = rf"^config must be a HostRoutingConfig, not a dict: {reads_one}$"
    with pytest.raises(TypeError, match=words):
        task({}, host=FakeHost())
    words = (
        r"^host must be a Host, not a FakeKernel: .*Host\.offline\(root\) .*FakeHost\(kernel=…\)"
    )
    with pytest.raises(TypeError, match=words):
        task(config(), host=h200())
    words = rf"^{task.__name__}.__init__\(\) takes 2 positional arg"
    with pytest.raises(TypeError, match=words):
        task(config(), FakeHost())
    if issubclass(task, InstallTask):
        for wait in (-40, float("nan"), 86_401):
            with pytest.raises(ValueError, match=f"wait is {wait}; it must be a number, from 0"):
                task(config(), host=FakeHost(), wait=wait)
        words = r"^allow_removal must be a bool, not a str: write True or False$"
        with pytest.raises(TypeError, match=words):
            task(config(), host=FakeHost(), allow_removal="false")  # type: ignore[arg-type]  # the mistake
