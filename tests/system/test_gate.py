"""The gate, under a real systemd and with real nested machines: when a machine starts, by what
`apply` installed.
"""

import json

from hostrouting.config.settings import GuardConfig, HostRoutingConfig, StaticRoute
from tests.support import gate
from tests.support.gate import CIDR, HALVES, KUBE1, LAYOUT, LET_ROUTE, gate_tests
from tests.support.sections import expect, static
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

ESCAPE = f"OVERLAP: {CIDR} leaves through ib0"
# The IPv6 default route, as from a router that advertises itself.
IPV6 = """\
ip address add 2001:db8::4/64 dev eth0 nodad
ip address add fd16::5/48 dev ib0 nodad
ip -6 route add default via fe80::1 dev eth0 proto ra metric 1024 expires 1800
"""


def proposed_repair(system: System) -> tuple[StaticRoute, ...]:
    """The routes with which `check` would repair the host."""
    report = json.loads(gate.hostrouting(system, "check", "--json", CIDR).stdout)
    document = {"staticRoutes": {"enabled": True, "routes": report["repair"]}}
    return HostRoutingConfig.from_mapping(document).static_routes.routes


def log_of(system: System, priority: str) -> str:
    """What the unit of the machine has logged with this priority or a worse one."""
    return system.must(
        "journalctl", "--quiet", f"--priority={priority}", "--output=cat", "-u", KUBE1
    )


def test_strict() -> None:
    """STRICT: every machine starts if no address escapes at that moment, and otherwise none; the
    reason is logged. What was right at an earlier start counts for nothing.
    """
    with gate.host(machines=("kube1", "kube2")) as system:
        gate.apply(system, gate.config(mode="STRICT"), code=1)
        no_machine_starts_while_an_address_escapes(system)
        each_machine_starts_with_the_proposed_repair(system)
        gate.end(system)
        routes_that_are_gone_are_put_back(system)
        gate.end(system)
        a_new_overlap_refuses(system)


def no_machine_starts_while_an_address_escapes(system: System) -> None:
    """Both start at one moment, and get the same answer."""
    gate.begin_start(system, "kube1", "kube2")
    assert not gate.has_started(system, "kube1")
    assert not gate.has_started(system, "kube2")
    errors = log_of(system, "err")
    assert f"{ESCAPE} [{CIDR} dev ib0 proto kernel" in errors
    assert f"{KUBE1} was refused: see the lines above" in errors
    assert gate.markers(system) == {LAYOUT.detected_path}


def each_machine_starts_with_the_proposed_repair(system: System) -> None:
    """The repair is right."""
    repair = proposed_repair(system)
    assert [str(route.destination) for route in repair] == ["172.16.0.0/17", "172.16.128.0/17"]
    gate.apply(system, gate.config(*repair, mode="STRICT"))
    gate.begin_start(system, "kube1", "kube2")
    assert gate.has_started(system, "kube1")
    assert gate.has_started(system, "kube2")
    assert gate.markers(system) == {LAYOUT.ok_path}


def routes_that_are_gone_are_put_back(system: System) -> None:
    """Before the machine starts."""
    system.must("ip", "route", "flush", "proto", "213")
    assert gate.start(system) == 0
    assert len(gate.ours(system)) == 2


def a_new_overlap_refuses(system: System) -> None:
    """As long as it is there."""
    system.must("ip", "address", "add", "172.16.200.5/24", "dev", "ib0")
    assert gate.start(system) == 1
    assert gate.markers(system) == {LAYOUT.detected_path}
    gate.end(system)
    system.must("ip", "address", "del", "172.16.200.5/24", "dev", "ib0")
    assert gate.start(system) == 0
    assert gate.markers(system) == {LAYOUT.ok_path}


def test_routes_that_cannot_be_installed() -> None:
    """A route that conflicts holds the machine back beside a check that holds back nothing. The
    other program's route is named and left alone, and no route of ours is set.
    """
    with gate.host(gate.config(static(CIDR), *HALVES, mode="WARN")) as system:
        assert gate.start(system) == 1
        journal = system.journal(KUBE1)
        assert "a route that is not hostrouting's has the same destination and metric" in journal
        assert f"metric: [{CIDR} dev ib0 proto kernel " in journal
        assert f"{KUBE1} was refused" in journal
        assert f"{CIDR} dev ib0 proto kernel" in system.must("ip", "route", "show", CIDR)
        assert gate.ours(system) == []
        gate.remove(system)
        assert gate.start(system) == 0


def routes_wait(system: System) -> bool:
    """Whether the unit of the routes is starting."""
    return system.show(LAYOUT.routes_unit, "SubState") == "start"


