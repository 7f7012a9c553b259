"""How a unit is, and what the gate had to do with that: whether its start was checked, or refused,
or whether the unit fails.

systemd says how a unit is now, and the gate has left a note about the last start of each unit. A
note belongs to a start by the ID that systemd gives each start (InvocationID).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from hostrouting.boot.units import GATE_MARK
from hostrouting.finding import Remedy
from hostrouting.gate.start_note import StartNote, read_note
from hostrouting.gate.trusted import foreign_scripts
from hostrouting.gate.unit_names import (
    instance_pattern,
    is_template,
    plain_instance,
    template_of,
)
from hostrouting.host.base import LockHolder, command_to_end, in_words
from hostrouting.host.layout import HostLayout
from hostrouting.text import agreeing, command_of, counted, spoken

if TYPE_CHECKING:
    from hostrouting.host.base import Files
    from hostrouting.host.systemd import Manager

State: TypeAlias = Literal[
    "refused", "fails", "masked", "unknown", "waiting", "no answer", "starting", "stopped", "runs",
    "not gated",
]  # fmt: skip
"""The worst first. A unit is starting when the gate has let it pass, and it is not ready yet. One
that is stopping counts as stopped.
"""
PREDICATES: dict[State, str] = {
    "refused": "was refused by the gate",
    "fails": "fails",
    "masked": "is masked, so systemd does not start it",
    "unknown": "is not known to systemd: it is not installed, or has another name",
    "waiting": "waits in the gate",
    "no answer": "may be in any state: systemd does not run here, or does not answer",
    "starting": "is starting",
    "stopped": "does not run",
    "runs": "runs",
    "not gated": "is not gated: it starts whatever the routes are",
}
"""What each state says of a unit."""

_PROPERTIES = (
    "Id",
    "LoadState",
    "UnitFileState",
    "ActiveState",
    "SubState",
    "ExecCondition",
    "StateChangeTimestamp",
    "ConditionTimestamp",
    "ExecMainStartTimestamp",
    "InvocationID",
    "Result",
    "ExecMainStatus",
    "NRestarts",
    "Job",
)
_STARTING = {"start-pre", "start", "start-post"}
"""The substates after the gate."""
_RESTARTING = {"auto-restart", "auto-restart-queued"}
_ARGV = "argv[]="
"""Once in each command of a property that is a list of commands."""
_REFUSED = "status=255"
"""What systemd shows of a gate that has refused, until it reads its files again."""
_NO_NOTE = ", and no note says whether its start was checked"
"""It was not where the gate was open or not there yet, and was where /run was full."""
_TO_CHECK = "to check it now (this stops it, and the gate decides whether it starts again)"


ReadHolders: TypeAlias = Callable[[], Sequence[LockHolder]]
"""Reads who has the lock of the host."""


class UnitState(NamedTuple):
    """A unit, as it is now."""

    unit: str
    state: State
    since: str = ""
    """When systemd last saw it change, in systemd's words; empty if it never has."""
    details: str = ""
    """What there is to add to the state: how it has failed, and how often it was restarted."""
    reasons: tuple[str, ...] = ()
    """What was logged as an error by the gate that refused it, or by itself before it failed; or
    for which process it waits in the gate.
    """
    remedy: Remedy | None = None
    held_by: str = ""
    """What holds it back beside the routes: the lock that another process has, or the script that
    refused its last start. The last reason says how.
    """
    checked: float = 0
    """When the gate let its last start pass, in seconds since 1970; 0 if it did not."""

    @property
    def sentence(self) -> str:
        """The unit, its state, and since when."""
        since = f" (since {self.since})" if self.since else ""
        return f"{self.unit} {PREDICATES[self.state]}{self.details}{since}"

    def to_mapping(self) -> dict[str, object]:
        """The state as JSON."""
        return {
            "unit": self.unit,
            "state": self.state,
            "since": self.since,
            "sentence": self.sentence,
            "reasons": list(self.reasons),
            "checked": self.checked,
        }


def unit_states(
    files: Files, manager: Manager, units: Collection[str], gated: Collection[str] | None = None
) -> list[UnitState]:
    """The states of these units; of a template, those of the instances that systemd has loaded.
    Without `gated`, all of these are gated, or ours.
    """
    states: dict[str, UnitState] = {}
    read_holders = cache(lambda: files.lock_holders(HostLayout.lock_path))  # looks at all processes
    for unit in units:
        for properties in manager.show(_PROPERTIES, instance_pattern(unit)):
            name = properties["Id"]
            # Nobody starts the plain instance: systemd knows it because `unit_gates` asks about it.
            if is_template(unit) and name == plain_instance(unit):
                continue
            states[name] = _state_of(files, manager, properties, read_holders)
            is_ours = gated is None or {name, template_of(name)} & {*gated, HostLayout.guard_unit}
            if not is_ours and states[name].state != "unknown":
                states[name] = UnitState(name, "not gated", remedy=_see_journal(name))
    return list(states.values())


