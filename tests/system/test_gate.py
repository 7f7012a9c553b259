"""The gate, under a real systemd and with real nested machines: what the tasks promise about the start of a machine."""

import json
import re

import pytest

from hostrouting.config import HostRoutingConfig, Mode, StaticRoute, StaticRoutesConfig
from tests.support.gate import (
    CIDR,
    HALVES,
    KUBE1,
    LAYOUT,
    config,
    configure,
    end,
    gate_tests,
    host,
    many_times,
    markers,
    ours,
    pid,
    run_task,
    start,
)
from tests.support.waiting import wait_for

pytestmark = gate_tests

# What an agent gives the machine, so that it is tried again by itself: what docs/operators.md says, and no more.
RESTART = "[Service]\nRestart=on-failure\nRestartSec=1\n"
RANGE = "172.16.0.0/16 (172.16.0.0–172.16.255.255)"  # noqa: RUF001  a dash between addresses


@pytest.mark.releases
@many_times
def test_strict_blocks() -> None:
    """STRICT with an overlap: the task fails, the machine does not start, and both name range, route and what to do."""
    with host() as system:
        failed = run_task(system, "Configure", config(mode=Mode.STRICT))
        assert failed.returncode == 1
        done = system.run("systemctl", "start", KUBE1)
        assert done.returncode == 1
        assert f"Job for {KUBE1} failed" in done.stderr
        assert not pid(system)
        said = system.journal(LAYOUT.gate_unit)
        for text in (failed.stdout, said):
            assert f"OVERLAP: expected CIDR {RANGE} routes via ib0 [172.16.0.0/16 proto kernel], expected eth0" in text
        assert "ACTION: run: hostrouting repair 172.16.0.0/16; " in said
        action = re.findall(r"ACTION: add to staticRoutes.routes: (\[.*?\])", failed.stdout)[0]
        assert markers(system) == {LAYOUT.detected_path}
        errors = system.must("journalctl", "--quiet", "--priority=err", "--output=cat", "-u", LAYOUT.gate_unit)
        assert "OVERLAP" in errors
        # The repair is what it says: with it, the machine starts.
        repair = HostRoutingConfig(StaticRoutesConfig(enabled=True, routes=json.loads(action)))
        assert [str(route.destination) for route in repair.static_routes.routes] == ["172.16.0.0/17", "172.16.128.0/17"]
        configure(system, config(*repair.static_routes.routes, mode=Mode.STRICT))
        assert start(system) == 0
        assert pid(system)
        assert markers(system) == {LAYOUT.ok_path}


@many_times
def test_warn_starts() -> None:
    """WARN with an overlap: the task passes, the machine starts, and the marker has the line that the journal has."""
    with host() as system:
        assert f"OVERLAP: expected CIDR {RANGE}" in configure(system, config(mode=Mode.WARN))
        system.must("rm", LAYOUT.detected_path)
        assert start(system) == 0
        assert pid(system)
        detected = system.read(LAYOUT.detected_path)
        assert detected is not None
        assert detected.startswith(f"OVERLAP: expected CIDR {RANGE}")
        assert detected in system.journal(LAYOUT.gate_unit)


@pytest.mark.releases
@many_times
def test_repaired_starts_after_every_boot() -> None:
    """STRICT with the repair configured: routes are back before the machine at every boot, and checked after that."""
    enabled = {"/etc/systemd/system/machines.target.wants/" + KUBE1: "/lib/systemd/system/systemd-nspawn@.service"}
    with host() as system:
        configure(system, config(*HALVES, mode=Mode.STRICT))
        assert start(system) == 0
        for path, target in enabled.items():
            system.link(path, target)
        system.must("systemctl", "enable", "machines.target")
        for _ in range(2):
            system.reboot()
            system.settled()
            assert pid(system)
            assert len(ours(system)) == 2
            assert "172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting" in system.must("ip", "route")
            times = {
                unit: int(system.show(unit, "ExecMainStartTimestampMonotonic"))
                for unit in (LAYOUT.routes_unit, LAYOUT.gate_unit, KUBE1)
            }
            assert times[LAYOUT.routes_unit] < times[LAYOUT.gate_unit] < times[KUBE1]
            assert markers(system) == {LAYOUT.ok_path}


