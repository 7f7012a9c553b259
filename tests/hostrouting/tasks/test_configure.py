"""Configure and Remove, on hosts that exist in memory: what happens if nothing is wanted, reports, and losses."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError, ConfigError
from hostrouting.host.effects import effects_of
from hostrouting.model.prefix import as_ip
from hostrouting.model.route import Route
from hostrouting.tasks.configure import TASKS, Configure, Remove
from hostrouting.tasks.install import read_installed
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.probe_rewrite import RewriteProbeSource
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing import FakeHost, h200
from hostrouting.testing.host import FakeFiles
from phases.testing import FakeClock, Recorder
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config, configured, failure_of, manager_of, our_routes, run

WANTED = config(*REPAIR, cidrs=(CIDR,))


@pytest.mark.parametrize("make", [Configure, *TASKS])
def test_nothing(make: type[Any]) -> None:
    """Nothing configured and nothing of ours there: not one file is written or locked, and the kernel stays."""
    host = FakeHost()
    host.faults.fail("change", BackendError("touched"))
    before = host.kernel.snapshot()
    result = run(make(HostRoutingConfig(), host=host))
    assert isinstance(result, phases.Skip)
    assert result.reason == getattr(make, "nothing", "nothing is configured, and nothing is installed")
    assert (host.files.writes, manager_of(host).calls) == ([], [])
    assert host.kernel.snapshot() == before


def test_the_last_thing_to_guard() -> None:
    """A guard goes with the last section that it guards: alone it would be a fault of the configuration."""
    host = configured(config(cidrs=("10.9.0.0/16",))._replace(guard={"enabled": True}))
    run(CheckRouteOverlap(config(), host=host))
    assert (host.files.texts, host.files.links) == ({}, {})
    assert manager_of(host).state(LAYOUT.guard_unit) == "inactive"


def test_undo(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was installed before is installed again, after any number of runs; if nothing was, everything is removed."""
    for former in (config(REPAIR[0]), HostRoutingConfig()):
        host = configured(former) if former.static_routes.routes else FakeHost(kernel=h200())
        before, task = dict(host.files.texts), Configure(config(*REPAIR, cidrs=(CIDR,), mode="STRICT"), host=host)
        assert phases.run(phases.serial(task, task, name="all"), observers=[]).ok
        whole = phases.serial(task, name="all")
        monkeypatch.setattr(type(host.files), "try_lock", lambda _files, _path: None)
        assert not phases.undo(whole, phases.Context(observers=[], clock=FakeClock())).ok, "another run has the lock"
        monkeypatch.undo()
        for _ in range(2):  # a second undo, like that of a task that did not run, takes nothing away
            assert phases.undo(whole, phases.Context(observers=[])).ok
            assert (dict(host.files.texts), len(our_routes(host))) == (before, len(former.static_routes.routes))


