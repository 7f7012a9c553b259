"""What a host has answered, as one value, and what follows from that."""

from __future__ import annotations

from functools import cached_property
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
_OF_PREFERRED_CARD: tuple[Name, ...] = ("route-differs", "repair-cost")
"""The findings that are wrong if another card than the one that Linux prefers is named."""
_ENDED_BY_REPAIR: tuple[Name, ...] = ("route-conflict", "removal")
"""The errors of an apply of config.json that the configuration of a repair does not have."""


@attrs.frozen
class Status:
    """What the parts of a host have answered, and below that what follows: each value from those
    above it. A part that did not answer has its default.
    """

    config: HostRoutingConfig | None = None
    """What config.json says."""
    is_broken: bool = False
    """Whether config.json is missing or cannot be used, also by root."""
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

    @cached_property
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
    def _needs_repair(self) -> bool:
        """Whether addresses escape that a repair brings back, and apply alone does not."""
        if self.plan is None or self.check is None:
            return False
        report = self.plan.report
        if report is None:  # a route conflicts or waits: nobody knows how the host would be
            report = self.check.report
        return bool(report.routes)

    @cached_property
    def must_name_card(self) -> bool:
        """Whether an operator has to name a card first: nobody has, and a repair or apply would
        lead a route through the one that Linux prefers now. Where addresses escape, apply alone
        would fail in mode STRICT.
        """
        if self.config is None or not self._competing_defaults:
            return False
        routes = self.config.static_routes.routes
        return self._needs_repair or any(route.dev is None for route in routes)

    def certain(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings that hold whichever card is named. The missing routes and the repair lead
        through the card that Linux prefers now, and what leaves through another one need not be
        wrong.
        """
        if not self.must_name_card:
            return [*findings]
        cards: set[str] = set()
        for choice in self._competing_defaults:
            cards.update(choice.facts["candidates"])
        certain: list[Finding] = []
        for finding in findings:
            via = finding.facts.get("via") or {}
            if finding.name not in _OF_PREFERRED_CARD and via.get("dev") not in cards:
                certain.append(finding)
        return certain

    @cached_property
    def _routing_command(self) -> str:
        """What to type as root, so that the host is as config.json asks, and nothing escapes; empty
        if there is nothing to do, something is awaited, an operator has to decide, or no command
        alone is enough.
        """
        plan = self.plan
        if plan is None or self.must_name_card:
            return ""
        last = APPLY.command
        errors = [*plan.errors]
        if self._needs_repair:
            last = RepairLine().line()
            errors += [fault for fault in self.faults if fault.name == "requirement"]
        elif plan.is_empty or plan.routes.conflicts or plan.routes.waiting:
            return ""
        commands: dict[str, None] = {}  # in order, each once
        for error in errors:
            if error.name in _ENDED_BY_REPAIR:
                continue
            remedy = error.remedy
            if remedy is None or remedy.words or remedy.otherwise is not None:
                return ""  # no command alone ends that
            commands[remedy.command] = None
        return joined(" && ", *commands, last)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong, the worst first, and then notes. What only explains a verdict is in
        `check`.
        """
        findings = [*self.faults]
        if self.plan is not None:
            findings += self.plan.findings
            findings += self.plan.routes.failed_waits
            findings += find_differences(self.plan)
        if self.check is not None:
            findings += self.check.named(*WRONG, "route-not-configured", "route-waits")
            findings += self._competing_defaults
            findings += self.check.doubts
        for error in self.unanswered:  # a warning: what is known to be wrong is worse
            for finding in error.findings:
                findings.append(finding._replace(severity="warning", can_retry=True))
        findings += find_stuck(self.units, findings)

        to_gate = self._routing_command
        if not to_gate and self.plan is not None and self.plan.is_empty:
            to_gate = APPLY.command  # which changes nothing else
        certain = map(_without_apply, self.certain(findings))
        return in_order(with_gate_command(certain, to_gate))

    @cached_property
    def command(self) -> str:
        """What to type as root, so that the host is as config.json asks, nothing escapes, and what
        runs pods is gated; empty if that is not one command, or only units are to be gated.
        """
        if not self._routing_command:
            return ""
        ungated = [
            finding.target
            for finding in self.findings
            if finding.name == "unit-not-gated" and finding.severity == "warning"
        ]
        return joined("", self._routing_command, typed("--gate", ungated))

    @property
    def leaves_something(self) -> bool:
        """Whether something beside the routing is wrong that another command ends."""
        others = [finding for finding in self.findings if is_beside_routing(finding)]
        commands = [finding.remedy.command for finding in others if finding.remedy is not None]
        return any(command not in self.command for command in commands)

    @cached_property
    def causes(self) -> tuple[Finding, ...]:
        """The findings of the first line, of which the first says the state; none if nothing is
        wrong.
        """
        return causes_of(self.findings)

    @property
    def matches(self) -> bool | None:
        """Whether the host is as config.json asks; None if that is not known."""
        if self.is_broken:
            return False
        if self.plan is None:
            return None
        return self.plan.is_empty and not self._competing_defaults

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

    def __bool__(self) -> NoReturn:
        raise TypeError("a status is always true; write `status.matches`")


def _without_apply(finding: Finding) -> Finding:
    """The finding without the remedy APPLY: the page ends with that command if it helps."""
    if finding.remedy == APPLY:
        return finding._replace(remedy=None)
    return finding
