"""Starts of a gated unit, while other processes change the host and our files, and kill the gate.

While an address escapes, the unit must not start; otherwise it has to, whatever changes.
HOSTROUTING_ATTACKED_STARTS says how many starts, HOSTROUTING_SEED which.
"""

import json
import os
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random
from threading import Thread

import pytest

from hostrouting.config.settings import GateConfig
from tests.support.gate import HALVES, LAYOUT, apply, config, gate_tests, host
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

STARTS = int(os.environ.get("HOSTROUTING_ATTACKED_STARTS", "4"))
SEED = int(os.environ.get("HOSTROUTING_SEED", "1"))
AT_ONCE = 60
"""So many starts are one test, with a boot of its own."""

UNIT = "attacked.service"
RAN = "/run/attacked"
FILES = {
    f"/etc/systemd/system/{UNIT}": "[Unit]\nStartLimitIntervalSec=0\n"
    f"[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo ran >>{RAN}'\n",
    # Or systemd would forget the unit, and its last start with it, when it has ended.
    "/etc/systemd/system/multi-user.target.d/50.conf": f"[Unit]\nAfter={UNIT}\n",
}
ROUTER = "via 10.0.0.1 dev eth0"
SPARE = "ip link add spare0 type veth peer name spare1"
_RESULTS = "mount -t tmpfs -o {},mode=755 none /run/hostrouting"
# Each attack: commands of a shell, with pauses between them.
HARMLESS = [
    ("ip route add 10.99.0.0/16 dev ib0", "ip route del 10.99.0.0/16 dev ib0"),
    (f"ip route add 172.16.9.7 {ROUTER} metric 5", f"ip route del 172.16.9.7 {ROUTER} metric 5"),
    ("ip rule add pref 99 to 203.0.113.0/24 lookup 77", "ip rule del pref 99"),
    ("ip link set spare0 up", "ip link set spare0 down"),
    ("ip link add pod0 up type veth peer name pod1", "ip link del pod0"),
    ("ip address add 192.0.2.7/24 dev ib0", "ip address del 192.0.2.7/24 dev ib0"),
    (_RESULTS.format("ro"), "umount --lazy /run/hostrouting"),
    (
        _RESULTS.format("size=4k") + "; cat /dev/zero >/run/hostrouting/all 2>&1 || true",
        "umount --lazy /run/hostrouting",
    ),
]
# What lets an address escape, and what ends that.
ESCAPES = [
    ("ip route add 172.16.200.0/24 dev ib0", "ip route del 172.16.200.0/24 dev ib0"),
    ("ip route add prohibit 172.16.200.0/26", "ip route del prohibit 172.16.200.0/26"),
    ("ip rule add pref 50 to 172.16.200.0/24 prohibit", "ip rule del pref 50"),
]
KILLED = ("^/etc/hostrouting/python", "hostrouting-gate")
"""The processes of the gate: the program, and the shell that waits for it."""
_REPLACE = "for n in 1 2; do cp /root/$n{0} {0}.new; mv {0}.new {0}; sleep 0.05; done"
"""By one of two that are as good, and have the same things in other places."""
# What happens again and again during a whole start.
STORMS = {
    "reloads": "systemctl daemon-reload",
    "reexecs": "systemctl daemon-reexec",
    "programs": _REPLACE.format(LAYOUT.program_path),
    "configurations": _REPLACE.format(LAYOUT.config_path),
}


