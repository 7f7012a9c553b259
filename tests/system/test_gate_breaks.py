"""Whatever breaks on the way to a machine's start: in STRICT the gate stays shut, in WARN the check holds nobody back."""

import re

import pytest

from hostrouting.config.values import Mode
from tests.support.gate import (
    CIDR,
    HALVES,
    KUBE1,
    LAYOUT,
    begin_start,
    config,
    configure,
    end,
    gate_tests,
    has_started,
    host,
    pid,
    start,
)
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

_MASK = ["ln", "--symbolic", "--force", "/dev/null"]


def shut_by(system: System, *command: str) -> None:
    """Break what the last word names, see that no machine starts, and mend it."""
    path = command[-1]
    system.must("cp", "--archive", path, "/root/kept")
    system.must(*command)
    system.must("systemctl", "daemon-reload")
    assert start(system) == 1, command
    assert not pid(system), command
    system.run("rm", "-f", path)
    system.must("cp", "--archive", "/root/kept", path)
    system.run("systemctl", "reset-failed", KUBE1)  # systemd refuses more than a few starts in ten seconds


def breaks(script: str) -> list[list[str]]:
    """Ways to break a script; that one that is cut anywhere fails is shown without systemd."""
    return [["rm", script], ["sed", "-i", "3i if", script]]


def test_whatever_breaks_keeps_the_gate_shut() -> None:
    """Routes that cannot be installed, a check that cannot be made in STRICT: no break opens the gate."""
    with host(config(*HALVES)) as system:
        awk, ip = (system.must("readlink", "--canonicalize", f"/usr/bin/{name}").strip() for name in ("awk", "ip"))
        if awk != "/usr/bin/mawk":
            system.run("rm", "-f", "/usr/bin/mawk")  # which the scripts would take as well
        for command in (*breaks(LAYOUT.routes_script_path), ["rm", awk], ["rm", ip]):
            shut_by(system, *command)
        system.must("systemctl", "daemon-reload")
        assert start(system) == 0, "all of it was mended"
        end(system)
        system.must("ip", "address", "del", "172.16.1.5/16", "dev", "ib0")
        configure(system, config(mode=Mode.STRICT))
        for command in (*breaks(LAYOUT.check_script_path), ["rm", awk], ["rm", ip]):
            shut_by(system, *command)
        system.must("systemctl", "daemon-reload")
        assert start(system) == 0, "all of it was mended"


def test_a_broken_gate_is_shut() -> None:
    """Whatever the gate itself lacks keeps it shut, also where nothing about the routing is wrong, until it is mended."""
    settings = config(*HALVES, mode=Mode.WARN)
    with host(settings) as system:
        steps, unit = LAYOUT.gate_steps_path, LAYOUT.gate_unit_path
        flock = system.must("readlink", "--canonicalize", "/usr/bin/flock").strip()
        configure(system, settings)  # from now on there is a lock
        for command in (
            *breaks(LAYOUT.gate_script_path),
            ["rm", steps],
            ["truncate", "--size=0", steps],
            ["sed", "-i", "$d", steps],
            ["sed", "-i", "s/^50 .*/50 required static-routes/", steps],
            ["sed", "-i", "s/^50 .*/50/", steps],
            ["rm", unit],
            [*_MASK, unit],
            ["rm", flock],
        ):
            shut_by(system, *command)
        system.must("systemctl", "daemon-reload")
        assert start(system) == 0, "all of it was mended"
        end(system)
        system.must("rm", LAYOUT.gate_script_path, steps, unit)
        configure(system, settings)
        assert start(system) == 0, "all of it was written again"


@pytest.mark.releases
def test_a_removed_folder() -> None:
    """Without our folder no machine starts, and the journal says what brings the folder back, or takes the gate away.

    The same if the folder goes while a machine starts. The agent's folder may go: it has only links.
    """
    folder, agents, go = LAYOUT.config_directory, LAYOUT.agent_directory, "/run/test-go"
    settings = config(*HALVES, mode=Mode.STRICT)
    with host(settings) as system:
        system.must("mkdir", agents)
        configure(system, settings)
        assert system.must("readlink", LAYOUT.check_alias_path).strip() == LAYOUT.check_script
        system.must("rm", "-r", agents)
        assert start(system) == 0
        end(system)
        system.must("rm", "-r", folder)
        assert start(system) == 1
        away = f"rm {LAYOUT.gate_drop_in('*')} && systemctl daemon-reload"
        told = (
            f"{LAYOUT.gate_script} is missing or incomplete; bring {folder} back with: hostrouting apply --config FILE"
        )
        assert f"{KUBE1} cannot start: {told}; or remove the gate with: {away}\n" in system.journal(KUBE1)
        end(system)
        configure(system, settings)
        assert start(system) == 0, "apply has brought it back"
        end(system)
        system.must("sed", "-i", f"3i while [[ ! -e {go} ]]; do sleep 0.02; done", LAYOUT.routes_script)
        begin_start(system)
        wait_for("the first step", lambda: not system.run("pgrep", "-f", LAYOUT.routes_script).returncode)
        system.must("rm", "-r", folder)
        system.must("touch", go)
        assert not has_started(system)
        again = "write it again with: hostrouting apply --config FILE"
        assert f"{LAYOUT.check_script} is missing or incomplete; {again}\n" in system.journal(LAYOUT.gate_unit)
        end(system)
        system.must("sh", "-c", away)
        assert start(system) == 0, "the gate is taken away"


