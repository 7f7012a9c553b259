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


@pytest.mark.parametrize("make", TASKS)
def test_nothing_is_configured_beside_another_section(make: type[Any]) -> None:
    """A task whose section is not configured says so, and not that all is as it should be."""
    host = configured(HostRoutingConfig(manage_foreign="keep"))
    assert run(make(HostRoutingConfig(), host=host)) == phases.Skip(make.reason_to_skip)


def test_a_second_run_with_a_check() -> None:
    """It changes nothing, and has the report of the check."""
    host = configured(WANTED)
    result = run(Configure(WANTED, host=host))
    assert isinstance(result, CheckResult)
    assert not result.changed
    assert result.report is not None
    assert result.report.verdict == "ok"


def undo(task: phases.AnyTask) -> phases.Step:
    """Take back what the runs of this task have done; the report of that."""
    return phases.undo(task, phases.Context(observers=[]))


@pytest.mark.parametrize(
    "host",
    [
        pytest.param(configured(config(REPAIR[0])), id="another configuration"),
        pytest.param(FakeHost(kernel=h200()), id="nothing"),
    ],
)
def test_undo_of_configure(host: FakeHost) -> None:
    """What was installed before is installed again, after any number of runs; if nothing was,
    everything is removed. A second undo, like that of a task that did not run, takes nothing away.
    """
    files = dict(host.files.texts)
    routes = our_routes(host)
    task = Configure(config(*REPAIR, cidrs=(CIDR,), mode="STRICT"), host=host)
    assert phases.run(phases.serial(task, task, name="all"), observers=[]).ok
    assert len(our_routes(host)) == 2

    for _ in range(2):
        assert undo(phases.serial(task, name="all")).ok
        assert host.files.texts == files
        assert our_routes(host) == routes


def test_undo_while_another_run_has_the_lock() -> None:
    """It fails, and the next one takes everything back."""
    host = FakeHost(kernel=h200())
    task = Configure(WANTED, host=host)
    run(task)
    host.files.locked.add(LAYOUT.lock_path)
    assert not phases.undo(task, context()).ok
    assert len(our_routes(host)) == 2
    host.files.locked.clear()
    assert undo(task).ok
    assert host.files.texts == {}
    assert our_routes(host) == ()


def test_undo_of_what_cannot_be_read() -> None:
    """If what was installed could not be read, undo fails and takes nothing away."""
    host = configured(WANTED)
    host.files.texts[LAYOUT.config_path] = "{"
    task = Configure(config(*REPAIR), host=host)
    assert phases.run(task, observers=[]).ok
    files = dict(host.files.texts)

    undone = undo(task)

    assert not undone.ok
    assert "what was installed before could not be read" in str(undone)
    assert host.files.texts == files
    assert len(our_routes(host)) == 2


def test_undo_of_a_run_that_failed_before_its_first_write() -> None:
    """There is nothing to undo, also if what was installed cannot be read."""
    host = configured(WANTED)
    host.files.texts[LAYOUT.config_path] = "{"
    manager_of(host).version = "246"  # is too old
    task = Configure(config(*REPAIR), host=host)
    assert not phases.run(task, observers=[]).ok
    files = dict(host.files.texts)

    undone = undo(task)

    assert "this object has not run, or has changed nothing" in str(undone)
    assert host.files.texts == files
    assert len(our_routes(host)) == 2


def test_undo_of_a_second_run() -> None:
    """Each undo takes back what was done since the last one, also of routes that somebody typed."""
    host = FakeHost(kernel=h200())
    task = Configure(WANTED, host=host)
    for destination in ("10.98.0.0/16", "10.99.0.0/16"):
        type_routes(host, destination)
        [typed] = our_routes(host)
        run(task)
        assert typed not in our_routes(host)
        assert undo(task).ok
        assert our_routes(host) == (typed,)
        host.kernel.ip_route("delete", typed)


