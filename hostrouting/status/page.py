"""A status as lines, from the top: the worst finding, the mode, the units, the routes, the guard,
what else is wrong, the verdict now, and what to type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.finding import WRONG
from hostrouting.host.layout import HostLayout
from hostrouting.lines import SHOWN, capped, count_of_others, finding_lines, way_lines
from hostrouting.release import call
from hostrouting.text import counted

if TYPE_CHECKING:
    from hostrouting.gate.unit_states import UnitState
    from hostrouting.status.status import Status

_MODES = {
    "STRICT": "the gate refuses every start while an address escapes",
    "WARN": "gated units start even while an address escapes",
}


def status_lines(status: Status) -> Iterator[str]:
    """The whole page. With a unit that was asked about, that comes first."""
    if status.asked:
        for unit in status.units:
            yield f"{unit.state.upper()}: {unit.sentence}"
            yield from _below(unit)
    if status.state == "nothing":
        yield "NOTHING: hostrouting has nothing installed on this host"
        yield f"  to check its routes: {call('check CIDR')}"
        return
    yield f"{status.state.upper()}: {_sentence(status)}"
    if status.wrong:
        yield from way_lines(status.wrong[0].remedy, without=status.command)
    if status.mode:
        yield f"  mode {status.mode}: {_MODES[status.mode]}"
    yield from _unit_lines(status)
    yield from _route_lines(status)
    others = [finding for finding in status.findings if finding not in status.wrong[:1]]
    yield from finding_lines(others, without=status.command)
    yield from _verdict_lines(status)
    if status.command:
        yield "To make this host right, as root:"
        yield f"  {status.command}"


def _unit_lines(status: Status) -> Iterator[str]:
    """The gated units, and the guard."""
    if not status.asked:
        for unit in status.units[:SHOWN]:
            yield f"  {unit.sentence}"
            yield from _below(unit)
        yield from count_of_others(status.units)
    if status.guard is not None and status.guard.state != "unknown":
        yield f"  {status.guard.sentence}"
        yield from _below(status.guard)


def _route_lines(status: Status) -> Iterator[str]:
    """The configured routes that are set."""
    if status.plan is None:
        return
    kept = [step for step in status.plan.routes.steps if step.action == "keep"]
    if kept:
        yield f"  routes in force: {counted(len(kept), 'configured route')}"
        yield from capped([f"    {step.line}" for step in kept])


def _verdict_lines(status: Status) -> Iterator[str]:
    """The verdict on what leaves as it should, and what explains the others."""
    if status.check is None:
        return
    families = status.check.report.families
    yield from [str(family) for family in families if family.verdict == "ok"]
    said = {*WRONG, *(finding.name for finding in status.findings)}
    explaining = [each for each in status.check.findings if each.name not in said]
    yield from finding_lines([each for each in explaining if each.severity != "note"])


def _sentence(status: Status) -> str:
    """What is worst, or that nothing is wrong."""
    if status.wrong:
        return status.wrong[0].sentence
    if status.state != "in force":
        return status.units[0].sentence
    return f"this host matches {HostLayout.config_path}"


def _below(unit: UnitState) -> Iterator[str]:
    """Why the unit fails, which need not hold any more, and what to type."""
    for reason in unit.reasons:
        yield f"    when it failed: {reason}"
    yield from way_lines(unit.remedy, indent=4)
