"""hostrouting.gate.unit_states: how a unit is, by systemd and by the note of the gate; tests/system
has it with a real systemd.
"""

import pytest

from hostrouting.gate.start_note import StartNote, leave_note
from hostrouting.gate.unit_states import UnitState, unit_states
from hostrouting.host.base import LockHolder
from hostrouting.host.layout import HostLayout
from hostrouting.testing import FakeFiles, FakeManager
from tests.support.ip_text import text_rows

UNIT = "kubelet.service"
NOW = "Thu 2026-01-01 00:00:00 UTC"
GATE = (
    "{ path=/usr/bin/env ; argv[]=/usr/bin/env -i /bin/sh -c gate hostrouting-gate kubelet ; %s }"
)
PASSED = {"ExecCondition": GATE % "status=0/0"}
REFUSED = {"ExecCondition": GATE % "status=255/EXCEPTION"}
ERROR = "172.16.0.0/16 leaves through ib0"
PASSED_NOTE = StartNote("now", 7.5, refused=False)
REFUSED_NOTE = StartNote("now", 7.5, refused=True, errors=[ERROR])
OLD_NOTE = StartNote("before", 7.5, refused=False)
OLD_REFUSAL = StartNote("before", 7.5, refused=True, errors=[ERROR])
FAILED = {
    "ActiveState": "failed",
    "SubState": "failed",
    "Result": "exit-code",
    "ExecMainStatus": "3",
}
LOGGED = ("it logs this", "it logs this")
"""What the journal has, where it is asked."""

PROPERTIES: dict[str, dict[str, str]] = {
    "runs": {"ActiveState": "active", "SubState": "running"},
    "reloading": {"ActiveState": "reloading", "SubState": "reload"},
    "start-pre": {"ActiveState": "activating", "SubState": "start-pre"},
    "start": {"ActiveState": "activating", "SubState": "start"},
    "start-post": {"ActiveState": "activating", "SubState": "start-post"},
    "condition": {"ActiveState": "activating", "SubState": "condition"},
    "other-condition": {"ExecCondition": "{ argv[]=true }"},
    "auto-restart": {"ActiveState": "activating", "SubState": "auto-restart"},
    "dead": {"ActiveState": "inactive", "SubState": "dead"},
    "inactive": {"ActiveState": "inactive"},
    "deactivating": {"ActiveState": "deactivating", "SubState": "stop-sigterm"},
    "never": {"StateChangeTimestamp": ""},
    "queued": {"Job": "30"},
    "failed": FAILED,
    "early": {"ExecMainStatus": "0"},
    "2-restarts": {"NRestarts": "2"},
    "masked": {"LoadState": "masked", "UnitFileState": "masked"},
    "masked-runtime": {"LoadState": "masked", "UnitFileState": "masked-runtime"},
    "not-found": {"LoadState": "not-found"},
    "passed": PASSED,
    "refused": REFUSED,
}
NOTES = {"": None, "passed": PASSED_NOTE, "refused": REFUSED_NOTE}
NOTES |= {"old": OLD_NOTE, "old refusal": OLD_REFUSAL}
COMMANDS = {
    "": None,
    "unmask": f"systemctl unmask {UNIT}",
    "unmask-runtime": f"systemctl unmask --runtime {UNIT}",
    "restart": f"systemctl restart {UNIT}",
    "start": f"systemctl start {UNIT}",
    "journal": f"journalctl -u {UNIT}",
    "jobs": "systemctl list-jobs --after",
    "gate-log": "journalctl -b _SYSTEMD_INVOCATION_ID=now -g hostrouting",
}


def manager_with(**properties: str) -> FakeManager:
    """A systemd that shows this of the unit, unless the properties say otherwise."""
    times = dict.fromkeys(
        ("StateChangeTimestamp", "ConditionTimestamp", "ExecMainStartTimestamp"), NOW
    )
    known = {"LoadState": "loaded", "InvocationID": "now", **times, **properties}
    return FakeManager(properties={UNIT: known}, errors={UNIT: LOGGED})


def state_of(note: StartNote | None, **properties: str) -> UnitState:
    """The state of the unit with these properties and this note."""
    files = FakeFiles()
    if note is not None:
        leave_note(files, UNIT, note)
    [state] = unit_states(files, manager_with(**properties), [UNIT])
    return state


