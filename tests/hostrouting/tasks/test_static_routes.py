"""ConfigureStaticRoutes, on hosts that exist in memory."""

from collections.abc import Iterable
from contextlib import suppress

import pytest

import phases
from hostrouting.boot.gate import Gate
from hostrouting.errors import NotReady, RouteConflict
from hostrouting.host.fileset import Changes
from hostrouting.host.layout import HostLayout
from hostrouting.kernel.base import Outcome, RouteRequest
from hostrouting.model.route import Route
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing import FakeHost, FakeManager, MemoryBackend, h200
from tests.support.tasks import LAYOUT, REPAIR, config, failure_of, manager_of, ours, run

# All but the name of our protocol: machines wait for the script, which fails for as long as the task does.
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


class FullAfter(dict[str, str]):
    """Every path cannot be written, once so many more were."""

    def __init__(self, writes: list[str], count: int) -> None:
        """Count from now on, in the list of what was written."""
        self._writes, self._end = writes, len(writes) + count

    def __contains__(self, path: object) -> bool:
        return len(self._writes) >= self._end

    def __missing__(self, path: str) -> str:
        return "No space left on device"


class TestConfigureStaticRoutes:
    """Install the static routes, now and at every boot."""

    def test_routes_files_and_unit(self) -> None:
        """Routes are in the kernel, files in their places, the unit is enabled, and its script was run once."""
        host = FakeHost(kernel=h200())
        result = run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        assert ours(host) == [f"{it} via 10.0.0.1 dev eth0 proto hostrouting" for it in REPAIR]
        assert set(host.files.texts) == {*SHUT, LAYOUT.protocol_name_path}
        assert host.files.modes[LAYOUT.routes_script_path] == 0o755
        assert host.files.links == {LAYOUT.routes_enabled_path: LAYOUT.routes_unit_path}
        assert manager_of(host).calls == [STOP, "reload", "stop static-routes.service", "start static-routes.service"]
        assert host.files.locked == set()
        fields = result.log_fields()  # type: ignore[attr-defined]  # a RoutesResult
        assert fields == {"add": 2, "files": 9}

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
        written = {LAYOUT.routes_script_path, LAYOUT.gate_steps_path, LAYOUT.protocol_name_path}
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
        assert len(host.files.texts) == 10

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


class TestAnotherProtocolNumber:
    """The number that marks our routes can be changed: those of the earlier one are still ours."""

    def test_moved(self) -> None:
        """Wanted routes carry the new number, the others are deleted, and no route has the old number."""
        host = FakeHost(kernel=h200())
        run(ConfigureStaticRoutes(config(*REPAIR, "10.77.0.0/16"), host=host))
        task = ConfigureStaticRoutes(config(*REPAIR, protocol=214), host=host)
        text = str(phases.plan(task))
        assert "+ 172.16.0.0/17 via 10.0.0.1 dev eth0 proto 214    # replace: ours, with route protocol 213" in text
        assert "- 10.77.0.0/16 via 10.0.0.1 dev eth0 proto hostrouting    # delete: ours, with route pro" in text
        result = run(task)
        assert ours(host) == []
        assert ours(host, 214) == [f"{it} via 10.0.0.1 dev eth0 proto 214" for it in REPAIR]
        assert result.log_fields() == {"replace": 2, "delete": 1, "files": 3}  # type: ignore[attr-defined]  # a RoutesResult
        assert task.plan(phases.Context()).is_empty

    @pytest.mark.parametrize("take_away", [ConfigureStaticRoutes, Remove])
    def test_taken_away(self, take_away: type[ConfigureStaticRoutes]) -> None:
        """What takes our routes away takes those of the earlier number too."""
        host = FakeHost(kernel=h200())
        before = host.kernel.snapshot()
        run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        assert len(take_away(config(protocol=214), host=host).plan(phases.Context()).routes.changes) == 2  # type: ignore[union-attr]  # there is a kernel
        run(take_away(config(protocol=214), host=host))
        assert host.kernel.reopen().snapshot() == before
        assert host.files.texts == {}

    @pytest.mark.parametrize("nth", [1, 2, 3, 4])
    def test_undone(self, nth: int) -> None:
        """Whichever change the kernel refuses, all of the earlier number are there as before."""
        host = FakeHost(kernel=h200())
        run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        before = host.kernel.reopen().snapshot()
        wanted = config("172.16.0.0/17", "10.88.0.0/16", gateway="10.0.0.9", protocol=214)
        host.kernel.faults.fail("change", 22, nth=nth)
        failure_of(run, ConfigureStaticRoutes(wanted, host=host), match="the route table is as it was before")
        assert host.kernel.reopen().snapshot() == before

    def test_the_guard_looks_after_changes_of_both(self) -> None:
        """A change of a route with either number matters to the guard, in any table. Kills: only that of today."""
        host = FakeHost(kernel=h200())
        run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        task = ConfigureStaticRoutes(config(*REPAIR, protocol=214), host=host)
        [concern] = task.keep(phases.Context(observers=[]), lambda _: True).concerns or ()
        assert [concern.has_route(4, 77, protocol, 0, 32) for protocol in (213, 214, 215)] == [True, True, False]

    @pytest.mark.parametrize("path", [LAYOUT.protocol_name_path, LAYOUT.lock_path])
    @pytest.mark.parametrize("writes", range(6))
    def test_no_number_is_lost(self, writes: int, path: str) -> None:
        """Wherever runs with other numbers fail because a disk is full, no route of any number is left in the end.

        The first cannot write which number its routes have, and the second the same, or the lock.
        """
        host, full = FakeHost(kernel=h200()), "No space left on device"
        for protocol, broken in enumerate(({LAYOUT.protocol_name_path: full}, {path: full}, None, None), 213):
            host.files.broken = FullAfter(host.files.writes, writes) if broken is None else broken
            with suppress(phases.TaskFailed):
                run(ConfigureStaticRoutes(config(*REPAIR, protocol=protocol), host=host))
        host.files.broken = {}
        run(ConfigureStaticRoutes(config(*REPAIR, protocol=217), host=host))
        assert [len(ours(host, protocol)) for protocol in range(213, 218)] == [0, 0, 0, 0, 2]

    @pytest.mark.parametrize("number", [2, 4, 16, 186])
    def test_not_whatever_a_file_says(self, number: int) -> None:
        """A protocol number that cannot be configured marks no routes as ours, even if it is in our script."""
        host = FakeHost(kernel=h200())
        run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        foreign = Route.to("10.77.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=number)
        host.kernel.reopen().change([RouteRequest("add", foreign)])
        for path in (LAYOUT.routes_script_path, LAYOUT.protocol_name_path):
            host.files.texts[path] = host.files.texts[path].replace("213", str(number))
        run(Remove(config(), host=host))
        assert foreign in host.kernel.reopen().snapshot().routes

    def test_a_text_that_is_not_ours(self) -> None:
        """A foreign file at the path of one of ours names no protocol number, and is overwritten."""
        host = FakeHost(kernel=h200())
        for path in (LAYOUT.routes_script_path, LAYOUT.protocol_name_path):
            host.files.texts[path] = "configuration=(\n  'wait 3'\n)\n"
        run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        assert len(ours(host)) == 2
