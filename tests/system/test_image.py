"""An image that `Host.offline` wrote: at its first boot everything is enabled, and nobody has to
run a task in it.
"""

from pathlib import Path

from hostrouting.boot.probe_table import TABLE
from hostrouting.boot.units import UNITS
from hostrouting.config.settings import GuardConfig, ProbeRewriteConfig
from tests.support.gate import (
    HALVES,
    LAYOUT,
    apply,
    config,
    end,
    gate_tests,
    host,
    markers,
    ours,
    pid,
    start,
)
from tests.support.waiting import wait_for

pytestmark = gate_tests

ONESHOTS = (LAYOUT.routes_unit, LAYOUT.check_unit, LAYOUT.probe_unit)
RESULTS = "/run/aks-flex-node"


def test_it_boots_gated() -> None:
    """Without Python, routes and table are set, the gate and the guard work, each in its sandbox;
    apply has nothing to write.

    Our units are enabled even if the distribution disables all units that it does not name, as at a
    first boot.
    """

    def finish(root: Path) -> None:
        for program in (*root.glob("usr/bin/python*"), *root.glob("usr/local/bin/python*")):
            program.unlink()

    wanted = config(*HALVES, mode="STRICT")._replace(
        guard=GuardConfig(enabled=True), probe_rewrite=ProbeRewriteConfig(True, ("eth0",))
    )
    nothing = {"/usr/lib/systemd/system-preset/90-nothing.preset": "disable *\n"}
    with host(wanted, more=nothing, finish=finish) as system:
        assert system.run("sh", "-c", "PATH=/usr/sbin:/usr/bin; command -v python3").stdout == ""
        assert len(ours(system)) == 2, "before any machine was started"
        assert TABLE in system.must("nft", "list", "tables")
        system.must(
            "sh", "-c", f"rm -r {RESULTS}; mkdir {RESULTS}"
        )  # as an agent does that is installed again
        system.must("ip", "route", "del", "172.16.0.0/17")
        wait_for(
            "the guard", lambda: len(ours(system)) == 2 and markers(system) == {LAYOUT.ok_path}
        )
        system.must("systemctl", "stop", LAYOUT.guard_unit)

        # Each unit does its work again in its sandbox, however often; the directory of the agent
        # stays as it was.
        system.must("ip", "route", "flush", "proto", "213")
        system.must("nft", "flush", "ruleset")
        agents = f"mkdir -m 750 {RESULTS} && touch {RESULTS}/socket && chown -R 1234:1234 {RESULTS}"
        system.must("sh", "-c", f"rm -r {RESULTS} /run/hostrouting; {agents}")
        for _ in range(6):
            for unit in ONESHOTS:  # one after the other: the check is about the routes
                system.must("systemctl", "start", unit)
        owners = system.must("stat", "-c", "%u %a", RESULTS, f"{RESULTS}/socket").split()
        assert owners == ["1234", "750", "1234", "644"]
        assert len(ours(system)) == 2
        assert TABLE in system.must("nft", "list", "tables")
        assert markers(system) == {LAYOUT.ok_path}

        assert start(system) == 0
        assert pid(system)
        end(system)
        system.must("ip", "address", "add", "172.16.200.5/24", "dev", "ib0")
        assert start(system) == 1
        system.must("ip", "address", "del", "172.16.200.5/24", "dev", "ib0")

        stat = (
            "sh",
            "-c",
            f"stat --format='%i %y %n' {LAYOUT.config_directory}/* {LAYOUT.gate_directory}/*",
        )
        before = system.must(*stat)
        apply(system, wanted)
        assert system.must(*stat) == before
        assert system.show(LAYOUT.guard_unit, "ActiveState") == "active", "apply starts it again"

        for unit, step in (
            (LAYOUT.routes_unit, LAYOUT.routes_step),
            (LAYOUT.probe_unit, LAYOUT.probe_step),
        ):
            system.must("rm", LAYOUT.step_path(step))
            assert system.run("systemctl", "start", unit).returncode == 1
            assert f"{unit}: {LAYOUT.step_path(step)} is missing" in system.journal(unit)
            assert system.show(unit, "ActiveState") == "activating", "it tries again"
        for unit in UNITS:
            verified = system.run("systemd-analyze", "verify", unit).stderr.splitlines()
            assert not [line for line in verified if unit in line]
