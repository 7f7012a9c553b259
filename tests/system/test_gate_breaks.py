"""Whatever breaks on the way to a machine's start: in STRICT the gate stays shut, in WARN the check holds nobody back."""

import re

import pytest

from hostrouting.config import Mode
from tests.support.gate import HALVES, KUBE1, LAYOUT, config, end, gate_tests, host, pid, start

pytestmark = gate_tests


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
        if awk != "/usr/bin/mawk":
            system.run("rm", "-f", "/usr/bin/mawk")  # which the scripts would take as well
        for command in (
            ["rm", script],
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
