"""The state of a unit, from systemd, and what its gate has logged if its last start failed: a gate
that refuses a start makes it fail, and logs the reasons there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from hostrouting.finding import Remedy
from hostrouting.gate.unit_names import instance_pattern, template_of, unused_instance
from hostrouting.host.layout import HostLayout
from hostrouting.text import command_of

if TYPE_CHECKING:
    from hostrouting.host.systemd import Manager

# The worst first.
State: TypeAlias = Literal[
    "stuck", "masked", "fails", "skipped", "unknown", "waiting", "queued", "no answer", "starting",
    "stopped", "runs", "not gated",
]  # fmt: skip
PREDICATES: dict[State, str] = {
    "stuck": "has failed, and systemd does not start it again",
    "masked": "is masked, so systemd does not start it",
    "fails": "fails, and systemd will start it again",
    "skipped": "does not run: systemd skipped its start, but not because of the routes",
    "unknown": "is not known to systemd: it is not installed, or has another name",
    "waiting": "waits in the gate",
    "queued": "does not run: its start waits for another unit",
    "no answer": "may be in any state: systemd does not run here, or does not answer",
    "starting": "is starting",
    "stopped": "does not run",
    "runs": "runs",
    "not gated": "is not gated: it starts whatever the routes are",
}
"""The words for each state, after the name of the unit."""
_PROPERTIES = (
    "Id",
    "LoadState",
    "ActiveState",
    "SubState",
    "UnitFileState",
    "Job",
    "ConditionResult",
    "StateChangeTimestamp",
    "ConditionTimestamp",
    "ExecMainStartTimestamp",
)
# By a value of ActiveState, SubState or LoadState: the state of the unit. Of several rows that fit,
# the first counts: a unit can be masked while it runs, or after it has failed.
#
# In the substate "condition", systemd runs an ExecCondition=, such as our gate. systemd starts a
# unit that "fails" again; it has given up on one that is "stuck".
_STATE_BY_VALUE: dict[str, State] = {
    "active": "runs",
    "reloading": "runs",
    "condition": "waiting",
    "masked": "masked",
    "bad-setting": "stuck",
    "failed": "stuck",
    "auto-restart": "fails",
    "auto-restart-queued": "fails",
    "activating": "starting",
    "not-found": "unknown",
    "deactivating": "stopped",
}


class UnitState(NamedTuple):
    """The state of a unit now, and what an operator can do about it."""

    unit: str
    state: State
    since: str = ""
    """When the state last changed, as systemd prints it; empty if it never has."""
    reasons: tuple[str, ...] = ()
    """The errors that the gate, or the guard, has logged since its last start, if it failed."""
    remedy: Remedy | None = None

    @property
    def sentence(self) -> str:
        """The unit, its state, and since when."""
        since = f" (since {self.since})" if self.since else ""
        return f"{self.unit} {PREDICATES[self.state]}{since}"

    def to_mapping(self) -> dict[str, object]:
        """The state as JSON."""
        return {
            "unit": self.unit,
            "state": self.state,
            "since": self.since,
            "sentence": self.sentence,
            "reasons": list(self.reasons),
        }


def unit_states(
    manager: Manager, units: Collection[str], gated: Collection[str]
) -> list[UnitState]:
    """The states of these units, each with what an operator can do about it. For a template, these
    are the states of the instances that systemd has loaded.

    A unit that systemd knows, but that is neither `gated` nor our guard, gets the state "not gated"
    in place of what systemd says of it.
    """
    states: dict[str, UnitState] = {}
    for unit in units:
        for properties in manager.show(_PROPERTIES, instance_pattern(unit)):
            name = properties["Id"]
            # Nobody starts this instance. systemd has loaded it only because it was asked about
            # this name when `unit_gates` needed the settings of the template. (A unit that is no
            # template is its own `unused_instance`, and stays.)
            if name == unused_instance(unit) != unit:
                continue
            state = _state_with_remedy(manager, properties)
            is_foreign = {name, template_of(name)}.isdisjoint((*gated, HostLayout.guard_unit))
            if is_foreign and state.state != "unknown":
                state = UnitState(name, "not gated")
            states[name] = state
    return list(states.values())


def _state_with_remedy(manager: Manager, properties: Mapping[str, str]) -> UnitState:
    """The state of the unit with these properties, and what an operator can do about it. If the
    unit has failed, also the errors that its gate has logged since the last start.
    """
    unit = properties["Id"]
    state = UnitState(unit, _name_state(properties), properties["StateChangeTimestamp"])
    # After many failures, systemd refuses another start unless reset-failed comes before it.
    start_again = Remedy(
        "when that is mended",
        f"{command_of('systemctl reset-failed', unit)} && {command_of('systemctl start', unit)}",
    )
    see_journal = Remedy("see", command_of("journalctl -n 20 -u", unit), needs_root=False)
    # `systemctl status` names a condition that was not met. The journal of systemd 249 does not.
    see_status = see_journal._replace(command=command_of("systemctl status", unit))
    unmask = "systemctl unmask"
    if properties["UnitFileState"] == "masked-runtime":  # until the next boot
        unmask += " --runtime"
    remedies = {
        "stuck": see_journal._replace(otherwise=start_again),  # systemd has given up
        "masked": Remedy(command=command_of(unmask, unit)),
        "fails": see_journal,  # systemd starts it again by itself
        "skipped": see_status,
        "unknown": Remedy(
            "if the name is wrong, correct it (a machine's unit is systemd-nspawn@NAME.service)"
        ),
        "waiting": see_journal,  # `systemctl status` would show the whole command of the gate
        "queued": see_journal._replace(words="to see which", command="systemctl list-jobs"),
        "stopped": see_status,
    }
    state = state._replace(remedy=remedies.get(state.state))
    if state.state not in {"stuck", "fails"}:
        return state
    # Look for errors since the last start began. For a gated unit, this is when systemd checked the
    # unit's conditions, just before it ran the gate. The guard has no gate, and its main process
    # logs the errors. Its conditions do not tell when that process began: systemd 249 checks them
    # again for a start that it then refuses (start-limit-hit).
    began = "ExecMainStartTimestamp" if unit == HostLayout.guard_unit else "ConditionTimestamp"
    return state._replace(reasons=manager.errors_of(unit, properties[began]))


def _name_state(properties: Mapping[str, str]) -> State:
    """Name the state of a unit from what systemd shows of it (`properties`)."""
    shown = {properties["ActiveState"], properties["SubState"], properties["LoadState"]}
    for value, state in _STATE_BY_VALUE.items():
        if value in shown:
            return state
    # The unit is inactive. A job of such a unit is a start that waits for another unit.
    if properties["Job"]:
        return "queued"
    # Without a time, no condition was checked yet, and "no" does not mean anything.
    if properties["ConditionResult"] == "no" and properties["ConditionTimestamp"]:
        return "skipped"
    return "stopped"