@pytest.mark.releases
def test_units() -> None:
    """The units are sandboxed, and systemd finds nothing wrong with them; a machine waits for none but the gate's.

    Those of the routes and of the check can be masked, missing or failing: the gate runs the scripts. A check that hangs is
    ended by the gate's own time-out, which is a refusal.
    """
    with host(config(*HALVES, mode=Mode.STRICT)) as system:
        units = (LAYOUT.gate_unit, LAYOUT.routes_unit, LAYOUT.check_unit)
        for unit in units:
            said = system.must("systemd-analyze", "security", "--no-pager", unit)
            (level,) = re.findall(r"exposure level for \S+: ([0-9.]+)", said)
            assert float(level) <= 2.0
        said = system.run("systemd-analyze", "verify", *units, KUBE1).stderr
        # The machine's own program and manual are the distribution's affair.
        theirs = ("Command systemd-nspawn is not executable", "Command 'man systemd-nspawn")
        assert not [line for line in said.splitlines() if not any(text in line for text in theirs)]

        paths = (LAYOUT.routes_unit_path, LAYOUT.check_unit_path)
        for command in (["sed", "-i", "s,^ExecStart=.*,ExecStart=/bin/false,"], _MASK, ["rm"]):
            for path in paths:
                system.must(*command, path)
            system.must("systemctl", "daemon-reload")
            assert start(system) == 0, command
            end(system)
        system.must("ip", "address", "add", "172.16.200.5/24", "dev", "ib0")
        assert start(system) == 1, "nor do they open it"
        system.must("ip", "address", "del", "172.16.200.5/24", "dev", "ib0")

        system.must("sed", "-i", "3i sleep 60", LAYOUT.check_script_path)
        system.must("sed", "-i", "s/^TimeoutStartSec=.*/TimeoutStartSec=1/", LAYOUT.gate_unit_path)
        system.must("systemctl", "daemon-reload")
        before = system.journal(LAYOUT.gate_unit).count("Starting ")
        assert start(system) == 1
        assert not pid(system)
        assert system.show(LAYOUT.gate_unit, "Result") == "timeout"
        assert system.journal(LAYOUT.gate_unit).count("Starting ") == before + 1, "it is not asked again"


def test_in_warn_nothing_about_the_check_holds_a_machine_back() -> None:
    """In WARN the task passes and the machine starts: with an overlap, and if the check hangs, fails, is missing or masked."""
    script = LAYOUT.check_script_path
    with host() as system:
        overlap = f"OVERLAP: expected CIDR {CIDR} (172.16.0.0–172.16.255.255)"  # noqa: RUF001  a dash between addresses
        assert overlap in configure(system, config(mode=Mode.WARN))
        system.must("rm", LAYOUT.detected_path)
        assert start(system) == 0
        assert pid(system)
        end(system)
        detected = system.read(LAYOUT.detected_path) or ""
        assert detected.startswith(overlap)
        assert detected in system.journal(LAYOUT.gate_unit)
        gate = system.must("cat", LAYOUT.gate_script_path)
        for command, said in (
            (["sed", "-i", "3i sleep 60", script], "did not end in time"),
            (["sed", "-i", "3i trap '' TERM", script], "did not end in time"),
            (["sed", "-i", "3i exit 1", script], "failed"),
            ([*_MASK, LAYOUT.check_unit_path], "failed"),
            (["rm", LAYOUT.check_unit_path, script], "failed"),
        ):
            system.must(*command)
            # What the step has is a second here.
            is_slow = said != "failed"
            system.lay(LAYOUT.gate_script_path, gate.replace("patience + 5", "1") if is_slow else gate, mode=0o755)
            system.must("systemctl", "daemon-reload")
            assert start(system) == 0, command
            assert pid(system)
            end(system)
            last = system.journal(LAYOUT.gate_unit).rpartition("Starting ")[2]
            assert f"check-route-overlap.sh {said}; {LAYOUT.machine_unit} may start anyway" in last
