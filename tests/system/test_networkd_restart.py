"""What systemd-networkd takes away when it starts again, in each release, and what keeps it.

Here: Linux's own rules, and routes and rules that it does not know. Not here: single routes that it deletes while it
runs (`test_guard_networkd`).
"""

from collections.abc import Iterator

import attrs
import pytest

from hostrouting.config.settings import GuardConfig
from hostrouting.config.values import Upkeep
from tests.support.agents import agents
from tests.support.gate import HALVES, LAYOUT, config, configure, gate_tests, host, ours, run_task
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = [*gate_tests, pytest.mark.releases]

# Another address than the one that is there: Linux refuses to add that one while it is being deleted.
LINK = "[Match]\nName=eth0\n[Network]\nAddress=10.0.0.5/24\nGateway=10.0.0.1\nIPv6AcceptRA=no\nLinkLocalAddressing=no\n"
ROUTES = config(*HALVES)
KEEPING = attrs.evolve(ROUTES, kernel_rules=Upkeep.KEEP, guard=GuardConfig())
TOLD = attrs.evolve(ROUTES, manage_foreign=Upkeep.KEEP)
OWN = ["0: from all lookup local", "32766: from all lookup main", "32767: from all lookup default"]
MOVED = "100: from all lookup local"


@pytest.fixture
def system() -> Iterator[System]:
    """A host whose eth0 systemd-networkd configures."""
    with host(more={"/etc/systemd/network/10-eth0.network": LINK}, machines=()) as found:
        restart(found)
        yield found


def restart(system: System) -> None:
    """Start systemd-networkd again, and wait until it has configured eth0."""
    system.must("systemctl", "restart", "systemd-networkd")
    wait_for("eth0 to be configured", lambda: is_configured(system))


def is_configured(system: System) -> bool:
    """Whether systemd-networkd has configured eth0."""
    return "(configured)" in system.must("networkctl", "status", "eth0")


def version(system: System) -> int:
    """The version of systemd."""
    return int(system.must("systemctl", "--version").split()[1])


def rules(system: System) -> list[str]:
    """The IPv4 rules."""
    return [line.replace("\t", " ").strip() for line in system.must("ip", "rule").splitlines()]


def move_the_local_rule(system: System) -> None:
    """Do as Cilium does."""
    system.must("ip", "rule", "add", "pref", "100", "lookup", "local")
    system.must("ip", "rule", "del", "pref", "0", "lookup", "local")


def reconfigure(system: System) -> None:
    """Have systemd-networkd start again, and configure eth0 once more: of each release, one of the two deletes most."""
    restart(system)
    system.must("networkctl", "reconfigure", "eth0")


def test_what_it_takes_away(system: System) -> None:
    """By default it deletes our routes; from 249 on, also the rule for table local that Cilium has moved."""
    configure(system, ROUTES)
    move_the_local_rule(system)
    reconfigure(system)
    wait_for("the routes to be deleted", lambda: ours(system) == [])
    if version(system) >= 249:
        wait_for("the rule to be deleted", lambda: MOVED not in rules(system))
    assert OWN[0] not in rules(system)


def test_the_guard_keeps_the_kernels_rules(system: System) -> None:
    """The guard leaves a moved rule for table local, and adds Linux's own when systemd-networkd has deleted that one."""
    configure(system, KEEPING)
    move_the_local_rule(system)
    with agents(system) as crew:
        guard = crew.begin("Guard", KEEPING)
        wait_for("the guard", lambda: system.read(LAYOUT.guard_path) is not None)
        assert OWN[0] not in rules(system)
        if version(system) >= 249:
            reconfigure(system)
            wait_for("the rule", lambda: OWN[0] in rules(system))
        for rule in set(OWN) & set(rules(system)):
            system.must("ip", "rule", "del", "pref", rule.partition(":")[0])
        wait_for("all rules", lambda: set(OWN[version(system) < 249 :]) <= set(rules(system)))
        guard.kill()


def test_the_kernels_rules_at_boot(system: System) -> None:
    """The unit adds them at boot, sandboxed as it is, and Remove leaves them."""
    configure(system, KEEPING)
    for rule in OWN:
        system.must("ip", "rule", "del", "pref", rule.partition(":")[0])
    system.must("ip", "-6", "rule", "del", "pref", "32766")
    system.must("systemctl", "start", LAYOUT.rules_unit)
    assert rules(system) == OWN
    assert "32766:" in system.must("ip", "-6", "rule")
    restart(system)
    assert rules(system) == OWN
    assert run_task(system, "Remove", KEEPING).returncode == 0
    assert rules(system) == OWN
    assert system.read(LAYOUT.rules_unit_path) is None


def test_what_it_is_told_to_keep(system: System) -> None:
    """With the drop-in, a restart, also the first one, deletes neither our routes nor the rule that Cilium has moved."""
    assert "until then" in configure(system, TOLD)
    move_the_local_rule(system)
    for _ in range(2):
        restart(system)
        assert len(ours(system)) == 2
        assert MOVED in rules(system)
    assert run_task(system, "Remove", TOLD).returncode == 0
    assert system.read(LAYOUT.networkd_path) is None
