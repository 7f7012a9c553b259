"""ConfigureStaticRoutes, on hosts that exist in memory."""

from collections.abc import Iterable

import pytest

import phases
from hostrouting.boot.gate import Gate
from hostrouting.errors import NotReady, RouteConflict
from hostrouting.host.fileset import Changes
from hostrouting.host.layout import HostLayout
from hostrouting.kernel.base import Outcome, RouteRequest
from hostrouting.model.route import Route
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing import FakeHost, FakeManager, MemoryBackend, h200
from tests.support.tasks import LAYOUT, REPAIR, config, failure_of, manager_of, ours, run

# Machines wait for the script, which fails for as long as the task does.
SHUT = {
    LAYOUT.gate_drop_in(),
    LAYOUT.gate_unit_path,
    LAYOUT.gate_script_path,
    LAYOUT.gate_steps_path,
    LAYOUT.routes_unit_path,
    LAYOUT.routes_preset_path,
    LAYOUT.routes_script_path,
}
STOP = f"stop {LAYOUT.gate_unit}"


class TestConfigureStaticRoutes:
    """Install the static routes, now and at every boot."""

    def test_routes_files_and_unit(self) -> None:
        """Routes are in the kernel, files in their places, the unit is enabled, and its script was run once."""
        host = FakeHost(kernel=h200())
        result = run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        assert ours(host) == [f"{it} via 10.0.0.1 dev eth0 proto hostrouting" for it in REPAIR]
        assert set(host.files.texts) == {*SHUT}
        assert host.files.modes[LAYOUT.routes_script_path] == 0o755
        assert host.files.links == {LAYOUT.routes_enabled_path: LAYOUT.routes_unit_path}
        assert manager_of(host).calls == [STOP, "reload", "stop static-routes.service", "start static-routes.service"]
        assert host.files.locked == set()
        fields = result.log_fields()  # type: ignore[attr-defined]  # a RoutesResult
        assert fields == {"add": 2, "files": 8}

    def test_a_unit_that_failed_is_started_again(self) -> None:
        """When the unit failed last time, the next run starts it again although no file changed."""
        manager = FakeManager(failing={LAYOUT.routes_unit: ("eth0 is not there",)})
        host = FakeHost(kernel=h200(), manager=manager)
        task = ConfigureStaticRoutes(config(*REPAIR), host=host)
        failure_of(run, task, match=r"static-routes.service failed .exit-code, exit status 1.: eth0 is")
        manager.failing.clear()
        run(task)
        stop, start = (f"{verb} static-routes.service" for verb in ("stop", "start"))
        assert manager.calls == [STOP, "reload", stop, start, start]

    def test_update(self) -> None:
        """A changed configuration replaces ours and deletes what is no longer wanted; the unit's text stays."""
        host = FakeHost(kernel=h200())
        run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        host.files.writes.clear()
        run(ConfigureStaticRoutes(config(REPAIR[0], gateway="10.0.0.9"), host=host))
        assert ours(host) == ["172.16.0.0/17 via 10.0.0.9 dev eth0 proto hostrouting"]
        written = {LAYOUT.routes_script_path, LAYOUT.gate_steps_path}
        assert set(host.files.writes) == {LAYOUT.lock_path, *written}

    def test_removed_from_the_configuration(self) -> None:
        """With no routes configured any more, ours go, with every file; a running machine is not touched."""
        host = FakeHost(kernel=h200())
        before = host.kernel.snapshot()
        run(Configure(config(*REPAIR, cidrs=("172.16.0.0/16",)), host=host))
        manager_of(host).calls.clear()
        run(ConfigureStaticRoutes(config(), host=host))
        assert host.kernel.reopen().snapshot() == before
        assert not {LAYOUT.routes_script_path, LAYOUT.routes_unit_path} & set(host.files.texts)
        assert [step.name for step in Gate(host).steps] == ["check-route-overlap"]
        assert host.files.links == {}
        assert manager_of(host).calls == [STOP, "stop static-routes.service", "reload"]

    @pytest.mark.parametrize("often", [1, 2])
    def test_a_route_that_is_deleted_in_the_middle_of_it(self, often: int) -> None:
        """If another program deletes our new route before it is read back, the transaction is tried once more."""
        host, left = FakeHost(kernel=h200()), often
        real = host.kernel.change

        def change(changes: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
            nonlocal left
            asked = list(changes)
            outcomes = real(asked)
            if left and [request.verb for request in asked] == ["add", "add"]:
                left -= 1
                real([RouteRequest("delete", asked[0].route)])
            return outcomes

        host.kernel.change = change  # type: ignore[method-assign]
        task = ConfigureStaticRoutes(config(*REPAIR), host=host)
        if often == 1:
            run(task)
            assert ours(host) == [f"{it} via 10.0.0.1 dev eth0 proto hostrouting" for it in REPAIR]
        else:
            failure_of(run, task, match="another program changes these routes at the same time")
            assert ours(host) == []

    def test_conflict(self) -> None:
        """A key that InfiniBand holds is a conflict with the way out; no route was changed, and the gate is shut."""
        host = FakeHost(kernel=h200())
        failure_of(
            run,
            ConfigureStaticRoutes(config("172.16.0.0/16"), host=host),
            of=RouteConflict,
            match=r"configure 172.16.0.0/17 and 172.16.128.0/17, which take precedence",
        )
        assert ours(host) == []
        assert set(host.files.texts) == SHUT
        assert host.files.locked == set()

    def test_default_route_that_comes_late(self) -> None:
        """The task waits by kernel events for missing devices and routes."""
        kernel = MemoryBackend()
        kernel.add_link("eth0")
        host = FakeHost(kernel=kernel)
        kernel.later(lambda: kernel.add_address("eth0", "10.0.0.4/24"))
        kernel.later(
            lambda: kernel.change(
                [RouteRequest("add", Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=16))]
            )
        )
        run(ConfigureStaticRoutes(config("10.9.0.0/16"), host=host))
        assert ours(host) == ["10.9.0.0/16 via 10.0.0.1 dev eth0 proto hostrouting"]

    def test_default_route_that_never_comes(self) -> None:
        """After the deadline the failure says what was waited for, what to do, and that the gate is shut."""
        host = FakeHost(kernel=MemoryBackend())
        told = r"gave up after 30 s: .*waiting for an IPv4 default route.*; /\S+/static-routes.sh and the gate are installed"
        error = failure_of(run, ConfigureStaticRoutes(config("10.9.0.0/16"), host=host), of=NotReady, match=told)
        [found] = error.findings
        assert (found.name, found.severity, found.target) == ("route-waits", "error", "10.9.0.0/16")
        assert found.remedy
        assert error.can_retry
        assert set(host.files.texts) == SHUT

    def test_offline(self) -> None:
        """In an image there are files and enablement, and no kernel is asked."""
        host = FakeHost(backend=None, manager=None, layout=HostLayout(root="/mnt"))
        run(Configure(config(*REPAIR, cidrs=("172.16.0.0/16",)), host=host))
        assert all(path.startswith("/mnt/etc/") for path in host.files.texts)
        assert host.files.links == {
            "/mnt/etc/systemd/system/multi-user.target.wants/static-routes.service": (
                "/etc/systemd/system/static-routes.service"
            )
        }
        assert len(host.files.texts) == 9

    def test_enabled_by_a_link_that_leads_elsewhere(self) -> None:
        """A link that enables another unit than ours, or a script without execute permission, is reported and corrected."""
        host = FakeHost(kernel=h200())
        task = ConfigureStaticRoutes(config(*REPAIR), host=host)
        run(task)
        host.files.links[LAYOUT.routes_enabled_path] = "/dev/null"
        host.files.modes[LAYOUT.routes_script_path] = 0o644
        assert task.plan(phases.Context()).files == Changes((LAYOUT.routes_script_path, LAYOUT.routes_enabled_path))
        run(task)
        assert host.files.links == {LAYOUT.routes_enabled_path: LAYOUT.routes_unit_path}
        assert task.plan(phases.Context()).is_empty

    @pytest.mark.parametrize("task", [ConfigureStaticRoutes, CheckRouteOverlap, Configure])
    @pytest.mark.parametrize("wait", [-40, float("nan"), float("inf"), 86_401])
    def test_no_time_to_wait(self, task: type[Configure], wait: float) -> None:
        """A waiting time that is not valid is refused when the task is made."""
        with pytest.raises(ValueError, match=rf"{task.__name__}: wait={wait} is not between 0 and 86400 seconds"):
            task(config(), host=FakeHost(), wait=wait)
