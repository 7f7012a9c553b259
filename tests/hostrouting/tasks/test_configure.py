"""Configure and Remove, on hosts that exist in memory."""

import json
from collections.abc import Callable

import attrs
import pytest

import phases
from hostrouting.boot.installed import installed_config
from hostrouting.boot.scripts import parse_static_routes_script
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ApplyError
from hostrouting.kernel.programs import Rights
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import Route
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.results import Change, CheckResult, RoutesResult
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing import FakeFiles, FakeHost, MemoryBackend, h200
from phases.testing import FakeClock, RecordingObserver
from tests.support.kinds import kind_of
from tests.support.mishaps import mishap_host
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config, configured, failure_of, manager_of, ours, run


class TestNothing:
    """If nothing is configured and nothing is installed, nothing happens."""

    @pytest.mark.parametrize("make", [ConfigureStaticRoutes, CheckRouteOverlap, Configure])
    def test_zero_impact(self, make: type[Configure]) -> None:
        """Not one file is written or locked, systemd is not even asked, and nothing is written to the kernel."""
        host = FakeHost()
        host.kernel.faults.fail("change", ApplyError("touched", after=""))  # type: ignore[arg-type]  # never raised
        before = host.kernel.snapshot()
        run(make(HostRoutingConfig(), host=host))
        assert host.files.writes == []
        assert (manager_of(host).calls, manager_of(host).asked) == ([], [])
        assert host.kernel.reopen().snapshot() == before

    def test_says_so(self) -> None:
        """The task is skipped, with the reason."""
        assert run(ConfigureStaticRoutes(HostRoutingConfig(), host=FakeHost())) == phases.Skip(
            "no static routes are configured, and none are installed"
        )


class TestReport:
    """The report of a bootstrap, as JSON."""

    def test_results(self) -> None:
        """The result says as data what was done and found, each once, without any Python repr."""
        report = phases.run(Configure(config(*REPAIR, cidrs=(CIDR,)), host=FakeHost(kernel=h200())), observers=[])
        document = json.loads(report.to_json())
        routes, check = document["children"]
        assert document["result"] is None
        assert routes["result"]["changes"] == [
            f"add {prefix} via 10.0.0.1 dev eth0 proto hostrouting" for prefix in REPAIR
        ]
        assert (check["result"]["verdict"], check["result"]["findings"]) == ("ok", [])
        assert "=" not in json.dumps([routes["result"], check["result"]])

    def test_many_routes(self) -> None:
        """Of many routes it says each once."""
        wanted = config(*(f"10.{n >> 8}.{n & 255}.0/24" for n in range(256, 456)))
        report = phases.run(Configure(wanted, host=FakeHost(kernel=h200())), observers=[])
        assert report.to_json().count("10.1.7.0/24") == 1
        assert len(report.to_json()) < 200 * 150

    def test_failure(self) -> None:
        """The error of an overlap in STRICT has the findings as data, in addition to its text."""
        report = phases.run(Configure(config(cidrs=(CIDR,)), host=FakeHost(kernel=h200())), observers=[])
        details = report.to_mapping()["children"][0]["details"]  # type: ignore[index]  # plain values
        assert (details["error"], details["canRetry"], details["check"]["verdict"]) == (
            "RouteOverlapError",
            False,
            "overlap",
        )


class TestRemove:
    """Everything that hostrouting installed is removed, and nothing else."""

    def test_the_gate_first(self) -> None:
        """The list is opened and the drop-in removed first, so that a half-removed gate holds no machine back."""
        host, mishaps = mishap_host()
        run(Configure(config(*REPAIR, cidrs=("172.16.0.0/16",)), host=host))
        mishaps.disarm()
        run(Remove(HostRoutingConfig(), host=host))
        assert mishaps.events[:4] == [
            f"write {LAYOUT.gate_steps_path}",
            f"stop {LAYOUT.gate_unit}",
            f"remove {LAYOUT.gate_drop_in()}",
            "reload",
        ]

    def test_past_failures(self) -> None:
        """If one part cannot be removed, the others are still removed."""
        host = configured(config(*REPAIR, cidrs=("172.16.0.0/16",)))
        host.kernel.faults.fail("change", 22)
        failure_of(run, Remove(HostRoutingConfig(), host=host), match="the routes could not be applied")
        assert set(host.files.texts) == {LAYOUT.routes_script_path}
        assert len(ours(host)) == 2

    def test_plan(self) -> None:
        """The plan has the routes and every file, and changes nothing; when all is gone it is empty."""
        host = configured(config(*REPAIR, cidrs=(CIDR,)))
        task = Remove(HostRoutingConfig(), host=host)
        there = {*host.files.texts, *host.files.links}
        preview = task.plan(phases.Context())
        assert set(preview.files.removes) == there
        assert preview.files.writes == ()
        assert preview.routes is not None
        assert [step.action for step in preview.routes.steps] == ["delete", "delete"]
        assert {*host.files.texts, *host.files.links} == there
        assert set(run(task)) == there  # type: ignore[call-overload]  # the paths that are gone
        assert task.plan(phases.Context()).is_empty


