"""The gate, which is root, obeys no variable of a file that the unit's user may write."""

import json

from hostrouting.config.settings import GateConfig
from tests.support.gate import CONFIG, HALVES, apply, config, gate_tests, host, hostrouting
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

# The folder has an empty libc.so.6: whoever obeys a variable that leads there fails, and says so.
EVIL = "/var/lib/evil"
FATES = {
    "preload": f"LD_PRELOAD={EVIL}/libc.so.6",
    "audit": f"LD_AUDIT={EVIL}/libc.so.6",
    "library-path": f"LD_LIBRARY_PATH={EVIL}",
    "gconv": f"GCONV_PATH={EVIL}\nLOCPATH={EVIL}\nNLSPATH={EVIL}/%N\nLANG=evil.EVIL",
    "tunables": "GLIBC_TUNABLES=glibc.malloc.check=3",
    "profile": f"LD_PROFILE=libc.so.6\nLD_PROFILE_OUTPUT={EVIL}",
    "debug": f"LD_DEBUG=all\nLD_DEBUG_OUTPUT={EVIL}/debug",
    # With these, the loader prints something, and exits with 0: the gate would be open.
    "help": "LD_DEBUG=help",
    "list": "LD_TRACE_LOADED_OBJECTS=1",
    "prelink": "LD_TRACE_PRELINKING=1",
}
"""By the name of a unit: what its user writes into the file."""
OBEYED = ("LD_", "GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH")
UNITS = tuple(f"{fate}.service" for fate in FATES)
FILES = {f"{EVIL}/libc.so.6": ""}
for fate, variables in FATES.items():
    FILES[f"{EVIL}/{fate}.env"] = f"{variables}\n"
    FILES[f"/etc/systemd/system/{fate}.service"] = f"""\
[Service]
User=nobody
EnvironmentFile={EVIL}/{fate}.env
ExecStartPre=+/bin/cp /proc/self/environ /run/seen-by-root-{fate}
ExecStart=/bin/sleep infinity
"""


def start_all(system: System) -> list[str]:
    """Start the units at the same moment; how they are then."""
    states: list[str] = []

    def have_ended() -> bool:
        states[:] = system.must("systemctl", "show", "--value", "-p", "ActiveState", *UNITS).split()
        return {*states} <= {"active", "inactive", "failed"}

    system.must("systemctl", "start", "--no-block", *UNITS)
    wait_for("all starts to end", have_ended)
    return states


def test_no_variable_reaches_the_gate() -> None:
    """No code of the user runs, nothing is written, and the unit is refused."""
    strict = config(mode="STRICT")._replace(gate=GateConfig(UNITS))
    with host(strict, more=FILES, machines=()) as system:
        system.must("chown", "-R", "nobody", EVIL)
        assert start_all(system) == ["failed"] * len(UNITS)
        repaired = config(*HALVES, mode="STRICT")._replace(gate=GateConfig(UNITS))
        apply(system, repaired)
        system.must("systemctl", "reset-failed")
        assert start_all(system) == ["active"] * len(UNITS)
        assert "ld.so" not in system.journal("*.service")
        assert "shared librar" not in system.journal("*.service")
        written = system.must("find", EVIL, "-user", "root")
        assert written == ""
        for fate in FATES:
            seen = system.must("cat", f"/run/seen-by-root-{fate}").split("\0")
            assert [each for each in seen if each.startswith(OBEYED)] == [], fate
        one_that_its_unit_sets_is_named(system)


SETS = "[Service]\nEnvironment=A=1 LD_PRELOAD=/x\nEnvironment='GCONV_PATH=/with blanks' TMPDIR=/x\n"


def one_that_its_unit_sets_is_named(system: System) -> None:
    """The plan names the unit and the variables that it would lose, as systemd shows them."""
    system.lay("/etc/systemd/system/own.service", f"{SETS}ExecStart=/bin/sleep infinity\n")
    system.must("systemctl", "daemon-reload")
    gated = config(*HALVES, mode="STRICT")._replace(gate=GateConfig((*UNITS, "own.service")))
    system.lay(CONFIG, json.dumps(gated.to_mapping()))
    said = hostrouting(system, "plan", "--config", CONFIG).stdout
    assert "own.service loses GCONV_PATH and LD_PRELOAD, which its Environment= sets" in said
