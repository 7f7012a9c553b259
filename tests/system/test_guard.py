"""The guard under a real systemd: what is removed comes back; nothing else is touched."""

import json
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
FLOOD = f"{CHANGES} | ip -batch -"
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


NEW_ROUTER = ["route del default", "route add default via 10.0.0.7"]
OLD_ROUTER = ["route del default", "route add default via 10.0.0.1", *FOREIGN]


def led_by(system: System) -> set[str]:
    listed = json.loads(system.must("ip", "-j", "-N", "route", "show", "proto", "213"))
    return {route["gateway"] for route in listed}


def a_new_router(system: System) -> None:
    """The default route gets another gateway on the same device: ours follow within 3 s."""

    def ours_follow(changes: list[str], router: str) -> None:
        await_rest(system)
        system.run("ip", "-force", "-batch", "-", stdin="\n".join(changes))
        began = time.monotonic()
        wait_for("the routes", lambda: led_by(system) == {router})
        assert time.monotonic() - began < 3
        assert len(ours(system)) == len(HALVES)

    ours_follow(NEW_ROUTER, "10.0.0.7")
    ours_follow(OLD_ROUTER, "10.0.0.1")


NEW_CARD = [
    "link add eth7 type veth peer name peer7",
    "link set peer7 up",
    "link set eth7 up",
    "address add 10.7.0.4/24 dev eth7",
    "route del default",
    "route add default via 10.0.0.1 metric 100",
    "route add default via 10.7.0.1 dev eth7",
]
NO_NEW_CARD = ["link del eth7", "route del default", "route add default via 10.0.0.1", *FOREIGN]


def a_new_card(system: System) -> None:
    """Its default route is better than the one before: ours stay where they are."""
    show_ours = ("ip", "-N", "route", "show", "proto", "213")
    before = system.must(*show_ours)
    system.run("ip", "-batch", "-", stdin="\n".join(NEW_CARD)).check_returncode()
    await_rest(system)
    assert system.must(*show_ours) == before
    system.run("ip", "-force", "-batch", "-", stdin="\n".join(NO_NEW_CARD))
    await_routes(system)


def a_fight(system: System) -> None:
    """Another program deletes ours again and again: one line, and a number in a file."""
    repairs = f"$(head -n 1 {LAYOUT.fight_path} 2>/dev/null || echo 0)"
    fight = f"while [ {repairs} -le 10 ]; do ip route flush proto 213; sleep 0.1; done"
    assert system.run("sh", "-c", fight, timeout=200).returncode == 0
    await_routes(system)
    number, sentence = system.must("cat", LAYOUT.fight_path).splitlines()
    assert int(number) > 10
    assert f"{number} times by now" in sentence
    words = "another program takes away what the guard puts back"
    assert system.journal(UNIT).count(words) == 1
    system.must("systemctl", "restart", UNIT)
    assert system.run("test", "-e", LAYOUT.fight_path).returncode == 1


ATTACKS = (
    # systemd refuses a sixth start in ten seconds, unless a unit says otherwise.
    (f"for _ in 1 2 3 4 5 6; do systemctl restart {UNIT}; done; {KILL.format('TERM')}", ""),
    (KILL.format("KILL"), ""),
    # Linux forgets what it cannot report.
    (f"{KILL.format('STOP')}; {FLOOD}", KILL.format("CONT")),
)


def an_attack_on_the_guard(system: System) -> None:
    """Ended by anybody but an operator, killed, or out of buffer, it goes on."""
    for attack, then in ATTACKS:
        system.must("sh", "-c", f"{attack}; ip route flush proto 213; {then}")
        await_routes(system)
        wait_for("the guard", lambda: system.show(UNIT, "ActiveState") == "active")


STORIES = (a_route_comes_back, a_new_router, a_new_card, a_fight, an_attack_on_the_guard)


def test_guard(subtests: pytest.Subtests) -> None:
    """Each story begins where the last one has ended."""
    then = "\n".join(f"ip {line}" for line in FOREIGN)
    with host(GUARDED, then=then, machines=()) as system:
        await_routes(system)
        for story in STORIES:
            with subtests.test(story.__name__):
                story(system)
