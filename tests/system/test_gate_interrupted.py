"""Tasks that fail, are killed, or meet a unit that runs: what the manager knows and does afterwards is what they said."""

import pytest

from hostrouting.config import HostRoutingConfig, Mode, StaticRoute
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
    ours,
    pid,
    run_task,
    start,
)
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

# Stands in for systemctl: at a reload it ends whoever asks.
DEADLY = """\
#!/bin/sh
case "$*" in *daemon-reload*) kill -9 $PPID; exit 1 ;; esac
exec /usr/bin/systemctl.real "$@"
"""
# Another's unit keeps the template loaded, so that only a reload has systemd look for drop-ins anew.
WANTED_BY = {"/etc/systemd/system/keeps-it-loaded.target": f"[Unit]\nWants={KUBE1}\n"}


# Both hold a machine back: this one by its routes, and that one by its check. Of each the other half lets it start.
CONFLICT, HALF = config(StaticRoute(CIDR), mode=Mode.WARN), config(HALVES[0], mode=Mode.STRICT)
OTHER_HALF, WHOLE = config(HALVES[1], mode=Mode.STRICT), config(*HALVES, mode=Mode.WARN)


def killed_at_the_reload(system: System, name: str, settings: HostRoutingConfig, *, wait: int = 0) -> None:
    """Run the task, and have it killed after it wrote or removed its files."""
    system.must("mv", "/usr/bin/systemctl", "/usr/bin/systemctl.real")
    system.lay("/usr/bin/systemctl", DEADLY, mode=0o755)
    try:
        assert run_task(system, name, settings, wait=wait).returncode == -9
    finally:
        system.must("mv", "/usr/bin/systemctl.real", "/usr/bin/systemctl")


def without_default_route(system: System) -> None:
    """As before DHCP: the script of the routes waits for a default route at boot, and has added none."""
    system.must("ip", "route", "del", "default")
    system.run("ip", "route", "flush", "proto", "213")
    system.must("systemctl", "start", "--no-block", LAYOUT.routes_unit)
    wait_for("the script to wait", lambda: system.show(LAYOUT.routes_unit, "SubState") == "start")


def test_a_first_bootstrap_that_fails() -> None:
    """On a fresh host, routes that cannot be installed leave the gate shut, whether refused or still waited for."""
    with host() as system:
        assert run_task(system, "Configure", config(StaticRoute(CIDR), mode=Mode.STRICT)).returncode == 1
        assert start(system) == 1
        assert run_task(system, "Remove", config()).returncode == 0
        system.must("ip", "route", "del", "default")
        assert run_task(system, "Configure", config(*HALVES, mode=Mode.STRICT)).returncode == 1
        assert start(system) == 1
        assert not pid(system)
        system.must("ip", "route", "add", "default", "via", "10.0.0.1", "dev", "eth0")
        configure(system, config(*HALVES, mode=Mode.STRICT))
        assert start(system) == 0


@pytest.mark.releases
@many_times
def test_killed_before_the_reload() -> None:
    """An agent that is killed between its files and the reload is made up for by the next run, in both directions."""
    with host(more=WANTED_BY) as system:
        system.must("systemctl", "start", "keeps-it-loaded.target")
        wait_for("the machine", lambda: system.show(KUBE1, "ActiveState") == "active")
        killed_at_the_reload(system, "CheckRouteOverlap", config(mode=Mode.STRICT))
        end(system)
        assert run_task(system, "CheckRouteOverlap", config(mode=Mode.STRICT)).returncode == 1
        assert start(system) == 1
        assert not pid(system)
        killed_at_the_reload(system, "Remove", config())
        assert run_task(system, "Remove", config()).returncode == 0
        assert start(system) == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [pytest.param(CONFLICT, HALF, marks=pytest.mark.nightly), (HALF, OTHER_HALF)],
    ids=["to half", "to the other half"],
)
def test_killed_between_two_that_refuse(before: HostRoutingConfig, after: HostRoutingConfig) -> None:
    """An agent that is killed while it changes the steps leaves no mixture of them: nothing starts until it is mended."""
    with host() as system:
        assert run_task(system, "Configure", before).returncode == 1
        killed_at_the_reload(system, "Configure", after, wait=1)  # a wait that is another has another unit
        assert start(system) == 1
        assert "a run of hostrouting did not finish changing " in system.journal(LAYOUT.gate_unit)
        assert run_task(system, "Configure", after, wait=1).returncode == 1
        assert start(system) == 1
        configure(system, config(*HALVES, mode=Mode.STRICT))
        assert start(system) == 0


