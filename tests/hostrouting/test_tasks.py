"""The tasks, on hosts that exist in memory."""

from __future__ import annotations

import json

import attrs
import pytest

import phases
from hostrouting.backends.base import Change
from hostrouting.config import HostRoutingConfig
from hostrouting.errors import ApplyError, FileError, NotReady, RouteConflict, RouteOverlapError, UnitFailed
from hostrouting.layout import HostLayout
from hostrouting.model import OURS, Prefix, Route, as_ip
from hostrouting.tasks import CheckRouteOverlap, Configure, ConfigureStaticRoutes, Remove
from hostrouting.testing import FakeHost, FakeManager, MemoryBackend, ecmp_node, h200
from phases.testing import FakeClock, RecordingObserver

LAYOUT = HostLayout()


def config(*destinations: str, cidrs: tuple[str, ...] = (), mode: str = "STRICT", **route: object) -> HostRoutingConfig:
    """A configuration with these static routes and expected CIDRs."""
    routes = [{"destination": destination, **route} for destination in destinations]
    return HostRoutingConfig({"enabled": bool(routes), "routes": routes}, {"expectedCidrs": list(cidrs), "mode": mode})


def run(task: phases.Task[object], host: FakeHost | None = None) -> object:
    """Execute the task on a fake clock, on which the fake kernel waits too."""
    clock = FakeClock()
    if host is not None:
        host.kernel.wait_with(lambda seconds: clock.event().wait(seconds))
    return phases.execute(task, phases.Context(clock=clock, observers=[]))


def ours(host: FakeHost) -> list[str]:
    """Our routes in the kernel."""
    return [str(it) for it in host.kernel.reopen().snapshot(protocol=OURS).routes]


REPAIR = ("172.16.0.0/17", "172.16.128.0/17")


class TestNothing:
    """With nothing configured and nothing of ours there, nothing at all happens."""

    @pytest.mark.parametrize("make", [ConfigureStaticRoutes, CheckRouteOverlap, Configure])
    def test_zero_impact(self, make: type[Configure]) -> None:
        """Not one file is written or locked, no manager is asked, and nothing is written to the kernel."""
        host = FakeHost()
        host.kernel.faults.fail("change", ApplyError("touched", after=""))  # type: ignore[arg-type]  # never raised
        before = host.kernel.snapshot()
        run(make(HostRoutingConfig(), host=host))
        assert host.files.writes == []
        assert host.manager is not None
        assert host.manager.calls == []
        assert host.kernel.reopen().snapshot() == before

    def test_says_so(self) -> None:
        """The task is skipped, with the reason."""
        assert run(ConfigureStaticRoutes(HostRoutingConfig(), host=FakeHost())) == phases.Skip(
            "no static routes are configured, and none of ours are here"
        )


