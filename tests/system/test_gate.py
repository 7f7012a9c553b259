"""The gate, under a real systemd and with real nested machines: what the boot files promise, and when."""

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hostrouting.config import HostRoutingConfig, Mode, RouteOverlapConfig, StaticRoute, StaticRoutesConfig
from hostrouting.layout import HostLayout
from hostrouting.render import (
    render_check_drop_in,
    render_check_script,
    render_check_unit,
    render_protocol_name,
    render_routes_drop_in,
    render_routes_unit,
    render_static_routes_script,
)
from tests.support.systemd import System, booted, missing, wait_for

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(bool(missing()), reason=missing() or "a systemd can be booted"),
]

LAYOUT = HostLayout()
KUBE1 = "systemd-nspawn@kube1.service"
CIDR = "172.16.0.0/16"
HALVES = [StaticRoute("172.16.0.0/17"), StaticRoute("172.16.128.0/17")]
MARKERS = {LAYOUT.ok_path, LAYOUT.detected_path}

# A gate that holds nine times out of ten does not hold: the long profile goes through it again and again.
many_times = pytest.mark.usefixtures("again")

NETWORK = """\
#!/bin/sh
# eth0 leads out; ib0 is a fabric whose network hides the cluster's.
set -e
ip -batch - <<END
link add eth0 type veth peer name peer-eth0
link add ib0 type veth peer name peer-ib0
link set eth0 up
link set ib0 up
link set peer-eth0 up
link set peer-ib0 up
address add 10.0.0.4/24 dev eth0
address add 172.16.1.5/16 dev ib0
END
sleep {late}
ip route add default via 10.0.0.1 dev eth0
"""
NETWORK_UNIT = """\
[Unit]
DefaultDependencies=no
Before=network.target
[Service]
Type={type}
RemainAfterExit=yes
ExecStart=/etc/test-network.sh
"""
# What an agent gives the machine, so that it is tried again by itself.
RESTART = "[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestart=on-failure\nRestartSec=200ms\n"


@pytest.fixture(params=range(20 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 1))
def again(request: pytest.FixtureRequest) -> int:
    """Which time it is."""
    return int(request.param)


def config(*routes: StaticRoute, mode: Mode | None = None) -> HostRoutingConfig:
    """These static routes, and the check of the cluster's network in a mode."""
    return HostRoutingConfig(
        StaticRoutesConfig(bool(routes), routes),
        RouteOverlapConfig([CIDR] if mode else [], mode or ""),
    )


def files(settings: HostRoutingConfig, *, wait: int = 0) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Files, scripts and links of a host with this configuration."""
    texts, scripts, links = {}, {}, {}
    if settings.static_routes.routes:
        texts[LAYOUT.routes_unit_path] = render_routes_unit(wait=wait)
        texts[LAYOUT.routes_drop_in_path] = render_routes_drop_in()
        texts[LAYOUT.protocol_name_path] = render_protocol_name()
        scripts[LAYOUT.routes_script_path] = render_static_routes_script(settings, wait=wait)
        links["/etc/systemd/system/multi-user.target.wants/static-routes.service"] = LAYOUT.routes_unit_path
    if settings.route_overlap.expected_cidrs:
        texts[LAYOUT.check_unit_path] = render_check_unit(wait=wait)
        texts[LAYOUT.check_drop_in_path] = render_check_drop_in(settings.route_overlap.mode)
        scripts[LAYOUT.check_script_path] = render_check_script(settings, wait=wait)
    return texts, scripts, links


@contextmanager
def host(
    settings: HostRoutingConfig,
    *,
    wait: int = 0,
    late: int = 0,
    more: dict[str, str] | None = None,
    machines: tuple[str, ...] = ("kube1",),
) -> Iterator[System]:
    """A booted host with this configuration; `late` is by how many seconds its default route is."""
    texts, scripts, links = files(settings, wait=wait)
    texts["/etc/systemd/system/test-network.service"] = NETWORK_UNIT.format(type="exec" if late else "oneshot")
    scripts["/etc/test-network.sh"] = NETWORK.format(late=late)
    links["/etc/systemd/system/sysinit.target.wants/test-network.service"] = "/etc/systemd/system/test-network.service"
    with booted({**texts, **(more or {})}, scripts=scripts, links=links, machines=machines) as system:
        system.settled()
        yield system


def start(system: System, name: str = "kube1") -> int:
    """Start the machine as an operator does; the exit status."""
    done = system.run("machinectl", "start", name)
    if done.returncode:
        # Seen when a test fails that expected it to start.
        sys.stdout.write(done.stderr + system.journal(f"systemd-nspawn@{name}.service"))
    return done.returncode


def pid(system: System, name: str = "kube1") -> int:
    """The running machine's process; 0 when it does not run."""
    return int(system.show(f"systemd-nspawn@{name}.service", "MainPID"))


