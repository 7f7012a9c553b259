"""The units of the steps and of the guard: their sandbox allows what they do at boot, and nothing
else.
"""

import json
from pathlib import Path

from hostrouting.boot.units import UNITS
from hostrouting.config.settings import GuardConfig, ProbeRewriteConfig
from hostrouting.host.layout import HostLayout
from tests.support.gate import HALVES, config, gate_tests, host

pytestmark = gate_tests

_PROBE = "/usr/local/lib/probe.py"
_NEEDED = {"route get", "write in /run/hostrouting"}


ALL = config(*HALVES, mode="WARN")._replace(
    guard=GuardConfig(enabled=True), probe_rewrite=ProbeRewriteConfig(True, ("eth0",))
)


def test_the_sandbox() -> None:
    """A unit can read the routing and write its results and, but for the check, change routes; the
    guard can end a step.
    """
    probe = Path(__file__).resolve().parents[1] / "support" / "probe.py"
    with host(ALL, machines=()) as system:
        system.must("systemctl", "stop", HostLayout.guard_unit)
        system.must("mkdir", "-p", HostLayout.state_directory)
        system.lay("/root/file", "")
        system.lay(_PROBE, probe.read_text())
        system.must("systemd-run", "--unit=other", "sleep", "1000")
        other = system.show("other.service", "MainPID")
        # Outside of a unit nearly all of it succeeds, so what is refused is refused by the sandbox.
        outside = json.loads(
            system.must("/usr/bin/env", "python3", _PROBE, other).removeprefix("PROBED ")
        )
        assert sum(not error for error in outside.values()) > len(outside) / 2
        for unit in UNITS:
            line = f"ExecStart=\nExecStart=/usr/bin/env python3 {_PROBE} {other}\nType=oneshot\nRestart=no\n"
            system.lay(f"/etc/systemd/system/{unit}.d/99.conf", f"[Service]\n{line}")
            system.must("systemctl", "daemon-reload")
            system.must("systemctl", "start", unit)
            [line] = [
                line for line in system.journal(unit).splitlines() if line.startswith("PROBED ")
            ]
            errors = json.loads(line.removeprefix("PROBED "))
            can = {name for name, error in errors.items() if not error}
            changes = {"route add"} if unit != HostLayout.check_unit else set()
            more = {"signal another unit"} if unit == HostLayout.guard_unit else set()
            if unit in {HostLayout.check_unit, HostLayout.guard_unit}:
                more |= {f"write in {HostLayout.state_directory}", "write in /run"}
            assert errors.keys() == outside.keys()
            assert _NEEDED | changes | more <= can <= _NEEDED | changes | more | {"firewall"}, unit
        assert system.show("other.service", "ActiveState") == "active"
