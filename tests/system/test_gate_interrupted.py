"""Tasks that fail, are killed, or meet a unit that runs: what the manager knows and does afterwards is what they said."""

import pytest

from hostrouting.config.settings import HostRoutingConfig, StaticRoute
from hostrouting.config.values import Mode
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
# Its reloads fail once the unit of the gate is gone.
STUBBORN = f"""\
#!/bin/sh
case "$*" in *daemon-reload*) [ -e {LAYOUT.gate_unit_path} ] || exit 1 ;; esac
exec /usr/bin/systemctl.real "$@"
"""
# Another's unit keeps the template loaded, so that only a reload has systemd look for drop-ins anew.
WANTED_BY = {"/etc/systemd/system/keeps-it-loaded.target": f"[Unit]\nWants={KUBE1}\n"}


# Both hold a machine back: this one by its routes, and that one by its check. Of each the other half lets it start.
CONFLICT, HALF = config(StaticRoute(CIDR), mode=Mode.WARN), config(HALVES[0], mode=Mode.STRICT)
OTHER_HALF, WHOLE = config(HALVES[1], mode=Mode.STRICT), config(*HALVES, mode=Mode.WARN)


def run_with(systemctl: str, system: System, name: str, settings: HostRoutingConfig, *, wait: int = 0) -> int:
    """Run the task with this script in the place of systemctl; return its exit status."""
    system.must("mv", "/usr/bin/systemctl", "/usr/bin/systemctl.real")
    system.lay("/usr/bin/systemctl", systemctl, mode=0o755)
    try:
        return run_task(system, name, settings, wait=wait).returncode
    finally:
        system.must("mv", "/usr/bin/systemctl.real", "/usr/bin/systemctl")


def killed_at_the_reload(system: System, name: str, settings: HostRoutingConfig, *, wait: int = 0) -> None:
    """Run the task, and have it killed after it wrote or removed its files."""
    assert run_with(DEADLY, system, name, settings, wait=wait) == -9


def begin_unit(system: System, unit: str) -> None:
    """Start a unit of ours whose script waits."""
    system.must("systemctl", "start", "--no-block", unit)
    wait_for("the script to wait", lambda: "sleep" in system.run("systemctl", "status", "--no-pager", unit).stdout)


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


@pytest.mark.releases
@many_times
def test_a_removal_that_systemd_has_not_read() -> None:
    """After a removal whose last reload fails, an empty configuration has systemd forget the units.

    Kills: nothing on the host that says so.
    """
    with host() as system:
        configure(system, config(*HALVES))
        assert run_with(STUBBORN, system, "Remove", config()) == 1
        assert system.show(LAYOUT.routes_unit, "LoadState") == "loaded"
        configure(system, config())
        assert system.show(LAYOUT.routes_unit, "LoadState") == "not-found"


@pytest.mark.parametrize(
    ("before", "killed", "failed", "script"),
    [
        pytest.param(CONFLICT, HALF, HALF, LAYOUT.check_script_path, marks=pytest.mark.nightly),
        (HALF, OTHER_HALF, WHOLE, LAYOUT.routes_script_path),
    ],
    ids=["check", "routes"],
)
def test_between_two_that_refuse(
    before: HostRoutingConfig, killed: HostRoutingConfig, failed: HostRoutingConfig, script: str
) -> None:
    """A change of the steps that fails or is killed halfway leaves no mixture: nothing starts until it is mended."""
    with host() as system:
        assert run_task(system, "Configure", before).returncode == 1
        killed_at_the_reload(system, "Configure", killed, wait=1)  # a wait that is another has another unit
        assert start(system) == 1
        assert "a run of hostrouting did not finish changing " in system.journal(LAYOUT.gate_unit)
        assert run_task(system, "Configure", killed, wait=1).returncode == 1
        assert start(system) == 1

        assert run_task(system, "Configure", before).returncode == 1
        system.must("mount", "--bind", script, script)  # nothing can take its place
        refused = run_task(system, "Configure", failed)
        assert refused.returncode == 1
        assert script in refused.stdout
        assert start(system) == 1
        said = system.journal(LAYOUT.gate_unit).rpartition("Starting ")[2]
        assert "did not finish changing" in said
        system.must("umount", script)
        configure(system, config(*HALVES, mode=Mode.STRICT))
        assert start(system) == 0


@pytest.mark.releases
@many_times
def test_while_a_unit_waits() -> None:
    """No run of an old script outlives a task: Configure leaves what is new, Remove nothing, and a check in WARN opens nothing."""
    old = StaticRoute("10.77.0.0/16", gateway="10.99.0.1", dev="eth0")
    address = ("address", "add", "10.99.0.4/24", "dev", "eth0")
    with host(config(old), wait=30, then=f"ip {' '.join(address)}") as system:
        assert ours(system) == ["10.77.0.0/16"]
        system.must("ip", "address", "del", *address[2:])  # after which the route stays
        system.must("ip", "route", "flush", "proto", "213")
        begin_unit(system, LAYOUT.routes_unit)
        configure(system, config(*HALVES, mode=Mode.STRICT), wait=30)
        assert ours(system) == ["172.16.0.0/17", "172.16.128.0/17"]
        system.must("ip", *address)
        assert system.show(LAYOUT.routes_unit, "ActiveState") == "inactive"
        assert ours(system) == ["172.16.0.0/17", "172.16.128.0/17"]

        # As before DHCP: the script of the routes waits for a default route, and has added none.
        system.must("ip", "route", "del", "default")
        system.must("ip", "route", "flush", "proto", "213")
        begin_unit(system, LAYOUT.routes_unit)
        assert run_task(system, "Remove", config()).returncode == 0
        assert system.show(LAYOUT.routes_unit, "ActiveState") == "inactive"
        assert not system.run("pgrep", "-f", LAYOUT.routes_script).stdout
        system.must("ip", "route", "add", "default", "via", "10.0.0.1", "dev", "eth0")
        assert ours(system) == []

        configure(system, config(mode=Mode.WARN), wait=30)
        system.must("ip", "route", "del", "default")
        begin_unit(system, LAYOUT.check_unit)
        assert run_task(system, "CheckRouteOverlap", config(mode=Mode.STRICT)).returncode == 1
        assert system.show(LAYOUT.check_unit, "ActiveState") != "activating"
        system.must("ip", "route", "add", "default", "via", "10.0.0.1", "dev", "eth0")
        assert start(system) == 1
