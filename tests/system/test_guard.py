"""The guard under a real systemd: what is removed comes back; nothing else is touched."""

import time
from pathlib import Path

import pytest

from hostrouting.config.settings import GuardConfig
from tests.support.gate import HALVES, LAYOUT, config, foreign, gate_tests, host, ours
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

UNIT = LAYOUT.guard_unit
GUARDED = config(*HALVES, mode="STRICT")._replace(guard=GuardConfig(enabled=True))
FOREIGN = (
    "route add 172.20.0.0/16 via 10.0.0.9 proto static",
    "route add 172.21.0.0/16 dev eth0 metric 7",
)
LOSE_DEVICE = ["link set eth0 down", "link set eth0 up", "route add default via 10.0.0.1", *FOREIGN]
CHANGES = (
    "for i in $(seq 5000); do echo route replace 192.0.2.0/24 dev eth0 metric $((i % 9)); done"
)
KILL = f"systemctl kill --signal={{}} {UNIT}"


def await_routes(system: System) -> None:
    wait_for("the routes", lambda: len(ours(system)) == len(HALVES))


def process(system: System) -> Path:
    pid = system.show(UNIT, "MainPID")
    return system.outside(f"/proc/{pid}")


def await_rest(system: System) -> None:
    """Wait until the guard has done nothing for longer than it would rest after a pass."""
    status = process(system) / "status"
    last = ""
    since = time.monotonic()

    def rests() -> bool:
        nonlocal last, since
        [switches] = [
            line for line in status.read_text().splitlines() if line.startswith("voluntary_ctxt")
        ]
        if switches != last:
            last = switches
            since = time.monotonic()
        return time.monotonic() - since > 0.5

    wait_for("the guard to rest", rests)


def a_route_comes_back(system: System) -> None:
    """A route that is deleted, flushed, or lost with its device is set again."""
    await_rest(system)
    before = foreign(system)
    for changes in ([f"route del {HALVES[0].destination}"], ["route flush proto 213"], LOSE_DEVICE):
        system.run("ip", "-batch", "-", stdin="\n".join(changes)).check_returncode()
        await_routes(system)
    assert sorted(foreign(system)) == sorted(before)
    await_rest(system)


ATTACKS = (
    # systemd refuses a sixth start in ten seconds, unless a unit says otherwise.
    (f"for _ in 1 2 3 4 5 6; do systemctl restart {UNIT}; done; {KILL.format('TERM')}", ""),
    (KILL.format("KILL"), ""),
    # Linux forgets what it cannot report.
    (f"{KILL.format('STOP')}; {CHANGES} | ip -batch -", KILL.format("CONT")),
)


def an_attack_on_the_guard(system: System) -> None:
    """Ended by anybody but an operator, killed, or out of buffer, it goes on."""
    for attack, then in ATTACKS:
        system.must("sh", "-c", f"{attack}; ip route flush proto 213; {then}")
        await_routes(system)
        wait_for("the guard", lambda: system.show(UNIT, "ActiveState") == "active")


STORIES = (a_route_comes_back, an_attack_on_the_guard)


def test_guard(subtests: pytest.Subtests) -> None:
    """Each story begins where the last one has ended."""
    then = "\n".join(f"ip {line}" for line in FOREIGN)
    with host(GUARDED, then=then, machines=()) as system:
        await_routes(system)
        for story in STORIES:
            with subtests.test(story.__name__):
                story(system)
