"""An image that `Host.offline` wrote, at its first boot."""

import json
from pathlib import Path

from hostrouting.boot.units import UNITS
from hostrouting.config.settings import GuardConfig, ProbeRewriteConfig
from hostrouting.probe.table import TABLE
from tests.support import gate
from tests.support.compiled import compiled_program
from tests.support.gate import HALVES, LAYOUT, apply, config, gate_tests, host, markers, ours
from tests.support.locks import locking
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

ONESHOTS = (LAYOUT.routes_unit, LAYOUT.check_unit, LAYOUT.probe_unit)
RESULTS = "/run/aks-flex-node"
CONFIG = config(*HALVES, mode="STRICT")._replace(
    guard=GuardConfig(enabled=True), probe_rewrite=ProbeRewriteConfig(True, ("eth0",))
)
# As a distribution has it that enables no unit which it does not name.
PRESET = {"/usr/lib/systemd/system-preset/90-nothing.preset": "disable *\n"}


def test_it_boots_gated() -> None:
    """Routes and table are set, gate and guard work, and `apply` has nothing to write."""
    with host(CONFIG, more=PRESET, is_compiled=False) as system:
        routes_and_table_are_there(system)
        # Or each start would take 0.2 s longer.
        system.outside(LAYOUT.program_path).write_bytes(compiled_program())
        the_guard_works(system)
        each_oneshot_works_in_its_sandbox(system)
        assert gate.start(system) == 0
        assert gate.pid(system)
        apply_has_nothing_to_write(system)
        systemd_has_no_objection(system)
        each_sandbox_allows_no_more(system)


def routes_and_table_are_there(system: System) -> None:
    assert len(ours(system)) == 2
    assert TABLE in system.must("nft", "list", "tables")


def the_guard_works(system: System) -> None:
    """It brings back a route, and the marker in a folder that was made anew since."""
    wait_for("the guard's first pass", lambda: markers(system) == {LAYOUT.ok_path})
    with locking(system.outside(LAYOUT.lock_path)):
        system.must("systemctl", "restart", LAYOUT.guard_unit)
        system.must("sh", "-c", f"rm -r {RESULTS}; mkdir {RESULTS}")
        system.must("ip", "route", "del", "172.16.0.0/17")
    wait_for("the guard", lambda: len(ours(system)) == 2 and markers(system) == {LAYOUT.ok_path})


def each_oneshot_works_in_its_sandbox(system: System) -> None:
    """Each does its work again, however often; the folder of the agent stays the agent's."""
    system.must("systemctl", "stop", LAYOUT.guard_unit)
    system.must("ip", "route", "flush", "proto", "213")
    system.must("nft", "flush", "ruleset")
    agents = f"mkdir -m 750 {RESULTS} && touch {RESULTS}/socket && chown -R 1234:1234 {RESULTS}"
    system.must("sh", "-c", f"rm -r {RESULTS} /run/hostrouting; {agents}")
    for _ in range(2):
        for unit in ONESHOTS:  # one after the other: the check is about the routes
            system.must("systemctl", "start", unit)
    owners = system.must("stat", "-c", "%u %a", RESULTS, f"{RESULTS}/socket").split()
    assert owners == ["1234", "750", "1234", "644"]
    routes_and_table_are_there(system)
    assert markers(system) == {LAYOUT.ok_path}


def apply_has_nothing_to_write(system: System) -> None:
    """The files are those that `apply` would write; it starts the guard, which was stopped."""
    list_files = ("sh", "-c", f"stat --format='%i %y %n' {LAYOUT.config_directory}/*")
    before = system.must(*list_files)
    apply(system, CONFIG)
    assert system.must(*list_files) == before
    assert system.show(LAYOUT.guard_unit, "ActiveState") == "active"


def systemd_has_no_objection(system: System) -> None:
    """Nothing in our units is unknown to this systemd."""
    for unit in UNITS:
        verified = system.run("systemd-analyze", "verify", unit).stderr.splitlines()
        assert [line for line in verified if unit in line] == []


_PROBE = "/usr/local/lib/probe.py"


def allowed(unit: str) -> set[str]:
    names = {"route get", "write in /run/hostrouting"}
    if unit != LAYOUT.check_unit:
        names |= {"route add"}
    if unit in {LAYOUT.guard_unit, LAYOUT.probe_unit}:
        names |= {"signal another unit"}  # to end an nft that hangs
    if unit in {LAYOUT.check_unit, LAYOUT.guard_unit}:
        names |= {"write in /run/aks-flex-node", "write in /run"}
    return names


_STRICT = "ProtectProc=default\nProcSubset=all\nProtectControlGroups=no\n"
"""Beside what these undo, systemd leaves /run writable, and without them it does not."""


def probed(log: str) -> dict[str, str]:
    """The error of each thing that the probe has tried last."""
    *_, line = [line for line in log.splitlines() if line.startswith("PROBED ")]
    errors = json.loads(line.removeprefix("PROBED "))
    assert isinstance(errors, dict)
    return errors


def succeeding_in(unit: str, system: System, other: str, more: str = "") -> set[str]:
    """What succeeds where the unit runs the probe, with the process of the other unit to signal."""
    drop_in = f"""\
[Service]
ExecStart=
ExecStart=/usr/bin/env python3 {_PROBE} {other}
Type=oneshot
Restart=no
{more}"""
    system.load(f"/etc/systemd/system/{unit}.d/99.conf", drop_in)
    system.must("systemctl", "start", unit)
    errors = probed(system.journal(unit))
    return {name for name, error in errors.items() if not error}


def each_sandbox_allows_no_more(system: System) -> None:
    """A unit can read the routing and, but for the check, change it; nft can be ended."""
    system.must("systemctl", "stop", LAYOUT.guard_unit)
    system.must("chown", "nobody", RESULTS)  # it is an agent's
    system.lay("/root/file", "")
    system.lay(LAYOUT.opening_path, "a reason\n")
    system.lay(_PROBE, Path(__file__).with_name("probe.py").read_text())
    system.must("systemd-run", "--unit=other", "sleep", "1000")
    other = system.show("other.service", "MainPID")
    # Outside of a unit nearly all of it succeeds, so what is refused is refused by the sandbox.
    outside = probed(system.must("/usr/bin/env", "python3", _PROBE, other))
    refused_outside = [name for name, error in outside.items() if error]
    assert len(refused_outside) < len(outside) / 2
    for unit in UNITS:
        assert succeeding_in(unit, system, other) - {"firewall"} == allowed(unit), unit
    writes = {name for name in allowed(LAYOUT.check_unit) if name.startswith("write ")}
    assert writes <= succeeding_in(LAYOUT.check_unit, system, other, _STRICT)
    assert system.show("other.service", "ActiveState") == "active"
    assert system.read(LAYOUT.opening_path), "what is there outlives each unit"
