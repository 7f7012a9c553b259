"""What surrounds the gate: the manager's environment, how /etc is mounted, and in which order a boot goes."""

import pytest

from hostrouting.config import HostRoutingConfig, Mode, StaticRoute
from tests.support.gate import CIDR, HALVES, KUBE1, LAYOUT, config, gate_tests, host, pid, start

pytestmark = gate_tests


@pytest.mark.parametrize("settings", [config(mode=Mode.STRICT), config(StaticRoute(CIDR))], ids=["check", "routes"])
def test_an_environment_in_which_systemctl_does_nothing(settings: HostRoutingConfig) -> None:
    """The gate stays shut where the manager's environment makes any systemctl succeed without doing anything."""
    with host(settings) as system:
        system.must("systemctl", "set-environment", "SYSTEMD_OFFLINE=1")
        assert start(system) == 1
        assert not pid(system)


def test_no_program_can_be_run_in_etc() -> None:
    """With /etc mounted noexec the scripts run all the same."""
    with host(config(*HALVES, mode=Mode.STRICT)) as system:
        system.must("mount", "--bind", "/etc", "/etc")
        system.must("mount", "-o", "remount,bind,noexec", "/etc")
        assert start(system) == 0
        assert pid(system)


@pytest.mark.parametrize("mode", [Mode.WARN, Mode.STRICT])
def test_a_machine_is_ordered_behind_what_it_asks_for(mode: Mode) -> None:
    """At a boot a machine waits its turn; so the waiting does not count against the time that its own start has."""
    with host(config(*HALVES, mode=mode)) as system:
        after = system.show(KUBE1, "After").split()
        assert {"network-online.target", LAYOUT.routes_unit, LAYOUT.check_unit} <= set(after)
        assert LAYOUT.routes_unit in system.show(LAYOUT.check_unit, "After").split()
        wants = system.show(KUBE1, "Wants").split()
        assert (LAYOUT.check_unit in wants) == (mode is Mode.WARN)