class TestConfigureStaticRoutes:
    """Install the static routes, now and at every boot."""

    def test_routes_files_and_unit(self) -> None:
        """Routes are in the kernel, files in their places, the unit is enabled, and its script was run once."""
        host = FakeHost(kernel=h200())
        result = run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        assert ours(host) == [f"{it} via 10.0.0.1 dev eth0 proto hostrouting" for it in REPAIR]
        assert set(host.files.texts) == {
            LAYOUT.protocol_name_path,
            LAYOUT.routes_script_path,
            LAYOUT.routes_unit_path,
            LAYOUT.routes_drop_in_path,
        }
        assert host.files.modes[LAYOUT.routes_script_path] == 0o755
        assert host.files.links == {LAYOUT.routes_enabled_path: LAYOUT.routes_unit_path}
        assert host.manager is not None
        assert host.manager.calls == ["reload", "start static-routes.service"]
        assert host.files.locked == set()
        fields = result.log_fields()  # type: ignore[attr-defined]  # a RoutesResult
        assert fields == {"add": 2, "files": 5}

    def test_again(self) -> None:
        """A second run changes nothing: no file, no unit, no route."""
        host = FakeHost(kernel=h200())
        task = ConfigureStaticRoutes(config(*REPAIR), host=host)
        run(task)
        assert host.manager is not None
        host.manager.calls.clear()
        host.files.writes.clear()
        before = host.kernel.reopen().snapshot()
        run(task)
        assert host.files.writes == [LAYOUT.lock_path]
        assert host.manager.calls == []
        assert host.kernel.reopen().snapshot() == before
        assert task.plan(phases.Context()).is_empty

    def test_a_unit_that_failed_is_started_again(self) -> None:
        """When the unit failed last time, the next run starts it again although no file changed."""
        manager = FakeManager(failing={LAYOUT.routes_unit: ("eth0 is not there",)})
        host = FakeHost(kernel=h200(), manager=manager)
        task = ConfigureStaticRoutes(config(*REPAIR), host=host)
        with pytest.raises(
            phases.TaskFailed, match=r"static-routes.service failed .exit-code, exit status 1.: eth0 is"
        ):
            run(task)
        manager.failing.clear()
        run(task)
        assert manager.calls == ["reload", "start static-routes.service", "start static-routes.service"]

    def test_update(self) -> None:
        """A changed configuration replaces ours and deletes what is no longer wanted; the unit's text stays."""
        host = FakeHost(kernel=h200())
        run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        host.files.writes.clear()
        run(ConfigureStaticRoutes(config(REPAIR[0], gateway="10.0.0.9"), host=host))
        assert ours(host) == ["172.16.0.0/17 via 10.0.0.9 dev eth0 proto hostrouting"]
        assert set(host.files.writes) == {LAYOUT.lock_path, LAYOUT.routes_script_path}

    def test_removed_from_the_configuration(self) -> None:
        """With no routes configured any more, ours go, with every file; a running machine is not touched."""
        host = FakeHost(kernel=h200())
        before = host.kernel.snapshot()
        run(Configure(config(*REPAIR, cidrs=("172.16.0.0/16",)), host=host))
        assert host.manager is not None
        host.manager.calls.clear()
        run(ConfigureStaticRoutes(config(), host=host))
        assert host.kernel.reopen().snapshot() == before
        assert LAYOUT.routes_drop_in_path not in host.files.texts
        assert LAYOUT.check_drop_in_path in host.files.texts
        assert host.files.links == {}
        assert host.manager.calls == ["reload"]

    def test_conflict(self) -> None:
        """A key that InfiniBand holds is a conflict with the way out; nothing was changed, no file written."""
        host = FakeHost(kernel=h200())
        with pytest.raises(
            phases.TaskFailed, match=r"172.16.0.0/17 and 172.16.128.0/17 win without touching it"
        ) as caught:
            run(ConfigureStaticRoutes(config("172.16.0.0/16"), host=host))
        assert isinstance(caught.value.cause, RouteConflict)
        assert host.files.texts == {}
        assert host.files.locked == set()

    def test_default_route_that_comes_late(self) -> None:
        """What is not there yet is awaited by the kernel's events."""
        kernel = MemoryBackend()
        kernel.add_link("eth0")
        host = FakeHost(kernel=kernel)
        kernel.later(lambda: kernel.add_address("eth0", "10.0.0.4/24"))
        kernel.later(
            lambda: kernel.change([Change("add", Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=16))])
        )
        run(ConfigureStaticRoutes(config("10.9.0.0/16"), host=host), host)
        assert ours(host) == ["10.9.0.0/16 via 10.0.0.1 dev eth0 proto hostrouting"]

    def test_default_route_that_never_comes(self) -> None:
        """After the deadline the failure says what was waited for; nothing is left behind."""
        host = FakeHost(kernel=MemoryBackend())
        with pytest.raises(phases.TaskFailed, match=r"after 30 s still waiting for .*an IPv4 default route") as caught:
            run(ConfigureStaticRoutes(config("10.9.0.0/16"), host=host), host)
        assert isinstance(caught.value.cause, NotReady)
        assert host.files.texts == {}

    def test_ecmp(self) -> None:
        """An ECMP default gives its legs to a route that leaves them open."""
        host = FakeHost(kernel=ecmp_node())
        run(ConfigureStaticRoutes(config("10.9.0.0/16"), host=host))
        [route] = host.kernel.reopen().snapshot(protocol=OURS).routes
        assert route.devs == ("eth0", "eth1")

    def test_a_disk_that_is_full(self) -> None:
        """A file that cannot be written is named, with the reason; the lock is let go."""
        host = FakeHost(kernel=h200())
        host.files.broken[LAYOUT.routes_unit_path] = "the disk is full"
        with pytest.raises(
            phases.TaskFailed, match=r"cannot write /etc/.*static-routes.service: the disk is full"
        ) as caught:
            run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        assert isinstance(caught.value.cause, FileError)
        assert host.files.locked == set()

    def test_somebody_else_is_at_work(self) -> None:
        """Two runs at once are serialised: the second waits for as long as the run allows, and says so."""
        host = FakeHost(kernel=h200())
        host.files.locked.add(LAYOUT.lock_path)
        with pytest.raises(phases.Cancelled, match="the 5 s of the run are over"):
            phases.execute(
                ConfigureStaticRoutes(config(*REPAIR), host=host),
                phases.Context(clock=FakeClock(), deadline=5, observers=[]),
            )
        assert ours(host) == []

    def test_no_manager(self) -> None:
        """Where no systemd runs, files are written all the same, and nobody is asked to start anything."""
        manager = FakeManager(running=False)
        host = FakeHost(kernel=h200(), manager=manager)
        run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        assert manager.calls == []
        assert LAYOUT.routes_unit_path in host.files.texts

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
        assert len(host.files.texts) == 7

    def test_plan(self) -> None:
        """The plan says the steps and the files, and changes nothing."""
        host = FakeHost(kernel=h200())
        before = host.kernel.snapshot()
        text = str(phases.plan(ConfigureStaticRoutes(config(*REPAIR), host=host)))
        assert "+ 172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting    # add: it is not there" in text
        assert f"write {LAYOUT.routes_script_path}" in text
        assert host.files.writes == []
        assert host.kernel.reopen().snapshot() == before

    def test_what_another_installer_left(self) -> None:
        """Links by which another installer tied our unit to the machines, so that it could stop them, go."""
        host = FakeHost(kernel=h200())
        tie = "/etc/systemd/system/systemd-nspawn@.service.requires/static-routes.service"
        host.files.links[tie] = "/etc/systemd/system/static-routes.service"
        run(ConfigureStaticRoutes(config(*REPAIR), host=host))
        assert tie not in host.files.links


