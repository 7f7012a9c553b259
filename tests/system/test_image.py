"""An image that `Host.offline` wrote: at its first boot everything is enabled, and nobody has to run a task in it."""

import pytest

from hostrouting.config import Mode
from tests.support.gate import (
    CIDR,
    HALVES,
    KUBE1,
    LAYOUT,
    config,
    configure,
    gate_tests,
    host,
    markers,
    ours,
    pid,
    start,
)

pytestmark = gate_tests


@pytest.mark.releases
def test_it_boots_with_everything_enabled() -> None:
    """The routes come by themselves, the machine has to pass the gate, and the task finds nothing left to write."""
    wanted = config(*HALVES, mode=Mode.STRICT)
    with host(wanted) as system:
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


@pytest.mark.releases
def test_presets() -> None:
    """Our unit is enabled even if the distribution disables all units that it does not name, as at a first boot."""
    nothing = {"/usr/lib/systemd/system-preset/90-nothing.preset": "disable *\n"}
    with host(config(*HALVES, mode=Mode.STRICT), more=nothing) as system:
        system.must("systemctl", "preset-all", "--preset-mode=full")
        assert system.must("systemctl", "is-enabled", LAYOUT.routes_unit) == "enabled\n"


def test_its_gate_is_shut() -> None:
    """An image with an overlap and no repair boots, and its machine does not start in STRICT."""
    with host(config(mode=Mode.STRICT)) as system:
        assert start(system) == 1
        assert markers(system) == {LAYOUT.detected_path}
        assert CIDR in (system.read(LAYOUT.detected_path) or "")