# What has happened: the note, what systemd shows, what is said, the command, and whose reasons.
@text_rows(
    """
passed | runs passed | runs, and was checked (since NOW) | |
passed | runs passed 2-restarts | runs, and was checked, and was restarted 2 times (since NOW) | |
passed | start passed | is starting, and was checked (since NOW) | |
passed | start-post passed | is starting, and was checked (since NOW) | |
passed | runs masked | runs, and was checked (since NOW) | |
passed | reloading masked | runs, and was checked (since NOW) | |
# After an older note; without a note; where a drop-in cancels the gate
old | runs passed | runs, and no note says whether its start was checked (since NOW) | gate-log |
    | start-pre passed | is starting, and no note says whether its start was checked (since NOW) \
| gate-log |
    | runs | runs, and no note says whether its start was checked (since NOW) | gate-log |
# In the gate, or in a condition of another program
old | condition passed | waits in the gate (since NOW) | |
    | condition other-condition | does not run (since NOW) | |
# Refused; also after a reload, before the next attempt, and by a gate that could not run
refused | failed refused | was refused by the gate (since NOW) | start | note
refused | dead passed | was refused by the gate (since NOW) | start | note
refused | auto-restart refused | was refused by the gate (since NOW) | start | note
old | failed refused | was refused by the gate (since NOW) | start | log
# It fails by itself
    | failed passed early | fails before its main process starts, in the gate or in another \
command (since NOW) | start | log
passed | failed passed early | fails before its main process starts, in the gate or in another \
command (since NOW) | start | log
passed | failed passed 2-restarts \
| fails (exit-code, exit status 3), and was restarted 2 times (since NOW) | journal | log
old refusal | failed passed | fails (exit-code, exit status 3) (since NOW) | journal | log
passed | failed passed auto-restart | fails (exit-code, exit status 3) (since NOW) | journal | log
# It is not there, or not to be started
passed | failed masked | is masked, so systemd does not start it (since NOW) | unmask |
    | inactive masked-runtime | is masked, so systemd does not start it until the next boot \
(since NOW) | unmask-runtime |
    | not-found inactive never queued | is not known to systemd: it is not installed, or has \
another name | |
    | not-found never | is not known to systemd: it is not installed, or has another name | |
old refusal | inactive never passed | does not run | |
# systemd has not come to its start yet
    | inactive never passed queued | does not run, and its start waits for other units | jobs |
refused | failed refused queued | does not run, and its start waits for other units (since NOW) \
| jobs |
passed | start passed queued | is starting, and was checked (since NOW) | |
passed | deactivating passed queued | does not run (since NOW) | |
"""
)
def test_a_unit(row: list[str]) -> None:
    """A note counts only if it is about the start that systemd knows."""
    note, shown, words, command, reasons = row
    properties: dict[str, str] = {}
    for name in shown.split():
        properties |= PROPERTIES[name]
    state = state_of(NOTES[note], **properties)
    assert state.sentence == f"{UNIT} {words.replace('NOW', NOW)}"
    assert state.reasons == {"": (), "note": (ERROR,), "log": ("it logs this",)}[reasons]
    assert (state.remedy and state.remedy.command) == COMMANDS[command]
    assert state.checked == (7.5 if note == "passed" else 0)


@pytest.mark.parametrize("gate", ["", PASSED["ExecCondition"]])
def test_a_unit_without_a_note_can_be_checked_where_it_is_gated(gate: str) -> None:
    """Nobody knows whether its start was checked: perhaps /run was full then, or the gate open."""
    remedy = state_of(None, **PROPERTIES["runs"], ExecCondition=gate).remedy
    assert remedy is not None
    assert not remedy.needs_root
    restarts = [f"systemctl restart {UNIT}"] if gate else []
    assert [way.command for way in [*remedy.ways()][1:]] == restarts


@pytest.mark.parametrize("is_locked", [True, False])
@pytest.mark.parametrize("has_script", [True, False])
def test_what_a_unit_waits_for(*, is_locked: bool, has_script: bool) -> None:
    """In the gate, it is whoever has the lock, and then perhaps another program's script."""
    files = FakeFiles()
    if is_locked:
        files.locked.add(HostLayout.lock_path)
    if has_script:
        files.texts |= dict.fromkeys((SCRIPT, f"{SCRIPT}.sh"), "sleep infinity\n")
    waiting = manager_with(ActiveState="activating", SubState="condition", **PASSED)
    [state] = unit_states(files, waiting, [UNIT])
    if is_locked:
        assert state.reasons == (f"{HostLayout.lock_path} is locked by process 4711 (flock)",)
        assert str(state.remedy) == "if that hangs, as root: kill 4711"
    elif has_script:
        way = f"perhaps for {SCRIPT} or {SCRIPT}.sh; to see that: systemctl status -l {UNIT}"
        assert str(state.remedy) == way
    else:
        assert state.remedy is None


STEP = "the step licence"
SCRIPT = f"{HostLayout.gate_directory}/50-site.sh"


