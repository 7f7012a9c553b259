"""The units of hostrouting: their sandbox allows what they do, and nothing else."""

import json
from pathlib import Path

from hostrouting.boot.units import UNITS
from hostrouting.config.settings import GuardConfig, ProbeRewriteConfig
from hostrouting.host.layout import HostLayout
from tests.support.gate import HALVES, config, gate_tests, host
from tests.support.systemd import System

pytestmark = gate_tests

_PROBE = "/usr/local/lib/probe.py"
_TRIED_AGAIN = {
    HostLayout.guard_unit: ("always", "1s"),
    HostLayout.routes_unit: ("on-failure", "1min"),
    HostLayout.check_unit: ("no", "100ms"),
    HostLayout.probe_unit: ("on-failure", "10s"),
}
"""When systemd starts a unit again, and after how long."""
ALL = config(*HALVES, mode="WARN")._replace(
    guard=GuardConfig(enabled=True), probe_rewrite=ProbeRewriteConfig(True, ("eth0",))
)


def allowed(unit: str) -> set[str]:
    """What this unit has to be able to do."""
    names = {"route get", "write in /run/hostrouting"}
    if unit != HostLayout.check_unit:
        names |= {"route add"}
    if unit in {HostLayout.guard_unit, HostLayout.probe_unit}:
        names |= {"signal another unit"}  # to end an nft that hangs
    if unit in {HostLayout.check_unit, HostLayout.guard_unit}:
        names |= {f"write in {HostLayout.state_directory}", "write in /run"}
    return names


def probed(log: str) -> dict[str, str]:
    """The error of each thing that the probe has tried."""
    [line] = [line for line in log.splitlines() if line.startswith("PROBED ")]
    errors = json.loads(line.removeprefix("PROBED "))
    assert isinstance(errors, dict)
    return errors


def probed_by(unit: str, system: System, other: str) -> dict[str, str]:
    """The same, where the unit runs the probe, with the process of the other unit to signal."""
    drop_in = f"""\
[Service]
ExecStart=
ExecStart=/usr/bin/env python3 {_PROBE} {other}
Type=oneshot
Restart=no
"""
    system.lay(f"/etc/systemd/system/{unit}.d/99.conf", drop_in)
    system.must("systemctl", "daemon-reload")
    system.must("systemctl", "start", unit)
    return probed(system.journal(unit))


def test_the_sandbox() -> None:
    """A unit can read the routing and write its results and, but for the check, change routes; one
    that runs nft can end it.
    """
    probe = Path(__file__).with_name("probe.py")
    with host(ALL, machines=()) as system:
        system.must("systemctl", "stop", HostLayout.guard_unit)
        system.must("mkdir", "-p", HostLayout.state_directory)
        system.must("chown", "nobody", HostLayout.state_directory)  # it is an agent's
        system.lay("/root/file", "")
        system.lay("/run/hostrouting/gate.open", "a reason\n")
        system.lay(_PROBE, probe.read_text())
        system.must("systemd-run", "--unit=other", "sleep", "1000")
        other = system.show("other.service", "MainPID")
        # Outside of a unit nearly all of it succeeds, so what is refused is refused by the sandbox.
        outside = probed(system.must("/usr/bin/env", "python3", _PROBE, other))
        refused_outside = [name for name, error in outside.items() if error]
        assert len(refused_outside) < len(outside) / 2
        for unit in UNITS:
            tried = tuple(system.show(unit, name) for name in ("Restart", "RestartUSec"))
            assert tried == _TRIED_AGAIN[unit], unit
            inside = probed_by(unit, system, other)
            assert inside.keys() == outside.keys()
            succeeded = {name for name, error in inside.items() if not error}
            assert succeeded - {"firewall"} == allowed(unit), unit
        assert system.show("other.service", "ActiveState") == "active"
        assert system.read("/run/hostrouting/gate.open"), "what is there outlives each unit"
