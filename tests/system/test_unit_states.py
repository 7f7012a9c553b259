"""What `status` says of a gated unit is what systemd and the gate have done with it, and what they
would do with its next start: no drop-in or older text that systemd has read opens a gate unseen.

Each story begins on a host whose gate runs a script of another program, and on which the unit, an
instance of a template, does not run.
"""

import json
import re
import time
from itertools import cycle
from typing import NamedTuple

import pytest

from hostrouting.config.settings import GateConfig, HostRoutingConfig
from hostrouting.gate.unit_states import State, UnitState, unit_states
from hostrouting.host.files import LocalFiles
from hostrouting.host.systemd import SystemdManager
from hostrouting.install.difference import needs_reload
from hostrouting.kernel.programs import Ended
from tests.support.gate import LAYOUT, gate_tests, host, hostrouting
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

SCRIPT = f"{LAYOUT.gate_directory}/90-site.sh"
TEMPLATE = "agent@.service"
UNIT = "agent@a.service"
FILES = {f"{LAYOUT.unit_directory}/{TEMPLATE}": "[Service]\nExecStart=/bin/sleep infinity\n"}
OURS = LAYOUT.drop_in_path(TEMPLATE)
OVERRIDE = f"{LAYOUT.unit_directory}/{TEMPLATE}.d/50-x.conf"
CONFIG = HostRoutingConfig(gate=GateConfig((TEMPLATE,)))
RESET = "[Service]\nExecCondition=\n"
AWAY = "/root/program"
ENDED = {"failed", "activating"}
"""The states of a unit whose start has failed; one that systemd will start again is activating."""
RELOADS = ("daemon-reload", "daemon-reexec")
"""With these, systemd forgets much of how a start went."""


class InsideManager(SystemdManager):
    """The systemd inside this system, as the product asks it: through `systemctl` and
    `journalctl`, which run inside.
    """

    def __init__(self, system: System) -> None:
        """Use a system that is booted."""

        def run(*words: str, **_: object) -> Ended:
            done = system.run(*words)
            return Ended(done.returncode, done.stdout, done.stderr)

        super().__init__(run=run)

    def is_running(self) -> bool:
        """See Manager. It is booted before it is asked."""
        return True


def state(system: System) -> UnitState:
    """The state of the unit; systemd forgets an instance that was stopped."""
    files = LocalFiles(str(system.outside("/")))
    for state in unit_states(files, InsideManager(system), [TEMPLATE]):
        if state.unit == UNIT:
            return state
    return UnitState(UNIT, "stopped")


def start(system: System) -> int:
    """Start the unit as an operator does."""
    return system.run("systemctl", "start", UNIT).returncode


def begin_start(system: System) -> None:
    """Have systemd start the unit, without waiting."""
    system.must("systemctl", "start", "--no-block", UNIT)


def end(system: System) -> None:
    """Stop the unit."""
    system.must("systemctl", "stop", UNIT)
    system.run("systemctl", "reset-failed", UNIT)


def await_state(system: System, expected: State) -> None:
    """Wait until this is the state of the unit."""
    wait_for(f"the unit to be {expected}", lambda: state(system).state == expected)


def lay_script(system: System, text: str) -> None:
    """Give the other program's script another text."""
    system.lay(SCRIPT, f"{text}\n", mode=0o755)


def override(system: System, lines: str) -> None:
    """Give the unit these settings."""
    system.lay(OVERRIDE, f"[Service]\n{lines}")
    system.must("systemctl", "daemon-reload")


CONDITION_FAILS = "ExecCondition=/bin/sh -c 'exit 255'\n"
MAIN_FAILS = "ExecStart=\nExecStart=/bin/sh -c 'exit 255'\n"
# What the other program's script does, the settings of the unit, and what is said of the unit then.
# The order counts: the last refusal follows a start whose main process has failed.
STARTS: dict[str, tuple[str, str, State]] = {
    "the gate refuses": ("exit 1", "", "refused"),
    "the main process fails": ("exit 0", MAIN_FAILS, "fails"),
    "a command before the main process fails": (
        "exit 0",
        "ExecStartPre=/bin/sh -c 'exit 255'\n",
        "fails",
    ),
    "the gate refuses what would fail": ("exit 1", MAIN_FAILS, "refused"),
    "the gate takes too long": ("sleep 60", "TimeoutStartSec=0.5\n", "refused"),
    "another program's condition fails": ("exit 0", CONDITION_FAILS, "fails"),
}