@pytest.mark.parametrize(
    ("before", "after", "script"),
    [
        pytest.param(CONFLICT, HALF, LAYOUT.check_script_path, marks=pytest.mark.nightly),
        (HALF, WHOLE, LAYOUT.routes_script_path),
    ],
    ids=["check", "routes"],
)
def test_a_script_that_cannot_be_replaced(before: HostRoutingConfig, after: HostRoutingConfig, script: str) -> None:
    """A change that fails halfway leaves no mixture of the steps either."""
    with host() as system:
        assert run_task(system, "Configure", before).returncode == 1
        system.must("mount", "--bind", script, script)  # nothing can take its place
        failed = run_task(system, "Configure", after)
        assert failed.returncode == 1
        assert script in failed.stdout
        assert start(system) == 1
        assert "did not finish changing" in system.journal(LAYOUT.gate_unit)
        system.must("umount", script)
        configure(system, config(*HALVES, mode=Mode.STRICT))
        assert start(system) == 0


@pytest.mark.releases
@many_times
def test_remove_while_the_unit_waits() -> None:
    """A run of the script that waits for the default route does not outlive Remove."""
    with host(config(*HALVES, mode=Mode.STRICT), wait=30) as system:
        without_default_route(system)
        assert run_task(system, "Remove", config()).returncode == 0
        assert system.show(LAYOUT.routes_unit, "ActiveState") == "inactive"
        assert not system.run("pgrep", "-f", LAYOUT.routes_script).stdout
        system.must("ip", "route", "add", "default", "via", "10.0.0.1", "dev", "eth0")
        assert ours(system) == []


@many_times
def test_configure_while_the_unit_waits() -> None:
    """A run of the old script is not joined: what Configure leaves is the new configuration's, and the unit ran it."""
    old = StaticRoute("10.77.0.0/16", gateway="10.99.0.1", dev="eth0")
    with host(config(old), wait=5) as system:
        system.must("systemctl", "start", "--no-block", LAYOUT.routes_unit)
        wait_for("the script to wait", lambda: system.show(LAYOUT.routes_unit, "SubState") == "start")
        configure(system, config(*HALVES, mode=Mode.STRICT), wait=20)
        assert ours(system) == ["172.16.0.0/17", "172.16.128.0/17"]
        system.must("ip", "address", "add", "10.99.0.4/24", "dev", "eth0")
        assert system.show(LAYOUT.routes_unit, "ActiveState") == "inactive"
        assert ours(system) == ["172.16.0.0/17", "172.16.128.0/17"]


def test_a_check_that_waits() -> None:
    """A check that began in WARN and still waits is ended: it does not open a gate that is STRICT by now."""
    with host(config(mode=Mode.WARN), wait=30) as system:
        system.must("ip", "route", "del", "default")
        system.must("systemctl", "start", "--no-block", LAYOUT.check_unit)
        wait_for("the check to wait", lambda: system.show(LAYOUT.check_unit, "SubState") == "start")
        assert run_task(system, "CheckRouteOverlap", config(mode=Mode.STRICT)).returncode == 1
        assert system.show(LAYOUT.check_unit, "ActiveState") != "activating"
        system.must("ip", "route", "add", "default", "via", "10.0.0.1", "dev", "eth0")
        assert start(system) == 1
