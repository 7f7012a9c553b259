"""An apply that meets a start, or cannot write or tell systemd: what starts meanwhile, and what the
next one completes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from hostrouting.config.settings import GateConfig, GuardConfig, HostRoutingConfig
from tests.support import gate
from tests.support.gate import HALVES, LAYOUT, gate_tests
from tests.support.sections import static
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

OVERLAPS = gate.config(mode="STRICT")
ALLOWS, REFUSES = (
    gate.config(*HALVES, mode="STRICT"),
    gate.config(static("10.77.0.0/16"), mode="STRICT"),
)
# It stands in for systemctl, and keeps the caller waiting at each reload.
SLOW = """\
#!/bin/sh
case "$*" in *daemon-reload*) touch /run/waits; while [ ! -e /run/go ]; do sleep 0.02; done ;; esac
exec /usr/bin/systemctl.real "$@"
"""


@contextmanager
def systemctl(system: System, text: str) -> Iterator[None]:
    """Have this script stand in the place of systemctl."""
    system.must("mv", "/usr/bin/systemctl", "/usr/bin/systemctl.real")
    system.lay("/usr/bin/systemctl", text, mode=0o755)
    try:
        yield
    finally:
        system.must("mv", "/usr/bin/systemctl.real", "/usr/bin/systemctl")


@pytest.mark.parametrize(("before", "after"), [(REFUSES, ALLOWS), (ALLOWS, REFUSES)])
def test_a_start_during_an_apply(before: HostRoutingConfig, after: HostRoutingConfig) -> None:
    """A start that falls together with an apply waits for it, and is judged by the new
    configuration alone.
    """
    with gate.host() as system:
        gate.apply(
            system, before, code=int(before is REFUSES)
        )  # the first call, which no other thread may make
        with systemctl(system, SLOW):
            wanted = after._replace(
                guard=GuardConfig(enabled=True)
            )  # a new unit, which systemd has to read
            applying = Thread(
                target=gate.apply, args=(system, wanted), kwargs={"code": int(after is REFUSES)}
            )
            applying.start()
            wait_for(
                "the apply to be halfway through", lambda: system.outside("/run/waits").exists()
            )
            gate.begin_start(system)
            wait_for("the start", lambda: gate.is_starting(system))
            system.lay("/run/go", "")
            applying.join()
        assert gate.has_started(system) is (after is ALLOWS)
        assert len(gate.ours(system)) == len(after.static_routes.routes)


UNITS = LAYOUT.unit_directory
_OPEN = "GATE-OPEN: "
# What is in the way of the files of units, so that a machine starts unchecked.
OBSTACLES = {
    "full /etc": f"mount -t tmpfs -o size=4k,mode=755 none {UNITS}; cat /dev/zero >{UNITS}/all 2>&1; true",
    "read-only /etc": f"mount -t tmpfs -o ro,mode=755 none {UNITS}",
}


def test_whether_a_machine_starts_is_said() -> None:
    """Where the gate was installed, an apply that cannot write says if a machine starts unchecked
    now; without the obstacle all is well.
    """
    with gate.host() as system:
        for name, obstacle in OBSTACLES.items():
            gate.apply(system, OVERLAPS, code=1)
            system.must("sh", "-c", obstacle)
            system.must("systemctl", "daemon-reload")
            page = gate.apply(system, OVERLAPS, code=1)
            assert _OPEN in page, name
            assert gate.start(system) == 0, name
            assert gate.pid(system), name
            gate.end(system)
            system.must("umount", UNITS)
            system.must("systemctl", "daemon-reload")
            assert _OPEN not in gate.apply(system, OVERLAPS, code=1), name
            assert gate.start(system) == 1, name
            assert gate.markers(system) == {LAYOUT.detected_path}, name
            gate.remove(system)


GUARD = LAYOUT.guard_unit
GUARDED = ALLOWS._replace(guard=GuardConfig(enabled=True))
# It stands in for systemctl, and refuses each reload.
REFUSING = """\
#!/bin/sh
case "$*" in *daemon-reload*) exit 1 ;; esac
exec /usr/bin/systemctl.real "$@"
"""


def test_a_guard_without_its_unit() -> None:
    """A guard whose unit file somebody has removed is stopped all the same."""
    with gate.host() as system:
        gate.apply(system, GUARDED)
        assert system.show(GUARD, "ActiveState") == "active"
        system.must("rm", LAYOUT.unit_path(GUARD))
        gate.remove(system)
        assert system.show(GUARD, "ActiveState") == "inactive"


def test_a_guard_that_does_not_start() -> None:
    """The routes are set, and the machine starts;
    apply fails, and says why the guard does not run.
    """
    with gate.host() as system:
        system.lay(f"{UNITS}/{GUARD}.d/50.conf", "[Service]\nExecStartPre=/bin/false\n")
        page = gate.apply(system, GUARDED, code=1)
        assert f"FAILED: {GUARD} failed" in page
        assert len(gate.ours(system)) == len(GUARDED.static_routes.routes)
        assert gate.start(system) == 0


def test_a_reload_that_was_lost() -> None:
    """A unit that has left the gate is free after the next apply, although config.json could not be
    read.
    """
    unit = f"{UNITS}/plain.service"
    gated = ALLOWS._replace(gate=GateConfig(("plain.service", "systemd-nspawn@.service")))
    more = {unit: "[Service]\nExecStart=/bin/sleep infinity\n"}
    with gate.host(more=more) as system:
        gate.apply(system, gated)
        system.must("systemctl", "start", "plain.service")  # so that systemd has it loaded
        system.lay(LAYOUT.config_path, "{")
        with systemctl(system, REFUSING):
            gate.apply(system, ALLOWS, code=1)
        assert LAYOUT.gate_path in system.show("plain.service", "ExecCondition")
        gate.apply(system, ALLOWS)
        assert not system.show("plain.service", "ExecCondition")
