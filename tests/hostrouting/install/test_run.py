"""What a run says when it fails, what it needs, what it leaves out, and what undo takes back."""

from typing import Any

import pytest

import phases
from hostrouting.config import GateConfig, GuardConfig, HostRoutingConfig
from hostrouting.config.settings import MACHINES, ProbeRewriteConfig
from hostrouting.errors import (
    BackendError,
    HostError,
    HostRoutingError,
    NotReady,
    RouteConflict,
)
from hostrouting.host.effects import Effects, effects_of
from hostrouting.install.installed import read_installed
from hostrouting.install.plan import Plan
from hostrouting.install.task import InstallTask
from hostrouting.kernel.rights import Rights
from hostrouting.model.route import OURS, Route
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.tasks.overlap_check import CheckResult, CheckRouteOverlap
from hostrouting.tasks.probe_rewrite import RewriteProbeSource
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing import FakeHost, FakeKernel, FakeManager, h200
from phases.testing import FakeClock
from tests.support.mishaps import mishap_host
from tests.support.tasks import (
    CIDR,
    GUARDED,
    LAYOUT,
    REPAIR,
    WANTED,
    before_it_sets_routes,
    config,
    configured,
    context,
    failure_of,
    left_to_do,
    lose_routes,
    manager_of,
    our_destinations,
    ours,
    run,
    type_routes,
    undo,
)
from tests.support.topologies import WithoutIPv6

CONFLICTING = config("172.16.0.0/16")
PROBES = ProbeRewriteConfig(enabled=True, interfaces=("eth0",))
LOCK = f"lock {LAYOUT.lock_path}"
"""The effect of a run that takes the lock."""
CHECKED = config(cidrs=("10.9.0.0/16",))
FORMER = config("10.8.0.0/16")


def report_of(task: InstallTask) -> phases.Step:
    """The report of a run of this task, whether it fails or not."""
    return phases.run(task, observers=[], clock=FakeClock())


def failing_steps(task: InstallTask) -> list[str]:
    """The names of the steps that fail in a run of this task."""
    return [failure.name for failure in report_of(task).failures]


class TestLastingConflict:
    """A conflict that the installed configuration has already holds no other change back."""

    def test_units_are_freed(self) -> None:
        """The operator can take a unit out of the gate while the conflict lasts."""
        host = FakeHost(kernel=h200())
        gated = CONFLICTING._replace(gate=GateConfig(("kubelet.service", MACHINES)))
        failure_of(run, Configure(gated, host=host), of=RouteConflict)
        freed = CONFLICTING._replace(gate=GateConfig((MACHINES,)))
        failure_of(run, Configure(freed, host=host), of=RouteConflict)
        assert LAYOUT.drop_in_path("kubelet.service") not in host.files.texts
        assert read_installed(host) == freed

    def test_another_conflict(self) -> None:
        """A conflict that is new ends the run before its first write."""
        host = FakeHost(kernel=h200())
        failure_of(run, Configure(CONFLICTING, host=host), of=RouteConflict)
        before = dict(host.files.texts)
        more = config("172.16.0.0/16", "10.0.0.0/24")
        failure_of(run, Configure(more, host=host), of=RouteConflict, match=r"10\.0\.0\.0/24")
        assert host.files.texts == before

    def test_a_configuration_that_cannot_be_read(self) -> None:
        """Nobody knows which conflicts it has, so each counts as new."""
        host = FakeHost(kernel=h200())
        failure_of(run, Configure(CONFLICTING, host=host), of=RouteConflict)
        host.files.texts[LAYOUT.config_path] = "{"
        failure_of(run, Configure(CONFLICTING, host=host), of=RouteConflict)
        assert host.files.texts[LAYOUT.config_path] == "{"


