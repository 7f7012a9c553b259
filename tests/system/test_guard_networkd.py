"""The guard beside systemd-networkd and DHCP: routes that networkd deletes come back, by the gateway of the present lease."""

import json
from functools import partial

import attrs

from hostrouting.config.settings import GuardConfig
from hostrouting.config.values import Mode
from tests.support.gate import HALVES, LAYOUT, config, configure, gate_tests, ours
from tests.support.networkd import networkd_host
from tests.support.systemd import PROGRAM, System
from tests.support.waiting import wait_for

pytestmark = gate_tests

SETTINGS = attrs.evolve(config(*HALVES, mode=Mode.STRICT), guard=GuardConfig(enabled=True, program=PROGRAM))


def by(system: System, gateway: str) -> bool:
    """Whether both routes use this gateway."""
    return [f"via {gateway} dev eth0" in system.must("ip", "route", "show", own) for own in ours(system)] == [
        True,
        True,
    ]


def repairs(system: System) -> int:
    """How many routes the guard has repaired so far."""
    text = system.read(LAYOUT.guard_path)
    return 0 if text is None else int(json.loads(text)["repairs"])


def has_repaired(system: System, number: int) -> bool:
    """Whether the guard has made at least this many repairs."""
    return repairs(system) >= number


def test_beside_networkd() -> None:
    """The guard adds the routes that systemd-networkd deletes, by the gateway that the present lease names."""
    with networkd_host() as system:
        configure(system, SETTINGS)
        assert by(system, "10.0.0.1")
        repaired = repairs(system)
        for _ in range(2):
            system.must("networkctl", "reconfigure", "eth0")
            repaired += 2
            wait_for("both repairs", partial(has_repaired, system, repaired))
            wait_for("the routes", lambda: by(system, "10.0.0.1"))

        def renewed() -> bool:
            # The server returns to its caller before it listens, and a request that is lost is not soon repeated.
            system.must("networkctl", "renew", "eth0")
            return "default via 10.0.0.2" in system.must("ip", "route")

        system.must("/etc/test-dhcp.sh", "10.0.0.2")
        wait_for("the new default route", renewed)
        wait_for("the routes", lambda: by(system, "10.0.0.2"))
