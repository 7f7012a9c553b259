"""How each gated unit is: whether it runs, waits in the gate, or was refused, and why.

systemd is asked, and the journal has the reason of a refusal: the lines that the gate and its steps
have logged during that start.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from hostrouting.boot.unit_names import instance_pattern, is_template, plain_instance
from hostrouting.finding import Remedy
from hostrouting.host.layout import HostLayout
from hostrouting.text import command_of, spoken

if TYPE_CHECKING:
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
    "Result",
    "ExecCondition",
    "ExecStartPre",
    "Type",
    "StateChangeTimestamp",
    "ConditionTimestamp",
    "ConditionTimestampMonotonic",
    "InactiveExitTimestampMonotonic",
    "ExecMainStartTimestampMonotonic",
)
_STARTING = {"start-pre", "start", "start-post"}
"""The substates after the gate."""
_ARGV = "argv[]="
"""Once in each command of a property that is a list of commands: its words, and behind them what
systemd knows of it, such as `ignore_errors=no ; start_time=[n/a] ; status=0/0`.
"""
_REFUSED = "status=255"
"""How the gate ends when it refuses (boot/assets/gate.sh)."""
_NEVER_RAN = "start_time=[n/a]"
"""What systemd shows of a command that has not run since the last daemon-reload."""


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
    """When its last start began, with the gate, in seconds since 1970; 0 if there was none since
    the boot. Also 0 for a unit that has other commands before its main process, once systemd has
    read its files again: it does not show then whether the gate ran.
    """
    unchecked: bool = False
    """Whether it runs or is starting, and waits for the gate at the next start, but did not at this
    one. Always false for a unit that has other commands before its main process, and for one that
    systemd 254 or later has started again by itself, because systemd does not show it then. So of
    some units, neither this nor `checked` is known.
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
        """The state, given who has the lock: if anybody, a unit in the gate waits for that."""
        if self.state != "is in the gate" or not holders:
            return self
        reason = f"it waits for {HostLayout.lock_path}, which is locked by {spoken(holders)}"
        return self._replace(reasons=(reason,))

    def to_mapping(self) -> dict[str, object]:
        """The state as JSON, with a key for each field."""
        return {**self._asdict(), "reasons": list(self.reasons)}


def refused_units(states: Iterable[UnitState]) -> tuple[str, ...]:
    """The units that the gate has refused, and that nobody has started again."""
    return tuple(state.unit for state in states if state.state == "was refused")


def unit_states(manager: Manager, units: Iterable[str]) -> Iterator[UnitState]:
    """These units, which are gated. Of a template, the instances that systemd knows."""
    for unit in units:
        for properties in manager.show(_PROPERTIES, instance_pattern(unit)):
            # Nobody starts the plain instance: systemd knows it because `unit_gates` asks about it.
            is_plain = is_template(unit) and properties["Id"] == plain_instance(unit)
            if not is_plain:
                yield _state_of(manager, properties)


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


def _state_of(manager: Manager, properties: Mapping[str, str]) -> UnitState:
    """The state of the unit, and what is known of the gate at its last start."""
    unit = properties["Id"]
    since = properties["StateChangeTimestamp"]
    state = _current_state(properties)
    unit_state = UnitState(unit, state, since, _reasons_for(state, manager, properties))
    if not _is_gated(properties):
        return unit_state
    if _has_passed_over_gate(properties):
        return unit_state._replace(unchecked=state in {"runs", "is starting"})
    if _has_other_commands(properties) and not _is_gate_shown(properties):
        return unit_state  # nobody knows whether the gate ran
    return unit_state._replace(checked=_time_of(properties["InactiveExitTimestampMonotonic"]))


def _reasons_for(state: State, manager: Manager, properties: Mapping[str, str]) -> tuple[str, ...]:
    """See `UnitState.reasons`."""
    unit = properties["Id"]
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


