"""Units other than machines behind the gate, under a real systemd: what is promised for each of them."""

import re
from functools import partial

import attrs

from hostrouting.config.settings import GateConfig, HostRoutingConfig
from hostrouting.config.values import Mode
from tests.support.gate import HALVES, LAYOUT, config, configure, gate_tests, host, run_task
from tests.support.inside import statuses, told_in
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

KUBELET, K3S, AGENT, LATER, SHUT_IN = (
    "kubelet.service",
    "k3s.service",
    "agent@.service",
    "later.service",
    "shut-in.service",
)
ALL = (KUBELET, K3S, AGENT, LATER, SHUT_IN)
STARTED = (KUBELET, K3S, "agent@a.service", SHUT_IN)

# As kubeadm, k3s and others install them; only RestartSec= is shorter.
_AGAIN = "Restart=always\nRestartSec=1\n"
_ALIVE = "#!/bin/sh\nsystemd-notify --ready\nwhile sleep 0.5; do systemd-notify WATCHDOG=1; done\n"
_UNITS = {
    KUBELET: f"[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/sleep infinity\n{_AGAIN}",
    K3S: f"[Unit]\nStartLimitIntervalSec=0\n[Service]\nType=notify\nNotifyAccess=all\nWatchdogSec=5\nTimeoutStartSec=0\nExecStartPre=-/sbin/modprobe overlay\nExecStart=/opt/alive\n{_AGAIN}",
    AGENT: "[Service]\nExecStart=/bin/sleep infinity\n",
    SHUT_IN: "[Service]\nDynamicUser=yes\nPrivateNetwork=yes\nRestrictAddressFamilies=AF_INET\nNoNewPrivileges=yes\n"
    "SystemCallFilter=~@network-io\nInaccessiblePaths=/run/systemd\nExecStart=/bin/sleep infinity\n",
}
_OWN = f"/etc/systemd/system/{KUBELET}.d/10-kubeadm.conf"
_FILES = {f"/usr/lib/systemd/system/{unit}": text for unit, text in _UNITS.items()}
_FILES[_OWN] = "[Service]\nEnvironment=KUBELET=1\nExecStartPre=/bin/touch /run/kubeadm\n"


def gating(*units: str, repaired: bool = False) -> HostRoutingConfig:
    """STRICT for these units."""
    return attrs.evolve(config(*(HALVES if repaired else ()), mode=Mode.STRICT), gate=GateConfig(units))


def overlap(system: System, verb: str) -> None:
    """Let ib0 capture the cluster's network, or end that."""
    system.must("ip", "address", verb, "172.16.1.5/16", "dev", "ib0")


def state(system: System, unit: str) -> str:
    """Whether the unit runs, as systemd says it."""
    return system.show(unit, "ActiveState")


def run_of(system: System, unit: str) -> tuple[str, str]:
    """What changes with each start."""
    return system.show(unit, "InvocationID"), system.show(unit, "MainPID")


def await_active(system: System, *units: str) -> None:
    """Wait until these units run."""
    for unit in units:
        wait_for(unit, partial(_is_active, system, unit))


def await_attempts(system: System, unit: str, count: int) -> None:
    """Wait until systemd has started the unit again this many times."""
    wait_for(f"{unit} to try", lambda: int(system.show(unit, "NRestarts")) >= count)


def _is_active(system: System, unit: str) -> bool:
    return state(system, unit) == "active"


def start(system: System, unit: str) -> int:
    """Start the unit as an operator does."""
    return system.run("systemctl", "start", unit).returncode


