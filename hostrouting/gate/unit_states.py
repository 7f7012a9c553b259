"""The state of a unit, from systemd, and what its gate has logged if its last start failed: a gate
that refuses a start makes it fail, and logs the reasons there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from hostrouting.finding import Remedy
from hostrouting.gate.unit_names import instance_pattern, is_template, plain_instance, template_of
from hostrouting.host.layout import HostLayout
from hostrouting.text import command_of

if TYPE_CHECKING:
    from hostrouting.host.systemd import Manager

State: TypeAlias = Literal[
    "stuck", "masked", "fails", "skipped", "unknown", "waiting", "queued", "no answer", "starting",
    "stopped", "runs", "not gated",
]  # fmt: skip
"""The worst first."""
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
_STATES: dict[str, State] = {
    "active": "runs",
    "reloading": "runs",
    "condition": "waiting",
    "masked": "masked",
    "failed": "stuck",
    "auto-restart": "fails",
    "auto-restart-queued": "fails",
    "activating": "starting",
    "not-found": "unknown",
    "deactivating": "stopped",
}
"""By a value of ActiveState, SubState or LoadState: the state of the unit. The first counts: a unit
can be masked while it runs, or after it has failed.

In the substate "condition", systemd runs an ExecCondition=, such as our gate. systemd starts a unit
that "fails" again; it has given up on one that is "stuck".
"""


class UnitState(NamedTuple):
    """The state of a unit now."""

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
    """The states of these units; of a template, those of the instances that systemd has loaded.

    A unit that is known to systemd, but is neither in `gated` nor our guard, gets the state "not
    gated", whatever else its state is.
    """
    states: dict[str, UnitState] = {}
    for unit in units:
        for properties in manager.show(_PROPERTIES, instance_pattern(unit)):
            name = properties["Id"]
            # Nobody starts this instance: systemd has loaded it only because `unit_gates` asked
            # about the template by its name.
            if is_template(unit) and name == plain_instance(unit):
                continue
            state = _state_of(manager, properties)
            names = {name, template_of(name)}
            is_foreign = names.isdisjoint((*gated, HostLayout.guard_unit))
            if is_foreign and state.state != "unknown":
                state = UnitState(name, "not gated")
            states[name] = state
    return list(states.values())


def is_active(manager: Manager, unit: str) -> bool:
    """Whether the ActiveState of this unit, which is not a template, is "active". The callers ask
    only about the guard, which is never "reloading".
    """
    [properties] = manager.show(("ActiveState",), unit)
    return properties["ActiveState"] == "active"


def _state_of(manager: Manager, properties: Mapping[str, str]) -> UnitState:
    """The state of the unit with these properties. A unit that has failed gets the errors of its
    gate since its last start; most others that do not run get a remedy.
    """
    unit = properties["Id"]
    state = UnitState(unit, _state_from(properties), properties["StateChangeTimestamp"])
    start = Remedy("when that is mended", command_of("systemctl start", unit))
    log = Remedy("see", command_of("journalctl -u", unit), needs_root=False)
    # It names the condition, which the journal of systemd 249 does not.
    show = log._replace(command=command_of("systemctl status", unit))
    unmask = "systemctl unmask"
    if properties["UnitFileState"] == "masked-runtime":  # until the next boot
        unmask += " --runtime"
    remedies = {
        "stuck": log._replace(otherwise=start),
        "masked": Remedy(command=command_of(unmask, unit)),
        "fails": log,
        "skipped": show,
        "waiting": show,
        "queued": log._replace(words="to see which", command="systemctl list-jobs"),
        "stopped": show,
    }
    state = state._replace(remedy=remedies.get(state.state))
    if state.state not in {"stuck", "fails"}:
        return state
    # systemd checks the conditions just before the gate runs, so its lines are later. The lines of
    # the guard, which has no gate, come from its main process. They may be earlier than the last
    # check: systemd 249 also checks the conditions if it then refuses the start (start-limit-hit).
    began = "ExecMainStartTimestamp" if unit == HostLayout.guard_unit else "ConditionTimestamp"
    return state._replace(reasons=manager.errors_of(unit, properties[began]))


def _state_from(properties: Mapping[str, str]) -> State:
    """Name the state that has these properties. A unit without a row in `_STATES` is inactive."""
    shown = {properties["ActiveState"], properties["SubState"], properties["LoadState"]}
    for value, state in _STATES.items():
        if value in shown:
            return state
    if properties["Job"]:
        return "queued"
    if properties["ConditionResult"] == "no" and properties["ConditionTimestamp"]:
        return "skipped"
    return "stopped"