def end(system: System) -> None:
    """End the machine at once: one that has only begun to boot does not hear a polite request."""
    system.must("systemctl", "kill", "--signal=KILL", KUBE1)
    wait_for("the machine to end", lambda: system.show(KUBE1, "ActiveState") in {"inactive", "failed"})
    wait_for("the machine to be forgotten", lambda: system.run("machinectl", "show", "kube1").returncode != 0)
    system.run("systemctl", "reset-failed", KUBE1)


def rewrite(system: System, settings: HostRoutingConfig, *, wait: int = 0) -> None:
    """Put the files of another configuration in place, and tell the manager."""
    texts, scripts, _ = files(settings, wait=wait)
    for path, text in texts.items():
        system.lay(path, text)
    for path, text in scripts.items():
        system.lay(path, text, mode=0o755)
    system.must("systemctl", "daemon-reload")


def markers(system: System) -> set[str]:
    """The markers that are there."""
    return {path for path in MARKERS if system.read(path) is not None}


@many_times
def test_strict_blocks() -> None:
    """STRICT with an overlap: the machine does not start, and the journal names the range, the route and the repair."""
    with host(config(mode=Mode.STRICT)) as system:
        done = system.run("systemctl", "start", KUBE1)
        assert done.returncode == 1
        assert f"Job for {KUBE1} failed" in done.stderr
        assert not pid(system)
        said = system.journal(LAYOUT.check_unit)
        assert "OVERLAP: expected CIDR 172.16.0.0/16 (172.16.0.0–172.16.255.255) routes via ib0" in said  # noqa: RUF001  a dash between addresses
        assert "[172.16.0.0/16 proto kernel], expected eth0" in said
        (action,) = re.findall(r"^ACTION: add to staticRoutes.routes: (.*)$", said, re.MULTILINE)
        repair = HostRoutingConfig(StaticRoutesConfig(enabled=True, routes=json.loads(action)))
        assert [str(it.destination) for it in repair.static_routes.routes] == ["172.16.0.0/17", "172.16.128.0/17"]
        assert markers(system) == {LAYOUT.detected_path}
        errors = system.must("journalctl", "--quiet", "--priority=err", "--output=cat", "-u", LAYOUT.check_unit)
        assert "OVERLAP" in errors
        # The repair is what it says: with it, the machine starts.
        rewrite(system, config(*repair.static_routes.routes, mode=Mode.STRICT))
        assert start(system) == 0
        assert pid(system)
        assert markers(system) == {LAYOUT.ok_path}


@many_times
def test_warn_starts() -> None:
    """WARN with an overlap: the machine starts, and the marker is there with the line that the journal has."""
    with host(config(mode=Mode.WARN)) as system:
        assert start(system) == 0
        assert pid(system)
        detected = system.read(LAYOUT.detected_path)
        assert detected is not None
        assert detected.startswith("OVERLAP: expected CIDR 172.16.0.0/16")
        assert detected in system.journal(LAYOUT.check_unit)


