"""Configure and Remove, on hosts that exist in memory: what happens if nothing is wanted, reports,
and losses.
"""

import json
from ipaddress import ip_address
from itertools import count, repeat
from typing import Any

import pytest

import phases
from hostrouting.azure_vnet.task import CleanStaleAzureVnet
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError
from hostrouting.host.effects import effects_of
from hostrouting.install.installed import read_installed
from hostrouting.model.route import Route
from hostrouting.tasks.configure import TASKS, Configure, Remove
from hostrouting.tasks.overlap_check import CheckResult, CheckRouteOverlap
from hostrouting.tasks.probe_rewrite import RewriteProbeSource
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing import FakeFiles, FakeHost, h200
from phases.testing import FakeClock, Recorder, StubTask
from tests.support.tasks import (
    CIDR,
    LAYOUT,
    REPAIR,
    WANTED,
    config,
    configured,
    context,
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
    assert result.reason == make.nothing
    assert (host.files.writes, manager_of(host).calls) == ([], [])
    assert host.kernel.snapshot() == before


@pytest.mark.parametrize("section", ["routes", "probes", "everything", "image"])
def test_a_second_run(section: str) -> None:
    """It finds everything as it should be, and is skipped: files, routes and the table alike."""
    host = FakeHost(kernel=h200())
    if section == "image":
        host = FakeHost.image()
    wanted = HostRoutingConfig.from_mapping(
        {
            "staticRoutes": {"enabled": True, "routes": [{"destination": "10.77.0.0/16"}]},
            "probeRewrite": {"enabled": True, "interfaces": ["eth0"]},
        }
    )
    kinds = {"routes": ConfigureStaticRoutes, "probes": RewriteProbeSource}
    task = kinds.get(section, Configure)(wanted, host=host)
    first, second = run(task), run(task)
    assert effects_of(first).changed
    assert isinstance(second, phases.Skip)
    assert second.reason.endswith("as it should be") or second.reason.endswith("as they should be")


def test_undo_of_configure(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was installed before is installed again, after any number of runs; if nothing was,
    everything is removed.
    """
    for former in (config(REPAIR[0]), HostRoutingConfig()):
        host = configured(former) if former.static_routes.routes else FakeHost(kernel=h200())
        before, task = (
            dict(host.files.texts),
            Configure(config(*REPAIR, cidrs=(CIDR,), mode="STRICT"), host=host),
        )
        assert phases.run(phases.serial(task, task, name="all"), observers=[]).ok
        whole = phases.serial(task, name="all")
        monkeypatch.setattr(type(host.files), "try_lock", lambda _files, _path: None)
        assert not phases.undo(whole, context()).ok, "another run has the lock"
        monkeypatch.undo()
        for _ in range(
            2
        ):  # a second undo, like that of a task that did not run, takes nothing away
            assert phases.undo(whole, phases.Context(observers=[])).ok
            assert (dict(host.files.texts), len(our_routes(host))) == (
                before,
                len(former.static_routes.routes),
            )


@pytest.mark.parametrize("version", ["246", "257"])
def test_undo_of_what_cannot_be_read(version: str) -> None:
    """If what was installed could not be read, undo fails and takes nothing away. A run that failed
    before its first write has nothing to undo.
    """
    host = configured(WANTED)
    host.files.texts[LAYOUT.config_path] = "{"
    manager_of(host).version = version
    task = Configure(config(*REPAIR), host=host)
    assert phases.run(task, observers=[]).ok is (version == "257")
    before = dict(host.files.texts)
    said = str(phases.undo(task, phases.Context(observers=[])))
    reason = "what was installed before could not be read"
    assert (
        reason if version == "257" else "this object has not run, or has changed nothing"
    ) in said
    assert (dict(host.files.texts), len(our_routes(host))) == (before, 2)


def test_undo_of_a_second_run() -> None:
    """Each undo takes back what was done since the last one, also of routes that somebody typed."""
    host = FakeHost(kernel=h200())
    task = Configure(WANTED, host=host)
    for destination in ("10.98.0.0/16", "10.99.0.0/16"):
        type_routes(host, destination)
        before = our_routes(host)
        run(task)
        assert phases.undo(task, phases.Context(observers=[])).ok
        assert our_routes(host) == before
        host.kernel.ip_route("delete", before[0])


def test_undo_of_a_run_with_two_attempts() -> None:
    """What there was before the first of them is installed again."""
    host = FakeHost(kernel=h200())
    again = phases.retry(Configure(WANTED, host=host))
    host.faults.fail("change", BackendError("no answer", kind="timeout"))
    report = phases.run(again, observers=[], clock=FakeClock())
    assert (report.ok, report.attempts) == (True, 2)
    assert phases.undo(again, phases.Context(observers=[])).ok
    assert (host.files.texts, our_routes(host)) == ({}, ())


def test_undo_of_a_second_attempt_by_another_gateway() -> None:
    """The routes that the first attempt has added were not typed: they are not added again."""
    host = FakeHost(kernel=h200())
    type_routes(host, "10.98.0.0/16")
    before = our_routes(host)
    attempts = count(1)

    @phases.task("renumber")
    def renumber(_ctx: phases.Context) -> None:
        if next(attempts) > 1:
            return
        [default] = host.kernel.snapshot().default_routes(4)
        host.kernel.ip_route("delete", default)
        host.kernel.ip_route("add", Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.9"))
        raise BackendError("no answer", kind="timeout")

    again = phases.retry(phases.serial(Configure(WANTED, host=host), renumber, name="all"))
    report = phases.run(again, observers=[], clock=FakeClock())
    assert (report.ok, report.attempts) == (True, 2)
    assert ["via 10.0.0.9" in str(route) for route in our_routes(host)] == [True, True]
    assert phases.undo(again, phases.Context(observers=[])).ok
    assert (host.files.texts, our_routes(host)) == ({}, before)


def test_undo_of_one_of_several_runs() -> None:
    """The undo of a run takes back what that run did, and nothing of an earlier run of the same
    object: nothing at all if it changed nothing. An undo without a run takes back all of them.
    """
    host, other = FakeHost(kernel=h200()), config("10.7.0.0/16")
    task = Configure(WANTED, host=host)
    fails = phases.serial(task, StubTask("x", errors=repeat(OSError())), name="all")
    run(task)
    installed = dict(host.files.texts)
    assert not phases.run(fails, observers=[], undo_on_failure=True).ok
    report = phases.run(task, observers=[])
    assert phases.undo(task, phases.Context(observers=[]), of=report).ok
    assert (host.files.texts, len(our_routes(host))) == (installed, 2)
    run(Configure(other, host=host))
    assert not phases.run(fails, observers=[], undo_on_failure=True).ok
    assert read_installed(host) == other
    run(task)
    assert phases.undo(task, phases.Context(observers=[])).ok
    assert (host.files.texts, our_routes(host)) == ({}, ())


def test_undo_leaves_what_came_meanwhile() -> None:
    """What another run has installed while this one waited for the lock is what undo restores."""
    host, other = FakeHost(kernel=h200()), config("10.7.0.0/16")
    task = Configure(WANTED, host=host)
    host.faults.meanwhile("snapshot", lambda: run(Configure(other, host=host)))
    run(task)
    assert phases.undo(task, phases.Context(observers=[])).ok
    assert read_installed(host) == other


def test_installed_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another run installs at this moment is the installed configuration, not one that is
    missing.
    """
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
        type_routes(host, "10.9.0.0/16")
    else:
        host.nftables.tables["hostrouting_slb"] = "table ip6 hostrouting_slb {\n}\n"
    assert not isinstance(run(Remove(host=host)), phases.Skip)
    assert (our_routes(host), host.nftables.tables) == ((), {})
    assert isinstance(run(Remove(host=host)), phases.Skip)


def test_report() -> None:
    """Files, routes, probes, and the check last, which sees what the others did. Each result is
    data, without a repr.
    """
    host, seen = FakeHost(kernel=h200()), Recorder()
    report = phases.run(Configure(WANTED, host=host), observers=[seen])
    names = [
        "install-files",
        "configure-static-routes",
        "rewrite-probe-source",
        "check-route-overlap",
    ]
    assert seen.starts == [Configure.name, *(f"{Configure.name}/{name}" for name in names)]
    files, routes, _, check = json.loads(report.to_json())["children"]
    assert files["result"]["files"][0] == LAYOUT.config_path
    added = [f"add {prefix} via 10.0.0.1 dev eth0 proto hostrouting" for prefix in REPAIR]
    assert routes["result"]["changes"] == added
    assert (check["result"]["verdict"], check["result"]["findings"]) == ("ok", [])
    assert "=" not in json.dumps([files["result"], routes["result"], check["result"]])


def test_a_run_that_is_stopped_while_files_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written is in the report, as the step that wrote it; and with `only`, also in the
    result.
    """
    host, other = FakeHost(kernel=h200()), FakeHost(kernel=h200())

    @phases.task("whole")
    def whole(ctx: phases.Context) -> None:
        monkeypatch.setattr(type(host.manager), "reload", lambda _: ctx.cancel("SIGTERM"))
        phases.execute(Configure(WANTED, host=host), ctx)

    report = phases.run(whole, observers=[])
    monkeypatch.undo()
    assert LAYOUT.config_path in effects_of(report.find("install-files").result).files
    assert {report.status, report.find(ConfigureStaticRoutes.name).status} == {
        phases.Status.CANCELLED
    }
    report = phases.run(
        Configure(WANTED, host=other), only=ConfigureStaticRoutes.name, observers=[]
    )
    for result in (report.result, report.find("install-files").result):
        assert LAYOUT.config_path in effects_of(result).files


@pytest.mark.parametrize(("mode", "names"), [("WARN", []), ("STRICT", ["overlap"])])
def test_a_dry_run_foresees_the_verdict(mode: str, names: list[str]) -> None:
    """The plan has the check of the host after the planned changes; in STRICT, what escapes would
    make the run fail.
    """
    plan = Configure(config(cidrs=(CIDR,), mode=mode), host=FakeHost(kernel=h200())).plan()
    assert plan.report is not None
    assert plan.report.verdict == "overlap"
    assert [finding.name for finding in plan.failures] == names
    assert "afterwards: OVERLAP: all of 172.16.0.0/16 leaves through ib0" in str(plan)


def test_result() -> None:
    """The result has what all tasks did, and the report of the check, also as text that an operator
    can read.
    """
    result = phases.execute(
        Configure(WANTED, host=FakeHost(kernel=h200())), phases.Context(observers=[])
    )
    assert isinstance(result, CheckResult)
    verdict, first, *rest = str(result).splitlines()
    assert (
        verdict == "OK: every address of 172.16.0.0/16 leaves through eth0, or is this host's own"
    )
    assert (first, rest[-1]) == (f"changed {LAYOUT.config_path}", str(result.changes[-1]))
    assert [str(change.route.prefix) for change in result.changes] == [*REPAIR]
    assert result.node_ips == {4: ip_address("10.0.0.4")}


@pytest.mark.parametrize(
    "task", [Configure, ConfigureStaticRoutes, CheckRouteOverlap, RewriteProbeSource]
)
def test_times_of_a_task(task: type[Configure]) -> None:
    """A time that is none is refused when the task is made."""
    for wait in (-40, float("nan"), float("inf"), 86_401):
        with pytest.raises(ValueError, match=f"wait is {wait}; it must be a number, from 0"):
            task(config(), host=FakeHost(), wait=wait)


@pytest.mark.parametrize("task", [Configure, *TASKS, CleanStaleAzureVnet])
def test_what_is_not_a_configuration(task: type[Any]) -> None:
    """A mapping or a path is refused when the task is made, with the function that reads it."""
    with pytest.raises(
        TypeError,
        match=r"^config must be a HostRoutingConfig, not a dict: HostRoutingConfig.from_mapping and .load read one$",
    ):
        task({}, host=FakeHost())
    with pytest.raises(
        TypeError, match=r"^host must be a Host, not a FakeKernel: .*FakeHost\(kernel=…\)"
    ):
        task(config(), host=h200())
    with pytest.raises(TypeError, match=rf"^{task.__name__}.__init__\(\) takes 2 positional arg"):
        task(config(), FakeHost())
    with pytest.raises(
        TypeError, match=r"^allow_removal must be a bool, not a str: write True or False$"
    ):  # as a text, "false" would be true
        Configure(config(), host=FakeHost(), allow_removal="false")  # type: ignore[arg-type]  # the mistake under test