def let_the_unit_of_the_routes_wait(system: System) -> None:
    """Take the default route away, and let the unit wait for it as after it has failed once."""
    system.must("systemctl", "stop", LAYOUT.guard_unit)
    system.must("ip", "route", "flush", "proto", "213")
    system.must("ip", "route", "del", "default")
    system.lay(f"/etc/systemd/system/{LAYOUT.routes_unit}.d/50.conf", "[Service]\nRestartSec=1\n")
    system.must("systemctl", "daemon-reload")
    system.must("systemctl", "start", "--no-block", LAYOUT.routes_unit)
    wait_for("the routes", lambda: "waiting for up to" in system.journal(LAYOUT.routes_unit))
    # As if it had waited for all of its time.
    system.must("systemctl", "kill", LAYOUT.routes_unit)
    wait_for(
        "the routes to be tried again",
        lambda: system.show(LAYOUT.routes_unit, "NRestarts") != "0" and routes_wait(system),
    )


def test_a_start_while_the_unit_of_the_routes_waits() -> None:
    """The start does not queue behind static-routes.service, at boot or when that tries again: its
    own gate says at once what it waits for, an open gate lets it pass, and a new default route ends
    both waits. Nor does the guard queue, or the check that an operator starts.
    """
    guarded = gate.config(*HALVES, mode="STRICT")._replace(guard=GuardConfig(True))
    with gate.host(guarded) as system:
        let_the_unit_of_the_routes_wait(system)
        the_guard_and_the_check_do_not_queue(system)
        the_machines_own_gate_says_what_it_waits_for(system)
        an_open_gate_lets_the_machine_pass(system)
        a_new_default_route_ends_both_waits(system)


def the_guard_and_the_check_do_not_queue(system: System) -> None:
    """They start while the unit of the routes waits."""
    system.must("systemctl", "start", "--no-block", LAYOUT.guard_unit, LAYOUT.check_unit)
    wait_for("the guard", lambda: system.show(LAYOUT.guard_unit, "SubState") == "running")
    wait_for("the check", lambda: system.show(LAYOUT.check_unit, "SubState") == "start")
    assert routes_wait(system)
    system.must("systemctl", "stop", LAYOUT.guard_unit, LAYOUT.check_unit)


def the_machines_own_gate_says_what_it_waits_for(system: System) -> None:
    """At once."""
    gate.begin_start(system)
    wait_for("the gate to wait", lambda: "need an IPv4 default route" in system.journal(KUBE1))
    assert routes_wait(system)
    system.must("systemctl", "stop", KUBE1)


def an_open_gate_lets_the_machine_pass(system: System) -> None:
    """Also while the unit of the routes waits."""
    system.lay(LAYOUT.opening_path, "ticket-4711\n")
    assert gate.start(system) == 0
    assert "starts UNCHECKED" in system.journal(KUBE1)
    assert routes_wait(system)
    gate.end(system)
    system.must("rm", LAYOUT.opening_path)


def a_new_default_route_ends_both_waits(system: System) -> None:
    """That of the machine, and that of the unit of the routes."""
    gate.begin_start(system)
    wait_for("the gate to run", lambda: gate.is_in_the_gate(system))
    system.must("ip", "route", "add", "default", "via", "10.0.0.1", "dev", "eth0")
    assert gate.has_started(system)
    assert len(gate.ours(system)) == 2
    wait_for("the unit of the routes to end", lambda: not routes_wait(system))
    assert system.show(LAYOUT.routes_unit, "Result") == "success"


def test_boot() -> None:
    """After a boot the routes of both families are back before the machine starts; a late default
    route is awaited.
    """
    wanted = gate.config(*HALVES, static("fd16::/48", metric=1))
    wanted = wanted._replace(route_overlap=expect(CIDR, "fd16::/48", mode="STRICT"))
    with gate.host(is_late=True, then=IPV6) as system:
        system.lay(LET_ROUTE, "")
        gate.apply(system, wanted, wait=60)
        system.link(
            f"/etc/systemd/system/machines.target.wants/{KUBE1}",
            "/lib/systemd/system/systemd-nspawn@.service",
        )
        system.must("systemctl", "enable", "machines.target")
        system.reboot()
        wait_for("the routes to be awaited", lambda: routes_wait(system))
        assert not gate.pid(system)
        assert gate.ours(system) == []
        system.lay(LET_ROUTE, "")
        system.settled()
        assert gate.pid(system)
        the_routes_of_both_families_are_back(system)
        # The check says so if routes still change while it looks, as they may at boot.
        if "UNDECIDED" not in system.journal(KUBE1):
            assert gate.markers(system) == {LAYOUT.ok_path}


def the_routes_of_both_families_are_back(system: System) -> None:
    """By the gateways of the default routes."""
    assert gate.ours(system) == ["172.16.0.0/17", "172.16.128.0/17"]
    assert gate.ours(system, family=6) == ["fd16::/48"]
    ipv4 = system.must("ip", "-N", "route")
    assert "172.16.0.0/17 via 10.0.0.1 dev eth0 proto 213" in ipv4
    ipv6 = system.must("ip", "-6", "route", "show", "proto", "213")
    assert "via fe80::1 dev eth0" in ipv6