@pytest.mark.parametrize(
    ("held_by", "is_there", "now", "way"),
    [
        (SCRIPT, True, SCRIPT, f"mv {SCRIPT} {SCRIPT}.off && systemctl restart {UNIT}"),
        (SCRIPT, False, "", f"systemctl start {UNIT}"),
        (STEP, True, STEP, f"systemctl restart {UNIT}"),
        (HostLayout.lock_path, True, "", f"systemctl start {UNIT}"),
    ],
)
def test_what_has_refused_a_unit(held_by: str, *, is_there: bool, now: str, way: str) -> None:
    """A script may do so again, as long as it is there; a lock that is free does not. A unit that
    systemd starts again meanwhile waits in the gate for that script, and is to be started anew.
    """
    files = FakeFiles({held_by: ""} if is_there and held_by != STEP else {})
    leave_note(files, UNIT, StartNote("now", 7.5, refused=True, held_by=held_by, errors=[ERROR]))
    [state] = unit_states(files, manager_with(**FAILED, **REFUSED), [UNIT])
    assert (state.state, state.held_by) == ("refused", now)
    assert state.remedy is not None
    assert state.remedy.command == way
    *_, mended = state.remedy.ways()
    assert mended.command == (f"systemctl restart {UNIT}" if now else way)
    again = manager_with(ActiveState="activating", SubState="condition", InvocationID="next")
    again.properties[UNIT] |= PASSED
    [waiting] = unit_states(files, again, [UNIT])
    assert (waiting.state, waiting.held_by) == ("waiting", now)
    if now:
        assert waiting.reasons == (f"its last start was refused: {ERROR}",)
        assert waiting.remedy == state.remedy


@pytest.mark.parametrize(
    ("timers", "again"),
    [
        ("", ""),
        ("a.timer b.path", " (a.timer and b.path start it again)"),
    ],
)
def test_a_refused_unit_while_another_process_has_the_lock(
    timers: str, again: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever has refused it, it cannot start now. What starts the service of that process again
    is named.
    """
    holder = LockHolder(8, "python", "agent.service")
    monkeypatch.setattr(FakeFiles, "lock_holders", lambda *_: (holder,))
    files = FakeFiles()
    leave_note(files, UNIT, REFUSED_NOTE)
    manager = manager_with(**FAILED, **REFUSED)
    manager.properties["agent.service"] = {"TriggeredBy": timers}
    [state] = unit_states(files, manager, [UNIT])
    assert state.held_by == HostLayout.lock_path
    locked = f"{HostLayout.lock_path} is locked by process 8 (python) of agent.service"
    assert state.reasons == (ERROR, locked)
    assert str(state.remedy) == f"if that hangs{again}, as root: kill 8"


@pytest.mark.parametrize("unit", [HostLayout.guard_unit, UNIT])
def test_who_has_the_lock_for_a_moment(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard is not to be stopped for a pass that ends in a moment, and the gate of the unit
    itself holds nobody back.
    """
    holder = LockHolder(8, "python", unit)
    monkeypatch.setattr(FakeFiles, "lock_holders", lambda *_: (holder,))
    files = FakeFiles()
    leave_note(files, UNIT, REFUSED_NOTE)
    [state] = unit_states(files, manager_with(**FAILED, **REFUSED), [UNIT])
    assert state.held_by == ""
    assert str(state.remedy) == f"when nothing holds it back, as root: systemctl start {UNIT}"
    waiting = manager_with(ActiveState="activating", SubState="condition", **PASSED)
    [state] = unit_states(FakeFiles(), waiting, [UNIT])
    if unit == UNIT:
        assert (state.reasons, state.remedy) == ((), None)


def test_the_guard() -> None:
    """Nothing gates it, so it has no note; it is not called a unit that is not gated."""
    manager = FakeManager(properties={HostLayout.guard_unit: PROPERTIES["runs"]})
    for gated in (None, [UNIT]):
        [state] = unit_states(FakeFiles(), manager, [HostLayout.guard_unit], gated)
        assert state == UnitState(HostLayout.guard_unit, "runs")


def test_instances() -> None:
    """Of a template, those that systemd knows; nobody starts the instance that hostrouting has
    asked about. A unit whose name is escaped stays so in a command.
    """
    template = "systemd-nspawn@.service"
    names = (r"my\x2dvm", "hostrouting-probe")
    units = [template.replace("@", f"@{name}") for name in names]
    masked = {"LoadState": "masked", "ActiveState": "inactive"}
    manager = FakeManager(properties=dict.fromkeys(units, masked))
    for gated in ([template], [units[0]]):
        [state] = unit_states(FakeFiles(), manager, [units[0], template], gated)
        assert (state.unit, state.state) == (units[0], "masked")
        assert state.remedy is not None
        assert state.remedy.command == r"systemctl unmask 'systemd-nspawn@my\x2dvm.service'"


@pytest.mark.parametrize("gated", [(), (UNIT,), ("other.service",)])
def test_a_unit_that_is_not_gated(gated: tuple[str, ...]) -> None:
    """Its state is not the gate's to explain."""
    [state] = unit_states(FakeFiles(), manager_with(**FAILED), [UNIT], gated)
    assert state.state == ("fails" if UNIT in gated else "not gated")
    assert str(state.remedy) == f"see: journalctl -u {UNIT}"
    [state] = unit_states(FakeFiles(), manager_with(**PROPERTIES["not-found"]), [UNIT], gated)
    assert state.state == "unknown"
