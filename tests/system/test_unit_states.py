"""What `status` says of a gated unit is what systemd and the gate have done with it, and what they
would do with its next start: no drop-in or older text that systemd has read opens a gate unseen.
"""

import json
import re

import pytest

from hostrouting.boot.units import DROP_IN_TEXT
from hostrouting.config.settings import GateConfig
from hostrouting.gate.unit_states import State, UnitState, unit_states
from hostrouting.host.systemd import SystemdManager
from hostrouting.install.difference import needs_reload
from hostrouting.kernel.programs import Ended
from tests.support.gate import LAYOUT, config, gate_tests, host, hostrouting, overlap
from tests.support.statuses import DROP_INS
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

TEMPLATE = "agent@.service"
UNIT = "agent@a.service"
FILES = {f"{LAYOUT.unit_directory}/{TEMPLATE}": "[Service]\nExecStart=/bin/sleep infinity\n"}
OURS = LAYOUT.drop_in_path(TEMPLATE)
OVERRIDE = f"{LAYOUT.unit_directory}/{TEMPLATE}.d/50-x.conf"
CONFIG = config(mode="STRICT")._replace(gate=GateConfig((TEMPLATE,)))
RESET = "[Service]\nExecCondition=\n"
FORGES = """\
ExecStartPre=+/bin/sh -c 'echo "<3>hostrouting: forged" >&2'
ExecStart=
ExecStart=/bin/sh -c '\\
echo "<3>hostrouting: forged" >&2; \\
echo "<3>hostrouting: forged" | systemd-cat -t env; \\
exit 255'
"""


class InsideManager(SystemdManager):
    """The systemd inside this system, by `systemctl` and `journalctl`."""

    def __init__(self, system: System) -> None:

        def run(*words: str, **_: object) -> Ended:
            done = system.run(*words)
            return Ended(done.returncode, done.stdout, done.stderr)

        super().__init__(run=run)

    def is_running(self) -> bool:
        """See Manager. It is booted before it is asked."""
        return True


def state(system: System) -> UnitState:
    """The state of the unit; systemd forgets an instance that was stopped."""
    for state in unit_states(InsideManager(system), [TEMPLATE], [TEMPLATE]):
        if state.unit == UNIT:
            return state
    return UnitState(UNIT, "stopped")


def start(system: System) -> int:
    return system.run("systemctl", "start", UNIT).returncode


def end(system: System) -> None:
    system.must("systemctl", "stop", UNIT)
    system.run("systemctl", "reset-failed", UNIT)


def a_refused_unit(system: System) -> None:
    """The journal has why, also if it is busy and takes the lines late, and after a reload."""
    overlap(system, "add")
    journal = system.show("systemd-journald.service", "MainPID")
    system.must("kill", "-STOP", journal)
    try:
        assert start(system) == 1
    finally:
        system.must("kill", "-CONT", journal)
    said = f"{UNIT} was refused: see the lines above"
    wait_for("the journal to have it", lambda: said in "".join(state(system).reasons))
    # With these, systemd forgets much of how a start went.
    for verb in ("daemon-reload", "daemon-reexec"):
        system.must("systemctl", verb)
        assert state(system).state == "stuck", verb
    overlap(system, "del")


def a_crash_loop(system: System) -> None:
    """A unit that fails until systemd gives up; what it logs is not shown as the gate's words."""
    fails = f"[Service]\nUser=daemon\nRestart=always\n{FORGES}"
    limit = "[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=2\n"
    settings: dict[str, State] = {"RestartSec=1h\n": "fails", f"RestartSec=10ms\n{limit}": "stuck"}
    for text, expected in settings.items():
        system.load(OVERRIDE, fails + text)
        system.must("systemctl", "start", "--no-block", UNIT)
        wait_for(f"the unit to be {expected}", lambda: state(system).state == expected)  # noqa: B023
        assert system.journal(UNIT).count("forged") >= 2
        assert "forged" not in "".join(state(system).reasons)


def a_masked_unit(system: System) -> None:
    """The command that is proposed takes the mask away, also one that ends with the next boot."""
    for options in ([], ["--runtime"]):
        system.must("systemctl", "mask", *options, UNIT)
        [masked] = unit_states(InsideManager(system), [UNIT], [TEMPLATE])
        assert masked.state == "masked"
        assert masked.remedy is not None
        system.must(*masked.remedy.command.split())
        assert start(system) == 0
        end(system)


