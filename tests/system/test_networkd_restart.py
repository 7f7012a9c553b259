"""What systemd-networkd takes away when it starts again, in each release, and what keeps it."""

import json

import attrs

from hostrouting.config.settings import GuardConfig
from hostrouting.config.values import Upkeep
from tests.support.agents import agents
from tests.support.gate import HALVES, LAYOUT, config, configure, gate_tests, host, ours, run_task
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

# Another address than the one that is there: Linux refuses to add that one while it is being deleted.
LINK = "[Match]\nName=eth0\n[Network]\nAddress=10.0.0.5/24\nGateway=10.0.0.1\nIPv6AcceptRA=no\nLinkLocalAddressing=no\n"
ROUTES = config(*HALVES)
GUARDED = attrs.evolve(ROUTES, guard=GuardConfig())
KEEPING = attrs.evolve(ROUTES, manage_foreign=Upkeep.KEEP)


def restart(system: System) -> None:
    """Start systemd-networkd again, and wait until it has configured eth0."""
    system.must("systemctl", "restart", "systemd-networkd")
    wait_for("eth0 to be configured", lambda: is_configured(system))


def is_configured(system: System) -> bool:
    """Whether systemd-networkd has configured eth0."""
    return "(configured)" in system.must("networkctl", "status", "eth0")


def reconfigure(system: System) -> None:
    """Have systemd-networkd start again, and configure eth0 once more: of each release, one of the two deletes most."""
    restart(system)
    system.must("networkctl", "reconfigure", "eth0")


def repairs(system: System) -> int:
    """How many routes the guard has repaired so far."""
    return int(json.loads(system.read(LAYOUT.guard_path) or "{}").get("repairs", 0))


def test_what_it_takes_away() -> None:
    """By default systemd-networkd deletes our routes; the guard brings them back; with the drop-in, they stay."""
    with host(more={"/etc/systemd/network/10-eth0.network": LINK}, machines=()) as system:
        restart(system)
        configure(system, ROUTES)
        reconfigure(system)
        wait_for("the routes to be deleted", lambda: ours(system) == [])
        with agents(system) as crew:
            guard = crew.begin("Guard", GUARDED)
            wait_for("the first repairs", lambda: repairs(system) >= 2)
            before = repairs(system)
            reconfigure(system)
            wait_for("the repairs", lambda: repairs(system) >= before + 2)
            wait_for("the routes", lambda: len(ours(system)) == 2)
            guard.kill()
            guard.wait()

        assert "until then" in configure(system, KEEPING)
        for _ in range(2):
            restart(system)
            assert len(ours(system)) == 2
        assert run_task(system, "Remove", KEEPING).returncode == 0
        assert system.read(LAYOUT.networkd_path) is None
