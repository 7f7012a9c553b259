"""What `status` says of a gated unit is what systemd and the gate have done with it.

Each story begins on a host whose gate runs a step of the site, and on which no machine runs.
"""

import time
from itertools import cycle
from typing import NamedTuple

import pytest

from hostrouting.boot.unit_states import State, UnitState, unit_states
from hostrouting.config.settings import MACHINES, GateConfig, HostRoutingConfig
from hostrouting.errors import HostError
from hostrouting.testing import FakeFiles, FakeManager
from tests.support import gate
from tests.support.gate import KUBE1, LAYOUT, await_start, begin_start, end, gate_tests
from tests.support.inside_manager import InsideManager
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

STEP = f"{LAYOUT.gate_directory}/90-site.sh"
OVERRIDE = f"{LAYOUT.unit_directory}/{MACHINES}.d/50-x.conf"
CONFIG = HostRoutingConfig(gate=GateConfig((MACHINES,)))
REFUSE_WITH_REASON = "echo '<3>the licence has ended' >&2; exit 1\n"
RELOADS = ("daemon-reload", "daemon-reexec")
"""With these, systemd forgets much of how a start went."""


def state(system: System) -> UnitState:
    """The state of the machine; systemd forgets a machine that was stopped."""
    for state in unit_states(InsideManager(system), [MACHINES]):
        if state.unit == KUBE1:
            return state
    return UnitState(KUBE1, "does not run")


def await_state(system: System, expected: State) -> None:
    """Wait until this is the state of the machine."""
    wait_for(f"the machine: it {expected}", lambda: state(system).state == expected)


def reasons(system: System) -> str:
    """Why the machine was refused."""
    return "\n".join(state(system).reasons)


def lay_step(system: System, text: str) -> None:
    """Give the step of the site another text."""
    system.lay(STEP, text, mode=0o755)


def override(system: System, lines: str) -> None:
    """Give every machine these settings."""
    system.lay(OVERRIDE, f"[Service]\n{lines}")
    system.must("systemctl", "daemon-reload")


def a_machine_that_runs_and_is_stopped(system: System) -> None:
    """It runs since a time, and then does not."""
    assert gate.start(system) == 0
    assert state(system).state == "runs"
    assert state(system).since
    end(system)
    assert state(system).state == "does not run"


def a_machine_in_the_gate(system: System) -> None:
    """It is in the gate until the last step has ended."""
    lay_step(system, "until [[ -e /run/go ]]; do sleep 0.05; done\n")
    begin_start(system)
    await_state(system, "is in the gate")
    system.lay("/run/go", "")
    assert await_start(system)


def a_refusal_with_its_reason(system: System) -> None:
    """The journal has what the step has said, and what the gate has."""
    lay_step(system, REFUSE_WITH_REASON)
    assert gate.start(system) == 1
    assert state(system).state == "was refused"
    wait_for(
        "the journal to have both lines", lambda: f"{KUBE1} was not started" in reasons(system)
    )
    assert "the licence has ended" in reasons(system)


class Start(NamedTuple):
    """A start that fails."""

    step: str
    """The gate's step."""
    settings: str
    """Those of the machine."""
    state: State
    """What is said of it."""


MAIN_FAILS = "ExecStart=\nExecStart=/bin/sh -c 'exit 255'\n"
# The order counts: the last refusal follows a start whose main process has failed.
STARTS = {
    "the gate refuses": Start("exit 1", "", "was refused"),
    "the gate refuses, and a later command may fail": Start(
        "exit 1", "ExecStartPre=-/bin/false\n", "was refused"
    ),
    "the main process fails": Start("exit 0", MAIN_FAILS, "failed"),
    "a command before the main process fails": Start(
        "exit 0", "ExecStartPre=/bin/sh -c 'exit 255'\n", "failed"
    ),
    "the gate refuses what would fail": Start("exit 1", MAIN_FAILS, "was refused"),
    "the gate takes too long": Start("sleep 60", "TimeoutStartSec=0.5\n", "was refused"),
    "a main command that forks fails": Start("exit 0", f"Type=forking\n{MAIN_FAILS}", "failed"),
    "a main command that forks takes too long": Start(
        "exit 0",
        "Type=forking\nExecStart=\nExecStart=/bin/sleep 60\nTimeoutStartSec=0.5\n",
        "failed",
    ),
    "the main process takes too long, and outlives the start": Start(
        "exit 0",
        "Type=notify\nExecStart=\nExecStart=/bin/sh -c 'trap : TERM; sleep 2; sleep 2'\n"
        "TimeoutStartSec=0.5\nTimeoutStopSec=0.5\nSendSIGKILL=no\n",
        "failed",
    ),
    "a later command takes too long": Start(
        "exit 0", "ExecStartPre=-/bin/sleep 60\nTimeoutStartSec=0.5\n", "failed"
    ),
}


