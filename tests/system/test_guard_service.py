"""hostrouting-guard.service under a real systemd: started, sandboxed, restarted, and removed."""

import re

import attrs

from hostrouting.config.settings import GuardConfig
from hostrouting.config.values import Mode
from tests.support.gate import HALVES, LAYOUT, config, configure, gate_tests, host, run_task
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

UNIT = LAYOUT.guard_unit
STUB = "/opt/agent/bin/stub"
# It says that it is ready and then waits, as the guard does. A tree of another distribution has no suitable Python.
STUB_TEXT = """\
#!/usr/bin/perl
use Socket;
socket(S, PF_UNIX, SOCK_DGRAM, 0); send(S, "READY=1", 0, sockaddr_un($ENV{NOTIFY_SOCKET}));
sleep;
"""


SETTINGS = attrs.evolve(config(*HALVES, mode=Mode.STRICT), guard=GuardConfig(enabled=True, program=STUB))


def leader(system: System) -> int:
    """The process of the guard; 0 if there is none."""
    return int(system.show(UNIT, "MainPID"))


def test_the_unit() -> None:
    """The unit is sandboxed, starts at boot, restarts when killed, and goes with Remove; systemd finds no fault."""
    with host(scripts={STUB: STUB_TEXT}) as system:
        configure(system, SETTINGS)
        assert system.show(UNIT, "ActiveState") == "active"
        first = leader(system)
        configure(system, SETTINGS)
        assert leader(system) == first
        said = system.must("systemd-analyze", "security", "--no-pager", UNIT)
        (level,) = re.findall(r"exposure level for \S+: ([0-9.]+)", said)
        assert float(level) <= 2.0
        said = system.run("systemd-analyze", "verify", UNIT).stderr
        assert not [line for line in said.splitlines() if UNIT in line]
        assert system.show(UNIT, "RestartUSec") == "5s"
        system.lay(f"/run/systemd/system/{UNIT}.d/sooner.conf", "[Service]\nRestartSec=100ms\n")
        system.must("systemctl", "daemon-reload")
        system.must("systemctl", "kill", "--signal=KILL", UNIT)
        wait_for("the guard to be restarted", lambda: leader(system) not in {0, first})
        system.must("systemctl", "enable", "multi-user.target")
        system.reboot()
        system.settled()
        wait_for("the guard to run", lambda: system.show(UNIT, "ActiveState") == "active")
        assert run_task(system, "Remove", config()).returncode == 0
        assert system.run("systemctl", "cat", UNIT).returncode
        assert not leader(system)