def is_active(manager: Manager, unit: str) -> bool:
    """Whether this unit, which is not a template, is active. One that is being reloaded is not: for
    the guard, which has no reload, that makes no difference.
    """
    [properties] = manager.show(("ActiveState",), unit)
    return properties["ActiveState"] == "active"


def is_masked_unit(manager: Manager, unit: str) -> bool:
    """Whether systemd refuses to start this unit, which is not a template, because of a file or of
    a link in its place.
    """
    [properties] = manager.show(("LoadState",), unit)
    return properties["LoadState"] == "masked"


def _state_of(
    files: Files, manager: Manager, properties: Mapping[str, str], read_holders: ReadHolders
) -> UnitState:
    """The state of the unit, with what is known of the gate at its last start."""
    unit = properties["Id"]
    last = read_note(files, unit)
    note = last
    if last is not None and last.invocation != properties["InvocationID"]:
        note = None  # it is about an earlier start
    name = _name_of(properties, note)
    state = UnitState(unit, name, properties["StateChangeTimestamp"])
    if note is not None and not note.refused:
        state = state._replace(checked=note.time)
    if name == "refused":
        reasons = _why_refused(manager, properties, note)
        held_by = "" if note is None else note.held_by
        state = state._replace(reasons=reasons, held_by=held_by)
        return _refused(state, files, manager, read_holders)
    if name == "fails":
        return _failing(state, manager, properties)
    if name == "masked":
        return _masked(state, properties)
    if name == "waiting":
        return _waiting(state, files, manager, read_holders, last)
    if name == "stopped" and _is_queued(properties):
        see = Remedy("to see which", "systemctl list-jobs --after", needs_root=False)
        return state._replace(details=", and its start waits for other units", remedy=see)
    if name in {"runs", "starting"} and unit != HostLayout.guard_unit:  # nothing gates the guard
        return _passed(state, properties)
    return state


def _name_of(properties: Mapping[str, str], note: StartNote | None) -> State:
    gate = _gate_of(properties)
    is_up = properties["ActiveState"] in {"active", "reloading"}
    if properties["SubState"] == "condition" and gate:
        return "waiting"
    if is_up or properties["SubState"] in _STARTING:
        return "runs" if is_up else "starting"
    if properties["LoadState"] == "masked":
        return "masked"
    if properties["LoadState"] == "not-found":
        return "unknown"
    if _is_queued(properties):
        return "stopped"
    # Not told from ExecStartPre: a gate that could not run, once systemd has read its files.
    if _REFUSED in gate or (note is not None and note.refused):
        return "refused"
    if properties["ActiveState"] == "failed" or properties["SubState"] in _RESTARTING:
        return "fails"
    return "stopped"


def _is_queued(properties: Mapping[str, str]) -> bool:
    """Whether systemd is to start the unit, and has not come to that."""
    return bool(properties["Job"]) and properties["ActiveState"] in {"inactive", "failed"}


def _gate_of(properties: Mapping[str, str]) -> str:
    """The gate among the conditions of the unit, with what systemd shows of its last run; empty if
    systemd does not run the gate at a start now.
    """
    for command in properties["ExecCondition"].split(_ARGV)[1:]:
        if GATE_MARK in command:
            return command
    return ""


def _why_refused(
    manager: Manager, properties: Mapping[str, str], note: StartNote | None
) -> tuple[str, ...]:
    """What the gate has said; without a note, the journal has it."""
    if note is not None:
        return note.errors
    errors = manager.errors_of(properties["Id"], properties["ConditionTimestamp"])
    # Each once: systemd 254 and later keep that time when they start the unit again themselves.
    return tuple(dict.fromkeys(errors))


def _failing(state: UnitState, manager: Manager, properties: Mapping[str, str]) -> UnitState:
    """The state of a unit that fails: how, what it has logged, and where the rest is."""
    result, status = properties["Result"], properties["ExecMainStatus"]
    started = properties["ExecMainStartTimestamp"]
    how = f" ({result}, exit status {status})"
    remedy = _see_journal(state.unit)
    if (result, status) == ("exit-code", "0"):  # a condition, perhaps the gate, or ExecStartPre
        how = " before its main process starts, in the gate or in another command"
        started = properties["ConditionTimestamp"]
        start = command_of("systemctl start", state.unit)
        remedy = Remedy("to start it again", start, otherwise=remedy)
    return state._replace(
        details=how + _restarts(properties),
        reasons=tuple(dict.fromkeys(manager.errors_of(state.unit, started))),
        remedy=remedy,
    )


