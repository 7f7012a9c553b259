"""An image that `Host.offline` wrote: at its first boot everything is enabled, and nobody has to run a task in it."""

from pathlib import Path

import pytest

from hostrouting.config.values import Mode
from tests.support.gate import (
    HALVES,
    KUBE1,
    LAYOUT,
    config,
    configure,
    end,
    gate_tests,
    host,
    markers,
    ours,
    pid,
    start,
)

pytestmark = gate_tests

READ_ONLY = "mount --bind /usr /usr\nmount -o remount,bind,ro /usr"


@pytest.mark.releases
def test_it_boots_with_everything_enabled() -> None:
    """The routes come by themselves, the machine has to pass the gate, and the task finds nothing left to write.

    Our unit is enabled even if the distribution disables all units that it does not name, as at a first boot.
    """
    wanted = config(*HALVES, mode=Mode.STRICT)
    nothing = {"/usr/lib/systemd/system-preset/90-nothing.preset": "disable *\n"}
    with host(wanted, more=nothing) as system:
        assert system.must("systemctl", "is-enabled", LAYOUT.routes_unit) == "enabled\n"
        assert len(ours(system)) == 2, "before any machine was started"
        assert system.show(LAYOUT.routes_unit, "Result") == "success"
        assert LAYOUT.gate_drop_in() in system.show(KUBE1, "DropInPaths").split()
        assert start(system) == 0
        assert pid(system)
        assert markers(system) == {LAYOUT.ok_path}
        before = system.must("stat", "--format=%i %y %n", LAYOUT.routes_script_path, LAYOUT.check_unit_path)
        configure(system, wanted)
        assert system.must("stat", "--format=%i %y %n", LAYOUT.routes_script_path, LAYOUT.check_unit_path) == before
        system.must("systemctl", "preset-all", "--preset-mode=full")
        assert system.must("systemctl", "is-enabled", LAYOUT.routes_unit) == "enabled\n"


@pytest.mark.releases
def test_a_node_without_python() -> None:
    """A node with a read-only /usr, and neither Python nor a package manager, has its routes and its gate."""

    def finish(root: Path) -> None:
        for name in ("python*", "perl*", "apt*", "dpkg*", "rpm*"):
            for program in (*root.glob(f"usr/bin/{name}"), *root.glob(f"usr/local/bin/{name}")):
                program.unlink()

    with host(config(*HALVES, mode=Mode.STRICT), then=READ_ONLY, finish=finish) as system:
        assert system.run("touch", "/usr/bin/python3").returncode, "/usr can be written"
        assert system.run("sh", "-c", "PATH=/usr/sbin:/usr/bin; command -v python3 dpkg apt rpm").stdout == ""
        assert len(ours(system)) == 2
        assert start(system) == 0
        assert markers(system) == {LAYOUT.ok_path}
        end(system)
        capture = ("ip", "route", "add", "172.16.7.0/24", "dev", "ib0")
        system.must(*capture)
        assert start(system) == 1, "an address escapes"
        system.must("ip", "route", "delete", *capture[3:])
        assert start(system) == 0
