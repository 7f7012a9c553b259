"""An image that `Host.offline` wrote: at its first boot everything is enabled, and nobody has to run a task in it."""

from pathlib import Path

from hostrouting.config.values import Mode
from tests.support.gate import HALVES, KUBE1, LAYOUT, config, configure, gate_tests, host, markers, ours, pid, start

pytestmark = gate_tests


def test_it_boots_with_everything_enabled() -> None:
    """Without Python, the routes come by themselves, and the machine has to pass the gate; the task has nothing left to write.

    Our unit is enabled even if the distribution disables all units that it does not name, as at a first boot.
    """

    def finish(root: Path) -> None:
        for program in (*root.glob("usr/bin/python*"), *root.glob("usr/local/bin/python*")):
            program.unlink()

    wanted = config(*HALVES, mode=Mode.STRICT)
    nothing = {"/usr/lib/systemd/system-preset/90-nothing.preset": "disable *\n"}
    with host(wanted, more=nothing, finish=finish) as system:
        assert system.must("systemctl", "is-enabled", LAYOUT.routes_unit) == "enabled\n"
        assert len(ours(system)) == 2, "before any machine was started"
        assert system.show(LAYOUT.routes_unit, "Result") == "success"
        assert LAYOUT.gate_drop_in() in system.show(KUBE1, "DropInPaths").split()
        assert system.run("sh", "-c", "PATH=/usr/sbin:/usr/bin; command -v python3").stdout == ""
        assert start(system) == 0
        assert pid(system)
        assert markers(system) == {LAYOUT.ok_path}
        before = system.must("stat", "--format=%i %y %n", LAYOUT.routes_script_path, LAYOUT.check_unit_path)
        configure(system, wanted)
        assert system.must("stat", "--format=%i %y %n", LAYOUT.routes_script_path, LAYOUT.check_unit_path) == before
        system.must("systemctl", "preset-all", "--preset-mode=full")
        assert system.must("systemctl", "is-enabled", LAYOUT.routes_unit) == "enabled\n"
