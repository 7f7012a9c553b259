"""What surrounds the gate: the manager's environment, how /etc is mounted, and in which order a boot goes."""

import pytest

from hostrouting.config.settings import StaticRoute
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


# With a shell that runs nothing, and with one that stops at whatever is unusual.
TOGETHER = tuple(
    tuple(
        environment
        for environment in ENVIRONMENTS
        if not environment.startswith("SHELLOPTS=") or environment == options
    )
    for options in ENVIRONMENTS
    if options.startswith("SHELLOPTS=")
)


@pytest.mark.parametrize(
    "environments",
    [pytest.param(tuple((environment,) for environment in ENVIRONMENTS), marks=pytest.mark.nightly), TOGETHER],
    ids=["each alone", "together"],
)
def test_whatever_is_in_the_environment_of_systemd(environments: tuple[tuple[str, ...], ...]) -> None:
    """Nothing in the manager's environment opens the gate, whether check or routes shut it; nor does it shut it."""
    refused = (config(mode=Mode.STRICT), config(StaticRoute(CIDR)))
    with host(scripts={EXIT: "exit 0\n"}) as system:
        for settings, code in (*((it, 1) for it in refused), (config(*HALVES, mode=Mode.STRICT), 0)):
            assert run_task(system, "Configure", settings).returncode == code
            for words in environments:
                system.must("systemctl", "set-environment", *words)
                assert start(system) == code, words
                assert bool(pid(system)) is not bool(code), words
                end(system)
                system.must("systemctl", "unset-environment", *(word.partition("=")[0] for word in words))


def test_no_room_for_what_was_found() -> None:
    """If what was found cannot be written, in STRICT the routes alone open the gate, and shut it.

    Scripts run although /etc is mounted noexec.
    """
    settings = config(*HALVES, mode=Mode.STRICT)
    with host(settings) as system:
        system.must("mount", "--bind", "/etc", "/etc")
        system.must("mount", "-o", "remount,bind,noexec", "/etc")
        state = LAYOUT.state_directory
        system.must("mkdir", "--parents", state)
        for option in ("rw", "ro"):  # full, and read-only
            system.must("mount", "-t", "tmpfs", "-o", "size=4k,mode=755", "none", state)
            system.run("sh", "-c", f"cat /dev/zero >{state}/all")
            system.must("mount", "-o", f"remount,{option}", state)
            assert start(system) == 0, option
            last = system.journal(LAYOUT.gate_unit).rpartition("Starting ")[2]
            assert f"cannot write {LAYOUT.ok_path}: " in last, option
            end(system)
            system.must("sed", "-i", "s/^  'route .*//", LAYOUT.routes_script_path)
            system.must("ip", "route", "flush", "proto", "213")
            assert start(system) == 1, option
            assert not pid(system), option
            system.must("umount", state)
            configure(system, settings)  # which mends the script


@pytest.mark.releases
def test_a_unit_of_somebody_else() -> None:
    """The check starts nobody's static-routes.service: one of another's that is disabled stays so."""
    others = "[Service]\nType=oneshot\nExecStart=/bin/touch /run/others-ran\n"
    with host(more={f"/etc/systemd/system/{LAYOUT.routes_unit}": others}) as system:
        run_task(system, "CheckRouteOverlap", config(mode=Mode.STRICT))
        assert start(system) == 1
        assert system.read("/run/others-ran") is None


@pytest.mark.releases
def test_the_check_comes_after_the_routes() -> None:
    """At every start the gate is asked once, and the routes are put back before the check looks.

    At a boot a machine waits its turn; so the waiting does not count against the time that its own start has. Routes of
    both families that went with their link are back at the next start, and not before.
    """
    routes = (*HALVES, StaticRoute("fd00:16::/64", "fe80::1", "eth0"))
    with host(config(*routes, mode=Mode.WARN)) as system:
        for mode in (Mode.WARN, Mode.STRICT):
            configure(system, config(*routes, mode=mode))
            after = system.show(KUBE1, "After").split()
            assert {"network-online.target", LAYOUT.routes_unit, LAYOUT.gate_unit} <= set(after), mode
            for unit in (LAYOUT.gate_unit, LAYOUT.check_unit):
                assert {"network-online.target", LAYOUT.routes_unit} <= set(system.show(unit, "After").split()), mode
            assert (len(ours(system)), ours(system, family=6)) == (2, ["fd00:16::/64"])
            system.must("ip", "link", "set", "eth0", "down")
            system.must("ip", "link", "set", "eth0", "up")
            system.must("ip", "route", "add", "default", "via", "10.0.0.1", "dev", "eth0")
            assert not [*ours(system), *ours(system, family=6)]
            system.must("rm", LAYOUT.ok_path)  # of the task's own check
            before = system.journal(LAYOUT.gate_unit).count("Starting ")
            assert start(system) == 0, mode
            assert system.journal(LAYOUT.gate_unit).count("Starting ") == before + 1, mode
            assert markers(system) == {LAYOUT.ok_path}, mode
            assert (len(ours(system)), ours(system, family=6)) == (2, ["fd00:16::/64"])
            end(system)


def test_a_host_that_was_suspended() -> None:
    """If the clocks of host and systemd differ, a refusal is still recognised, and a right start passes."""
    with host(config(mode=Mode.STRICT), suspended=100_000) as system:
        assert start(system) == 1
        assert not pid(system)
        assert CIDR in (system.read(LAYOUT.detected_path) or "")
        assert f"{KUBE1} must not start: see journalctl -u {LAYOUT.gate_unit}" in system.journal(KUBE1)
        system.must("ip", "address", "del", "172.16.1.5/16", "dev", "ib0")
        assert start(system) == 0


@pytest.mark.releases
def test_a_restart_of_all_services() -> None:
    """With Restart= for all services, a machine is refused at once, and the gate is not restarted."""
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
        assert said.count(f"{KUBE1} must not start: see journalctl -u {LAYOUT.gate_unit}") == 2, said
        # Which no oneshot may have.
        system.lay("/etc/systemd/system/service.d/10.conf", "[Service]\nRestart=always\n")
        system.must("systemctl", "daemon-reload")
        assert start(system) == 1
        assert not pid(system)
