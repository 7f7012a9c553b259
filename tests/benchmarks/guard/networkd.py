"""Measure how soon the guard adds routes again that systemd-networkd deletes: `networkctl reconfigure`, a real systemd.

    python -m tests.benchmarks.guard.networkd --rounds 99 --hosts 3

A round is one `networkctl reconfigure`. networkd takes the address away, and Linux then removes the static routes without
an event. The time begins when networkd has added DHCP's default route again, because the static routes get their gateway
from it. It ends when both static routes are there again. Both moments are from `ip -ts monitor`. A host has nine rounds,
because after ten repairs of the same route the guard repairs it once a minute.
"""

import argparse
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import attrs

from hostrouting.config.settings import GuardConfig
from tests.benchmarks.guard.times import times_in_words
from tests.support.gate import HALVES, config, configure
from tests.support.networkd import networkd_host
from tests.support.systemd import PROGRAM, System
from tests.support.waiting import wait_for

SETTINGS = attrs.evolve(config(*HALVES), guard=GuardConfig(enabled=True, program=PROGRAM))
_MOST = 9
_RECORD = "/run/routes-monitor"
_ROUTES = frozenset(str(half.destination) for half in HALVES)
_EVENT = re.compile(rf"\[(\S+)\] (Deleted )?({'|'.join(map(re.escape, ('default', *_ROUTES)))}) ")


def repairs(text: str) -> list[float]:
    """The time of each repair, in seconds."""
    found: list[float] = []
    missing: set[str] = set()
    back: float | None = None  # when the default route came back
    for moment, is_deleted, destination in _EVENT.findall(text):
        at = datetime.fromisoformat(moment).timestamp()
        if destination == "default":
            if is_deleted:
                missing, back = {*_ROUTES}, None
            elif back is None:
                back = at
        elif not is_deleted and back is not None and destination in missing:
            missing.discard(destination)
            if not missing:
                found.append(at - back)
    return found


def on_a_host(rounds: int) -> list[float]:
    """So many rounds on one host."""
    with networkd_host() as system:
        configure(system, SETTINGS)
        system.must("systemd-run", f"--property=StandardOutput=file:{_RECORD}", "ip", "-ts", "monitor", "route")
        wait_for("ip monitor to listen", lambda: _is_heard(system))
        found: list[float] = []

        def is_one_more() -> bool:
            nonlocal found
            before, found = len(found), repairs(system.read(_RECORD) or "")
            return len(found) > before

        for _ in range(rounds):
            system.must("networkctl", "reconfigure", "eth0")
            wait_for("the routes", is_one_more)
        return found


def _is_heard(system: System) -> bool:
    """Make events that concern nobody, and return whether anything has been recorded."""
    for change in ("add", "del"):
        system.must("ip", "route", change, "blackhole", "192.0.2.1")
    return bool(system.read(_RECORD))


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=99, help="how many rounds there are in all")
    parser.add_argument("--hosts", type=int, default=3, help="how many hosts run at once")
    given = parser.parse_args()
    shares = [min(_MOST, given.rounds - at) for at in range(0, given.rounds, _MOST)]
    with ThreadPoolExecutor(given.hosts) as pool:
        times = [it for found in pool.map(on_a_host, shares) for it in found]
    sys.stdout.write(f"{times_in_words('repairs', times)}\n")


if __name__ == "__main__":
    main()