def a_refusal_that_systemd_forgets(system: System) -> None:
    """At each daemon-reload, systemd forgets how the gate has ended: a refused machine is still
    told from one whose main process, or a command before that, has failed.
    """
    for (name, start), verb in zip(STARTS.items(), cycle(RELOADS), strict=False):
        lay_step(system, f"{start.step}\n")
        override(system, f"Type=exec\n{start.settings}")
        gate.start(system)
        wait_for("the start to end", lambda: system.show(KUBE1, "ActiveState") == "failed")
        assert state(system).state == start.state, name
        system.must("systemctl", verb)
        assert state(system).state == start.state, f"{name}, after {verb}"
        end(system)


def a_condition_of_somebody_else(system: System) -> None:
    """A machine whose own condition has failed was not refused by the gate, whatever its status."""
    override(system, "ExecCondition=/bin/sh -c 'exit 255'\n")
    assert gate.start(system) == 1
    assert state(system).state == "failed"
    for verb in RELOADS:
        system.must("systemctl", verb)
        assert state(system).state == "failed", verb


def a_refusal_beside_a_condition_of_somebody_else(system: System) -> None:
    """A machine that also has another condition is refused like any other."""
    override(system, "ExecCondition=/bin/sh -c 'exit 255'\n")
    lay_step(system, "exit 1\n")
    assert gate.start(system) == 1
    assert state(system).state == "was refused"


def a_machine_that_is_not_ready(system: System) -> None:
    """Its gate has let it pass, and its main process runs, and has not said that it is ready."""
    override(system, "Type=notify\nExecStart=\nExecStart=/bin/sleep 60\n")
    begin_start(system)
    await_state(system, "is starting")
    system.must("systemctl", "daemon-reload")
    shown = state(system)
    assert shown.state == "is starting"
    assert not shown.unchecked
    system.must("systemctl", "kill", "--signal=KILL", KUBE1)


def a_masked_unit_is_not_started(system: System) -> None:
    """The fake manager refuses as systemd does."""
    path = LAYOUT.unit_path(LAYOUT.guard_unit)
    system.must("ln", "-sf", "/dev/null", path)
    system.must("systemctl", "daemon-reload")
    fake = FakeManager(files=FakeFiles(links={path: "/dev/null"}))
    with pytest.raises(HostError) as real_error:
        InsideManager(system).start(LAYOUT.guard_unit, timeout=10)
    with pytest.raises(HostError) as fake_error:
        fake.start(LAYOUT.guard_unit, timeout=10)
    assert str(fake_error.value) == str(real_error.value)
    system.must("rm", path)


def reasons_that_the_journal_takes_late(system: System) -> None:
    """On a busy host, the gate has ended before the journal has its first line."""
    lay_step(system, REFUSE_WITH_REASON)
    journal = system.show("systemd-journald.service", "MainPID")
    system.must("kill", "-STOP", journal)
    try:
        assert gate.start(system) == 1
    finally:
        system.must("kill", "-CONT", journal)
    wait_for("the journal to have it", lambda: "the licence has ended" in state(system).reasons)
    assert f"{KUBE1} was not started" in reasons(system)