class TestCheckRouteOverlap:
    """Check that expected CIDRs leave as expected."""

    def test_strict(self) -> None:
        """In STRICT an overlap raises, with range, route and repair; the gate is in place, and so are the markers."""
        host = FakeHost(kernel=h200())
        with pytest.raises(phases.TaskFailed) as caught:
            run(CheckRouteOverlap(config(cidrs=("172.16.0.0/16",)), host=host))
        error = caught.value.cause
        assert isinstance(error, RouteOverlapError)
        assert str(error).startswith(
            "OVERLAP: expected CIDR 172.16.0.0/16 (172.16.0.0–172.16.255.255) routes via ib0 "  # noqa: RUF001
            "[172.16.0.0/16 proto kernel], expected eth0; ACTION: add to staticRoutes.routes: [{"
        )
        assert set(host.files.texts) == {
            LAYOUT.check_script_path,
            LAYOUT.check_unit_path,
            LAYOUT.check_drop_in_path,
            LAYOUT.detected_path,
            LAYOUT.report_path,
        }
        document = json.loads(host.files.texts[LAYOUT.report_path])
        assert (document["schema"], document["verdict"], document["mode"]) == (
            "hostrouting/check/1",
            "overlap",
            "STRICT",
        )
        assert host.files.texts[LAYOUT.detected_path].startswith("OVERLAP: ")

    def test_warn(self, caplog: pytest.LogCaptureFixture) -> None:
        """In WARN the same is logged, and the task ends well."""
        host = FakeHost(kernel=h200())
        result = run(CheckRouteOverlap(config(cidrs=("172.16.0.0/16",), mode="WARN"), host=host))
        assert result.log_fields()["verdict"] == "overlap"  # type: ignore[attr-defined]  # a CheckResult
        assert "OVERLAP: expected CIDR 172.16.0.0/16" in caplog.text
        assert LAYOUT.detected_path in host.files.texts

    def test_repair_closes_it(self) -> None:
        """What the check proposes is what ConfigureStaticRoutes takes, and then the check passes; no stale marker."""
        host = FakeHost(kernel=h200())
        wanted = config(cidrs=("172.16.0.0/16",))
        with pytest.raises(phases.TaskFailed):
            run(CheckRouteOverlap(wanted, host=host))
        repair = json.loads(host.files.texts[LAYOUT.report_path])["repair"]
        mended = HostRoutingConfig({"enabled": True, "routes": repair}, wanted.route_overlap)
        run(Configure(mended, host=host))
        assert LAYOUT.ok_path in host.files.texts
        assert LAYOUT.detected_path not in host.files.texts

    def test_own_devices(self) -> None:
        """Expected devices that are named do not wait for a default route."""
        kernel = MemoryBackend()
        kernel.add_link("eth0")
        kernel.add_address("eth0", "10.0.0.4/24")
        host = FakeHost(kernel=kernel)
        wanted = HostRoutingConfig(None, {"expectedCidrs": ["10.0.0.0/24"], "expectedDevs": ["eth0"], "mode": "STRICT"})
        run(CheckRouteOverlap(wanted, host=host))
        assert LAYOUT.ok_path in host.files.texts

    @pytest.mark.parametrize("mode", ["WARN", "STRICT"])
    def test_no_default_route(self, mode: str) -> None:
        """Without a default route by the deadline the verdict says so: STRICT fails, WARN passes."""
        host = FakeHost(kernel=MemoryBackend())
        task = CheckRouteOverlap(config(cidrs=("172.16.0.0/16",), mode=mode), host=host)
        if mode == "STRICT":
            with pytest.raises(phases.TaskFailed, match="NO-DEFAULT-ROUTE: there is no IPv4 default route"):
                run(task, host)
        else:
            run(task, host)
        assert host.files.texts[LAYOUT.detected_path] == "no-default-route\n"

    def test_a_kernel_that_disagrees(self) -> None:
        """Where the kernel answers otherwise than its tables say, the verdict is never a bare ok."""
        host = FakeHost()

        class Contrary(MemoryBackend):
            """Says of everything that there is no route."""

        real = host.kernel.lookup
        host.kernel.lookup = lambda destinations, *_: tuple(  # type: ignore[method-assign]  # the double
            attrs.evolve(answer, kind="prohibit", route=None) for answer in real(destinations)
        )
        result = run(CheckRouteOverlap(config(cidrs=("172.16.0.0/16",)), host=host))
        assert result.examination.verdict == "undecided"  # type: ignore[attr-defined]  # a CheckResult
        assert LAYOUT.ok_path not in host.files.texts
        assert "the kernel answers prohibit" in json.loads(host.files.texts[LAYOUT.report_path])["notes"][0]

    def test_nothing_to_check_any_more(self) -> None:
        """Without expected CIDRs, what was installed for the check goes, its markers too."""
        host = FakeHost()
        run(CheckRouteOverlap(config(cidrs=("172.16.0.0/16",)), host=host))
        run(CheckRouteOverlap(config(), host=host))
        assert host.files.texts == {}