class TestConfigure:
    """Configure runs both tasks in order."""

    @pytest.mark.parametrize("routes", [REPAIR, ()], ids=["with static routes", "with the check only"])
    def test_a_late_default_route_can_be_retried(self, routes: tuple[str, ...]) -> None:
        """A missing default route has one answer about trying again, whichever task misses it: it may come."""
        kernel = h200()
        default = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=16, metric=100)
        kernel.ip_route("delete", default)
        task = Configure(config(*routes, cidrs=("10.9.0.0/16",)), host=FakeHost(kernel=kernel), wait=0)
        tried = phases.retry(task, attempts=2)
        late = phases.Context(clock=(clock := FakeClock()), observers=[])
        assert failure_of(phases.execute, tried, late).can_retry is True
        assert clock.now() > 0, "it has waited for a second attempt"

        def comes(_event: object) -> None:
            if clock.now() > before and not kernel.snapshot(prefixes=["0.0.0.0/0"]).routes:
                kernel.ip_route("add", default)

        before = clock.now()
        phases.execute(tried, phases.Context(clock=clock, observers=[comes]))

    def test_each_file_is_planned_once(self) -> None:
        """The plan of all tasks has each file in one of them, whichever are selected; and these are what is written."""
        task = Configure(config(*REPAIR, cidrs=(CIDR,)), host=(host := FakeHost(kernel=h200())))

        def planned(**selected: str) -> list[str]:
            nodes = phases.plan(task, **selected).walk()  # type: ignore[arg-type]  # names by option
            return [path for node in nodes if isinstance(node.result, Change) for path in node.result.files.writes]

        whole = planned()
        assert len(whole) == len(set(whole)) == len(task.preview().files.writes)
        for name in ("configure-static-routes", "check-route-overlap"):
            assert LAYOUT.gate_drop_in() in planned(only=name)
            assert LAYOUT.gate_drop_in() in planned(skip=name)
        run(task)
        assert set(whole) == {path for path in host.files.writes if not path.startswith("/run/")}

    def test_in_order(self) -> None:
        """The report has both tasks, in order, and none that is neither wanted nor here; the check sees the routes."""
        host = FakeHost(kernel=h200())
        seen = RecordingObserver()
        task = Configure(config(*REPAIR, cidrs=("172.16.0.0/16",)), host=host)
        assert [node.name for node in phases.plan(task).walk()] == [
            "configure",
            "keep-foreign",
            "configure-static-routes",
            "check-route-overlap",
            "rewrite-probe-source",
            "install-guard",
        ]
        report = phases.run(task, observers=[seen])
        assert report.ok, str(report)
        assert seen.started == ["configure", "configure/configure-static-routes", "configure/check-route-overlap"]
        assert report.find("check-route-overlap").fields["verdict"] == "ok"
        (answer,) = host.kernel.reopen().lookup([as_ip("172.16.20.1")])
        assert answer.route is not None
        assert answer.route.devs == ("eth0",)
        assert Prefix.parse("172.16.0.0/16") in {route.prefix for route in host.kernel.snapshot().routes}


