"""What a host has answered, as one value. The state and the exit code follow from the findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import attrs

from hostrouting.check.repair_line import RepairLine, typed
from hostrouting.codes import BAD_INPUT, CANNOT_DECIDE, FINE, PROBLEM, worst_code
from hostrouting.command import joined
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.finding import WRONG, Finding, Name
from hostrouting.gate.unit_gates import APPLY
from hostrouting.host.layout import HostLayout
from hostrouting.install.typed_commands import with_gate_command
from hostrouting.status.findings import (
    State,
    causes_of,
    failures_of,
    find_differences,
    find_stuck,
    in_order,
    is_beside_routing,
    state_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hostrouting.errors import HostRoutingError
    from hostrouting.gate.unit_states import State as StateOfUnit, UnitState
    from hostrouting.install.host_check import HostCheck
    from hostrouting.install.plan import Plan

_CODES: dict[State | StateOfUnit, int] = {
    "differs": PROBLEM,
    "open": PROBLEM,
    "shut": PROBLEM,
    "waiting": CANNOT_DECIDE,
    "refused": PROBLEM,
    "fails": PROBLEM,
    "masked": PROBLEM,
    "unknown": BAD_INPUT,
    "no answer": CANNOT_DECIDE,
}
"""The exit codes of the states of hosts and of units. The others are fine."""
_ENDED_BY_REPAIR: tuple[Name, ...] = ("route-conflict", "removal")
"""The errors of an apply of config.json that the configuration of a repair does not have."""


@attrs.frozen
class Status:
    """What the parts of a host have answered. A part that did not answer has its default."""

    config: HostRoutingConfig | None = None
    """What config.json says."""
    is_broken: bool = False
    """Whether config.json is missing or cannot be used, whoever asks."""
    faults: tuple[Finding, ...] = ()
    """What is wrong with the gate."""
    plan: Plan | None = None
    """What apply would do with config.json."""
    check: HostCheck | None = None
    units: tuple[UnitState, ...] = ()
    """The gated units, the worst first; or the one that was asked about."""
    guard: UnitState | None = None
    asked: str = ""
    """The unit that was asked about; empty for all."""
    unanswered: tuple[HostRoutingError, ...] = ()
    """Why parts of the host did not answer."""
    findings: tuple[Finding, ...] = attrs.field(init=False)
    """What is wrong, and what is worth knowing, the worst first. What only explains a verdict is in
    `check`.
    """

    @findings.default
    def _all_in_order(self) -> tuple[Finding, ...]:
        findings = [*self.faults]
        if self.plan is not None:
            findings += self.plan.findings
            findings += self.plan.routes.failed_waits
            findings += find_differences(self.plan)
        if self.check is not None:
            findings += self.check.named(*WRONG, "route-not-configured", "route-waits")
            findings += self._competing_defaults
            findings += self.check.doubts
        findings += self._no_answers
        findings += find_stuck(self.units, findings)
        certain = [finding for finding in findings if not self.hangs_on_a_choice(finding)]
        return in_order(self._with_commands(certain))

    def _with_commands(self, findings: Iterable[Finding]) -> Iterable[Finding]:
        """The same without the remedy APPLY: that is `command`, or would do harm or fail."""
        shown: list[Finding] = []
        for finding in findings:
            if finding.remedy == APPLY:
                shown.append(finding._replace(remedy=None))
            else:
                shown.append(finding)
        command = self._command_without_gating
        if self.plan is not None and self.plan.is_empty and not command:
            command = APPLY.command
        return with_gate_command(shown, command)

    def __bool__(self) -> NoReturn:
        raise TypeError("a status is always true; write `status.matches`")

    @property
    def matches(self) -> bool | None:
        """Whether the host is as config.json asks; None if that is not known."""
        if self.is_broken:
            return False
        if self.plan is None:
            return None
        return self.plan.is_empty and not self._competing_defaults

    @property
    def _competing_defaults(self) -> list[Finding]:
        """The default routes of cards beside the one that Linux prefers, where no card is named.
        An error here: perhaps a new card has taken the place of the right one, and then each route
        without a device follows it at the next apply.
        """
        if self.check is None:
            return []
        doubts = self.check.doubts
        return [
            finding._replace(severity="error")
            for finding in self.check.named("default-routes")
            if finding not in doubts
        ]

    @property
    def _no_answers(self) -> list[Finding]:
        """Why parts of the host did not answer, and may answer later, or root. What is known to be
        wrong is worse.
        """
        findings: list[Finding] = []
        for error in self.unanswered:
            findings += error.findings
        return [finding._replace(severity="warning", can_retry=True) for finding in findings]

    def hangs_on_a_choice(self, finding: Finding) -> bool:
        """Whether this follows from the card that Linux prefers now, while nobody has named one of
        several: the missing routes and the repair lead through this card, and what leaves through
        another one of these cards need not be wrong.
        """
        if not self.may_follow_a_wrong_card:
            return False
        via = finding.facts.get("via") or {}
        cards = [dev for choice in self._competing_defaults for dev in choice.facts["candidates"]]
        return finding.name in {"route-differs", "repair-cost"} or via.get("dev") in cards

    @property
    def causes(self) -> tuple[Finding, ...]:
        """The findings of the first line, of which the first says the state; none if nothing is
        wrong.
        """
        return causes_of(self.findings)

    @property
    def state(self) -> State:
        """How the host is."""
        if self.config == HostRoutingConfig():
            return "nothing"
        if not self.causes:
            return "in force"
        return state_of(self.causes[0])

    @property
    def code(self) -> int:
        """The exit code: that of the unit that was asked about. If none was, BAD_INPUT where
        config.json cannot be used, and otherwise that of the worst finding.
        """
        if self.asked:
            return worst_code(*(_CODES.get(unit.state, FINE) for unit in self.units))
        if self.is_broken:
            return BAD_INPUT
        wrong = [finding for finding in self.findings if finding.severity != "note"]
        return worst_code(*(_CODES[state_of(finding)] for finding in wrong))

    @property
    def sentence(self) -> str:
        """What is wrong, with each cause, or that nothing is. Last, the units that fail by
        themselves, whatever the routing is.
        """
        if self.state == "nothing":
            return "hostrouting has nothing installed on this host"
        sentences = [cause.sentence for cause in self.causes]
        if not sentences:
            sentences = [f"this host matches {HostLayout.config_path}"]
        sentences += failures_of(self.findings, self.units)
        return ". Also: ".join(dict.fromkeys(sentences))

    @property
    def mode(self) -> str:
        """The mode of the check; empty if nothing is checked, or that is not known."""
        if self.config is None or not self.config.route_overlap.cidrs:
            return ""
        return self.config.route_overlap.mode

    @property
    def needs_repair(self) -> bool:
        """Whether addresses escape that a repair brings back, and apply alone does not."""
        if self.plan is None or self.check is None:
            return False
        report = self.plan.report
        if report is None:  # a route conflicts or waits: nobody knows how the host would be
            report = self.check.report
        return bool(report.routes)

    @property
    def command(self) -> str:
        """What to type as root, so that the host is as config.json asks, nothing escapes, and what
        runs pods is gated; empty if that is not one command, or only units are to be gated.
        """
        command = self._command_without_gating
        if not command or self.plan is None:
            return command
        ungated = [
            finding.target
            for finding in self.plan.obstacles
            if finding.name == "unit-not-gated" and finding.severity == "warning"
        ]
        return joined("", command, typed("--gate", ungated))

    @property
    def leaves_something(self) -> bool:
        """Whether something beside the routing is wrong that this command does not end, and another
        one does.
        """
        others = [finding for finding in self.findings if is_beside_routing(finding)]
        commands = [finding.remedy.command for finding in others if finding.remedy is not None]
        return any(command not in self.command for command in commands)

    @property
    def _command_without_gating(self) -> str:
        """What to type before the names of units that are to be gated."""
        last = self._last_command
        if not last:
            return ""
        commands: dict[str, None] = {}  # in order, each once
        for error in self._hindrances:
            remedy = error.remedy
            if remedy is None or remedy.words or remedy.otherwise is not None:
                return ""  # no command alone ends that
            commands[remedy.command] = None
        return joined(" && ", *commands, last)

    @property
    def _last_command(self) -> str:
        """The command that makes the host right unless something hinders it; empty if there is
        nothing to do, something is awaited, or an operator has to decide.
        """
        plan = self.plan
        if plan is None or self.may_follow_a_wrong_card:
            return ""
        if self.needs_repair:
            return RepairLine().line()
        if plan.is_empty or plan.routes.conflicts or plan.routes.waiting:
            return ""
        return APPLY.command

    @property
    def may_follow_a_wrong_card(self) -> bool:
        """Whether a repair or apply would lead a route through the card that Linux prefers now, and
        nobody has named one. Where addresses escape, apply alone would fail in mode STRICT.
        """
        if self.config is None or not self._competing_defaults:
            return False
        routes = self.config.static_routes.routes
        return self.needs_repair or any(route.dev is None for route in routes)

    @property
    def _hindrances(self) -> list[Finding]:
        """Why that command would fail, beside what the configuration of a repair ends."""
        errors: list[Finding] = []
        if self.plan is not None:
            errors += self.plan.errors
        if self.needs_repair:
            errors += [fault for fault in self.faults if fault.name == "requirement"]
        return [error for error in errors if error.name not in _ENDED_BY_REPAIR]
