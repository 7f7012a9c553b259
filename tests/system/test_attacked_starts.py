"""Starts of a gated unit, under a real systemd, while another process changes the host and kills
steps.

Each start is one of three kinds, and the first two have one right answer:

    right       an address never escapes, whatever changes meanwhile: the unit has to start
    escaping    one address escapes all the time: the unit must not start, whatever is killed
    anything    routes, links and steps come and go; after that, a start without an attack succeeds

HOSTROUTING_ATTACKED_STARTS says how many starts, HOSTROUTING_SEED which.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from random import Random
from threading import Event, Thread

from hostrouting.config.settings import GateConfig
from tests.support.gate import HALVES, config, gate_tests, host
from tests.support.systemd import System

pytestmark = gate_tests

STARTS = int(os.environ.get("HOSTROUTING_ATTACKED_STARTS", "12"))
SEED = int(os.environ.get("HOSTROUTING_SEED", "1"))

UNIT = "attacked.service"
RAN = "/run/attacked"
FILES = {
    f"/etc/systemd/system/{UNIT}": "[Unit]\nStartLimitIntervalSec=0\n"
    f"[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo ran >>{RAN}'\n",
}
ROUTER = "via 10.0.0.1 dev eth0"

# Each attack: commands of `ip`, with pauses between them.
SPARE = "link add spare0 type veth peer name spare1"
HARMLESS = [
    ("route add 10.99.0.0/16 dev ib0", "route del 10.99.0.0/16 dev ib0"),
    (f"route add 172.16.9.0/24 {ROUTER}", f"route del 172.16.9.0/24 {ROUTER}"),
    (f"route add 172.16.9.7/32 {ROUTER} metric 5", f"route del 172.16.9.7/32 {ROUTER} metric 5"),
    ("rule add pref 99 to 203.0.113.0/24 lookup 77", "rule del pref 99"),
    ("link set spare0 up", "link set spare0 down"),
    ("link add pod0 up type veth peer name pod1", "link del pod0"),
    ("address add 192.0.2.7/24 dev ib0", "address del 192.0.2.7/24 dev ib0"),
]
HARMFUL = [
    ("route del 172.16.0.0/17",),
    ("route del 172.16.128.0/17",),
    ("route add 172.16.77.0/24 dev ib0", "route del 172.16.77.0/24 dev ib0"),
    ("route add blackhole 172.16.78.0/24", "route del blackhole 172.16.78.0/24"),
    ("route del default", f"route add default {ROUTER}"),
    ("link set ib0 down", "link set ib0 up"),
]
# What lets an address escape, and what ends that.
ESCAPES = [
    ("route add 172.16.200.0/24 dev ib0", "route del 172.16.200.0/24 dev ib0"),
    (
        "route add 172.16.200.9/32 dev ib0 metric 7",
        "route del 172.16.200.9/32 dev ib0 metric 7",
    ),
    ("route add prohibit 172.16.200.0/26", "route del prohibit 172.16.200.0/26"),
    ("rule add pref 50 to 172.16.200.0/24 prohibit", "rule del pref 50"),
]
KILLED = ("gate.d/20-", "gate.d/10-", "awk", "flock")


@contextmanager
def attack(
    system: System, chance: Random, attacks: Sequence[tuple[str, ...]], *, kills: bool
) -> Iterator[None]:
    """During the block, another thread attacks again and again. What it began, it ends."""
    is_over = Event()

    def attack_once() -> None:
        if kills and chance.random() < 0.3:
            time.sleep(chance.random() / 10)
            signal = chance.choice(["-TERM", "-KILL"])
            system.run("pkill", signal, "-f", chance.choice(KILLED))
            return
        for command in chance.choice(attacks):
            system.run("ip", *command.split())
            time.sleep(chance.random() / 60)

    def attack_until_over() -> None:
        while not is_over.is_set():
            attack_once()

    attacker = Thread(target=attack_until_over)
    attacker.start()
    try:
        time.sleep(chance.random() / 20)
        yield
    finally:
        is_over.set()
        attacker.join()


def repair(system: System) -> None:
    """All is right, but for the static routes, which a step sets."""
    for command in (
        "link set eth0 up",
        "link set ib0 up",
        f"route replace default {ROUTER}",
        "route flush 172.16.77.0/24",
        "route flush 172.16.78.0/24",
    ):
        system.run("ip", *command.split())


def has_run(system: System) -> bool:
    """Start the unit; whether it ran."""
    path = system.outside(RAN)
    before = path.stat().st_size if path.exists() else 0
    system.run("systemctl", "start", UNIT, timeout=120)
    return path.exists() and path.stat().st_size > before


def while_all_is_right(system: System, chance: Random) -> bool:
    """Start the unit under attacks that take nothing away; whether it ran."""
    with attack(system, chance, HARMLESS, kills=False):
        return has_run(system)


def while_an_address_escapes(system: System, chance: Random) -> bool:
    """Start the unit, also while steps are killed; whether it ran."""
    begin, finish = chance.choice(ESCAPES)
    system.must("ip", *begin.split())
    with attack(system, chance, HARMLESS, kills=True):
        ran = has_run(system)
    system.must("ip", *finish.split())
    return ran


def after_anything(system: System, chance: Random) -> bool:
    """Start the unit under any attack, and again after a repair; whether it ran then."""
    with attack(system, chance, [*HARMLESS, *HARMFUL], kills=True):
        has_run(system)
    repair(system)
    return has_run(system)


KINDS = {while_all_is_right: True, while_an_address_escapes: False, after_anything: True}
"""Each kind of start, and whether the unit has to run then."""


def require_real_attacks(system: System) -> None:
    """Fail if `ip` refuses an attack on a host whose routes are right: it would attack nothing."""
    commands = [f"route replace {half.destination} {ROUTER}" for half in HALVES]
    for attacks in (HARMLESS, HARMFUL, ESCAPES):
        for each in attacks:
            commands += each
    done = system.run("ip", "-batch", "-", stdin="\n".join(commands))
    assert done.returncode == 0, done.stderr


def test_attacked_starts() -> None:
    """No attack lets a unit start while an address escapes all the time, or keeps it from starting
    while all is right.
    """
    assert len(KINDS) <= STARTS, "some kind would not be tried"
    chance = Random(SEED)  # noqa: S311  the same in each run
    gated = config(*HALVES, mode="STRICT")._replace(gate=GateConfig((UNIT,)))
    wrong: list[str] = []
    with host(gated, more=FILES, machines=()) as system:
        system.must("ip", *SPARE.split())
        for number, start in zip(range(STARTS), cycle(KINDS)):
            if chance.random() < 0.3:
                system.run("ip", "route", "del", str(HALVES[0].destination))
            ran = start(system, chance)
            if ran is not KINDS[start]:
                wrong.append(f"start {number}, {start.__name__}: ran is {ran}")
                wrong += system.journal(UNIT).splitlines()[-12:]
        require_real_attacks(system)
    assert not wrong, "\n".join(wrong[:60])
