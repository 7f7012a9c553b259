"""hostrouting.gate.unit_states: how a gated unit is, by systemd and by the note of the gate;
tests/system has it with a real systemd.
"""

import pytest

from hostrouting.gate.start_note import StartNote, leave_note
from hostrouting.gate.unit_states import UnitState, refused_units, unit_states
from hostrouting.host.layout import HostLayout
from hostrouting.testing import FakeFiles, FakeManager

UNIT = "kubelet.service"
NOW = "Thu 2026-01-01 00:00:00 UTC"
GATE = (
    "{ path=/usr/bin/env ; argv[]=/usr/bin/env -i /bin/sh -c gate hostrouting-gate kubelet ; %s }"
)
PASSED = GATE % "status=0/0"
REFUSED = GATE % "status=255/EXCEPTION"
ERROR = "172.16.0.0/16 leaves through ib0"
PASSED_NOTE = StartNote("now", 7.5, refused=False)
REFUSED_NOTE = StartNote("now", 7.5, refused=True, errors=[ERROR])
OLD_NOTE = StartNote("before", 7.5, refused=False)


def state_of(note: StartNote | None, **properties: str) -> UnitState:
    """The state of the unit with these properties and this note."""
    files = FakeFiles()
    if note is not None:
        leave_note(files, UNIT, note)
    known = {"LoadState": "loaded", "InvocationID": "now"}
    known |= {"StateChangeTimestamp": NOW, "ConditionTimestamp": NOW}
    manager = FakeManager(properties={UNIT: {**known, **properties}})
    manager.errors[UNIT] = ("from the journal", "from the journal")
    [state] = unit_states(files, manager, [UNIT])
    return state


STATES: dict[str, tuple[StartNote | None, str, str, str, UnitState]] = {
    "checked": (PASSED_NOTE, "active", "running", PASSED, UnitState(UNIT, "runs", checked=7.5)),
    "started before the gate was there": (
        OLD_NOTE,
        "active",
        "running",
        PASSED,
        UnitState(UNIT, "runs", unchecked=True),
    ),
    "never checked": (
        None,
        "activating",
        "start-pre",
        PASSED,
        UnitState(UNIT, "is starting", unchecked=True),
    ),
    "the gate is not loaded": (None, "active", "running", "", UnitState(UNIT, "runs")),
    "in the gate": (OLD_NOTE, "activating", "condition", PASSED, UnitState(UNIT, "is in the gate")),
    "in a condition of another program": (
        None,
        "activating",
        "condition",
        "{ argv[]=/bin/true }",
        UnitState(UNIT, "does not run"),
    ),
    "refused": (
        REFUSED_NOTE,
        "failed",
        "failed",
        REFUSED,
        UnitState(UNIT, "was refused", reasons=(ERROR,)),
    ),
    "refused, after a reload": (
        REFUSED_NOTE,
        "inactive",
        "dead",
        PASSED,
        UnitState(UNIT, "was refused", reasons=(ERROR,)),
    ),
    "refused, without a note": (
        None,
        "failed",
        "failed",
        REFUSED,
        UnitState(UNIT, "was refused", reasons=("from the journal",)),
    ),
    "failed": (PASSED_NOTE, "failed", "failed", PASSED, UnitState(UNIT, "failed", checked=7.5)),
    "never started": (None, "inactive", "dead", PASSED, UnitState(UNIT, "does not run")),
}
"""By what has happened: the note, ActiveState, SubState, ExecCondition, and the state."""


@pytest.mark.parametrize("case", STATES)
def test_a_unit(case: str) -> None:
    """A note counts only if it is about the start that systemd knows."""
    note, active, sub, condition, state = STATES[case]
    found = state_of(note, ActiveState=active, SubState=sub, ExecCondition=condition)
    assert found == state._replace(since=NOW)
    assert refused_units([found]) == ((UNIT,) if state.state == "was refused" else ())


def test_a_unit_that_cannot_start() -> None:
    """What is wrong with it is said."""
    masked = state_of(None, LoadState="masked", ActiveState="inactive")
    assert "it is masked" in masked.reasons[0]
    assert f"systemctl unmask {UNIT}" in masked.reasons[0]
    absent = state_of(None, LoadState="not-found", ActiveState="inactive")
    assert "systemd does not know it" in absent.reasons[0]


def test_what_a_unit_waits_for() -> None:
    """In the gate, it is whoever has the lock."""
    waiting = UnitState(UNIT, "is in the gate")
    assert waiting.waiting_for(()) == waiting
    [reason] = waiting.waiting_for(["process 7 (python)"]).reasons
    assert reason == f"it waits for {HostLayout.lock_path}, which is locked by process 7 (python)"
    own_gate = f"process 8 (python) of {UNIT}"
    assert waiting.waiting_for([own_gate]) == waiting
    running = UnitState(UNIT, "runs")
    assert running.waiting_for(["process 7 (python)"]) == running


def test_instances() -> None:
    """Of a template, those that systemd knows, and those that are masked; nobody starts the
    instance that hostrouting has asked about.
    """
    template = "systemd-nspawn@.service"
    names = ("kube1", "hostrouting-probe", "masked")
    units = [template.replace("@", f"@{name}") for name in names]
    files = FakeFiles(links={HostLayout.unit_path(units[2]): "/dev/null"})
    manager = FakeManager(properties={units[0]: {}, units[1]: {}}, files=files)
    found = unit_states(files, manager, [template])
    assert [state.unit for state in found] == [units[0], units[2]]
