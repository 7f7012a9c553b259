"""guard.sh under a real systemd: what is removed comes back, whatever happens to the guard, and
nothing else is touched.
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hostrouting.boot.scripts import asset
from hostrouting.boot.units import UNITS
from tests.support.gate import gate_tests, host
from tests.support.inline_gate import GUARD, gate_files
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

UNIT, ROUTE = "hostrouting-guard.service", "10.99.0.0/16"
ROUTES = f"""\
echo routes >>/run/hostrouting/passes
if [[ ! $(ip route show {ROUTE}) ]]; then
  ip route add {ROUTE} via 10.0.0.1 proto 213
  echo changed by $$
fi
exit 0
"""
CHECK = """\
echo check >>/run/hostrouting/passes
[[ -e /run/good ]] && exit 0
echo an address escapes
exit 1
"""
FOREIGN = (
    "route add 172.20.0.0/16 via 10.0.0.9 proto static",
    "route add 172.21.0.0/16 dev eth0 metric 7",
)


def guard_text(*, every: int = 10, idle: int = 58) -> str:
    """guard.sh with these intervals in seconds."""
    text = asset("guard.sh")
    changes = {"full_pass_interval=10 ": f"full_pass_interval={every} "}
    changes |= {"idle_time=58 ": f"idle_time={idle} "}
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


@contextmanager
def guarded(*, check: str = CHECK, limit: int = 75, **intervals: int) -> Iterator[System]:
    """A guarded host with a static route, a check, and routes of other programs."""
    files = gate_files(
        steps={"10-static-routes": ROUTES, "20-check": check},
        required="10-static-routes",
        wanted="20-check",
        limit=limit,
    )
    files |= {GUARD: guard_text(**intervals), f"/etc/systemd/system/{UNIT}": UNITS[UNIT]}
    with host(more=files, then="\n".join(f"ip {line}" for line in FOREIGN), machines=()) as system:
        system.must("systemctl", "start", UNIT)
        await_route(system)
        yield system


def passes(system: System) -> list[str]:
    """The steps that the guard has run."""
    return (system.read("/run/hostrouting/passes") or "").split()


def is_there(system: System) -> bool:
    """Whether our route is there."""
    return bool(system.must("ip", "route", "show", ROUTE))


def await_route(system: System) -> None:
    """Wait until our route is there."""
    wait_for("the route", lambda: is_there(system))


def await_checks(system: System, count: int) -> None:
    """Wait until the check has run this often."""
    wait_for(f"{count} checks", lambda: passes(system).count("check") >= count)


def foreign(system: System) -> list[str]:
    """The routes of other programs."""
    return [
        line
        for line in system.must("ip", "route", "show", "dev", "eth0").splitlines()
        if not line.startswith(ROUTE)
    ]


def test_a_route_comes_back() -> None:
    """A route that is deleted, flushed, or lost with its device is set again; routes of others stay
    as they are.
    """
    with guarded() as system:
        before = foreign(system)
        lost = [
            "link set eth0 down",
            "link set eth0 up",
            "route add default via 10.0.0.1",
            *FOREIGN,
        ]
        for changes in ([f"route del {ROUTE}"], ["route flush proto 213"], lost):
            system.run("ip", "-batch", "-", stdin="\n".join(changes)).check_returncode()
            await_route(system)
        assert foreign(system) == before


def await_rest(system: System, *, seconds: float) -> None:
    """Wait until the guard has run no step for this long."""
    last_count = len(passes(system))
    since = time.monotonic()

    def rests() -> bool:
        nonlocal last_count, since
        count = len(passes(system))
        if count != last_count:
            last_count = count
            since = time.monotonic()
        return time.monotonic() - since > seconds

    wait_for("the guard to rest", rests)


def test_when_the_guard_looks() -> None:
    """It does not wake itself; an event runs the routes at once and all steps a little later."""
    with guarded(every=3) as system:
        # It would be awake after 3 s at most.
        await_rest(system, seconds=4)
        checks = passes(system).count("check")
        system.must("ip", "route", "del", ROUTE)
        wait_for("the routes", lambda: system.journal(UNIT).count("changed") == 2)
        await_checks(system, checks + 1)
        # Each line is logged when it is new. The line of a change always is, so it does not matter
        # whether a pass of all steps has come since the first one: on a busy machine, the guard may
        # have paused for longer than it was seen at rest.
        lines = re.findall("changed|an address escapes|20-check failed", system.journal(UNIT))
        assert lines == ["changed", "an address escapes", "20-check failed", "changed"]


def test_a_long_silence() -> None:
    """When nothing has happened for a while, the guard runs all steps; a line that it has not
    logged the last time is logged again.
    """
    with guarded(every=1, idle=1) as system:

        def escapes_logged() -> int:
            return system.journal(UNIT).count("an address escapes")

        wait_for("the journal", lambda: escapes_logged() == 1)
        system.lay("/run/good", "")
        await_checks(system, passes(system).count("check") + 2)
        system.must("rm", "/run/good")
        wait_for("the journal", lambda: escapes_logged() == 2)
        system.lay("/run/good", "")
        wait_for("the end", lambda: "all steps succeed again" in system.journal(UNIT))


MONITOR = "-fx 'ip monitor link address route rule'"
"""How pkill and pgrep are told of the guard's monitor, and not of an `ip` that a step runs."""
CHANGES = (
    "for i in $(seq 20000); do echo route replace 192.0.2.0/24 dev eth0 metric $((i % 9)); done"
)
FLOOD = f"{CHANGES} | ip -batch -"


