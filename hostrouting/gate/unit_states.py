"""How each gated unit is: whether it runs, waits in the gate, or was refused, and why.

systemd says how a unit is now, and the gate has left a note about the last start of each unit. A
note belongs to a start by the ID that systemd gives each start (InvocationID).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from hostrouting.boot.units import GATE_MARK
from hostrouting.errors import HostError
from hostrouting.finding import Remedy
from hostrouting.gate.start_note import StartNote, read_note
from hostrouting.gate.unit_names import instance_pattern, is_template, plain_instance, template_of
from hostrouting.host.fileset import is_masked
from hostrouting.host.layout import HostLayout
from hostrouting.text import command_of, spoken

if TYPE_CHECKING:
    from hostrouting.host.base import Files
    from hostrouting.host.systemd import Manager

State: TypeAlias = Literal[
    "runs", "is starting", "is in the gate", "was refused", "failed", "does not run"
]
"""A unit is starting when the gate has let it pass, and it is not ready yet. One that is stopping
does not run any more: nothing keeps it from ending.
"""

_PROPERTIES = (
    "Id",
    "LoadState",
    "ActiveState",
    "SubState",
    "ExecCondition",
    "StateChangeTimestamp",
    "ConditionTimestamp",
    "InvocationID",
)
_STARTING = {"start-pre", "start", "start-post"}
"""The substates after the gate."""
_ARGV = "argv[]="
"""Once in each command of a property that is a list of commands."""
_REFUSED = "status=255"
"""What systemd shows of a gate that has refused, until it reads its files again."""


class UnitState(NamedTuple):
    """A gated unit, as it is now."""

    unit: str
    state: State
    since: str = ""
    """When systemd last saw it change, in systemd's words; empty if it never has."""
    reasons: tuple[str, ...] = ()
    """What was logged as an error during the start that was refused; that the unit is masked, or
    that systemd does not know it; or for which process it waits in the gate.
    """
    checked: float = 0
    """When the gate let its last start pass, in seconds since 1970; 0 if it did not."""
    unchecked: bool = False
    """Whether it runs or is starting, and waits for the gate at the next start, but did not at this
    one: it was started before the gate was installed, or while an administrator had opened it. Also
    where /run was full, so that the gate could leave no note.
    """

    @property
    def line(self) -> str:
        """The unit, its state and the time, in one line."""
        if not self.since:
            return f"{self.unit} {self.state}"
        state: str = self.state
        if state == "was refused":
            state = "has been refused"
        return f"{self.unit} {state} since {self.since}"

    def waiting_for(self, holders: Sequence[str]) -> UnitState:
        """The state, given who has the lock: if another process than its own gate has it, a unit in
        the gate waits for that.
        """
        others = [holder for holder in holders if not holder.endswith(f" of {self.unit}")]
        if self.state != "is in the gate" or not others:
            return self
        reason = f"it waits for {HostLayout.lock_path}, which is locked by {spoken(others)}"
        return self._replace(reasons=(reason,))

    def to_mapping(self) -> dict[str, object]:
        """The state as JSON, with a key for each field."""
        return {**self._asdict(), "reasons": list(self.reasons)}


def refused_units(states: Iterable[UnitState]) -> tuple[str, ...]:
    """The units that the gate has refused, and that nobody has started again."""
    return tuple(state.unit for state in states if state.state == "was refused")


def unit_states(files: Files, manager: Manager, units: Collection[str]) -> Iterator[UnitState]:
    """These units, which are gated. Of a template, the instances that systemd knows, and those that
    are masked, which it does not load.
    """
    seen: set[str] = set()
    for unit in (*units, *_masked_instances(files, units)):
        for properties in manager.show(_PROPERTIES, instance_pattern(unit)):
            name = properties["Id"]
            # Nobody starts the plain instance: systemd knows it because `unit_gates` asks about it.
            is_plain = is_template(unit) and name == plain_instance(unit)
            if not is_plain and name not in seen:
                seen.add(name)
                yield _state_of(files, manager, properties)


def _masked_instances(files: Files, units: Collection[str]) -> Iterator[str]:
    """The instances of these templates that the administrator has masked. Without the folder of
    units, none is counted.
    """
    with suppress(HostError):
        for name in files.names(HostLayout.unit_directory):
            template = template_of(name)
            is_gated = template != name and template in units
            if is_gated and is_masked(files, HostLayout.unit_path(name)):
                yield name


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


def _state_of(files: Files, manager: Manager, properties: Mapping[str, str]) -> UnitState:
    """The state of the unit, and what is known of the gate at its last start."""
    unit = properties["Id"]
    note = read_note(files, unit)
    if note is not None and note.invocation != properties["InvocationID"]:
        note = None  # it is about an earlier start
    state = _current_state(properties, note)
    unit_state = UnitState(unit, state, properties["StateChangeTimestamp"])
    unit_state = unit_state._replace(reasons=_reasons_for(state, manager, properties, note))
    if note is not None and not note.refused:
        return unit_state._replace(checked=note.time)
    is_up = state in {"runs", "is starting"}
    return unit_state._replace(unchecked=is_up and _gate_of(properties) != "")


def _reasons_for(
    state: State, manager: Manager, properties: Mapping[str, str], note: StartNote | None
) -> tuple[str, ...]:
    """See `UnitState.reasons`. Without a note, the gate did not run to its end, and the journal has
    what it has said.
    """
    unit = properties["Id"]
    if state == "was refused" and note is not None:
        return note.errors
    if state == "was refused":
        errors = manager.errors_of(unit, properties["ConditionTimestamp"])
        # Each once: systemd 254 and later keep that time when they start the unit again themselves.
        return tuple(dict.fromkeys(errors))
    if state in {"does not run", "failed"} and properties["LoadState"] == "masked":
        unmask = Remedy("to undo that", command_of("systemctl unmask", unit))
        return (f"it is masked, so systemd does not start it; {unmask}",)
    if state == "does not run" and properties["LoadState"] == "not-found":
        return ("systemd does not know it: it is not installed, or has another name",)
    return ()


def _current_state(properties: Mapping[str, str], note: StartNote | None) -> State:
    gate = _gate_of(properties)
    if properties["ActiveState"] in {"active", "reloading"}:
        return "runs"
    if properties["SubState"] == "condition" and gate:
        return "is in the gate"
    if properties["SubState"] in _STARTING:
        return "is starting"
    if _REFUSED in gate or (note is not None and note.refused):
        return "was refused"
    if properties["ActiveState"] == "failed":
        return "failed"
    return "does not run"


def _gate_of(properties: Mapping[str, str]) -> str:
    """The gate among the conditions of the unit, with what systemd shows of its last run; empty if
    systemd does not run the gate at a start now.
    """
    for command in properties["ExecCondition"].split(_ARGV)[1:]:
        if GATE_MARK in command:
            return command
    return ""
