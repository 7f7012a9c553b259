"""What `status` says of a gated unit is what systemd and the gate have done with it."""

import time

import pytest

from hostrouting.boot.unit_states import UnitState, unit_states
from hostrouting.config.settings import MACHINES, GateConfig, HostRoutingConfig
from hostrouting.errors import HostError
from hostrouting.testing import FakeFiles, FakeManager
from tests.support import gate
from tests.support.gate import KUBE1, LAYOUT, await_start, begin_start, end, gate_tests
from tests.support.systemd import System
from tests.support.waiting import wait_for
from tests.system.test_health import InsideManager

pytestmark = gate_tests

STEP = f"{LAYOUT.gate_directory}/90-site.sh"
OVERRIDE = f"{LAYOUT.unit_directory}/{MACHINES}.d/50-x.conf"
CONFIG = HostRoutingConfig(gate=GateConfig((MACHINES,)))


def state(system: System) -> UnitState:
    """The state of the machine; systemd forgets a machine that was stopped."""
    states = {state.unit: state for state in unit_states(InsideManager(system), [MACHINES])}
    return states.get(KUBE1, UnitState(KUBE1, "does not run"))


def each_state(system: System) -> None:
    """It runs, is stopped, waits in the gate, and is refused, with the reason from the journal."""
    assert gate.start(system) == 0
    assert (state(system).state, bool(state(system).since)) == ("runs", True)
    end(system)
    assert state(system).state == "does not run"

    system.lay(STEP, "until [[ -e /run/go ]]; do sleep 0.05; done\n", mode=0o755)
    begin_start(system)
    wait_for("the machine to be in the gate", lambda: state(system).state == "is in the gate")
    system.lay("/run/go", "")
    assert await_start(system)
    end(system)

    system.lay(STEP, "echo '<3>the licence has ended' >&2; exit 1\n", mode=0o755)
    assert gate.start(system) == 1
    assert state(system).state == "was refused"

    def reasons() -> str:
        return "\n".join(state(system).reasons)

    wait_for("the journal to have both lines", lambda: f"{KUBE1} was not started" in reasons())
    assert "the licence has ended" in reasons()


def a_refusal_that_systemd_forgets(system: System) -> None:
    """At each daemon-reload, systemd forgets how the gate has ended: a refused machine is still told
    from one whose main process, or a command before that, has failed.
    """
    failing = "ExecStart=\nExecStart=/bin/sh -c 'exit 255'\n"
    states: list[str] = []
    for status, lines in (
        (1, ""),
        (1, "ExecStartPre=-/bin/false\n"),
        (0, failing),
        (0, "ExecStartPre=/bin/sh -c 'exit 255'\n"),
        (1, failing),
    ):
        system.lay(STEP, f"exit {status}\n", mode=0o755)
        system.lay(OVERRIDE, f"[Service]\nType=exec\n{lines}")
        system.must("systemctl", "daemon-reload")
        gate.start(system)
        wait_for("the start to end", lambda: system.show(KUBE1, "ActiveState") == "failed")
        shown = [state(system).state]
        for verb in ("daemon-reload", "daemon-reexec"):
            system.must("systemctl", verb)
            shown.append(state(system).state)
        [kept] = set(shown)
        states.append(kept)
        end(system)
    assert states == ["was refused", "was refused", "failed", "failed", "was refused"]


def a_condition_of_somebody_else(system: System) -> None:
    """A machine whose own condition has failed was not refused by the gate, whatever its status."""
    system.lay(OVERRIDE, "[Service]\nExecCondition=/bin/sh -c 'exit 255'\n")
    system.must("systemctl", "daemon-reload")
    assert gate.start(system) == 1
    assert state(system).state == "failed"
    for verb in ("daemon-reload", "daemon-reexec"):
        system.must("systemctl", verb)
        assert state(system).state == "failed"
    end(system)
    system.lay(STEP, "exit 1\n", mode=0o755)
    assert gate.start(system) == 1
    assert state(system).state == "was refused"