def a_refusal_that_systemd_forgets(system: System) -> None:
    """At each daemon-reload, systemd forgets how the gate has ended: a refused unit is still told
    from one whose main process, or a command before that, has failed.
    """
    for (name, (script, settings, expected)), verb in zip(STARTS.items(), cycle(RELOADS)):
        lay_script(system, script)
        override(system, f"Type=exec\n{settings}")
        start(system)
        wait_for("the start to end", lambda: system.show(UNIT, "ActiveState") in ENDED)
        assert state(system).state == expected, name
        system.must("systemctl", verb)
        assert state(system).state == expected, f"{name}, after {verb}"
        if script == "exit 1":
            assert f"{SCRIPT} failed (exit 1)" in "".join(state(system).reasons), name
        end(system)


def a_gate_that_does_not_run(system: System) -> None:
    """Where there is no program, the journal has why, also if it is busy and takes the lines late.
    Another program's condition beside it changes nothing. When systemd has read its files again,
    nothing tells such a start from one that failed before the gate was there.
    """
    override(system, CONDITION_FAILS)
    system.must("mv", LAYOUT.program_path, AWAY)
    journal = system.show("systemd-journald.service", "MainPID")
    system.must("kill", "-STOP", journal)
    try:
        assert start(system) == 1
    finally:
        system.must("kill", "-CONT", journal)
    said = f"{UNIT} was refused: the gate could not be run"
    wait_for("the journal to have it", lambda: said in "".join(state(system).reasons))
    assert state(system).state == "refused"
    for verb in RELOADS:
        system.must("systemctl", verb)
        assert state(system).state == "fails", verb
    system.must("mv", AWAY, LAYOUT.program_path)


def a_crash_loop(system: System) -> None:
    """A unit that fails again and again, until systemd starts it no more, was not refused, also if
    the gate has refused it before.
    """
    lay_script(system, "exit 1")
    override(system, "Type=exec\n")
    assert start(system) == 1
    assert state(system).state == "refused"
    lay_script(system, "exit 0")
    override(system, f"{MAIN_FAILS}Restart=always\nRestartSec=1h\n")
    begin_start(system)
    await_state(system, "fails")
    shown = state(system)
    assert "(exit-code, exit status 255)" in shown.sentence
    override(system, f"{MAIN_FAILS}Restart=always\nRestartSec=10ms\n")
    begin_start(system)
    wait_for("systemd to give up", lambda: system.show(UNIT, "ActiveState") == "failed")
    for verb in (*RELOADS, "daemon-reload"):
        shown = state(system)
        assert shown.state == "fails", verb
        # How often depends on how long a start takes.
        assert re.search(r"and was restarted \d+ times", shown.sentence), verb
        system.must("systemctl", verb)


def a_masked_unit(system: System) -> None:
    """The command that is proposed takes this mask away, and another one would not."""
    for options in ((), ("--runtime",)):
        system.must("systemctl", "mask", *options, UNIT)
        [masked] = unit_states(
            LocalFiles(str(system.outside("/"))), InsideManager(system), [UNIT], [TEMPLATE]
        )
        assert masked.state == "masked"
        assert masked.remedy is not None
        system.must(*masked.remedy.command.split())
        assert start(system) == 0
        end(system)


def a_start_without_the_gate(system: System) -> None:
    """A unit that has started while a drop-in cancelled the gate has no note: at once, and when
    systemd has read its files again, or itself.
    """
    assert start(system) == 0  # whose note is not about the next start
    end(system)
    override(system, "ExecCondition=\n")
    assert start(system) == 0
    assert "no note says" in state(system).sentence
    system.outside(OVERRIDE).unlink()
    for verb in RELOADS:
        system.must("systemctl", verb)
        shown = state(system)
        assert "no note says" in shown.sentence, verb
        assert shown.checked == 0, verb