def test_installed_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another run installs at this moment is the installed configuration, not one that is missing."""
    host, texts = FakeHost(kernel=h200()), list[str | None]()
    real = type(host.files).read

    def read(files: FakeFiles, path: str) -> str | None:
        text = real(files, path)
        if path == LAYOUT.config_path and not texts:
            texts.append(text)
            run(Configure(WANTED, host=host))
        return text

    monkeypatch.setattr(type(host.files), "read", read)
    assert read_installed(host) == WANTED


@pytest.mark.parametrize("leftover", ["route", "table"])
def test_what_is_left_in_the_kernel(leftover: str) -> None:
    """Without any file of ours, a route or table of ours is still removed."""
    host = FakeHost(kernel=h200())
    if leftover == "route":
        host.kernel.ip_route("add", Route.to("10.9.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=213))
    else:
        host.nftables.tables["hostrouting_slb"] = "table ip6 hostrouting_slb {\n}\n"
    assert not isinstance(run(Remove(host=host)), phases.Skip)
    assert (our_routes(host), host.nftables.tables) == ((), {})
    assert isinstance(run(Remove(host=host)), phases.Skip)


class TestReport:
    """The report of a run."""

    def test_in_order(self) -> None:
        """Files, routes, probes, and the check last, which sees what the others did."""
        host, seen = FakeHost(kernel=h200()), Recorder()
        report = phases.run(Configure(WANTED, host=host), observers=[seen])
        assert report.ok, str(report)
        names = ["install-files", "configure-static-routes", "rewrite-probe-source", "check-route-overlap"]
        assert seen.starts == [Configure.name, *(f"{Configure.name}/{name}" for name in names)]
        assert report.find("check-route-overlap").fields["verdict"] == "ok"
        (answer,) = host.kernel.lookup([as_ip("172.16.20.1")])
        assert answer.route is not None
        assert answer.route.devs == ("eth0",)

    def test_selected(self) -> None:
        """A task can be left out by name; the files are those of the whole configuration."""
        host = FakeHost(kernel=h200())
        report = phases.run(Configure(config(cidrs=(CIDR,)), host=host), skip="check-route-overlap", observers=[])
        assert report.ok, str(report)
        assert LAYOUT.step_path(LAYOUT.check_step) in host.files.texts

    def test_as_data(self) -> None:
        """Each result says as data what was done and found, each once, without any Python repr."""
        report = phases.run(Configure(WANTED, host=FakeHost(kernel=h200())), observers=[])
        files, routes, _, check = json.loads(report.to_json())["children"]
        assert files["result"]["files"][0] == LAYOUT.config_path
        assert routes["result"]["changes"] == [
            f"add {prefix} via 10.0.0.1 dev eth0 proto hostrouting" for prefix in REPAIR
        ]
        assert (check["result"]["verdict"], check["result"]["findings"]) == ("ok", [])
        assert "=" not in json.dumps([files["result"], routes["result"], check["result"]])
        many = config(*(f"10.{n >> 8}.{n & 255}.0/24" for n in range(256, 456)))
        text = phases.run(Configure(many, host=FakeHost(kernel=h200())), observers=[]).to_json()
        assert text.count("10.1.7.0/24") == 1

    def test_failure(self) -> None:
        """A failure has its effects, its details, and what the gate does meanwhile."""
        report = phases.run(Configure(config(cidrs=(CIDR,)), host=FakeHost(kernel=h200())), observers=[])
        details = report.find("check-route-overlap").to_mapping()["details"]
        assert isinstance(details, dict)
        assert (details["error"], details["canRetry"], details["check"]["verdict"]) == (
            "RouteOverlapError",
            False,
            "overlap",
        )
        held = "the files are installed: systemd-nspawn@.service will not start before the gate's steps succeed"
        assert str(report).count(held) == 1
        assert LAYOUT.config_path in effects_of(report.failures[0].error).files or report.find("install-files").result


@pytest.mark.parametrize("routes", [REPAIR, ()], ids=["with static routes", "with the check only"])
def test_a_late_default_route_can_be_retried(routes: tuple[str, ...]) -> None:
    """A missing default route has one answer about trying again, whichever task misses it: it may come."""
    kernel = h200()
    default = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=16, metric=100)
    kernel.ip_route("delete", default)
    tried = phases.retry(Configure(config(*routes, cidrs=("10.9.0.0/16",)), host=FakeHost(kernel=kernel), wait=0))
    clock = FakeClock()

    class Comes(Recorder):
        def __call__(self, _step: phases.Step) -> None:
            if clock.now() and not any(route.name == "default" for route in kernel.snapshot().routes):
                kernel.ip_route("add", default)

    phases.execute(tried, phases.Context(clock=clock, observers=[Comes()]))


LOSSES: dict[str, tuple[Callable[[HostRoutingConfig], HostRoutingConfig], str]] = {
    "routes": (
        lambda old: old._replace(static_routes={"enabled": True, "routes": [{"destination": REPAIR[0]}]}),
        "staticRoutes.routes: takes away the route to 172.16.128.0/17",
    ),
    "CIDRs": (
        lambda old: old._replace(route_overlap={"expectedCidrs": ["172.16.64.0/18"], "mode": "STRICT"}),
        "routeOverlap.expectedCidrs: 172.16.0.0/18 and 172.16.128.0/17 would not be checked any more",
    ),
    "STRICT": (
        lambda old: old._replace(route_overlap={"expectedCidrs": [CIDR]}),
        "routeOverlap.mode: STRICT is installed, and with WARN units start although addresses escape",
    ),
    "units": (
        lambda old: old._replace(gate={"units": ["kubelet.service"]}),
        "gate.units: systemd-nspawn@.service would not wait for the gate any more",
    ),
    "guard": (lambda old: old._replace(guard=None), "guard.enabled: the guard that repairs routes would be removed"),
}


class TestLosses:
    """Where nothing may be taken away, a configuration that protects less than the installed one is refused."""

    OLD = WANTED._replace(guard={"enabled": True})

    @pytest.mark.parametrize(("weaken", "sentence"), LOSSES.values(), ids=LOSSES)
    def test_each(self, weaken: Callable[[HostRoutingConfig], HostRoutingConfig], sentence: str) -> None:
        """The error names it and the way out, and nothing is changed; it is allowed on request."""
        host = configured(self.OLD)
        before = dict(host.files.texts)
        error = failure_of(run, Configure(weaken(self.OLD), host=host, allow_removal=False), of=ConfigError)
        assert [f"{fault.path}: {fault.rule}" for fault in error.faults] == [sentence]
        assert "--allow-removal" in error.faults[0].remedy
        assert host.files.texts == before
        with suppress(phases.TaskFailed):  # without its routes, there is an overlap
            run(Configure(weaken(self.OLD), host=host))
        assert host.files.texts != before

    def test_more(self) -> None:
        """More routes, other halves of a CIDR and more units are no loss; nor is anything on a new host."""
        more = {"enabled": True, "routes": [{"destination": prefix} for prefix in (*REPAIR, "10.9.0.0/16")]}
        halves = {"expectedCidrs": [*REPAIR, "10.0.0.0/8"], "mode": "STRICT"}
        units = {"units": ["kubelet.service", "systemd-nspawn@.service"]}
        new = HostRoutingConfig(more, halves, gate=units, guard={"enabled": True})
        for host in (configured(self.OLD), FakeHost(kernel=h200())):
            run(Configure(new, host=host, allow_removal=False))


@pytest.mark.parametrize("task", [Configure, ConfigureStaticRoutes, CheckRouteOverlap, RewriteProbeSource])
def test_arguments(task: type[Configure]) -> None:
    """A time that is none is refused when the task is made."""
    for wait in (-40, float("nan"), float("inf"), 86_401):
        with pytest.raises(ValueError, match=rf"'wait' must be .*: {wait}"):
            task(config(), host=FakeHost(), wait=wait)