@pytest.mark.parametrize(
    ("attack", "then"),
    [
        # systemd refuses a sixth start in ten seconds, unless a unit says otherwise.
        (f"for _ in 1 2 3 4 5 6; do systemctl restart {UNIT}; done; systemctl kill {UNIT}", ""),
        (f"pkill -KILL {MONITOR}", ""),
        (f"pkill -STOP {MONITOR}; {FLOOD}", f"pkill -CONT {MONITOR}"),
    ],
    ids=["guard ended", "monitor killed", "monitor out of buffer"],
)
def test_an_attack_on_the_guard(attack: str, then: str) -> None:
    """Ended by anybody but systemd, or with its monitor killed or out of buffer, it goes on, also
    beside what a step leaves behind.
    """
    with guarded(check="setsid sleep 999 &\n") as system:
        wait_for("the monitor", lambda: system.run("sh", "-c", f"pgrep {MONITOR}").returncode == 0)
        system.must("sh", "-c", f"{attack}; ip route del {ROUTE}; {then}")
        await_route(system)


def test_a_step_that_hangs() -> None:
    """It is ended when its time is over, which is logged, and the guard goes on."""
    with guarded(check="[[ -e /run/good ]] || sleep 999\n", limit=6) as system:
        wait_for(
            "the end of the step", lambda: "20-check.sh ran longer than" in system.journal(UNIT)
        )
        system.lay("/run/good", "")
        system.must("ip", "route", "del", ROUTE)
        await_route(system)


def test_a_start_that_fails_early() -> None:
    """If systemd cannot run the guard's script, `systemctl start` fails, so `apply` learns that."""
    with guarded() as system:
        system.must("systemctl", "stop", UNIT)
        system.lay(
            f"/etc/systemd/system/{UNIT}.d/99.conf", "[Service]\nWorkingDirectory=/nowhere\n"
        )
        system.must("systemctl", "daemon-reload")
        assert system.run("systemctl", "start", UNIT).returncode


def test_a_stop() -> None:
    """A guard that systemd stops has not failed: its journal names no error, whether the guard
    waits for a change or rests after a pass.
    """
    with guarded() as system:
        await_checks(system, 1)
        system.must("systemctl", "restart", UNIT)
        await_checks(system, 2)
        await_rest(system, seconds=3)
        system.must("systemctl", "stop", UNIT)
        assert "cut short" not in system.journal(UNIT)
        assert system.show(UNIT, "Result") == "success"