class TestGuard:
    """The routes do not need the guard."""

    CONFLICTING = CONFLICTING._replace(guard=GuardConfig(enabled=True))

    @pytest.fixture
    def host(self) -> FakeHost:
        """A host on which its start fails."""
        manager = FakeManager(failing={LAYOUT.guard_unit: ("bash was not found",)})
        return FakeHost(kernel=h200(), manager=manager)

    def test_it_does_not_start(self, host: FakeHost) -> None:
        """All else is done; then the run fails, and says why the guard does not run."""
        report = report_of(Configure(GUARDED, host=host))

        [failure] = report.failures
        assert failure.name == "start-guard"
        assert "bash was not found" in str(failure.error)
        assert "will not start" not in str(failure.error)
        assert len(ours(host)) == len(REPAIR)
        done = effects_of(report.result)
        assert LAYOUT.config_path in done.files
        assert len(done.changes) == len(REPAIR)

    def test_a_check_alone(self, host: FakeHost) -> None:
        """It fails, too, while the guard that is installed does not start."""
        report_of(Configure(GUARDED, host=host))
        assert failing_steps(CheckRouteOverlap(WANTED, host=host)) == ["start-guard"]

    def test_a_task_about_one_section(self, host: FakeHost) -> None:
        """If the guard and the task fail, both failures are told."""
        report_of(Configure(self.CONFLICTING, host=host))
        report = report_of(ConfigureStaticRoutes(self.CONFLICTING, host=host))
        names = [failure.name for failure in report.failures]
        assert names == ["configure-static-routes", "start-guard"]
        assert isinstance(report.error, RouteConflict)

    def test_a_task_about_one_section_succeeds(self, host: FakeHost) -> None:
        """The error has what the task has changed all the same."""
        report_of(Configure(GUARDED, host=host))
        task = ConfigureStaticRoutes(config("10.7.0.0/16"), host=host)

        with pytest.raises(phases.TaskFailed) as caught:
            run(task)

        changes = effects_of(caught.value).changes
        added = [change.route for change in changes if change.verb == "add"]
        assert [str(route.prefix) for route in added] == ["10.7.0.0/16"]

    def test_a_run_without_a_report(self, host: FakeHost) -> None:
        """Whoever calls the task's own method gets the failure, with what was changed."""
        with pytest.raises(phases.TaskFailed, match="bash was not found") as caught:
            Configure(GUARDED, host=host).do(context())
        assert LAYOUT.config_path in effects_of(caught.value).files

    def test_a_conflict_without_a_report(self, host: FakeHost) -> None:
        """The conflict is raised as itself, not together with the failure of the guard."""
        report_of(Configure(self.CONFLICTING, host=host))
        with pytest.raises(RouteConflict):
            ConfigureStaticRoutes(self.CONFLICTING, host=host).do(context())

    def test_it_does_not_start_and_routes_conflict(self, host: FakeHost) -> None:
        """Both failures are told."""
        names = failing_steps(Configure(self.CONFLICTING, host=host))
        assert names == ["configure-static-routes", "start-guard"]


class TestLeftOut:
    """A part that the run leaves out is not planned, and fails nothing."""

    def test_a_conflict(self) -> None:
        """The dry run and the run agree."""
        host = configured(CHECKED)
        wanted = config("172.16.0.0/16", cidrs=("10.9.0.0/16",))
        task = Configure(wanted, host=host)

        dry = phases.plan(task, skip=ConfigureStaticRoutes.name)
        report = phases.run(task, skip=ConfigureStaticRoutes.name, observers=[])

        assert isinstance(dry.result, Plan)
        assert dry.ok
        assert dry.result.routes.steps == ()
        assert report.ok

    def test_a_task_that_another_one_needs(self) -> None:
        """It is left out there, too: no route is set or deleted."""
        host = FakeHost(kernel=h200())
        type_routes(host, *REPAIR)
        before = ours(host)
        wanted = HostRoutingConfig(probe_rewrite=PROBES)
        routes = ConfigureStaticRoutes(wanted, host=host)
        probes = RewriteProbeSource(wanted, host=host)
        both = phases.serial(routes, probes)

        dry = phases.plan(both, skip=routes.name)
        report = phases.run(both, skip=routes.name, observers=[])

        plan = dry.find(probes.name).result
        assert isinstance(plan, Plan)
        assert plan.routes.steps == ()
        assert report.ok
        assert ours(host) == before
        assert list(host.nftables.tables) == ["hostrouting_slb"]