def a_start_without_the_gate(system: System) -> None:
    """A machine that has started while a drop-in cancelled the gate is named, also when systemd has
    read its files again, or itself.
    """
    override(system, "ExecCondition=\n")
    assert gate.start(system) == 0
    assert not state(system).unchecked  # systemd would not run the gate now either
    system.outside(OVERRIDE).unlink()
    for verb in RELOADS:
        system.must("systemctl", verb)
        shown = state(system)
        assert shown.state == "runs", verb
        assert shown.unchecked, verb
        assert shown.checked == 0, verb


def a_start_without_the_gate_that_systemd_does_not_show(system: System) -> None:
    """Where a command comes before the main process, systemd does not show whether the gate did.
    Such a start is not called checked.
    """
    override(system, "ExecCondition=\nExecStartPre=/bin/sleep 0.1\n")
    assert gate.start(system) == 0
    override(system, "ExecStartPre=/bin/sleep 0.1\n")
    system.must("systemctl", "daemon-reload")
    shown = state(system)
    assert shown.state == "runs"
    assert shown.checked == 0


def a_start_through_the_gate_before_another_command(system: System) -> None:
    """It has the time of the start until systemd reads its files again."""
    for setting in ("ExecStartPre=/bin/sleep 0.1\n", "ExecCondition=/bin/true\n"):
        override(system, setting)
        before = time.time()
        assert gate.start(system) == 0
        assert before <= state(system).checked <= time.time(), setting
        system.must("systemctl", "daemon-reload")
        assert state(system).checked == 0, setting
        end(system)


def a_start_through_the_gate(system: System) -> None:
    """It has the time of the start, also when systemd has read its files again, or itself."""
    before = time.time()
    assert gate.start(system) == 0
    assert before <= state(system).checked <= time.time()
    for verb in RELOADS:
        system.must("systemctl", verb)
        shown = state(system)
        assert shown.state == "runs", verb
        assert not shown.unchecked, verb
        assert before <= shown.checked <= time.time(), verb


def when_the_gate_has_refused(system: System) -> None:
    """A refused start has its time, too."""
    lay_step(system, "exit 1\n")
    before = time.time()
    assert gate.start(system) == 1
    assert before <= state(system).checked <= time.time()


def when_the_gate_has_refused_a_restart(system: System) -> None:
    """So has that of a machine that ran before, in the gate and after it: systemd has forgotten the
    main process that ran.
    """
    assert gate.start(system) == 0
    lay_step(system, "until [[ -e /run/go ]]; do sleep 0.05; done; exit 1\n")
    before = time.time()
    system.must("systemctl", "restart", "--no-block", KUBE1)
    states: tuple[State, ...] = ("is in the gate", "was refused")
    for name in states:
        await_state(system, name)
        assert before <= state(system).checked <= time.time(), name
        for verb in RELOADS:
            system.must("systemctl", verb)
            assert before <= state(system).checked <= time.time(), f"{name}, after {verb}"
        system.lay("/run/go", "")


STORIES = (
    a_machine_that_runs_and_is_stopped,
    a_machine_in_the_gate,
    a_refusal_with_its_reason,
    a_refusal_that_systemd_forgets,
    a_condition_of_somebody_else,
    a_refusal_beside_a_condition_of_somebody_else,
    a_machine_that_is_not_ready,
    a_masked_unit_is_not_started,
    reasons_that_the_journal_takes_late,
    a_start_without_the_gate,
    a_start_without_the_gate_that_systemd_does_not_show,
    a_start_through_the_gate_before_another_command,
    a_start_through_the_gate,
    when_the_gate_has_refused,
    when_the_gate_has_refused_a_restart,
)


def test_states(subtests: pytest.Subtests) -> None:
    """Each story is true; what it leaves is cleared away before the next."""
    with gate.host(CONFIG, scripts={STEP: "exit 0\n"}) as system:
        for story in STORIES:
            with subtests.test(story.__name__):
                story(system)
            end(system)
            system.must("rm", "-f", OVERRIDE, "/run/go")
            lay_step(system, "exit 0\n")
            system.must("systemctl", "daemon-reload")