@pytest.mark.parametrize(("wait", "seconds"), [(30, 30), (44.5, 45), (60, 60), (1000, 60)])
def test_units_wait_as_long_at_every_boot(wait: float, seconds: int) -> None:
    """A script waits as long as its task, up to a minute, because a machine's own start has 90 s; its unit lets it.

    No start of a machine waits for the unit of the check, which has time for large tables. Kills: a unit's timeout that
    does not know the wait.
    """
    probes = {"enabled": True, "interfaces": ["eth0"]}
    host = FakeHost(kernel=h200(dual_stack=True))
    wanted = attrs.evolve(config(*REPAIR, cidrs=("10.0.0.0/8",)), probe_rewrite=probes)
    run(Configure(wanted, host=host, wait=wait))
    for path, more in ((LAYOUT.routes_unit_path, 20), (LAYOUT.probe_unit_path, 20), (LAYOUT.check_unit_path, 80)):
        assert f"TimeoutStartSec={seconds + more}\n" in host.files.texts[path]
    assert parse_static_routes_script(host.files.texts[LAYOUT.routes_script_path]).wait == seconds


def lasting(host: FakeHost) -> set[str]:
    """The files and links that a reboot leaves there."""
    return {text for text in (*host.files.texts, *host.files.links) if not text.startswith("/run/")}


@pytest.mark.parametrize(
    ("left", "gone"),
    [(config(*REPAIR), "check-route-overlap"), (config(cidrs=(CIDR,), mode="WARN"), "configure-static-routes")],
)
def test_what_is_taken_away_is_reported(left: HostRoutingConfig, gone: str) -> None:
    """The task that has nothing to do any more is not said to be skipped when it took its files away."""
    host = configured(config(*REPAIR, cidrs=(CIDR,)))
    there = lasting(host)
    report = phases.run(Configure(left, host=host), observers=[])
    [node] = [node for node in report.walk() if node.name == gone]
    assert node.status is phases.Status.OK
    assert isinstance(node.result, CheckResult | RoutesResult)
    changed = {path for path in node.result.files if not path.startswith("/run/")}
    assert changed - {LAYOUT.gate_steps_path} == there - lasting(host) != set()
    again = phases.run(Configure(left, host=host), observers=[])
    assert gone not in [node.name for node in again.walk()]


def test_what_a_guard_by_hand_has_left() -> None:
    """Its figures are removed, and no loss: the configuration without a guard is not refused."""
    host = FakeHost(kernel=h200(), files=FakeFiles({LAYOUT.guard_path: "{}"}))
    run(Configure(config(*REPAIR), host=host, allow_removal=False))
    assert not host.files.is_there(LAYOUT.guard_path)


BARE_ROOT = Rights(changes_network=False)


@pytest.mark.parametrize("make", [Configure, ConfigureStaticRoutes])
@pytest.mark.parametrize("kernel", [h200, MemoryBackend])
def test_rights(make: type[Configure], kernel: Callable[[], MemoryBackend]) -> None:
    """A process that may not change routes writes nothing, with or without a default route."""
    host = FakeHost(kernel=kernel(), rights=lambda: BARE_ROOT)
    assert kind_of(failure_of(run, make(config(*REPAIR), host=host))) == "not-permitted"
    assert not [path for path in host.files.writes if path != LAYOUT.lock_path]


def test_rights_that_are_not_needed() -> None:
    """If no route has to change, the right to change routes is not needed, not even to change files."""
    host = configured(config(*REPAIR))
    later = attrs.evolve(host, rights=lambda: BARE_ROOT)
    run(Configure(config(*REPAIR, cidrs=(CIDR,)), host=later))
    assert later.files.is_there(LAYOUT.check_script_path)
    assert kind_of(failure_of(run, Configure(config(), host=later))) == "not-permitted"
    assert later.files.is_there(LAYOUT.routes_script_path), "removing routes needs the right, too"


@pytest.mark.parametrize("task", [Configure, ConfigureStaticRoutes, CheckRouteOverlap, Remove])
def test_made_of_a_configuration(task: type[Configure]) -> None:
    """A task that is given JSON where its configuration belongs says so when it is made, with the remedy."""
    with pytest.raises(TypeError, match=f"{task.__name__} takes a HostRoutingConfig, not a dict; see .*from_mapping"):
        task({"routeOverlap": {}}, host=FakeHost())  # type: ignore[arg-type]  # the point of this test


def test_another_run_while_nothing_is_configured() -> None:
    """What another run installs meanwhile stays whole, or goes as a whole; a task removed its part alone."""
    host, other = FakeHost(kernel=h200()), config(*REPAIR, cidrs=(CIDR,))
    host.kernel.faults.meanwhile("snapshot", lambda: run(Configure(other, host=host)))
    run(Configure(HostRoutingConfig(), host=host))
    installed = installed_config(host)
    assert installed is None or Configure(other, host=host).preview().is_empty