def _passed(state: UnitState, properties: Mapping[str, str]) -> UnitState:
    """The state of a unit that runs, or is starting: whether the gate has checked its start."""
    if state.checked:
        return state._replace(details=f", and was checked{_restarts(properties)}")
    restart = None
    if _gate_of(properties):
        restart = Remedy(_TO_CHECK, command_of("systemctl restart", state.unit))
    this_start = f"_SYSTEMD_INVOCATION_ID={properties['InvocationID']}"
    lines_of_gate = f"{command_of('journalctl -b', this_start)} -g hostrouting"
    see = Remedy(
        "to see whether the gate said anything", lines_of_gate, needs_root=False, otherwise=restart
    )
    return state._replace(details=_NO_NOTE, remedy=see)


def _see_journal(unit: str) -> Remedy:
    return Remedy("see", command_of("journalctl -u", unit), needs_root=False)


def _restarts(properties: Mapping[str, str]) -> str:
    """How often systemd has started the unit again by itself, as the end of a sentence."""
    restarts = int(properties["NRestarts"] or 0)
    return f", and was restarted {counted(restarts, 'time')}" if restarts else ""


def _masked(state: UnitState, properties: Mapping[str, str]) -> UnitState:
    """The state of a masked unit, with the command that takes this mask away."""
    command, details = "systemctl unmask", ""
    if properties["UnitFileState"] == "masked-runtime":
        command, details = "systemctl unmask --runtime", " until the next boot"
    remedy = Remedy("to undo that", command_of(command, state.unit))
    return state._replace(details=details, remedy=remedy)


def _refused(
    state: UnitState, files: Files, manager: Manager, read_holders: ReadHolders
) -> UnitState:
    """The state of a refused unit, with what holds it back now beside the routes."""
    # The guard has the lock only for a moment, as after an apply, and ends by itself if it hangs.
    others = [holder for holder in read_holders() if holder.service != HostLayout.guard_unit]
    locked = _held_by_lock(state, manager, others)
    if locked is not None:
        return locked
    if _is_script(state.held_by, files):
        return state._replace(remedy=_without_script(state))
    start = Remedy("when nothing holds it back", command_of("systemctl start", state.unit))
    return state._replace(held_by="", remedy=start)


def _is_script(held_by: str, files: Files) -> bool:
    """Whether a script, or a step of the configuration, holds units back, and is still there."""
    if held_by in {"", HostLayout.lock_path}:
        return False
    return not held_by.startswith("/") or files.look(held_by) is not None


def _without_script(state: UnitState) -> Remedy:
    """How to start the unit without the script that holds it back, or when it is mended. To start
    it would not be enough: if it waits in the gate, for this script, that start is joined.
    """
    restart = Remedy("when it is mended", command_of("systemctl restart", state.unit))
    script = state.held_by
    if not script.startswith("/"):  # a step
        return restart
    move = command_of("mv", script, f"{script}.off")
    words = "ask its owner; to start without it"
    return Remedy(words, f"{move} && {restart.command}", otherwise=restart)


def _waiting(
    state: UnitState,
    files: Files,
    manager: Manager,
    read_holders: ReadHolders,
    last: StartNote | None,
) -> UnitState:
    """The state of a unit in the gate: if another process than its own gate has the lock, it waits
    for that; else for the script that has refused its last start, or perhaps for another one.
    """
    locked = _held_by_lock(state, manager, read_holders())
    if locked is not None:
        return locked
    if last is not None and _is_script(last.held_by, files):
        reasons = [f"its last start was refused: {error}" for error in last.errors[-1:]]
        state = state._replace(held_by=last.held_by, reasons=tuple(reasons))
        return state._replace(remedy=_without_script(state))
    scripts = foreign_scripts(files)
    if scripts:
        show = command_of("systemctl status -l", state.unit)
        words = f"perhaps for {spoken(scripts, last='or')}; to see that"
        return state._replace(remedy=Remedy(words, show, needs_root=False))
    return state


def _held_by_lock(
    state: UnitState, manager: Manager, holders: Sequence[LockHolder]
) -> UnitState | None:
    """The state of a unit that waits, or would wait, for the process that has the lock; None if
    only its own gate has it.
    """
    others = [holder for holder in holders if holder.service != state.unit]
    if not others:
        return None
    locked = f"{HostLayout.lock_path} is locked by {in_words(others)}"
    return state._replace(
        reasons=(*state.reasons, locked),
        held_by=HostLayout.lock_path,
        remedy=Remedy(f"if that hangs{_started_by(manager, others)}", command_to_end(others)),
    )


def _started_by(manager: Manager, holders: Iterable[LockHolder]) -> str:
    """The timers and others that start the services of these processes, in brackets."""
    triggers: list[str] = []
    for service in dict.fromkeys(holder.service for holder in holders if holder.service):
        for properties in manager.show(("TriggeredBy",), service):
            triggers += properties["TriggeredBy"].split()
    if not triggers:
        return ""
    return f" ({spoken(triggers)} {agreeing('starts', len(triggers))} it again)"
