"""What each unit's script could do if somebody else had written it: no more than its work takes."""

import json
from pathlib import Path

from hostrouting.boot.probe import render_probe_unit
from hostrouting.config.values import Mode
from tests.support.gate import HALVES, LAYOUT, config, gate_tests, host
from tests.support.systemd import System

pytestmark = gate_tests

_PROBE = "/usr/local/lib/probe.py"

# What every unit may.
_HARMLESS = {"firewall", "route get"}  # a socket alone: to change a firewall takes the capability
_STATE, _OWN = (f"write in {folder}" for folder in (LAYOUT.state_directory, LAYOUT.runtime_directory))
# CAP_NET_ADMIN is for routes and nftables, and there is none for those alone.
_ADMIN = {"route add"}
MAY = {
    LAYOUT.gate_unit: _HARMLESS | _ADMIN | {_STATE, _OWN},
    LAYOUT.check_unit: _HARMLESS | {_STATE},
    LAYOUT.routes_unit: _HARMLESS | _ADMIN,
    LAYOUT.probe_unit: _HARMLESS | _ADMIN | {_OWN},
}
# What they need for their work; the rest may be missing from a host.
MUST = {
    LAYOUT.gate_unit: {"route get", "route add", _STATE, _OWN},
    LAYOUT.check_unit: {"route get", _STATE},
    LAYOUT.routes_unit: {"route get", "route add"},
    LAYOUT.probe_unit: {"firewall", "route add", _OWN},
}


def probed(system: System, unit: str, other: str) -> dict[str, str]:
    """How each attempt ended inside of a unit: empty where it succeeded."""
    drop_in = f"/etc/systemd/system/{unit}.d/99.conf"
    system.lay(drop_in, f"[Service]\nExecStart=\nExecStart=/usr/bin/env python3 {_PROBE} {other}\n")
    system.must("systemctl", "daemon-reload")
    system.must("systemctl", "start", unit)
    [line] = [line for line in system.journal(unit).splitlines() if line.startswith("PROBED ")]
    found: dict[str, str] = json.loads(line.removeprefix("PROBED "))
    return found


def test_what_a_script_can_do() -> None:
    """A script can read the routing, write its markers and, if that is its work, change routes; nothing else."""
    probe = Path(__file__).resolve().parents[1] / "support" / "probe.py"
    with host(config(*HALVES, mode=Mode.STRICT), machines=()) as system:
        system.lay(_PROBE, probe.read_text())
        system.lay(LAYOUT.probe_unit_path, render_probe_unit())
        system.must("systemd-run", "--unit=other", "sleep", "1000")
        other = system.show("other.service", "MainPID")
        # Outside of any unit nearly all of it succeeds, so that what is refused is refused by the sandbox.
        outside = json.loads(system.must("/usr/bin/env", "python3", _PROBE, other).removeprefix("PROBED "))
        assert sum(not ended for ended in outside.values()) > len(outside) / 2
        for unit, may in MAY.items():
            ended = probed(system, unit, other)
            assert ended.keys() == outside.keys()
            can = {name for name, error in ended.items() if not error}
            assert can <= may, unit
            assert can >= MUST[unit], unit
        assert system.show("other.service", "ActiveState") == "active"
