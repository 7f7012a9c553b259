"""An apply that is interrupted: what starts meanwhile, and what the next one completes."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from hostrouting.config.settings import GuardConfig, HostRoutingConfig
from tests.support import gate
from tests.support.gate import HALVES, gate_tests
from tests.support.sections import static
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

ALLOWS = gate.config(*HALVES, mode="STRICT")
REFUSES = gate.config(static("10.77.0.0/16"), mode="STRICT")
GUARDED = GuardConfig(enabled=True)
# Each stands in for systemctl: one keeps the caller waiting at each reload, one refuses it.
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


def a_start_during_an_apply(
    system: System, before: HostRoutingConfig, after: HostRoutingConfig
) -> None:
    """It waits for the apply, and is judged by the new configuration alone."""
    allows = after is ALLOWS
    # The first call, which no other thread may make.
    gate.apply(system, before, code=int(allows))
    system.run("rm", "-f", "/run/waits", "/run/go")
    with systemctl(system, SLOW):
        applying = Thread(target=gate.apply, args=(system, after), kwargs={"code": int(not allows)})
        applying.start()
        waits = system.outside("/run/waits")
        wait_for("the apply to be halfway through", waits.exists)
        gate.begin_start(system)
        wait_for("the start", lambda: gate.is_in_the_gate(system))
        system.lay("/run/go", "")
        applying.join()
    assert gate.has_started(system) is allows
    assert len(gate.ours(system)) == len(after.static_routes.routes)
    gate.end(system)


def test_an_apply_that_is_interrupted() -> None:
    """All of it is one boot."""
    with gate.host() as system:
        # The start comes before the configuration is written: systemd first reads
        # that the guard is gone.
        a_start_during_an_apply(system, REFUSES._replace(guard=GUARDED), ALLOWS)
        # The start comes after that, and before systemd reads that there is a guard.
        a_start_during_an_apply(system, ALLOWS, REFUSES._replace(guard=GUARDED))