@pytest.mark.parametrize("make", [Configure, ConfigureStaticRoutes])
def test_undo_of_a_report_by_another_object(make: type[Any]) -> None:
    """Another object does not know what was there before that run: its undo fails, and takes
    nothing away. Once the run is undone, there is nothing to fail for.
    """
    host = FakeHost(kernel=h200())
    task = make(WANTED, host=host)
    report = phases.run(task, observers=[])
    files = dict(host.files.texts)

    undone = phases.undo(make(WANTED, host=host), of=report)

    assert not undone.ok
    assert "another object made that run" in str(undone)
    assert host.files.texts == files
    assert len(our_routes(host)) == 2

    assert phases.undo(task, of=report).ok
    assert phases.undo(make(WANTED, host=host), of=report).ok
    assert host.files.texts == {}


def test_undo_by_another_object_of_a_run_that_changed_nothing() -> None:
    """There is nothing to undo, whichever object made that run."""
    host = configured(WANTED)
    report = phases.run(Configure(WANTED, host=host), observers=[])
    undone = phases.undo(Configure(WANTED, host=host), of=report)
    assert undone.ok
    assert "it changed nothing in that run, or that is undone" in str(undone)


def test_undo_twice_of_a_run_that_brought_back_what_was_lost() -> None:
    """The second undo has nothing to do, although the configuration is installed: it was before."""
    host = configured(WANTED)
    host.kernel.ip_route("delete", our_routes(host)[0])
    task = Configure(WANTED, host=host)
    report = phases.run(task, observers=[])
    assert effects_of(report.result).changed
    assert phases.undo(task, of=report).ok
    assert phases.undo(task, of=report).ok


def test_undo_on_failure_of_two_objects_with_one_name() -> None:
    """The one that the run did not reach has nothing to undo."""
    host = FakeHost(kernel=h200())
    broken = StubTask("broken", errors=[OSError("busy")])
    tasks = (Configure(config(*REPAIR), host=host), broken, Configure(WANTED, host=host))
    report = phases.run(phases.serial(*tasks, name="all"), undo_on_failure=True, observers=[])
    assert [failure.name for failure in report.failures] == ["broken"]
    assert host.files.texts == {}
    assert our_routes(host) == ()


def test_undo_of_a_run_with_two_attempts() -> None:
    """What there was before the first of them is installed again."""
    host = FakeHost(kernel=h200())
    again = phases.retry(Configure(WANTED, host=host))
    host.faults.fail("change", BackendError("no answer", kind="timeout"))
    report = phases.run(again, observers=[], clock=FakeClock())
    assert report.ok
    assert report.attempts == 2
    assert undo(again).ok
    assert host.files.texts == {}
    assert our_routes(host) == ()


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
    assert report.ok
    assert report.attempts == 2
    first, second = our_routes(host)
    assert "via 10.0.0.9" in str(first)
    assert "via 10.0.0.9" in str(second)

    assert undo(again).ok
    assert host.files.texts == {}
    assert our_routes(host) == before


class TestUndoOfOneOfSeveralRuns:
    """The undo of a run takes back what that run did, and nothing of an earlier run of the same
    object. An undo without a run takes back all of them.
    """

    @pytest.fixture
    def host(self) -> FakeHost:
        """An H200 node."""
        return FakeHost(kernel=h200())

    @pytest.fixture
    def task(self, host: FakeHost) -> Configure:
        """A task that has run."""
        task = Configure(WANTED, host=host)
        run(task)
        return task

    @staticmethod
    def run_and_fail(task: Configure) -> None:
        """Run the task, and after it one that fails: the run is undone."""
        fails = phases.serial(task, StubTask("x", errors=repeat(OSError())), name="all")
        assert not phases.run(fails, observers=[], undo_on_failure=True).ok

    def test_a_run_that_changed_nothing(self, host: FakeHost, task: Configure) -> None:
        """Nothing at all is taken back, at once or later."""
        installed = dict(host.files.texts)
        self.run_and_fail(task)
        report = phases.run(task, observers=[])
        assert phases.undo(task, phases.Context(observers=[]), of=report).ok
        assert host.files.texts == installed
        assert len(our_routes(host)) == 2

    def test_a_run_after_another_configuration(self, host: FakeHost, task: Configure) -> None:
        """The other configuration is installed again."""
        other = config("10.7.0.0/16")
        run(Configure(other, host=host))
        self.run_and_fail(task)
        assert read_installed(host) == other

    def test_all_runs(self, host: FakeHost, task: Configure) -> None:
        """What was there before the first of them is there again: nothing."""
        run(Configure(config("10.7.0.0/16"), host=host))
        run(task)
        assert undo(task).ok
        assert host.files.texts == {}
        assert our_routes(host) == ()