def test_every_promise_for_each_unit() -> None:
    """STRICT refuses each unit and says so; repaired, those that restart come by themselves; a running one stays.

    Kills: a gate for machines only, a command without `+`, and one drop-in for all.
    """
    with host(gating(*ALL), more=_FILES, scripts={"/opt/alive": _ALIVE}) as system:
        for unit in STARTED:
            assert start(system, unit) == 1, unit
            refused = f"host-routing-gate: {unit} must not start: see journalctl -u {LAYOUT.gate_unit}"
            assert refused in system.journal(unit), unit
            assert state(system, unit) != "active", unit
        told = system.journal(LAYOUT.gate_unit)
        assert f"{AGENT}, {K3S}, {KUBELET}, {LATER}, {SHUT_IN} must not start: check-route-overlap.sh failed" in told
        # A unit that comes later is gated when it comes.
        system.lay(f"/usr/lib/systemd/system/{LATER}", _UNITS[AGENT])
        system.must("systemctl", "daemon-reload")
        assert start(system, LATER) == 1

        # As kubelet's unit has it: each attempt writes a few lines, and there is one attempt in each RestartSec.
        await_attempts(system, KUBELET, int(system.show(KUBELET, "NRestarts")) + 3)
        first, *attempts = system.journal(KUBELET).split(f"Starting {KUBELET}...\n")
        assert first == ""
        assert len(attempts) >= 4
        assert [attempt for attempt in attempts if len(attempt.splitlines()) > 8] == []

        overlap(system, "del")
        await_active(system, KUBELET, K3S)
        for unit in ("agent@a.service", SHUT_IN, LATER):
            assert start(system, unit) == 0, unit
        assert system.read("/run/kubeadm") == "", "the commands of other drop-ins run"

        with statuses(system) as status:
            assert told_in(status(), "gate-open") == [], "the command in K3S's own file is no opening"
        running = {unit: run_of(system, unit) for unit in (*STARTED, LATER)}
        overlap(system, "add")
        assert run_task(system, "Configure", gating(*ALL)).returncode == 1
        system.run("systemctl", "start", LAYOUT.gate_unit)
        system.must("systemctl", "stop", LAYOUT.gate_unit)
        system.must("systemctl", "daemon-reload")
        assert {unit: run_of(system, unit) for unit in running} == running

        # One that ends while an address escapes stays down, and comes back by itself after the repair.
        for unit in (KUBELET, K3S):
            system.must("systemctl", "kill", "--signal=KILL", unit)
        for unit in (KUBELET, K3S):
            await_attempts(system, unit, 2)
            assert state(system, unit) != "active", unit
        configure(system, gating(*ALL, repaired=True))
        await_active(system, KUBELET, K3S)
        still = set(running) - {KUBELET, K3S}
        assert {unit: run_of(system, unit) for unit in still} == {unit: running[unit] for unit in still}


def test_break_glass() -> None:
    """The line in the refusal lets the unit start, also after a reboot, until its time is over; then the gate is shut.

    Kills: an opening that is lost with /run, and one that a clock that was set back prolongs.
    """
    path = LAYOUT.opening_path
    with host(gating(KUBELET, AGENT), more=_FILES) as system:
        assert start(system, KUBELET) == 1
        [line, *_] = re.findall("type as root: (.*)", system.journal(KUBELET))
        system.must("sh", "-c", line)
        assert start(system, KUBELET) == 0
        told = f"host-routing-gate: {KUBELET} starts unchecked until "
        assert told in system.journal(KUBELET)
        assert "root opened the gate: WHY" in system.journal(KUBELET)
        assert start(system, "agent@a.service") == 1, "it is for one unit"
        system.reboot()
        system.settled()
        assert start(system, KUBELET) == 0
        assert told in system.journal(KUBELET)
        for change, why in (
            (f"touch -d +1day {path}", "it is newer than this host's clock"),
            (f"touch {path}; chmod 666 {path}", "it has to be a file that only root can write"),
            (f"chmod 600 {path}; sed -i s/kubelet/.kubelet/ {path}", ""),
            (f"echo 1 all root over >{path}", ""),
            (f"rm {path}", ""),
        ):
            system.must("sh", "-c", change)
            assert system.run("systemctl", "restart", KUBELET).returncode == 1, change
            assert why in system.journal(KUBELET), change
        system.must("sh", "-c", f"echo 99999999999 all root why >{path}")
        assert start(system, "agent@a.service") == 0