def a_start_through_the_gate(system: System) -> None:
    """It has the time of the start, whatever other commands come before the main process, also when
    systemd has read its files again, or itself.
    """
    for setting in ("ExecStartPre=/bin/sleep 0.1\n", "ExecCondition=/bin/true\n"):
        override(system, setting)
        before = time.time()
        assert start(system) == 0
        after = time.time()
        for verb in RELOADS:
            system.must("systemctl", verb)
            shown = state(system)
            assert shown.state == "runs", verb
            assert before <= shown.checked <= after, verb
        end(system)


def a_start_that_waits_for_another_unit(system: System) -> None:
    """As every gated unit waits for network-online.target: the command that is named shows it."""
    system.must("systemd-run", "--unit=slow", "--no-block", "-pType=oneshot", "sleep", "infinity")
    system.lay(OVERRIDE, "[Unit]\nAfter=slow.service\n")
    system.must("systemctl", "daemon-reload")
    begin_start(system)
    wait_for("the start to wait", lambda: "waits for other units" in state(system).sentence)
    shown = state(system).remedy
    assert shown is not None
    assert "slow.service" in system.must(*shown.command.split())
    system.must("systemctl", "stop", "slow.service")


def open_gates(system: System) -> list[str]:
    """The units whose gate is open, as `status` says; else it has only notes, such as that there is
    a script of another program, and that systemd has not read its files.
    """
    document = json.loads(hostrouting(system, "status", "--json").stdout)
    units: list[str] = []
    for finding in document["findings"]:
        if finding["name"] == "gate-open":
            units.append(finding["target"])
        elif finding["severity"] != "note":
            assert finding["target"] == "systemd"
    return units


class DropIn(NamedTuple):
    """A drop-in of somebody else."""

    unit: str
    text: str
    opens_gate: bool = True
    name: str = "50-x.conf"


DROP_INS = {
    "no condition for any instance": DropIn(TEMPLATE, RESET),
    "the gate's refusal is a success": DropIn(TEMPLATE, "[Service]\nSuccessExitStatus=3 255\n"),
    "settings that leave the gate alone": DropIn(
        TEMPLATE,
        "[Service]\nExecCondition=/bin/true\nExecStartPre=\nSuccessExitStatus=3\n",
        opens_gate=False,
    ),
}


def drop_ins_of_somebody_else(system: System) -> None:
    """With each of them, the unit starts although the gate refuses exactly if `status` says that
    the gate is open.
    """
    lay_script(system, "exit 1")
    assert open_gates(system) == []
    for what, drop_in in DROP_INS.items():
        path = f"{LAYOUT.unit_directory}/{drop_in.unit}.d/{drop_in.name}"
        system.lay(path, drop_in.text)
        system.must("systemctl", "daemon-reload")
        assert open_gates(system) == ([drop_in.unit] if drop_in.opens_gate else []), what
        assert (start(system) == 0) is drop_in.opens_gate, what
        end(system)
        system.outside(path).unlink()


def a_drop_in_that_was_not_read(system: System) -> None:
    """A unit that systemd has loaded before is unchecked until the next reload."""
    text = system.read(OURS)
    assert text is not None
    system.outside(OURS).unlink()
    system.must("systemctl", "daemon-reload")
    assert start(system) == 0
    system.lay(OURS, text)
    assert open_gates(system) == [UNIT]
    system.must("systemctl", "daemon-reload")
    assert open_gates(system) == []
    # The removal waits for the reload, too: the unit would still run the gate, which is gone by
    # then.
    assert not needs_reload(InsideManager(system), CONFIG)
    system.outside(OURS).unlink()
    assert needs_reload(InsideManager(system), CONFIG)
    end(system)
    system.lay(OURS, text)


STORIES = (
    a_refusal_that_systemd_forgets,
    a_gate_that_does_not_run,
    a_crash_loop,
    a_masked_unit,
    a_start_without_the_gate,
    a_start_through_the_gate,
    a_start_that_waits_for_another_unit,
    drop_ins_of_somebody_else,
    a_drop_in_that_was_not_read,
)


def test_states(subtests: pytest.Subtests) -> None:
    """Each story is true; what it leaves is cleared away before the next."""
    with host(CONFIG, more=FILES, scripts={SCRIPT: "exit 0\n"}, machines=()) as system:
        for story in STORIES:
            with subtests.test(story.__name__):
                story(system)
            end(system)
            system.must("rm", "-f", OVERRIDE, "/run/go")
            lay_script(system, "exit 0")
            system.must("systemctl", "daemon-reload")