def test_undo_leaves_what_came_meanwhile() -> None:
    """What another run has installed while this one waited for the lock is what undo restores."""
    host = FakeHost(kernel=h200())
    other = config("10.7.0.0/16")
    task = Configure(WANTED, host=host)
    host.faults.meanwhile("snapshot", lambda: run(Configure(other, host=host)))
    run(task)
    assert undo(task).ok
    assert read_installed(host) == other


def test_installed_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another run installs at this moment is the installed configuration, not one that is
    missing.
    """
    host = FakeHost(kernel=h200())
    read = FakeFiles.read
    looks = count(1)

    def read_and_install(files: FakeFiles, path: str) -> str | None:
        text = read(files, path)
        if path == LAYOUT.config_path and next(looks) == 1:
            run(Configure(WANTED, host=host))
        return text

    monkeypatch.setattr(FakeFiles, "read", read_and_install)
    assert read_installed(host) == WANTED


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
    data, without a repr.
    """
    seen = Recorder()
    report = phases.run(Configure(WANTED, host=FakeHost(kernel=h200())), observers=[seen])
    assert seen.starts == [
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


def test_a_run_that_is_stopped_while_files_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written is in the report, as the step that wrote it."""
    host = FakeHost(kernel=h200())

    @phases.task("whole")
    def whole(ctx: phases.Context) -> None:
        monkeypatch.setattr(type(host.manager), "reload", lambda _: ctx.cancel("SIGTERM"))
        phases.execute(Configure(WANTED, host=host), ctx)

    report = phases.run(whole, observers=[])
    assert report.status is phases.Status.CANCELLED
    assert report.find(ConfigureStaticRoutes.name).status is phases.Status.CANCELLED
    written = effects_of(report.find("install-files").result).files
    assert LAYOUT.config_path in written


def test_what_a_part_of_a_run_has_written() -> None:
    """It is in the result, and in the step that wrote it."""
    task = Configure(WANTED, host=FakeHost(kernel=h200()))
    report = phases.run(task, only=ConfigureStaticRoutes.name, observers=[])
    assert LAYOUT.config_path in effects_of(report.result).files
    assert LAYOUT.config_path in effects_of(report.find("install-files").result).files


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


def test_result() -> None:
    """The result has what all tasks did, and the report of the check, also as text that an operator
    can read.
    """
    result = run(Configure(WANTED, host=FakeHost(kernel=h200())))
    assert isinstance(result, CheckResult)
    assert [str(change.route.prefix) for change in result.changes] == list(REPAIR)
    verdict, first, *_, last = str(result).splitlines()
    fate = "leaves through eth0, or is this host's own"
    assert verdict == f"OK: every address of 172.16.0.0/16 {fate}"
    assert first == f"changed {LAYOUT.program_path}"
    assert last == str(result.changes[-1])
    assert result.node_ips == {4: ip_address("10.0.0.4")}


@pytest.mark.parametrize(
    "task", [Configure, ConfigureStaticRoutes, CheckRouteOverlap, RewriteProbeSource]
)
@pytest.mark.parametrize("wait", [-40, float("nan"), float("inf"), 86_401])
def test_times_of_a_task(task: type[Configure], wait: float) -> None:
    """A time that is none is refused when the task is made."""
    with pytest.raises(ValueError, match=f"wait is {wait}; it must be a number, from 0"):
        task(config(), host=FakeHost(), wait=wait)


@pytest.mark.parametrize("task", [Configure, *TASKS, CleanStaleAzureVnet])
def test_what_is_not_a_configuration(task: type[Any]) -> None:
    """A mapping or a path is refused when the task is made, with the function that reads it; and so
    is what is not a host.
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


def test_what_is_neither_true_nor_false() -> None:
    """As a text, "false" would be true."""
    words = r"^allow_removal must be a bool, not a str: write True or False$"
    with pytest.raises(TypeError, match=words):
        Configure(config(), host=FakeHost(), allow_removal="false")  # type: ignore[arg-type]  # the mistake