def undone_without_a_device(host: FakeHost) -> Configure:
    """A task that has run on this host, and deleted two routes that were typed; the device of one
    of them is gone since.
    """
    host.kernel.add_link("eth9")
    host.kernel.ip_route("add", Route.to("10.6.0.0/16", dev="eth9", protocol=OURS))
    type_routes(host, "10.7.0.0/16")
    task = Configure(config("10.9.0.0/16"), host=host)
    run(task)
    assert our_destinations(host) == ["10.9.0.0/16"]
    host.kernel.delete_link("eth9")
    return task


def deleting_a_typed_route(host: FakeHost) -> Configure:
    """A task that has run on this host, and deleted 10.7.0.0/16, which was typed."""
    run(Configure(CHECKED, host=host))
    type_routes(host, "10.7.0.0/16")
    task = Configure(FORMER, host=host)
    run(task)
    return task


class TestUndo:
    """Undo takes back what the run did, and nothing of others."""

    def test_a_run_that_changed_nothing(self) -> None:
        """What somebody installs afterwards stays."""
        host = configured(WANTED)
        task = Configure(WANTED, host=host)
        run(task)
        other = config("10.7.0.0/16")
        run(Configure(other, host=host))
        assert isinstance(undo(task), phases.Skip)
        assert read_installed(host) == other

    def test_what_an_earlier_run_in_the_same_context_has_installed(self) -> None:
        """A program may keep its context: what an earlier run has installed stays."""
        host = FakeHost(kernel=h200())
        ctx = context()
        task = Configure(WANTED, host=host)
        phases.run(task, ctx=ctx)
        report = phases.run(task, ctx=ctx)
        assert phases.undo(task, of=report).ok
        assert read_installed(host) == WANTED
        assert our_destinations(host) == [*REPAIR]

    def test_what_another_run_has_installed_since(self) -> None:
        """Undo fails and says so; nothing of it is lost."""
        host = configured(FORMER)
        task = Configure(WANTED, host=host)
        run(task)
        other = config("10.7.0.0/16")
        run(Configure(other, host=host))
        failure_of(undo, task, of=HostRoutingError, match="another run")
        assert read_installed(host) == other

    def test_what_another_run_installs_meanwhile(self) -> None:
        """It gets the lock before the undo does: it stays, with its routes."""
        host, mishaps = mishap_host()
        type_routes(host, "10.9.0.0/16")
        task = Configure(WANTED, host=host)
        run(task)
        other = config("10.7.0.0/16")
        mishaps.meanwhile(LOCK, lambda: run(Configure(other, host=host)))
        failure_of(undo, task, of=HostRoutingError, match="another run")
        assert read_installed(host) == other
        assert our_destinations(host) == ["10.7.0.0/16"]

    def test_what_the_task_itself_may_not_remove(self) -> None:
        """Undo takes the protection away that the run has brought."""
        host = FakeHost(kernel=h200())
        task = Configure(WANTED, host=host, allow_removal=False)
        run(task)
        undo(task)
        assert host.files.texts == {}
        assert ours(host) == []

    def test_another_section(self) -> None:
        """A task about one section takes that one back."""
        host = FakeHost(kernel=h200())
        task = ConfigureStaticRoutes(config(*REPAIR), host=host)
        run(task)
        run(CheckRouteOverlap(CHECKED, host=host))
        undo(task)
        assert ours(host) == []
        assert read_installed(host) == CHECKED

    def test_a_guard_with_nothing_left_to_guard(self) -> None:
        """The task turns the guard off with the only section; undo starts it again."""
        wanted = config(*REPAIR, mode="WARN")._replace(guard=GuardConfig(enabled=True))
        host = configured(wanted)
        task = ConfigureStaticRoutes(HostRoutingConfig(), host=host)
        run(task)
        assert LAYOUT.unit_path(LAYOUT.guard_unit) not in host.files.texts
        undo(task)
        assert read_installed(host) == wanted
        assert manager_of(host).states[LAYOUT.guard_unit] == "active"

    def test_a_guard_and_nothing_to_guard_any_more(self) -> None:
        """Undo of the only section leaves no guard behind that has nothing to guard."""
        checked = config(cidrs=(CIDR,), mode="WARN")._replace(guard=GuardConfig(enabled=True))
        host = configured(checked)
        task = ConfigureStaticRoutes(config(*REPAIR), host=host)
        run(task)
        run(Remove(host=host))
        undo(task)
        assert read_installed(host) == HostRoutingConfig()

    def test_routes_that_were_typed(self) -> None:
        """They are back, also if the former configuration fails again."""
        host = configured(config(cidrs=(CIDR,), mode="WARN"))
        strict = config(cidrs=(CIDR,))
        failure_of(run, Configure(strict, host=host))
        type_routes(host, *REPAIR)
        before = ours(host)
        task = Configure(config("10.7.0.0/16"), host=host)
        run(task)
        phases.undo(task, phases.Context(observers=[]))
        assert ours(host) == before

    @pytest.mark.parametrize(
        ("wanted", "kind"), [(WANTED, CheckResult), (config("10.8.0.0/16"), Effects)]
    )
    def test_only_a_route_that_was_typed(
        self, wanted: HostRoutingConfig, kind: type[Effects]
    ) -> None:
        """If the run has changed nothing else, undo is not skipped: its result has the route, and
        the check if there is one.
        """
        host = configured(wanted)
        type_routes(host, "10.9.0.0/16")
        task = Configure(wanted, host=host)
        run(task)
        report = phases.undo(task, phases.Context(observers=[]))
        assert type(report.result) is kind
        [change] = effects_of(report.result).changes
        assert str(change.route.prefix) == "10.9.0.0/16"
        assert str(change.route) in ours(host)

    def test_routes_that_were_typed_between_two_runs(self) -> None:
        """Undo of all runs adds those again that any of them has deleted."""
        host = FakeHost(kernel=h200())
        task = Configure(WANTED, host=host)
        run(task)
        type_routes(host, "10.9.0.0/16")
        run(task)
        undo(task)
        assert our_destinations(host) == ["10.9.0.0/16"]

    def test_a_route_that_is_typed_meanwhile(self) -> None:
        """A route that the plan did not have, and the run has deleted, is back, too. The result of
        the undo has the changes in their order.
        """
        host = configured(CHECKED)
        task = Configure(config("10.8.0.0/16"), host=host)
        before_it_sets_routes(host, lambda: type_routes(host, "10.7.0.0/16"))
        run(task)
        assert our_destinations(host) == ["10.8.0.0/16"]
        changes = effects_of(undo(task)).changes
        assert our_destinations(host) == ["10.7.0.0/16"]
        assert [(change.verb, str(change.route.prefix)) for change in changes] == [
            ("delete", "10.8.0.0/16"),
            ("append", "10.7.0.0/16"),
        ]

    def test_a_route_that_is_typed_meanwhile_and_a_run_that_fails(self) -> None:
        """The run adds the route again, its undo deletes it, and adds it once more."""
        host = configured(CHECKED)
        task = Configure(config("10.8.0.0/16"), host=host)
        ctx = phases.Context(observers=[])
        before_it_sets_routes(host, lambda: type_routes(host, "10.7.0.0/16"))
        host.faults.meanwhile("change", lambda: ctx.cancel("enough"), nth=2)

        with pytest.raises(phases.Cancelled) as caught:
            phases.execute(task, ctx)

        verbs = [change.verb for change in effects_of(caught.value).changes]
        assert "delete" in verbs[:-1]
        assert our_destinations(host) == ["10.7.0.0/16"]
        undo(task)
        assert our_destinations(host) == ["10.7.0.0/16"]

    def test_a_typed_route_with_the_key_of_a_former_one(self) -> None:
        """The former configuration brings its own route back."""
        host = configured(FORMER)
        before = ours(host)
        task = Configure(config("10.7.0.0/16"), host=host)
        run(task)
        typed = Route.to("10.8.0.0/16", dev="eth0", gateway="10.0.0.2", protocol=OURS)
        host.kernel.ip_route("add", typed)
        run(task)
        undo(task)
        assert ours(host) == before

    def test_routes_that_another_run_had_installed(self) -> None:
        """They were configured, so they are not added again as if they had been typed."""
        host = configured(FORMER)
        before = ours(host)
        task = Configure(config("10.7.0.0/16"), host=host)
        run(task)
        run(Configure(config("10.6.0.0/16"), host=host))
        run(task)
        undo(task)
        assert ours(host) == before

    def test_a_configuration_that_cannot_be_read_any_more(self) -> None:
        """Undo brings the former one back."""
        host = configured(FORMER)
        task = Configure(config("10.7.0.0/16"), host=host)
        run(task)
        host.files.texts[LAYOUT.config_path] = "{"
        undo(task)
        assert read_installed(host) == FORMER

    def test_a_guard_that_another_run_has_turned_off(self) -> None:
        """While there is something to guard, whoever has turned the guard off meant it."""
        wanted = config("10.8.0.0/16", cidrs=("10.9.0.0/16",))
        guarded = wanted._replace(guard=GuardConfig(enabled=True))
        host = configured(guarded)
        task = ConfigureStaticRoutes(config("10.7.0.0/16"), host=host)
        run(task)
        run(Configure(config("10.7.0.0/16", cidrs=("10.9.0.0/16",)), host=host))
        undo(task)
        assert read_installed(host) == wanted

    def test_a_run_that_failed_in_the_middle_of_its_files(self) -> None:
        """What it has written is taken back."""
        host = configured(FORMER)
        task = Configure(config("10.7.0.0/16", cidrs=("10.9.0.0/16",)), host=host)
        unit = LAYOUT.unit_path(LAYOUT.check_unit)
        host.files.broken[unit] = "No space left on device"
        failure_of(run, task, of=HostError)
        assert read_installed(host) != FORMER
        host.files.broken.clear()

        undo(task)

        assert left_to_do(Configure(FORMER, host=host)) == ""

    def test_the_lock(self) -> None:
        """An undo has it whenever it changes anything: files, routes, and those that were typed."""
        host, mishaps = mishap_host()
        task = deleting_a_typed_route(host)
        unlocked: list[str] = []

        def look(event: str) -> None:
            if not event.startswith("lock") and LAYOUT.lock_path not in host.files.locked:
                unlocked.append(event)

        mishaps.watch = look
        mishaps.disarm()

        undo(task)

        verbs = {event.split(" ")[0] for event in mishaps.events}
        assert verbs >= {"route", "write", "reload"}
        assert unlocked == []

    def test_a_typed_route_that_the_kernel_refuses(self) -> None:
        """The undo fails at its end: all else is as before, and the error has what was added."""
        host = configured(FORMER)
        task = undone_without_a_device(host)

        report = phases.undo(task, phases.Context(observers=[]))

        [failure] = report.failures
        assert isinstance(failure.error, BackendError)
        [change] = effects_of(failure.error).changes
        assert str(change.route.prefix) == "10.7.0.0/16"
        assert our_destinations(host) == ["10.7.0.0/16", "10.8.0.0/16"]
        assert read_installed(host) == FORMER

    def test_a_conflict_that_was_installed(self) -> None:
        """The configuration comes back that units have waited for, with its conflict: nobody has
        confirmed the one that lets them start.
        """
        host = FakeHost(kernel=h200())
        failure_of(run, Configure(CONFLICTING, host=host), of=RouteConflict)
        task = Configure(WANTED, host=host)
        run(task)
        added = ours(host)
        error = failure_of(undo, task, of=RouteConflict)
        assert read_installed(host) == CONFLICTING
        assert our_destinations(host) == [], "the routes of the undone run are gone"
        changes = [(change.verb, str(change.route)) for change in effects_of(error).changes]
        assert changes == [("delete", route) for route in added]

    def test_a_route_that_can_no_longer_come(self) -> None:
        """The configuration comes back, too, if Linux has been booted without IPv6 since, and the
        routes of the undone run go.
        """
        former = config("fd77::/48")
        before = FakeHost()
        failure_of(run, Configure(former, host=before, wait=0), of=NotReady)
        host = FakeHost(kernel=WithoutIPv6(), files=before.files)
        host.kernel.add_address("eth0", "10.0.0.4/24")
        host.kernel.ip_route("append", Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1"))
        task = Configure(config(REPAIR[0]), host=host, allow_removal=True)
        run(task)
        failure_of(undo, task, of=NotReady, match="fd77::/48 needs IPv6")
        assert read_installed(host) == former
        assert our_destinations(host) == []

    def test_another_run_before_the_typed_routes(self) -> None:
        """What is installed counts as of the moment when the step has the lock."""
        host, mishaps = mishap_host()
        task = deleting_a_typed_route(host)
        other = Configure(config("10.6.0.0/16"), host=host)

        def is_checked() -> bool:
            return LAYOUT.ok_path in host.files.texts  # the last that undo does before

        mishaps.meanwhile(LOCK, lambda: run(other), when=is_checked)

        undo(task)

        assert our_destinations(host) == ["10.6.0.0/16"]

    def test_an_undo_that_is_cancelled(self) -> None:
        """The typed routes are back."""
        host = FakeHost(kernel=h200())
        task = deleting_a_typed_route(host)
        ctx = context()
        host.faults.meanwhile("change", lambda: ctx.cancel("Ctrl-C"))

        with pytest.raises(phases.Cancelled):
            phases.execute(phases.task("undo")(task.undo), ctx)

        assert "10.7.0.0/16" in our_destinations(host)


@pytest.mark.parametrize(
    "idle",
    [
        {"staticRoutes": {"enabled": True}},
        {"routeOverlap": {"expectedDevs": ["eth0"]}},
        {"probeRewrite": {"ensureRoute": False}},
        {"azureVnetCleanup": {"managed": ["10.1.0.0/16"]}},
    ],
)
class TestIdleSettings:
    """A configuration that only has settings without effect is installed as nothing."""

    def test_configure(self, idle: dict[str, Any]) -> None:
        """The run removes what was installed, and undo brings it back."""
        former = config("10.77.0.0/16", mode="WARN")._replace(probe_rewrite=PROBES)
        host = configured(former)
        before = ours(host)
        task = Configure(HostRoutingConfig.from_mapping(idle), host=host)

        run(task)

        assert ours(host) == []
        assert host.nftables.tables == {}
        assert host.files.texts == {}

        undo(task)

        assert ours(host) == before
        assert read_installed(host) == former

    def test_the_only_section(self, idle: dict[str, Any]) -> None:
        """A task about the only section that is installed does the same."""
        former = config("10.77.0.0/16", mode="WARN")
        host = configured(former)
        task = ConfigureStaticRoutes(HostRoutingConfig.from_mapping(idle), host=host)

        run(task)

        assert ours(host) == []
        assert host.files.texts == {}

        undo(task)

        assert read_installed(host) == former


class TestNothingToDo:
    """One answer to whether there is anything to do, for the plan, the text and the run."""

    def test_a_reload(self) -> None:
        """Where systemd has not read a file, the plan is not empty, and the run does it."""
        host = configured(WANTED)
        manager_of(host).read.clear()
        plan = Configure(WANTED, host=host).plan()
        assert not plan.is_empty
        assert "reload systemd    # its files have changed" in str(plan)
        assert "reload systemd" in str(run(Configure(WANTED, host=host)))
        assert left_to_do(Configure(WANTED, host=host)) == ""

    def test_a_masked_unit(self) -> None:
        """Of a masked unit with our drop-in, systemd says at all times that it has to reload."""
        gated = WANTED._replace(gate=GateConfig(("kubelet.service", MACHINES)))
        host = configured(gated)
        properties = {"LoadState": "masked", "NeedDaemonReload": "yes"}
        manager_of(host).properties["kubelet.service"] = properties
        assert left_to_do(Configure(gated, host=host)) == ""

    def test_a_unit_whose_mask_is_gone(self) -> None:
        """Until systemd has read that, it does not start the unit. Kills: no masked unit is asked
        whether it has to reload.
        """
        host = configured(WANTED)
        properties = {"LoadState": "masked", "NeedDaemonReload": "yes"}
        manager_of(host).properties["static-routes.service"] = properties
        assert "reload systemd" in left_to_do(Configure(WANTED, host=host))

    def test_a_reload_and_the_guard(self) -> None:
        """The guard starts when systemd has read its files, and stops before they go."""
        host = configured(GUARDED)
        manager_of(host).read.clear()
        removal = Remove(host=host).plan()
        manager_of(host).states[LAYOUT.guard_unit] = "failed"
        start = Configure(GUARDED, host=host).plan()
        assert [operation.verb for operation in removal.systemd] == ["stop", "reload"]
        assert [operation.verb for operation in start.systemd] == ["reload", "start"]

    def test_a_reload_and_no_file(self) -> None:
        """The marker of the last check stays: it is about the installed configuration."""
        host = configured(WANTED)
        manager_of(host).read.clear()
        result = run(ConfigureStaticRoutes(WANTED, host=host))
        assert effects_of(result).operations
        assert LAYOUT.ok_path in host.files.texts

    def test_a_conflict(self) -> None:
        """It is something to do, as soon as nothing is in the way any more."""
        host = FakeHost(kernel=h200())
        failure_of(run, Configure(CONFLICTING, host=host), of=RouteConflict)
        plan = Configure(CONFLICTING, host=host).plan()
        assert not plan.is_empty
        assert "nothing to do" not in str(plan)
        assert str(Plan()) == "nothing to do"

    def test_a_route_that_waits(self) -> None:
        """It is something to do; the plan says it once."""
        plan = Configure(config("9.0.0.0/8"), host=FakeHost(kernel=FakeKernel())).plan()
        assert not plan.is_empty
        assert str(plan).count("needs an IPv4 default route") == 1
        assert plan.check_findings == ()


class TestWait:
    """Nobody waits longer than the task says."""

    @pytest.mark.parametrize("kind", [Configure, ConfigureStaticRoutes, RewriteProbeSource])
    def test_a_route_that_waits(self, kind: type[InstallTask]) -> None:
        """Also in a task that does its work as a part of another one's."""
        host = FakeHost(kernel=FakeKernel())
        wanted = config("9.0.0.0/8")._replace(probe_rewrite=PROBES)
        failure_of(run, Configure(wanted, host=host, wait=0), of=NotReady)
        ctx = context()
        task = kind(wanted, host=host, wait=5)
        failure_of(phases.execute, task, ctx, of=NotReady, match="needs an IPv4 default route")
        assert 5 <= ctx.clock.now() < 6

    def test_an_undo(self) -> None:
        """It does not wait at all: `apply --confirm` promises it for now."""
        host = configured(WANTED)
        task = Configure(config(*REPAIR, "9.0.0.0/8"), host=host)
        run(task)
        for route in host.kernel.snapshot().default_routes(4):
            host.kernel.ip_route("delete", route)
        lose_routes(host)
        ctx = context()
        failure_of(phases.execute, phases.task("undo")(task.undo), ctx, of=NotReady)
        assert ctx.clock.now() < 1


def test_rights() -> None:
    """A process that only has to start the guard need not be allowed to change routes."""
    rights = Rights()
    host = FakeHost(kernel=h200(), rights=lambda: rights)
    run(Configure(GUARDED, host=host))
    manager_of(host).states[LAYOUT.guard_unit] = "failed"
    rights = Rights(changes_network=False)

    result = run(Configure(GUARDED, host=host))

    [start] = effects_of(result).operations
    assert start.verb == "start"
