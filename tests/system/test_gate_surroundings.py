"""What surrounds the gate: the manager's environment, how /etc is mounted, and in which order a boot goes."""

import pytest

from hostrouting.config import HostRoutingConfig, Mode, StaticRoute
from tests.support.gate import (
    CIDR,
    HALVES,
    KUBE1,
    LAYOUT,
    config,
    end,
    gate_tests,
    host,
    markers,
    ours,
    pid,
    run_task,
    start,
)
from tests.support.waiting import wait_for

pytestmark = gate_tests

EXIT = "/etc/test-exit"


# With these a systemctl succeeds without doing anything, or a bash without running its script.
ENVIRONMENTS = (
    "SYSTEMD_OFFLINE=1",
    "SYSTEMD_IN_CHROOT=1",
    "SHELLOPTS=noexec",
    "SHELLOPTS=errexit:nounset:noglob",
    f"BASH_ENV={EXIT}",
    "BASHOPTS=extdebug:failglob:nocasematch:nullglob",
    "IFS=aeiou",
    "PATH=/nowhere",
)


@pytest.mark.parametrize(
    ("before", "after"),
    [(config(mode=Mode.STRICT), config(*HALVES, mode=Mode.STRICT)), (config(StaticRoute(CIDR)), config(*HALVES))],
    ids=["check", "routes"],
)
def test_whatever_is_in_the_environment_of_systemd(before: HostRoutingConfig, after: HostRoutingConfig) -> None:
    """Nothing in the manager's environment opens the gate, nor shuts it."""
    with host(scripts={EXIT: "exit 0\n"}) as system:
        for settings, code in ((before, 1), (after, 0)):
            assert run_task(system, "Configure", settings).returncode == code
            for it in ENVIRONMENTS:
                system.must("systemctl", "set-environment", it)
                assert start(system) == code, it
                assert bool(pid(system)) is not bool(code), it
                end(system)
                system.must("systemctl", "unset-environment", it.partition("=")[0])


def test_no_program_can_be_run_in_etc() -> None:
    """With /etc mounted noexec the scripts run all the same."""
    with host(config(*HALVES, mode=Mode.STRICT)) as system:
        system.must("mount", "--bind", "/etc", "/etc")
        system.must("mount", "-o", "remount,bind,noexec", "/etc")
        assert start(system) == 0
        assert pid(system)


@pytest.mark.parametrize("option", ["rw", "ro"], ids=["full", "read-only"])
def test_no_room_for_what_was_found(option: str) -> None:
    """Where what was found cannot be written, in STRICT the routes alone open the gate, and shut it."""
    with host(config(*HALVES, mode=Mode.STRICT)) as system:
        state = LAYOUT.state_directory
        system.must("mkdir", "--parents", state)
        system.must("mount", "-t", "tmpfs", "-o", "size=4k,mode=755", "none", state)
        system.run("sh", "-c", f"cat /dev/zero >{state}/all")
        system.must("mount", "-o", f"remount,{option}", state)
        assert start(system) == 0
        assert f"cannot write {LAYOUT.report_path}: " in system.journal(LAYOUT.gate_unit)
        end(system)
        system.must("sed", "-i", "s/^  'route .*//", LAYOUT.routes_script_path)
        system.must("ip", "route", "flush", "proto", "213")
        assert start(system) == 1
        assert not pid(system)


@pytest.mark.releases
@pytest.mark.parametrize("mode", [Mode.WARN, Mode.STRICT])
def test_a_machine_is_ordered_behind_what_it_asks_for(mode: Mode) -> None:
    """At a boot a machine waits its turn; so the waiting does not count against the time that its own start has."""
    with host(config(*HALVES, mode=mode)) as system:
        after = system.show(KUBE1, "After").split()
        assert {"network-online.target", LAYOUT.routes_unit, LAYOUT.gate_unit} <= set(after)
        for unit in (LAYOUT.gate_unit, LAYOUT.check_unit):
            assert {"network-online.target", LAYOUT.routes_unit} <= set(system.show(unit, "After").split())


@pytest.mark.releases
def test_a_unit_of_somebody_else() -> None:
    """The check starts nobody's static-routes.service: one of another's that is disabled stays so."""
    others = "[Service]\nType=oneshot\nExecStart=/bin/touch /run/others-ran\n"
    with host(more={f"/etc/systemd/system/{LAYOUT.routes_unit}": others}) as system:
        run_task(system, "CheckRouteOverlap", config(mode=Mode.STRICT))
        assert start(system) == 1
        assert system.read("/run/others-ran") is None


