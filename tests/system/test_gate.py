"""The gate, under a real systemd and with real nested machines: what the tasks promise about the start of a machine."""

import json
import re

from hostrouting.config.settings import HostRoutingConfig, StaticRoute, StaticRoutesConfig
from hostrouting.config.values import Mode
from tests.support.agents import agents
from tests.support.gate import (
    CIDR,
    HALVES,
    KUBE1,
    LAYOUT,
    LET_ROUTE,
    begin_start,
    config,
    configure,
    end,
    gate_tests,
    has_started,
    host,
    is_starting,
    markers,
    ours,
    pid,
    run_task,
    start,
)
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

# What an agent gives the machine, so that it is tried again by itself: what docs/operators.md says, and no more.
RESTART = "[Service]\nRestart=on-failure\nRestartSec=1\n"
RANGE = "172.16.0.0/16 (172.16.0.0–172.16.255.255)"  # noqa: RUF001  a dash between addresses
# The IPv6 default route, as from a router that advertises itself.
IPV6 = """\
ip address add 2001:db8::4/64 dev eth0 nodad
ip address add fd16::5/48 dev ib0 nodad
ip -6 route add default via fe80::1 dev eth0 proto ra metric 1024 expires 1800
"""


def test_strict() -> None:
    """STRICT: every machine starts if no address escapes at that moment, and otherwise none; the reason is named."""
    with host(machines=("kube1", "kube2")) as system:
        failed = run_task(system, "Configure", config(mode=Mode.STRICT))
        assert failed.returncode == 1
        done = system.run("systemctl", "start", KUBE1)
        assert done.returncode == 1
        assert f"Job for {KUBE1} failed" in done.stderr
        names = ("kube1", "kube2")
        begin_start(system, *names)  # at one moment: they get one answer, each of them
        assert [has_started(system, name) for name in names] == [False, False]
        said = system.journal(LAYOUT.gate_unit)
        for text in (failed.stdout, said):
            assert f"OVERLAP: expected CIDR {RANGE} routes via ib0 [172.16.0.0/16 proto kernel], expected eth0" in text
        assert "ACTION: run: hostrouting repair 172.16.0.0/16; " in said
        action = re.findall(r"ACTION: add to staticRoutes.routes: (\[.*?\])", failed.stdout)[0]
        assert markers(system) == {LAYOUT.detected_path}
        errors = system.must("journalctl", "--quiet", "--priority=err", "--output=cat", "-u", LAYOUT.gate_unit)
        assert "OVERLAP" in errors

        # The repair is what it says: with it, each machine starts.
        repair = HostRoutingConfig(StaticRoutesConfig(enabled=True, routes=json.loads(action)))
        assert [str(route.destination) for route in repair.static_routes.routes] == ["172.16.0.0/17", "172.16.128.0/17"]
        settings = config(*repair.static_routes.routes, mode=Mode.STRICT)
        configure(system, settings)
        begin_start(system, *names)
        assert [has_started(system, name) for name in names] == [True, True]
        assert pid(system) != pid(system, "kube2")
        assert markers(system) == {LAYOUT.ok_path}

        # What was right at an earlier start counts for nothing: routes are put back, and a new overlap blocks.
        end(system)
        system.must("ip", "route", "flush", "proto", "213")
        assert start(system) == 0
        assert len(ours(system)) == 2
        end(system)
        for overlap, code in (("add", 1), ("del", 0)):
            system.must("ip", "address", overlap, "172.16.200.5/24", "dev", "ib0")
            # However often the gate is asked: by default, systemd refuses the sixth start in ten seconds.
            assert {system.run("systemctl", "start", LAYOUT.gate_unit).returncode for _ in range(6)} == {code}
            assert start(system) == code
            assert markers(system) == {LAYOUT.detected_path if code else LAYOUT.ok_path}
            end(system)
        assert "172.16.200.0–172.16.200.255" in system.journal(LAYOUT.gate_unit)  # noqa: RUF001  a dash

        is_lost_to_another(system, settings)
        is_without_default_route(system)


def is_lost_to_another(system: System, settings: HostRoutingConfig) -> None:
    """When somebody takes a route's place after all was well, the task fails and the machine does not start."""
    taken = ("172.16.0.0/17", "dev", "ib0", "proto", "static")
    system.must("ip", "route", "del", "172.16.0.0/17", "proto", "213")
    system.must("ip", "route", "add", *taken)
    done = run_task(system, "Configure", settings)
    held = "[172.16.0.0/17 dev ib0 proto static scope link]"
    assert done.returncode == 1
    assert held in done.stdout
    assert start(system) == 1
    assert held in system.journal(LAYOUT.gate_unit)
    system.must("ip", "route", "del", *taken)


