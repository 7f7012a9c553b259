"""Units other than machines behind the gate, under a real systemd."""

from hostrouting.config.settings import GateConfig, HostRoutingConfig, ProbeRewriteConfig
from tests.support.gate import HALVES, apply, config, gate_tests, host, overlap
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

KUBELET, AGENT, LATER = "kubelet.service", "agent@.service", "later.service"
INSTANCE = "agent@a.service"
STARTED = (KUBELET, INSTANCE)

# As kubeadm installs it, but for RestartSec= and Restart=, of which install.md has both.
_UNITS = {
    KUBELET: """\
[Unit]
StartLimitIntervalSec=0
[Service]
ExecStart=/bin/sleep infinity
RestartSec=0.2
Restart=on-failure
""",
    AGENT: "[Service]\nExecStart=/bin/sleep infinity\n",
}
_FILES = {f"/usr/lib/systemd/system/{unit}": text for unit, text in _UNITS.items()}
_FILES[f"/etc/systemd/system/{KUBELET}.d/10-kubeadm.conf"] = (
    "[Service]\nExecStartPre=/bin/touch /run/kubeadm\n"
)


def gating(*units: str, repaired: bool = False) -> HostRoutingConfig:
    """STRICT for these units."""
    return config(*(HALVES if repaired else ()), mode="STRICT")._replace(gate=GateConfig(units))


def is_active(system: System, unit: str) -> bool:
    """Whether the unit runs."""
    return system.show(unit, "ActiveState") == "active"


def run_of(system: System, unit: str) -> tuple[str, str]:
    """What changes with each start."""
    return system.show(unit, "InvocationID"), system.show(unit, "MainPID")


def await_attempts(system: System, unit: str, count: int) -> None:
    """Wait until systemd has started the unit again this many times."""
    wait_for(f"{unit} to try", lambda: int(system.show(unit, "NRestarts")) >= count)


def start(system: System, unit: str) -> int:
    """Start the unit as an operator does."""
    return system.run("systemctl", "start", unit).returncode


def test_every_promise_for_each_unit() -> None:
    """It is refused while addresses escape, starts after the repair, and then left alone."""
    gated = (KUBELET, AGENT, LATER)
    with host(gating(*gated), more=_FILES, machines=()) as system:
        each_is_refused(system)
        one_that_comes_later_is_gated(system)
        await_attempts(system, KUBELET, 3)
        overlap(system, "del")
        they_start(system)

        running = {unit: run_of(system, unit) for unit in (*STARTED, LATER)}
        overlap(system, "add")
        apply(system, gating(*gated), code=1)
        assert {unit: run_of(system, unit) for unit in running} == running
        one_that_ends_stays_down(system)
        apply(system, gating(*gated, repaired=True))
        wait_for("kubelet to start", lambda: is_active(system, KUBELET))
        for unit in (INSTANCE, LATER):
            assert run_of(system, unit) == running[unit], unit


def each_is_refused(system: System) -> None:
    """The start fails, and the reason is in the journal of the unit."""
    reason = "OVERLAP: 172.16.0.0/16 leaves through ib0"
    for unit in STARTED:
        assert start(system, unit) == 1, unit
        assert "network-online.target" in system.show(unit, "Wants").split()
        journal = system.journal(unit)
        assert f"hostrouting: {reason}" in journal, unit
        assert f"hostrouting: {unit} was refused: see the lines above" in journal, unit
        assert not is_active(system, unit), unit


def one_that_comes_later_is_gated(system: System) -> None:
    """It was named in the configuration before it was there."""
    system.lay(f"/usr/lib/systemd/system/{LATER}", _UNITS[AGENT])
    system.must("systemctl", "daemon-reload")
    assert start(system, LATER) == 1


def they_start(system: System) -> None:
    """The one that restarts by itself, and the others when they are started."""
    wait_for("kubelet to start", lambda: is_active(system, KUBELET))
    for unit in (INSTANCE, LATER):
        assert start(system, unit) == 0, unit
    assert system.read("/run/kubeadm") == "", "the commands of other drop-ins run"


def one_that_ends_stays_down(system: System) -> None:
    """It tries again, and is refused again."""
    system.must("systemctl", "kill", "--signal=KILL", KUBELET)
    await_attempts(system, KUBELET, 2)
    assert not is_active(system, KUBELET)


_FLUSH = """\
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sleep 0.5
ExecStart=/bin/sh -c 'nft flush ruleset'
"""
_WANTS = "[Unit]\nWants=nftables-flush.service\n"
_LOOKS = "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'nft list tables >/run/seen'\n"


def test_the_table_for_probes() -> None:
    """The table is there before a gated unit starts, at boot and after each flush."""
    looks = {
        f"/etc/systemd/system/{AGENT}": f"{_WANTS}{_LOOKS}",
        "/etc/systemd/system/nftables-flush.service": _FLUSH,
        "/etc/systemd/system/nftables.service": f"[Unit]\nDefaultDependencies=no\n{_FLUSH}",
    }
    wanted = HostRoutingConfig(
        gate=GateConfig((AGENT,)), probe_rewrite=ProbeRewriteConfig(True, ("eth0",))
    )
    with host(wanted, more=looks, machines=()) as system:
        system.must(
            "systemctl", "add-wants", "multi-user.target", "agent@boot.service", "nftables.service"
        )
        system.reboot()
        system.settled()
        assert "table ip6 hostrouting" in (system.read("/run/seen") or "")
        after = system.show("probe-rewrite.service", "After").split()
        assert {"nftables.service", "nftables-flush.service"} <= set(after)
        system.must("rm", "/run/seen")
        system.must("nft", "flush", "ruleset")
        system.must("systemctl", "stop", "nftables-flush.service")
        assert start(system, "agent@again.service") == 0
        assert "table ip6 hostrouting" in (system.read("/run/seen") or "")
        # It was before the gate: this does nothing.
        system.must("systemctl", "start", "nftables-flush.service")
        assert "table ip6 hostrouting" in system.must("nft", "list", "tables")