@many_times
def test_repaired_starts_after_every_boot() -> None:
    """STRICT with the repair configured: routes are back before the machine at every boot, and checked after that."""
    enabled = {"/etc/systemd/system/machines.target.wants/" + KUBE1: "/lib/systemd/system/systemd-nspawn@.service"}
    with host(config(*HALVES, mode=Mode.STRICT)) as system:
        assert start(system) == 0
        for path, target in enabled.items():
            system.link(path, target)
        system.must("systemctl", "enable", "machines.target")
        for _ in range(2):
            system.reboot()
            system.settled()
            assert pid(system)
            assert len(system.must("ip", "route", "show", "proto", "213").splitlines()) == 2
            assert "172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting" in system.must("ip", "route")
            times = {
                unit: int(system.show(unit, "ExecMainStartTimestampMonotonic"))
                for unit in (LAYOUT.routes_unit, LAYOUT.check_unit, KUBE1)
            }
            assert times[LAYOUT.routes_unit] < times[LAYOUT.check_unit] < times[KUBE1]
            assert markers(system) == {LAYOUT.ok_path}


@many_times
@pytest.mark.parametrize("mode", [None, Mode.WARN, Mode.STRICT])
def test_routes_that_cannot_be_installed_block(mode: Mode | None) -> None:
    """A static route that cannot be had holds the machine back in every mode, and the journal says which and why."""
    with host(config(StaticRoute(CIDR), *HALVES, mode=mode)) as system:
        assert start(system) == 1
        assert not pid(system)
        said = system.journal(LAYOUT.routes_unit)
        assert (
            "172.16.0.0/16: its key is held by [172.16.0.0/16 dev ib0 proto kernel scope link src 172.16.1.5]" in said
        )
        assert "172.16.0.0/17 and 172.16.128.0/17 win without touching it" in said
        assert "172.16.0.0/16 dev ib0 proto kernel" in system.must("ip", "route", "show", CIDR)


@many_times
def test_a_running_machine_is_never_touched() -> None:
    """Route updates, oneshots restarted, stopped and failing, reloads, removal: the machine keeps its process."""
    with host(config(*HALVES, mode=Mode.STRICT)) as system:
        assert start(system) == 0
        before = pid(system)
        for unit in (LAYOUT.routes_unit, LAYOUT.check_unit):
            for verb in ("start", "restart", "stop", "try-restart", "kill"):
                system.run("systemctl", verb, unit)
                assert pid(system) == before, f"{verb} {unit}"
        rewrite(system, config(StaticRoute("172.16.0.0/18"), mode=Mode.STRICT))
        assert system.run("systemctl", "restart", LAYOUT.routes_unit).returncode == 0
        assert pid(system) == before
        assert system.run("systemctl", "restart", LAYOUT.check_unit).returncode == 1, "most of the CIDR escapes again"
        assert pid(system) == before
        rewrite(system, config(StaticRoute(CIDR), mode=Mode.STRICT))
        assert system.run("systemctl", "restart", LAYOUT.routes_unit).returncode == 1
        assert pid(system) == before
        system.must("systemctl", "daemon-reexec")
        assert pid(system) == before
        for path in (
            *(LAYOUT.routes_drop_in_path, LAYOUT.check_drop_in_path, LAYOUT.routes_unit_path, LAYOUT.check_unit_path),
            *(LAYOUT.routes_script_path, LAYOUT.check_script_path),
        ):
            system.must("rm", path)
        system.must("systemctl", "daemon-reload")
        assert pid(system) == before
        assert system.show(KUBE1, "NRestarts") == "0"


ORIGINAL_UNIT = """\
[Unit]
Before=systemd-nspawn@.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
[Install]
RequiredBy=systemd-nspawn@.service
"""