def is_without_default_route(system: System) -> None:
    """Without any default route, STRICT stays shut, and both scripts say what they waited for."""
    system.must("ip", "route", "del", "default")
    system.must("ip", "route", "flush", "proto", "213")
    assert start(system) == 1
    assert system.run("systemctl", "start", LAYOUT.check_unit).returncode == 1
    assert "172.16.0.0/17: waiting for an IPv4 default route" in system.journal(LAYOUT.gate_unit)
    assert "NO-DEFAULT-ROUTE: " in system.journal(LAYOUT.check_unit)
    assert system.read(LAYOUT.detected_path) == "no-default-route\n"


def test_repaired_starts_after_every_boot() -> None:
    """STRICT with the repair of both families: at every boot the routes are back before the machine, which is checked.

    A default route that comes later is awaited, by the task and by the scripts at each boot.
    """
    routes = [*({"destination": str(half.destination)} for half in HALVES), {"destination": "fd16::/48", "metric": 1}]
    wanted = HostRoutingConfig(
        {"enabled": True, "routes": routes}, {"expectedCidrs": ["172.16.0.0/16", "fd16::/48"], "mode": "STRICT"}
    )
    with host(is_late=True, then=IPV6) as system:
        with agents(system) as crew:
            waiting = crew.begin("Configure", wanted, wait=60)
            wait_for("the task to wait", lambda: system.read(LAYOUT.gate_steps_path) is not None)
            system.lay(LET_ROUTE, "")
            done = waiting.wait()
            assert done.returncode == 0, done.stdout
        assert len(ours(system)) == 2
        assert start(system) == 0
        system.link(f"/etc/systemd/system/machines.target.wants/{KUBE1}", "/lib/systemd/system/systemd-nspawn@.service")
        system.must("systemctl", "enable", "machines.target")
        for _ in range(2):
            system.reboot()
            wait_for("the script to wait", lambda: system.show(LAYOUT.routes_unit, "SubState") == "start")
            assert not is_starting(system)
            assert not pid(system)
            assert not ours(system)
            system.lay(LET_ROUTE, "")
            system.settled()
            assert pid(system)
            assert ours(system) == ["172.16.0.0/17", "172.16.128.0/17"]
            assert ours(system, family=6) == ["fd16::/48"]
            assert "172.16.0.0/17 via 10.0.0.1 dev eth0 proto 213" in system.must("ip", "route")
            assert "via fe80::1 dev eth0" in system.must("ip", "-6", "route", "show", "proto", "213")
            times = [
                int(system.show(unit, "ExecMainStartTimestampMonotonic"))
                for unit in (LAYOUT.routes_unit, LAYOUT.gate_unit, KUBE1)
            ]
            assert times == sorted(times)
            assert markers(system) == {LAYOUT.ok_path}


def test_routes_that_cannot_be_installed_block() -> None:
    """Routes that are refused, or still waited for, hold the machine back in every mode; the journal says why."""
    first, *others = (config(StaticRoute(CIDR), *HALVES, mode=mode) for mode in (None, Mode.WARN, Mode.STRICT))
    with host(first) as system:
        for settings in (first, *others):
            if settings is not first:
                assert run_task(system, "Configure", settings).returncode == 1
            assert start(system) == 1, settings
            assert not pid(system), settings
            said = system.journal(LAYOUT.gate_unit).rpartition("Starting ")[2]
            assert f"[{CIDR} dev ib0 proto kernel scope link src 172.16.1.5]" in said, settings
            assert "for the routes to configure instead, run: hostrouting status" in said, settings
            assert f"{CIDR} dev ib0 proto kernel" in system.must("ip", "route", "show", CIDR), settings
        assert run_task(system, "Remove", config()).returncode == 0
        system.must("ip", "route", "del", "default")
        assert run_task(system, "Configure", config(*HALVES, mode=Mode.STRICT)).returncode == 1
        assert start(system) == 1, "a first bootstrap that fails"
        assert not pid(system)
        system.must("ip", "route", "add", "default", "via", "10.0.0.1", "dev", "eth0")
        configure(system, config(*HALVES, mode=Mode.STRICT))
        assert start(system) == 0


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