class TestRemove:
    """Everything of ours goes, and nothing else."""

    def test_all_of_it(self) -> None:
        """After Remove, or undo of Configure, the host is as it was before; a second time there is nothing to do."""
        for undo in (False, True):
            host = FakeHost(kernel=h200())
            foreign = Route.to("10.77.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=4)
            host.kernel.change([Change("add", foreign)])
            before = host.kernel.snapshot()
            wanted = config(*REPAIR, cidrs=("172.16.0.0/16",))
            run(Configure(wanted, host=host))
            if undo:
                phases.undo(Configure(wanted, host=host), phases.Context(observers=[]))
            else:
                run(Remove(HostRoutingConfig(), host=host))
            assert host.kernel.reopen().snapshot() == before
            assert host.files.texts == {}
            assert host.files.links == {}
            assert run(Remove(HostRoutingConfig(), host=host)) == ()

    def test_the_gate_first(self) -> None:
        """The drop-ins go before what they wait for, so that no machine is held back by what is half gone."""
        host = FakeHost(kernel=h200())
        run(Configure(config(*REPAIR, cidrs=("172.16.0.0/16",)), host=host))
        host.files.writes.clear()
        run(Remove(HostRoutingConfig(), host=host))
        gone = [path for path in host.files.writes if path != LAYOUT.lock_path]
        for drop_in, unit in (
            (LAYOUT.check_drop_in_path, LAYOUT.check_unit_path),
            (LAYOUT.routes_drop_in_path, LAYOUT.routes_enabled_path),
            (LAYOUT.routes_drop_in_path, LAYOUT.routes_unit_path),
        ):
            assert gone.index(drop_in) < gone.index(unit)

    def test_past_failures(self) -> None:
        """A failure does not keep the rest from going."""
        host = FakeHost(kernel=h200())
        run(Configure(config(*REPAIR, cidrs=("172.16.0.0/16",)), host=host))
        host.kernel.faults.fail("change", 22)
        with pytest.raises(phases.TaskFailed, match="the routes could not be applied"):
            run(Remove(HostRoutingConfig(), host=host))
        assert LAYOUT.check_drop_in_path not in host.files.texts
        assert len(ours(host)) == 2


class TestConfigure:
    """Both in order."""

    def test_in_order(self) -> None:
        """The report and the plan have both tasks, in order; the check sees the routes of the first."""
        host = FakeHost(kernel=h200())
        seen = RecordingObserver()
        task = Configure(config(*REPAIR, cidrs=("172.16.0.0/16",)), host=host)
        assert [node.name for node in phases.plan(task).walk()] == [
            "configure",
            "configure-static-routes",
            "check-route-overlap",
        ]
        report = phases.run(task, observers=[seen])
        assert report.ok, str(report)
        assert seen.started == ["configure", "configure/configure-static-routes", "configure/check-route-overlap"]
        assert report.find("check-route-overlap").fields["verdict"] == "ok"
        (answer,) = host.kernel.reopen().lookup([as_ip("172.16.20.1")])
        assert answer.route is not None
        assert answer.route.devs == ("eth0",)
        assert Prefix.parse("172.16.0.0/16") in {it.prefix for it in host.kernel.snapshot().routes}


def test_units_that_fail_are_quoted() -> None:
    """The error of a unit has its name, the manager's reason and its own words."""
    error = UnitFailed("x.service", result="timeout", status=0, words=["waiting", "still waiting"])
    assert str(error) == (
        "x.service failed (timeout, exit status 0): waiting | still waiting; see `journalctl -u x.service`"
    )
