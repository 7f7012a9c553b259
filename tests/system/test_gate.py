"""The gate under a real systemd, with real nested machines."""

from threading import Thread

from hostrouting.config.settings import GuardConfig, HostRoutingConfig
from tests.support import gate
from tests.support.gate import CIDR, HALVES, KUBE1, LAYOUT, gate_tests
from tests.support.sections import static
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

ALLOWS = gate.config(*HALVES, mode="STRICT")
GUARDED = GuardConfig(enabled=True)
REFUSES = gate.config(static("10.77.0.0/16"), mode="STRICT")._replace(guard=GUARDED)


def test_gate() -> None:
    """Each story begins where the last one has ended."""
    with gate.host(gate.config(static(CIDR), *HALVES, mode="WARN")) as system:
        a_machine_that_is_refused(system)
        gate.apply(system, REFUSES, code=1)
        # This start comes before the configuration is written: systemd first reads that the guard
        # is gone.
        a_start_during_an_apply(system, ALLOWS)
        # This start comes after that, and before systemd reads that there is a guard.
        a_start_during_an_apply(system, REFUSES)
        gate.apply(system, ALLOWS._replace(guard=GUARDED))
        a_start_while_the_unit_of_the_routes_waits(system)


def a_machine_that_is_refused(system: System) -> None:
    """The reason is logged, another's route is left alone, and our other routes are set."""
    assert gate.start(system) == 1
    journal = system.journal(KUBE1)
    assert "a route that is not hostrouting's has the same destination and metric" in journal
    assert f"metric: [{CIDR} dev ib0 proto kernel " in journal
    assert f"{KUBE1} was refused" in journal
    assert f"{CIDR} dev ib0 proto kernel" in system.must("ip", "route", "show", CIDR)
    assert gate.ours(system) == ["172.16.0.0/17", "172.16.128.0/17"]


# Stands in for systemctl, and keeps the caller waiting at each reload.
SLOW = """\
#!/bin/sh
case "$*" in *daemon-reload*) touch /run/waits; while [ ! -e /run/go ]; do sleep 0.02; done ;; esac
exec /usr/bin/systemctl.real "$@"
"""


def a_start_during_an_apply(system: System, after: HostRoutingConfig) -> None:
    """It waits for the apply, and is judged by the new configuration alone."""
    allows = after is ALLOWS
    system.run("rm", "-f", "/run/waits", "/run/go")
    system.must("mv", "/usr/bin/systemctl", "/usr/bin/systemctl.real")
    system.lay("/usr/bin/systemctl", SLOW, mode=0o755)
    applying = Thread(target=gate.apply, args=(system, after), kwargs={"code": int(not allows)})
    applying.start()
    wait_for("the apply to be halfway through", system.outside("/run/waits").exists)
    gate.begin_start(system)
    wait_for("the start", lambda: gate.is_in_the_gate(system))
    system.lay("/run/go", "")
    applying.join()
    system.must("mv", "/usr/bin/systemctl.real", "/usr/bin/systemctl")
    assert gate.has_started(system) is allows
    assert len(gate.ours(system)) == len(after.static_routes.routes)
    gate.end(system)


def await_the_wait(system: System) -> None:
    """Wait until the unit of the routes waits: after a minute, it is between two tries."""
    wait_for("a wait", lambda: system.show(LAYOUT.routes_unit, "SubState") == "start")


def a_start_while_the_unit_of_the_routes_waits(system: System) -> None:
    """No start queues behind static-routes.service; a new default route ends all waits."""
    let_the_unit_of_the_routes_wait(system)
    the_guard_and_the_check_do_not_queue(system)

    gate.begin_start(system)
    wait_for("the gate to wait", lambda: "need an IPv4 default route" in system.journal(KUBE1))
    await_the_wait(system)
    system.must("systemctl", "stop", KUBE1)

    system.lay(LAYOUT.opening_path, "ticket-4711\n")
    assert gate.start(system) == 0
    assert "starts UNCHECKED" in system.journal(KUBE1)
    await_the_wait(system)
    gate.end(system)
    system.must("rm", LAYOUT.opening_path)

    a_new_default_route_ends_both_waits(system)


def let_the_unit_of_the_routes_wait(system: System) -> None:
    """Take the default route away, and let the unit wait for it as after it has failed once."""
    system.must("systemctl", "stop", LAYOUT.guard_unit)
    system.must("ip", "route", "flush", "proto", "213")
    system.must("ip", "route", "del", "default")
    system.load(f"/etc/systemd/system/{LAYOUT.routes_unit}.d/50.conf", "[Service]\nRestartSec=1\n")
    system.must("systemctl", "start", "--no-block", LAYOUT.routes_unit)
    wait_for("the routes", lambda: "waiting for up to" in system.journal(LAYOUT.routes_unit))
    # As if it had waited for all of its time.
    system.must("systemctl", "kill", LAYOUT.routes_unit)
    wait_for("a second try", lambda: system.show(LAYOUT.routes_unit, "NRestarts") != "0")
    await_the_wait(system)


def the_guard_and_the_check_do_not_queue(system: System) -> None:
    system.must("systemctl", "start", "--no-block", LAYOUT.guard_unit, LAYOUT.check_unit)
    wait_for("the guard", lambda: system.show(LAYOUT.guard_unit, "SubState") == "running")
    wait_for("the check", lambda: system.show(LAYOUT.check_unit, "SubState") == "start")
    await_the_wait(system)
    system.must("systemctl", "stop", LAYOUT.guard_unit, LAYOUT.check_unit)


def a_new_default_route_ends_both_waits(system: System) -> None:
    """That of the machine, and that of the unit of the routes."""
    gate.begin_start(system)
    wait_for("the gate to run", lambda: gate.is_in_the_gate(system))
    system.must("ip", "route", "add", "default", "via", "10.0.0.1", "dev", "eth0")
    assert gate.has_started(system)
    assert len(gate.ours(system)) == 2
    ended = ("inactive", "success")

    def state() -> tuple[str, ...]:
        return tuple(system.show(LAYOUT.routes_unit, name) for name in ("ActiveState", "Result"))

    wait_for("the unit of the routes to end", lambda: state() == ended)