def _current_state(properties: Mapping[str, str]) -> State:
    if properties["ActiveState"] in {"active", "reloading"}:
        return "runs"
    if properties["SubState"] == "condition" and _is_gated(properties):
        return "is in the gate"
    if properties["SubState"] in _STARTING:
        return "is starting"
    if _is_gated(properties) and _was_refused(properties):
        return "was refused"
    if properties["ActiveState"] == "failed":
        return "failed"
    return "does not run"


# How the last start went. systemd shows three times since the boot: when it began to start the unit
# and looked at its Condition...= settings (ConditionTimestamp); when the first command began, by
# which a unit leaves the state "inactive" (InactiveExitTimestamp); and when the main process began.
# For each command of a list, it shows when it ran, and its status, until the next daemon-reload.


def _is_gated(properties: Mapping[str, str]) -> bool:
    """Whether systemd runs the gate at a start now."""
    return HostLayout.gate_path in properties["ExecCondition"]


def _gates_of(properties: Mapping[str, str]) -> list[str]:
    """The gate among the commands of ExecCondition=; drop-ins may name it twice."""
    return [command for command in _conditions_of(properties) if HostLayout.gate_path in command]


def _conditions_of(properties: Mapping[str, str]) -> list[str]:
    """The commands of ExecCondition=; see `_ARGV`."""
    return properties["ExecCondition"].split(_ARGV)[1:]


def _has_other_commands(properties: Mapping[str, str]) -> bool:
    """Whether commands other than the gate come before the main process."""
    return bool(properties["ExecStartPre"]) or _has_others_beside_start_pre(properties)


def _has_others_beside_start_pre(properties: Mapping[str, str]) -> bool:
    """Whether commands other than the gate and those of ExecStartPre= come before the main process:
    other conditions, or ExecStart= itself, where that starts the main process and ends.
    """
    if properties["Type"] == "forking":
        return True
    return _gates_of(properties) != _conditions_of(properties)


def _is_gate_shown(properties: Mapping[str, str]) -> bool:
    """Whether systemd still shows that the gate has run."""
    return any(_NEVER_RAN not in gate for gate in _gates_of(properties))


def _was_refused(properties: Mapping[str, str]) -> bool:
    """Whether the gate has refused the last start.

    After a daemon-reload, systemd still shows that a command of the unit has failed, but not which
    one, or that it took too long. It was the gate if no other command can make a start fail before
    the main process, and that one has not begun in this start.
    """
    if any(_REFUSED in gate for gate in _gates_of(properties)):
        return True
    if properties["Result"] == "exit-code":  # the status of a command with a "-" is ignored
        can_start_pre_fail = "ignore_errors=no" in properties["ExecStartPre"]
    elif properties["Result"] == "timeout":  # it ends a start in any command
        can_start_pre_fail = bool(properties["ExecStartPre"])
    else:
        return False
    if can_start_pre_fail or _has_others_beside_start_pre(properties):
        return False
    main_began = _microseconds(properties["ExecMainStartTimestampMonotonic"])
    start_began = _microseconds(properties["ConditionTimestampMonotonic"])
    return main_began < start_began


def _has_passed_over_gate(properties: Mapping[str, str]) -> bool:
    """Whether the last start began with the main process, without the gate before it.

    The gate was first if the main process began after the first command, or not at all: before the
    gate, systemd forgets the main process of the start before.
    """
    first_began = _microseconds(properties["InactiveExitTimestampMonotonic"])
    main_began = _microseconds(properties["ExecMainStartTimestampMonotonic"])
    return 0 < main_began <= first_began


def _time_of(monotonic: str) -> float:
    """The time of microseconds since the boot, in seconds since 1970; 0 for none."""
    since_boot = _microseconds(monotonic)
    if not since_boot:
        return 0
    return time.time() - time.monotonic() + since_boot / 1_000_000


def _microseconds(monotonic: str) -> int:
    """A time since the boot; 0 for none."""
    return int(monotonic or 0)
