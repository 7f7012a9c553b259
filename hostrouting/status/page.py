"""A status as lines, from the top: the causes, the mode, the units, the routes, the guard, what
else is wrong, the verdict now, and what to type.

With a unit that was asked about, what there is to say of it comes first. A line that is about
another one is indented below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.check.sentences import caveat_of_repair
from hostrouting.command import AS_ROOT, LineToType, Operator, call
from hostrouting.gate.unit_gates import APPLY
from hostrouting.lines import SHOWN, capped, count_of_others, finding_lines, way_lines
from hostrouting.model.route import OURS
from hostrouting.text import agreeing, counted

if TYPE_CHECKING:
    from hostrouting.finding import Finding
    from hostrouting.gate.unit_states import UnitState
    from hostrouting.status.status import Status

_OURS = f" (those of hostrouting: proto {OURS})"
_MODES = {
    "STRICT": "the gate refuses every start while an address escapes",
    "WARN": "gated units start even while an address escapes",
}


def status_lines(status: Status, who: Operator = AS_ROOT) -> Iterator[str]:
    """The whole page."""
    if status.asked:
        for unit in status.units:
            yield f"{unit.state.upper()}: {unit.sentence}"
            yield from _below(unit, status, who)
    yield f"{status.state.upper()}: {status.sentence}"
    if status.state == "nothing":
        yield LineToType("  to check its routes: ", who.line(call("check CIDR")))
        return
    for cause in status.causes:
        yield from way_lines(cause.remedy, who, without=status.command)
    if status.mode:
        yield f"  mode {status.mode}: {_MODES[status.mode]}"
    if not status.asked:
        yield from _unit_lines(status, who)
    yield from _route_lines(status)
    yield from _guard_lines(status, who)
    others = [finding for finding in status.findings if finding not in status.causes]
    yield from finding_lines(others, who, without=status.command)
    yield from _verdict_lines(status, who)
    if status.command:
        yield ""
        caveat = "" if status.check is None else caveat_of_repair(status.check.report)
        what = "To repair the rest" if status.leaves_something else "To make this host right"
        yield f"{what}, {who}{caveat}:"
        yield LineToType("  ", who.line(status.command))


def _unit_lines(status: Status, who: Operator) -> Iterator[str]:
    """Each gated unit; reasons that several have stand below the first one."""
    first_with: dict[tuple[str, ...], str] = {}
    for unit in status.units[:SHOWN]:
        first = first_with.setdefault(unit.reasons, unit.unit)
        if unit.reasons and first != unit.unit:
            yield f"  {unit.sentence}, for the same reasons as {first}"
        else:
            yield f"  {unit.sentence}"
            yield from _below(unit, status, who)
    yield from count_of_others(status.units)


def _below(unit: UnitState, status: Status, who: Operator) -> Iterator[str]:
    """Why the unit is as it is, and what to type, unless the findings say it. What the gate said
    when it refused the unit need not hold any more.
    """
    findings = [*status.findings]
    if status.check is not None:
        findings += status.check.findings
    for reason in unit.reasons:
        if not any(_says(finding, reason) for finding in findings):
            when = "when it was refused: " if unit.state == "refused" else ""
            yield f"    {when}{reason}"
    if unit.unit not in [finding.target for finding in status.findings if finding.remedy]:
        yield from way_lines(unit.remedy, who, indent=4)


def _says(finding: Finding, reason: str) -> bool:
    """Whether the finding has this reason, or the reason is the line of the finding in a log."""
    return finding.sentence in reason or reason in finding.sentence


def _route_lines(status: Status) -> Iterator[str]:
    """How many configured routes are set, those of other programs among them, and what would
    change; nothing while a card is to be named first.
    """
    if status.plan is None or not status.plan.routes.steps or status.may_follow_a_wrong_card:
        return
    kept = [step for step in status.plan.routes.steps if step.action == "keep"]
    yield f"  {counted(len(kept), 'configured route')} {agreeing('is', len(kept))} set{_OURS}"
    shown = [step for step in kept if step.route.protocol != OURS]
    shown += status.plan.routes.changes
    yield from capped([f"    {step.line}" for step in shown])


def _guard_lines(status: Status, who: Operator) -> Iterator[str]:
    """The guard. Where config.json does not say whether it is enabled, its unit does."""
    guard = status.guard
    if guard is None:
        return
    if guard.state == "unknown":
        if status.config is not None and not status.config.guard.enabled:
            yield "  the guard is not enabled"
        return
    enabled = ", and is enabled" if status.config is None else ""
    yield f"  {guard.sentence}{enabled}"
    yield from _below(guard, status, who)


def _verdict_lines(status: Status, who: Operator) -> Iterator[str]:
    """The verdict on what leaves as it should, and what explains the others, unless apply ends what
    is wrong: what escapes is a finding.
    """
    if status.check is None:
        return
    for family in status.check.report.families:
        if family.verdict == "ok":
            yield str(family)
    if status.command == APPLY.command:
        return
    said = {(finding.name, finding.target) for finding in status.findings}
    unsaid = [each for each in status.check.findings if (each.name, each.target) not in said]
    certain = [finding for finding in unsaid if not status.hangs_on_a_choice(finding)]
    explaining = [finding for finding in certain if finding.severity != "note"]
    yield from finding_lines(explaining, who, without=status.command)