@pytest.mark.releases
@pytest.mark.parametrize("mode", [Mode.WARN, Mode.STRICT])
def test_the_check_comes_after_the_routes(mode: Mode) -> None:
    """At every start the gate is asked once, and the routes are put back before the check looks."""
    with host(config(*HALVES, mode=mode)) as system:
        system.settled()
        system.must("ip", "route", "flush", "proto", "213")
        before = system.journal(LAYOUT.gate_unit).count("Starting ")
        assert start(system) == 0
        assert system.journal(LAYOUT.gate_unit).count("Starting ") == before + 1
        assert markers(system) == {LAYOUT.ok_path}


def test_a_host_that_was_suspended() -> None:
    """Where the clocks of the host and of systemd differ, a refusal is still recognised, and a start that is right passes."""
    with host(config(mode=Mode.STRICT), suspended=100_000) as system:
        assert start(system) == 1
        assert not pid(system)
        assert f"no machine starts: see journalctl -u {LAYOUT.gate_unit}" in system.journal(KUBE1)
        system.must("ip", "address", "del", "172.16.1.5/16", "dev", "ib0")
        assert start(system) == 0


@pytest.mark.releases
def test_a_restart_of_all_services() -> None:
    """With Restart= for all services a machine is refused at once, and the gate does not go on by itself after that."""
    with host(config(mode=Mode.STRICT)) as system:
        system.lay("/etc/systemd/system/service.d/10.conf", "[Service]\nRestart=on-failure\n")
        system.lay(f"/etc/systemd/system/{LAYOUT.machine_unit}.d/20.conf", "[Service]\nRestart=no\n")
        system.must("systemctl", "daemon-reload")
        assert system.show(LAYOUT.gate_unit, "Restart") == "on-failure"
        assert start(system) == 1
        assert system.show(LAYOUT.gate_unit, "ActiveState") == "failed"
        assert system.journal(LAYOUT.gate_unit).count("Starting ") == 1
        # What ends before the script runs has another status, and is tried again and again.
        system.lay(f"/etc/systemd/system/{LAYOUT.gate_unit}.d/20.conf", "[Service]\nUser=no-such-user\n")
        system.must("systemctl", "daemon-reload")
        assert start(system) == 1
        wait_for("the gate's unit to be tried again", lambda: system.show(LAYOUT.gate_unit, "NRestarts") != "0")
        said = system.journal(KUBE1)
        assert said.count(f"no machine starts: see journalctl -u {LAYOUT.gate_unit}") == 2, said
        # Which no oneshot may have.
        system.lay("/etc/systemd/system/service.d/10.conf", "[Service]\nRestart=always\n")
        system.must("systemctl", "daemon-reload")
        assert start(system) == 1
        assert not pid(system)


OPENINGS = {
    "revert": "systemctl revert systemd-nspawn@.service",
    "a condition": "mkdir {etc}/{gate}.d; printf '[Unit]\\nConditionPathExists=/gone\\n' >{etc}/{gate}.d/9.conf",
    "another program": "mkdir {etc}/{gate}.d; printf '[Service]\\nExecStart=\\nExecStart=/bin/true\\n' >{etc}/{gate}.d/9.conf",
    "an empty list": "mkdir {etc}/{kube1}.d; printf '[Service]\\nExecStartPre=\\n' >{etc}/{kube1}.d/99.conf",
}


@pytest.mark.releases
@pytest.mark.parametrize("command", OPENINGS.values(), ids=OPENINGS)
def test_what_opens_the_gate(command: str) -> None:
    """What docs/limits.md lists as opening the gate opens it, and the task shuts one that was reverted."""
    settings = config(mode=Mode.STRICT)
    with host(settings) as system:
        assert start(system) == 1
        units = "/etc/systemd/system"
        system.must("sh", "-c", command.format(etc=units, gate=LAYOUT.gate_unit, kube1=KUBE1))
        system.must("systemctl", "daemon-reload")
        assert start(system) == 0
        assert pid(system)
        if "revert" in command:
            end(system)
            assert run_task(system, "Configure", settings).returncode == 1
            assert start(system) == 1


def test_a_link_that_was_down_takes_our_routes_along() -> None:
    """Routes of both families that went with their link are back at the next start of a machine, and not before."""
    with host(config(*HALVES, StaticRoute("fd00:16::/64", "fe80::1", "eth0"))) as system:
        system.settled()
        assert (len(ours(system)), ours(system, family=6)) == (2, ["fd00:16::/64"])
        system.must(
            "sh", "-c", "ip link set eth0 down; ip link set eth0 up; ip route add default via 10.0.0.1 dev eth0"
        )
        assert not [*ours(system), *ours(system, family=6)]
        assert start(system) == 0
        assert (len(ours(system)), ours(system, family=6)) == (2, ["fd00:16::/64"])