def a_machine_that_is_not_ready(system: System) -> None:
    """Its gate has let it pass, and its main process runs, and has not said that it is ready."""
    waiting = "Type=notify\nExecStart=\nExecStart=/bin/sleep 60\n"
    system.lay(OVERRIDE, f"[Service]\n{waiting}")
    system.must("systemctl", "daemon-reload")
    begin_start(system)
    wait_for("the machine to start", lambda: state(system).state == "is starting")
    system.must("systemctl", "daemon-reload")
    assert (state(system).state, state(system).unchecked) == ("is starting", False)


def a_masked_unit_is_not_started(system: System) -> None:
    """The fake manager refuses as systemd does."""
    path = LAYOUT.unit_path(LAYOUT.guard_unit)
    system.must("ln", "-sf", "/dev/null", path)
    system.must("systemctl", "daemon-reload")
    fake = FakeManager(files=FakeFiles(links={path: "/dev/null"}))
    messages: list[str] = []
    for manager in (InsideManager(system), fake):
        with pytest.raises(HostError) as caught:
            manager.start(LAYOUT.guard_unit, timeout=10)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    system.must("rm", path)


def reasons_that_the_journal_takes_late(system: System) -> None:
    """On a busy host, the gate has ended before the journal has its first line."""
    system.lay(STEP, "echo '<3>the licence has ended' >&2; exit 1\n", mode=0o755)
    journal = system.show("systemd-journald.service", "MainPID")
    system.must("kill", "-STOP", journal)
    try:
        assert gate.start(system) == 1
    finally:
        system.must("kill", "-CONT", journal)
    wait_for("the journal to have it", lambda: "the licence has ended" in state(system).reasons)
    assert f"{KUBE1} was not started" in "\n".join(state(system).reasons)


def a_start_without_the_gate(system: System) -> None:
    """A machine that has started while a drop-in cancelled the gate is told from one that the gate
    has let pass, also when systemd has read its files again, or itself.
    """
    for is_cancelled in (True, False):
        if is_cancelled:
            system.lay(OVERRIDE, "[Service]\nExecCondition=\n")
            system.must("systemctl", "daemon-reload")
        assert gate.start(system) == 0
        if is_cancelled:
            assert not state(system).unchecked  # systemd would not run the gate now either
            system.outside(OVERRIDE).unlink()
        for verb in ("daemon-reload", "daemon-reexec"):
            system.must("systemctl", verb)
            shown = state(system)
            assert shown.state == "runs"
            assert (shown.unchecked, shown.checked == 0) == (is_cancelled, is_cancelled)
        end(system)


def when_the_gate_last_ran(system: System) -> None:
    """The time of the last start of a machine, whether the gate has let it pass or not."""
    before = time.time()
    assert gate.start(system) == 0
    ran = state(system).checked
    assert before - 1 <= ran <= time.time()
    end(system)
    system.lay(STEP, "exit 1\n", mode=0o755)
    assert gate.start(system) == 1
    assert ran < state(system).checked <= time.time()


STORIES = (
    each_state,
    a_refusal_that_systemd_forgets,
    a_condition_of_somebody_else,
    a_machine_that_is_not_ready,
    a_masked_unit_is_not_started,
    reasons_that_the_journal_takes_late,
    a_start_without_the_gate,
    when_the_gate_last_ran,
)


def test_states(subtests: pytest.Subtests) -> None:
    """Each story begins on a host whose gate runs a step of the site, and on which no machine runs."""
    with gate.host(CONFIG, scripts={STEP: "exit 0\n"}) as system:
        for story in STORIES:
            with subtests.test(story.__name__):
                story(system)
            end(system)
            system.must("rm", "-f", OVERRIDE, "/run/go")
            system.lay(STEP, "exit 0\n", mode=0o755)
            system.must("systemctl", "daemon-reload")
