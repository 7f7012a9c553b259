"""The units of the steps and of the guard: what they do at boot, and that their sandbox allows that and nothing else."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hostrouting.boot.units import UNITS
from hostrouting.host.layout import HostLayout
from tests.support.gate import gate_tests, host
from tests.support.inline_gate import gate_files
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

ROUTE = "10.99.0.0/16"
STEPS = {
    HostLayout.routes_step: f"[[ $(ip route show {ROUTE}) ]] || ip route add {ROUTE} via 10.0.0.1 proto 213 && exit 0\n",
    HostLayout.check_step: "mkdir -p /run/aks-flex-node; ip route get 10.99.0.1 >/run/aks-flex-node/new && mv /run/aks-flex-node/{new,seen} && exit 0\n",
    HostLayout.probe_step: "nft -f - <<<'add table ip6 hostrouting' && exit 0\n",
}
_PROBE = "/usr/local/lib/probe.py"
_NEEDED = {"route get", "write in /run/hostrouting"}


@contextmanager
def host_with_units() -> Iterator[System]:
    """A host with a default route and all units, of which those are enabled that are to be."""
    files = {f"/etc/systemd/system/{name}": text for name, text in UNITS.items()}
    files |= gate_files(steps=STEPS, required=HostLayout.routes_step, wanted=HostLayout.check_step)
    wants = "/etc/systemd/system/multi-user.target.wants"
    links = {f"{wants}/{unit}": f"../{unit}" for unit, text in UNITS.items() if "WantedBy=multi-user.target" in text}
    with host(more=files, links=links, machines=()) as system:
        yield system


def test_at_boot_and_by_hand() -> None:
    """At boot the routes and the probe's table are set and the guard runs; each unit does its work in its sandbox."""
    with host_with_units() as system:
        assert system.must("ip", "route", "show", ROUTE)
        wait_for("the table", lambda: "hostrouting" in system.must("nft", "list", "tables"))
        assert system.show(HostLayout.guard_unit, "ActiveState") == "active"
        system.run("rm", "-r", "/run/aks-flex-node")  # as an agent does that is installed again
        system.must("mkdir", "-p", "/run/aks-flex-node")
        system.must("ip", "route", "flush", "proto", "213")
        wait_for("the guard's marker", lambda: bool(system.read("/run/aks-flex-node/seen")))
        system.must("systemctl", "stop", HostLayout.guard_unit)
        system.must("ip", "route", "flush", "proto", "213")
        system.must("nft", "flush", "ruleset")
        system.run("rm", "-r", "/run/aks-flex-node", "/run/hostrouting")
        agents = "mkdir -m 750 /run/aks-flex-node && touch /run/aks-flex-node/socket && chown -R 1234:1234 /run/aks-flex-node"
        system.must("sh", "-c", agents)
        for _ in range(6):
            system.must("systemctl", "start", *(unit for unit in UNITS if unit != HostLayout.guard_unit))
        owners = system.must("stat", "-c", "%u %a", "/run/aks-flex-node", "/run/aks-flex-node/socket").split()
        assert owners == ["1234", "750", "1234", "644"], "the directory of the agent stays as it was"
        assert system.must("ip", "route", "show", ROUTE)
        assert "hostrouting" in system.must("nft", "list", "tables")
        assert "10.99.0.1 via 10.0.0.1" in (system.read("/run/aks-flex-node/seen") or "")
        system.must("ip", "route", "flush", "proto", "213")
        for step, unit in (
            (HostLayout.routes_step, HostLayout.routes_unit),
            (HostLayout.probe_step, HostLayout.probe_unit),
        ):
            system.must("rm", f"{HostLayout.gate_directory}/{step}.sh")
            assert system.run("systemctl", "start", unit).returncode == 1
            assert f"hostrouting: {unit}: {step} failed" in system.journal(unit)
        assert system.show(HostLayout.probe_unit, "ActiveState") == "activating", "it tries again"
        for unit in UNITS:
            verified = system.run("systemd-analyze", "verify", unit).stderr.splitlines()
            assert not [line for line in verified if unit in line]


def test_the_sandbox() -> None:
    """A unit can read the routing and write its results and, but for the check, change routes; the guard can end a step."""
    probe = Path(__file__).resolve().parents[1] / "support" / "probe.py"
    with host_with_units() as system:
        system.must("systemctl", "stop", HostLayout.guard_unit)
        system.must("mkdir", "-p", HostLayout.state_directory)
        system.lay("/root/file", "")
        system.lay(_PROBE, probe.read_text())
        system.must("systemd-run", "--unit=other", "sleep", "1000")
        other = system.show("other.service", "MainPID")
        # Outside of a unit nearly all of it succeeds, so what is refused is refused by the sandbox.
        outside = json.loads(system.must("/usr/bin/env", "python3", _PROBE, other).removeprefix("PROBED "))
        assert sum(not error for error in outside.values()) > len(outside) / 2
        for unit in UNITS:
            line = f"ExecStart=\nExecStart=/usr/bin/env python3 {_PROBE} {other}\nType=oneshot\nRestart=no\n"
            system.lay(f"/etc/systemd/system/{unit}.d/99.conf", f"[Service]\n{line}")
            system.must("systemctl", "daemon-reload")
            system.must("systemctl", "start", unit)
            [line] = [line for line in system.journal(unit).splitlines() if line.startswith("PROBED ")]
            errors = json.loads(line.removeprefix("PROBED "))
            can = {name for name, error in errors.items() if not error}
            changes = {"route add"} if unit != HostLayout.check_unit else set()
            more = {"signal another unit"} if unit == HostLayout.guard_unit else set()
            if unit in {HostLayout.check_unit, HostLayout.guard_unit}:
                more |= {f"write in {HostLayout.state_directory}", "write in /run"}
            assert errors.keys() == outside.keys()
            assert _NEEDED | changes | more <= can <= _NEEDED | changes | more | {"firewall"}, unit
        assert system.show("other.service", "ActiveState") == "active"