def test_files_of_the_original_give_way() -> None:
    """Where the original's units are installed and a machine runs, ours take their place without touching it."""
    units = (LAYOUT.routes_unit, LAYOUT.check_unit)
    requires = {f"/etc/systemd/system/systemd-nspawn@.service.requires/{unit}": unit for unit in units}
    with host(config()) as system:
        for unit in units:
            system.lay(f"/etc/systemd/system/{unit}", ORIGINAL_UNIT)
        for path, unit in requires.items():
            system.link(path, f"/etc/systemd/system/{unit}")
        system.must("systemctl", "daemon-reload")
        assert start(system) == 0
        before = pid(system)
        assert set(units) <= set(system.show(KUBE1, "Requires").split())
        system.must("rm", *requires)
        rewrite(system, config(*HALVES, mode=Mode.STRICT))
        assert not set(units) & set(system.show(KUBE1, "Requires").split())
        for unit in units:
            # What the original left active would make `start` a silent no-op.
            assert system.run("systemctl", "restart", unit).returncode == 0
            assert pid(system) == before, unit
            assert system.show(unit, "ActiveState") == "inactive"
        end(system)
        assert start(system) == 0


@many_times
def test_it_heals_by_itself() -> None:
    """A machine with Restart=on-failure starts by itself once the overlap is gone, however long that takes."""
    drop_in = {"/etc/systemd/system/systemd-nspawn@.service.d/10-restart.conf": RESTART}
    with host(config(mode=Mode.STRICT), more=drop_in) as system:
        assert start(system) == 1
        wait_for("seven attempts", lambda: int(system.show(KUBE1, "NRestarts")) > 6)
        assert not pid(system) or system.show(KUBE1, "ActiveState") != "active"
        system.must("ip", "address", "del", "172.16.1.5/16", "dev", "ib0")
        wait_for("the machine to start", lambda: system.show(KUBE1, "ActiveState") == "active", seconds=4)


def test_every_start_begins_anew() -> None:
    """What was right at an earlier start counts for nothing: routes are put back, and a new overlap blocks."""
    with host(config(*HALVES, mode=Mode.STRICT)) as system:
        assert start(system) == 0
        end(system)
        system.must("ip", "route", "flush", "proto", "213")
        assert start(system) == 0
        assert len(system.must("ip", "route", "show", "proto", "213").splitlines()) == 2
        end(system)
        system.must("ip", "address", "add", "172.16.200.5/24", "dev", "ib0")
        assert start(system) == 1
        assert "172.16.200.0–172.16.200.255" in system.journal(LAYOUT.check_unit)  # noqa: RUF001  a dash
        assert markers(system) == {LAYOUT.detected_path}


@pytest.mark.parametrize("unit", [LAYOUT.routes_unit, LAYOUT.check_unit])
def test_whatever_breaks_keeps_the_gate_shut(unit: str) -> None:
    """Routes that cannot be installed, a check that cannot be made in STRICT: no break opens the gate."""
    is_check = unit == LAYOUT.check_unit
    script = LAYOUT.check_script_path if is_check else LAYOUT.routes_script_path
    unit_path = LAYOUT.check_unit_path if is_check else LAYOUT.routes_unit_path
    with host(config(mode=Mode.STRICT) if is_check else config(*HALVES)) as system:
        if is_check:
            system.must("ip", "address", "del", "172.16.1.5/16", "dev", "ib0")
        awk, ip = (system.must("readlink", "--canonicalize", f"/usr/bin/{name}").strip() for name in ("awk", "ip"))
        for command in (
            ["rm", script],
            ["chmod", "0644", script],
            ["sed", "-i", "3i if", script],
            ["sed", "-i", "3i kill -9 $$", script],
            ["truncate", "--size=500", script],
            ["rm", unit_path],
            ["ln", "-sf", "/dev/null", unit_path],
            ["rm", awk],
            ["rm", ip],
        ):
            path = command[-1]
            system.must("cp", "--archive", path, "/root/kept")
            system.must(*command)
            system.must("systemctl", "daemon-reload")
            assert start(system) == 1, command
            assert not pid(system), command
            system.run("rm", "-f", path)
            system.must("cp", "--archive", "/root/kept", path)
        system.must("systemctl", "daemon-reload")
        assert start(system) == 0, "all of it was mended"