@many_times
def test_routes_that_cannot_be_installed_block() -> None:
    """A static route that cannot be installed holds the machine back in every mode; the journal says why."""
    first, *others = (config(StaticRoute(CIDR), *HALVES, mode=mode) for mode in (None, Mode.WARN, Mode.STRICT))
    with host(first) as system:
        for settings in (first, *others):
            if settings is not first:
                assert run_task(system, "Configure", settings).returncode == 1
            assert start(system) == 1, settings
            assert not pid(system), settings
            said = system.journal(LAYOUT.gate_unit).rpartition("Starting ")[2]
            assert f"[{CIDR} dev ib0 proto kernel scope link src 172.16.1.5]" in said, settings
            assert "for the routes to configure instead, run: hostrouting plan --config FILE" in said, settings
            assert f"{CIDR} dev ib0 proto kernel" in system.must("ip", "route", "show", CIDR), settings


def test_a_route_that_is_lost_to_another_blocks() -> None:
    """When somebody takes a route's place after all was well, the task fails and the machine does not start."""
    with host() as system:
        settings = config(*HALVES)
        configure(system, settings)
        system.must("ip", "route", "del", "172.16.0.0/17", "proto", "213")
        system.must("ip", "route", "add", "172.16.0.0/17", "dev", "ib0", "proto", "static")
        done = run_task(system, "Configure", settings)
        held = "[172.16.0.0/17 dev ib0 proto static scope link]"
        assert done.returncode == 1
        assert held in done.stdout
        assert start(system) == 1
        assert held in system.journal(LAYOUT.gate_unit)


@pytest.mark.releases
@many_times
def test_it_heals_by_itself() -> None:
    """A machine with Restart=on-failure starts by itself once the overlap is gone, however long that takes."""
    drop_in = {"/etc/systemd/system/systemd-nspawn@.service.d/10-restart.conf": RESTART}
    with host(more=drop_in) as system:
        assert run_task(system, "Configure", config(mode=Mode.STRICT)).returncode == 1
        assert start(system) == 1
        wait_for("two more attempts", lambda: int(system.show(KUBE1, "NRestarts")) > 1)
        assert not pid(system) or system.show(KUBE1, "ActiveState") != "active"
        system.must("ip", "address", "del", "172.16.1.5/16", "dev", "ib0")
        wait_for("the machine to start", lambda: system.show(KUBE1, "ActiveState") == "active")


def test_every_start_begins_anew() -> None:
    """What was right at an earlier start counts for nothing: routes are put back, and a new overlap blocks."""
    with host() as system:
        configure(system, config(*HALVES, mode=Mode.STRICT))
        assert start(system) == 0
        end(system)
        system.must("ip", "route", "flush", "proto", "213")
        assert start(system) == 0
        assert len(ours(system)) == 2
        end(system)
        system.must("ip", "address", "add", "172.16.200.5/24", "dev", "ib0")
        assert start(system) == 1
        assert "172.16.200.0–172.16.200.255" in system.journal(LAYOUT.gate_unit)  # noqa: RUF001  a dash
        assert markers(system) == {LAYOUT.detected_path}


@pytest.mark.releases
def test_however_often() -> None:
    """The gate is asked at each start, however often machines start; none is refused."""
    with host() as system:
        configure(system, config(*HALVES, mode=Mode.STRICT))
        for overlap, code in (("add", 1), ("del", 0)):
            system.must("ip", "address", overlap, "172.16.200.5/24", "dev", "ib0")
            for _ in range(6):
                assert start(system) == code
                end(system)
                system.run("systemctl", "reset-failed", KUBE1)


def test_two_machines() -> None:
    """The gate holds for every machine, and when it opens, it opens for all."""
    with host(machines=("kube1", "kube2")) as system:
        assert run_task(system, "Configure", config(mode=Mode.STRICT)).returncode == 1
        assert (start(system), start(system, "kube2")) == (1, 1)
        configure(system, config(*HALVES, mode=Mode.STRICT))
        assert (start(system), start(system, "kube2")) == (0, 0)
        assert pid(system)
        assert pid(system, "kube2")


def test_a_late_default_route_is_awaited() -> None:
    """A default route that comes seconds after the boot is awaited: by the task, and by the scripts at a boot."""
    with host(late=3) as system:
        configure(system, config(*HALVES, mode=Mode.STRICT), wait=20)
        assert len(ours(system)) == 2
        system.reboot()
        system.settled()
        assert start(system) == 0
        assert len(ours(system)) == 2


def test_no_default_route() -> None:
    """Without any default route, STRICT stays shut and both say what they waited for."""
    with host(config(*HALVES, mode=Mode.STRICT)) as system:
        system.must("ip", "route", "del", "default")
        assert start(system) == 1
        assert system.run("systemctl", "start", LAYOUT.check_unit).returncode == 1
        assert "172.16.0.0/17: waiting for an IPv4 default route" in system.journal(LAYOUT.gate_unit)
        assert "NO-DEFAULT-ROUTE: " in system.journal(LAYOUT.check_unit)
        assert system.read(LAYOUT.detected_path) == "no-default-route\n"