def a_wrong_setting(system: System) -> None:
    """Such a unit is not loaded, and systemd claims after each reload that it needs another one."""
    system.load(OVERRIDE, "[Service]\nExecStart=\n")
    assert start(system) == 1
    manager = InsideManager(system)
    assert [each.state for each in unit_states(manager, [UNIT], [TEMPLATE])] == ["stuck"]
    assert not needs_reload(manager, CONFIG, CONFIG)
    system.unload(OVERRIDE)


def what_is_not_loaded(system: System) -> None:
    """A template is as its instances would be; a name without a file is unknown."""
    words = {"agent@": "STOPPED", "nosuch@": "UNKNOWN", "nosuch*": "UNKNOWN", "getty@": "NOT GATED"}
    for unit, word in words.items():
        done = hostrouting(system, "status", unit)
        assert done.stdout.startswith(f"{word}: {unit}"), done.stdout
        assert done.returncode == (2 if word == "UNKNOWN" else 0), unit


def open_gates(system: System) -> list[str]:
    """The units whose gate is open, as `status` says, and what else it says."""
    document = json.loads(hostrouting(system, "status", "--json").stdout)
    return [each["target"] for each in document["findings"] if each["name"] == "gate-open"]


[LINE] = re.findall(r"^ExecCondition=\+.*", DROP_IN_TEXT, re.MULTILINE)
# With these, the command of the gate is too long for Linux, and that of the unit is not.
LONG = "".join(f"Environment=V{number}={'x' * 69_840}\n" for number in range(30))
OPENS = {
    RESET: True,
    f"{RESET}{LINE}\n": False,
    f"{RESET}{LINE.replace('=+', '=-+', 1)}\n": True,
    f"{RESET}ExecCondition=/bin/true hostrouting-gate %n\n": True,
    "[Service]\nSuccessExitStatus=3 255\n": True,
    f"[Service]\nSuccessExitStatus=EXEC\n{LONG}": True,
    "[Service]\nExecCondition=/bin/true\nExecStartPre=\nSuccessExitStatus=3\n": False,
}
"""By the text of somebody else's drop-in: whether it opens the gate."""


def drop_ins_of_somebody_else(system: System) -> None:
    """The unit starts although the gate refuses exactly if `status` says "open"."""
    overlap(system, "add")
    assert open_gates(system) == []
    for text, opens in OPENS.items():
        system.load(OVERRIDE, text)
        assert open_gates(system) == ([TEMPLATE] if opens else []), text
        assert (start(system) == 0) is opens, text
        end(system)
    overlap(system, "del")


def a_drop_in_that_was_not_read(system: System) -> None:
    """A unit that systemd has loaded before is unchecked until the next reload."""
    text = system.read(OURS)
    assert text is not None
    system.unload(OURS)
    assert start(system) == 0
    system.lay(OURS, text)
    assert open_gates(system) == [UNIT]
    system.must("systemctl", "daemon-reload")
    assert open_gates(system) == []
    # The removal waits for the reload, too: the unit would still run the gate, which is gone by
    # then.
    assert not needs_reload(InsideManager(system), CONFIG, CONFIG)
    system.outside(OURS).unlink()
    assert needs_reload(InsideManager(system), CONFIG, CONFIG)
    end(system)
    system.lay(OURS, text)


def what_empties_the_conditions(system: System) -> None:
    """A drop-in does to the gate what `DROP_INS` says, which the gate's own reader is tested by."""
    folder = f"{LAYOUT.unit_directory}/{UNIT}.d"
    for text, opens in DROP_INS.items():
        system.load(f"{folder}/50-x.conf", f"[Service]\n{text}")
        assert ("gate" in system.show(UNIT, "ExecCondition")) is not opens, text
    system.must("rm", "-r", folder)


STORIES = (
    a_refused_unit,
    a_crash_loop,
    a_masked_unit,
    a_wrong_setting,
    what_is_not_loaded,
    drop_ins_of_somebody_else,
    a_drop_in_that_was_not_read,
    what_empties_the_conditions,
)


def test_states(subtests: pytest.Subtests) -> None:
    """Each story is true; what it leaves is cleared away before the next."""
    with host(CONFIG, more=FILES, machines=()) as system:
        overlap(system, "del")
        for story in STORIES:
            with subtests.test(story.__name__):
                story(system)
            end(system)
            system.unload(OVERRIDE)
