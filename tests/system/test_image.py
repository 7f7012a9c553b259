"""An image that `Host.offline` wrote: at its first boot everything is enabled, and nobody has to run a task in it."""

from pathlib import Path

from hostrouting.config.settings import GuardConfig, ProbeRewriteConfig
from tests.support.gate import HALVES, LAYOUT, apply, config, end, gate_tests, host, markers, ours, pid, start
from tests.support.waiting import wait_for

pytestmark = gate_tests

UNITS = (LAYOUT.routes_unit, LAYOUT.check_unit, LAYOUT.probe_unit)


def test_it_boots_gated() -> None:
    """Without Python, routes and table are set, the gate and the guard work, each in its sandbox; apply has nothing to write.

    Our units are enabled even if the distribution disables all units that it does not name, as at a first boot.
    """

    def finish(root: Path) -> None:
        for program in (*root.glob("usr/bin/python*"), *root.glob("usr/local/bin/python*")):
            program.unlink()

    wanted = config(*HALVES, mode="STRICT")._replace(
        guard=GuardConfig(enabled=True), probe_rewrite=ProbeRewriteConfig(True, ["eth0"])
    )
    nothing = {"/usr/lib/systemd/system-preset/90-nothing.preset": "disable *\n"}
    with host(wanted, more=nothing, finish=finish) as system:
        assert system.run("sh", "-c", "PATH=/usr/sbin:/usr/bin; command -v python3").stdout == ""
        assert len(ours(system)) == 2, "before any machine was started"
        assert "hostrouting" in system.must("nft", "list", "tables")
        for unit in UNITS:
            system.must("systemctl", "start", unit)
            assert system.show(unit, "Result") == "success"
        assert markers(system) == {LAYOUT.ok_path}
        system.must("ip", "route", "del", "172.16.0.0/17")
        wait_for("the guard", lambda: len(ours(system)) == 2)
        system.must("systemctl", "stop", LAYOUT.guard_unit)

        assert start(system) == 0
        assert pid(system)
        end(system)
        system.must("ip", "address", "add", "172.16.200.5/24", "dev", "ib0")
        assert start(system) == 1
        system.must("ip", "address", "del", "172.16.200.5/24", "dev", "ib0")

        stat = ("sh", "-c", f"stat --format='%i %y %n' {LAYOUT.config_directory}/* {LAYOUT.gate_directory}/*")
        before = system.must(*stat)
        apply(system, wanted)
        assert system.must(*stat) == before
        assert system.show(LAYOUT.guard_unit, "ActiveState") == "active", "apply starts it again"