def test_a_hanging_check_keeps_the_gate_shut() -> None:
    """In STRICT, a check that hangs is ended by its own time-out and fails."""
    with host(config(*HALVES, mode=Mode.STRICT)) as system:
        system.must("sed", "-i", "3i sleep 60", LAYOUT.check_script_path)
        system.must("sed", "-i", "s/^TimeoutStartSec=.*/TimeoutStartSec=1/", LAYOUT.check_unit_path)
        system.must("systemctl", "daemon-reload")
        assert start(system) == 1
        assert not pid(system)
        assert system.show(LAYOUT.check_unit, "Result") == "timeout"


def test_in_warn_nothing_about_the_check_holds_a_machine_back() -> None:
    """In WARN the machine starts whatever becomes of the check: hanging, broken, missing or masked."""
    with host(config(mode=Mode.WARN)) as system:
        system.must("sed", "-i", "s/^TimeoutStartSec=.*/TimeoutStartSec=1/", LAYOUT.check_unit_path)
        for command in (
            ["sed", "-i", "3i sleep 60", LAYOUT.check_script_path],
            ["sed", "-i", "3i exit 1", LAYOUT.check_script_path],
            ["rm", LAYOUT.check_script_path],
            ["ln", "-sf", "/dev/null", LAYOUT.check_unit_path],
            ["rm", LAYOUT.check_unit_path],
        ):
            system.must(*command)
            system.must("systemctl", "daemon-reload")
            assert start(system) == 0, command
            assert pid(system)
            end(system)


def test_the_units_are_sandboxed() -> None:
    """`systemd-analyze security` finds little to say about either unit, and they work like that."""
    with host(config(*HALVES, mode=Mode.STRICT)) as system:
        assert start(system) == 0
        for unit in (LAYOUT.routes_unit, LAYOUT.check_unit):
            said = system.must("systemd-analyze", "security", "--no-pager", unit)
            (level,) = re.findall(r"exposure level for \S+: ([0-9.]+)", said)
            assert float(level) <= 2.0
        assert not system.run("systemd-analyze", "verify", LAYOUT.routes_unit, LAYOUT.check_unit, KUBE1).stderr


def test_a_late_default_route_is_awaited() -> None:
    """A default route that comes seconds after the boot is awaited by both scripts, and then all is well."""
    with host(config(*HALVES, mode=Mode.STRICT), wait=20, late=3) as system:
        assert start(system) == 0
        assert pid(system)
        assert len(system.must("ip", "route", "show", "proto", "213").splitlines()) == 2


def test_no_default_route() -> None:
    """Without any default route, STRICT stays shut and both say what they waited for."""
    with host(config(*HALVES, mode=Mode.STRICT)) as system:
        system.must("ip", "route", "del", "default")
        assert start(system) == 1
        assert system.run("systemctl", "start", LAYOUT.check_unit).returncode == 1
        assert "172.16.0.0/17: waiting for an IPv4 default route" in system.journal(LAYOUT.routes_unit)
        assert "no-default-route" in system.journal(LAYOUT.check_unit)
        assert system.read(LAYOUT.detected_path) == "no-default-route\n"


def test_two_machines() -> None:
    """The gate holds for every machine, and when it opens, it opens for all."""
    with host(config(mode=Mode.STRICT), machines=("kube1", "kube2")) as system:
        assert (start(system), start(system, "kube2")) == (1, 1)
        system.must("ip", "address", "del", "172.16.1.5/16", "dev", "ib0")
        assert (start(system), start(system, "kube2")) == (0, 0)
        assert pid(system)
        assert pid(system, "kube2")