@contextmanager
def attacked(
    system: System, chance: Random, *, storms: list[str], kills: bool = False
) -> Iterator[None]:
    """A shell repeats the storms, and a thread attacks again and again. What it began, it ends."""
    is_stormy = system.outside("/run/storm")
    is_stormy.touch()
    repeated = "; sleep 0.1; ".join(STORMS[storm] for storm in storms)
    loop = f"while [ -e /run/storm ]; do {repeated or ':'}; sleep 0.1; done"

    def attack() -> None:
        while is_stormy.exists():
            if kills and chance.random() < 0.3:
                time.sleep(chance.random() / 10)
                signal = chance.choice(["-TERM", "-KILL"])
                system.run("pkill", signal, "-f", chance.choice(KILLED))
                continue
            for command in chance.choice(HARMLESS):
                system.run("sh", "-c", command)
                time.sleep(chance.random() / 60)

    storm = Thread(target=system.run, args=("sh", "-c", loop), kwargs={"timeout": 300})
    threads = [storm, Thread(target=attack)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(chance.random() / 20)
        yield
    finally:
        is_stormy.unlink()
        for thread in threads:
            thread.join()


def shown(system: System) -> Mapping[str, str]:
    """How the unit is. While systemd executes itself again, it does not answer."""
    answer: dict[str, str] = {}

    def has_answered() -> bool:
        done = system.run("systemctl", "show", "-p", "Job,ActiveState,InvocationID", UNIT)
        for line in done.stdout.splitlines():
            name, _, value = line.partition("=")
            answer[name] = value
        return done.returncode == 0

    wait_for("systemd to answer", has_answered)
    return answer


def has_run(system: System) -> bool:
    path = system.outside(RAN)
    before = path.stat().st_size if path.exists() else 0
    last_start = shown(system)["InvocationID"]

    def has_begun() -> bool:
        return shown(system)["InvocationID"] != last_start

    def is_asked() -> bool:
        # If systemd executes itself again, it may be asked, and not answer.
        done = system.run("systemctl", "start", "--no-block", UNIT)
        return done.returncode == 0 or has_begun()

    def has_ended() -> bool:
        now = shown(system)
        return now.get("Job", "") in {"", "0"} and now["ActiveState"] in {"inactive", "failed"}

    wait_for("systemd to be asked", is_asked)
    wait_for("the start", has_begun)
    wait_for("the end of the start", has_ended)
    return path.exists() and path.stat().st_size > before


def make_others(system: System) -> None:
    """Make what replaces the program and the configuration."""
    folder = LAYOUT.config_directory
    system.must("sh", "-c", f"mkdir -p /root/1 /root/2; cp -r --parents {folder} /root/1")
    document = json.loads(system.read(LAYOUT.config_path) or "")
    system.lay(f"/root/2{LAYOUT.config_path}", json.dumps(document))
    other = system.outside(f"/root/2{LAYOUT.program_path}")
    with (
        zipfile.ZipFile(system.outside(LAYOUT.program_path)) as ours,
        zipfile.ZipFile(other, "w") as archive,
    ):
        for name in reversed(ours.namelist()):
            archive.writestr(name, ours.read(name))


def require_real_attacks(system: System) -> None:
    """Fail if a command fails on a host whose routes are right: it would attack nothing."""
    commands = [f"ip route replace {half.destination} {ROUTER}" for half in HALVES]
    for attacks in (HARMLESS, ESCAPES):
        for each in attacks:
            commands += each
    for command in (*commands, *STORMS.values()):
        system.must("sh", "-ec", command)


@pytest.mark.parametrize("first", range(0, STARTS, AT_ONCE))
def test_attacked_starts(first: int) -> None:
    """No attack lets a unit start while an address escapes, or keeps it back otherwise."""
    chance = Random(f"{SEED}, {first}")  # noqa: S311  the same in each run
    gated = config(*HALVES, mode="STRICT")._replace(gate=GateConfig((UNIT,)))
    wrong: list[str] = []
    with host(more=FILES, machines=()) as system:
        apply(system, gated)
        make_others(system)
        system.must("sh", "-c", SPARE)
        for number in range(first, min(first + AT_ONCE, STARTS)):
            storms = chance.sample([*STORMS], len(STORMS) if number < 2 else chance.randrange(3))
            if chance.random() < 0.3:
                system.run("ip", "route", "del", str(HALVES[0].destination))
            begin, finish = chance.choice(ESCAPES)
            escapes = number % 2 == 1
            if escapes:
                system.must("sh", "-c", begin)
            with attacked(system, chance, storms=storms, kills=escapes):
                ran = has_run(system)
            if escapes:
                system.must("sh", "-c", finish)
            if ran is escapes:
                wrong.append(f"start {number}, with an escape: {escapes}, {storms}: ran is {ran}")
                wrong += system.journal(UNIT).splitlines()[-12:]
        require_real_attacks(system)
    assert not wrong, "\n".join(wrong[:60])
