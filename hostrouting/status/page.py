"""A status as lines, from the top: the worst finding, the mode, the units, the routes, what
else is wrong, the verdict now, what apply would do, and what to type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.boot.program import version
from hostrouting.host.layout import HostLayout
from hostrouting.lines import finding_lines, indented, remedy_lines
from hostrouting.release import our_command
from hostrouting.text import counted

if TYPE_CHECKING:
    from hostrouting.gate.unit_states import UnitState
    from hostrouting.status.status import HostStatus


def status_lines(status: HostStatus) -> Iterator[str]:
    """The whole page of `hostrouting status`. First come the units that were asked about, then a
    headline: the worst that is wrong with the host. If the headline is the sentence of a unit, the
    reasons and the remedy of this unit follow at once, and the list of units leaves it out.
    """
    for unit in status.asked:
        yield f"{unit.state.upper()}: {unit.sentence}"
        yield from _reasons_and_remedy(unit)
    if status.state == "nothing":
        yield "NOTHING: hostrouting has nothing installed on this host"
        yield f"  to check its routes: {our_command('check CIDR')}"
        return
    headline = f"this host matches {HostLayout.config_path}"
    if status.wrong:
        headline = status.wrong[0].sentence  # the worst
    yield f"{status.state.upper()}: {headline}"
    units = [unit for unit in status.units if unit not in status.asked]
    for unit in units:
        if unit.sentence == headline:
            yield from _reasons_and_remedy(unit)
    # The remedy of a unit is above: below the asked units, or below the headline.
    if status.wrong and status.wrong[0].name != "unit":
        yield from remedy_lines(status.wrong[0].remedy)
    yield from _mode_lines(status)
    yield f"  hostrouting {version()}"
    for unit in units:
        if unit.sentence != headline:
            yield f"  {unit.sentence}"
            yield from _reasons_and_remedy(unit)
    yield from _route_lines(status)
    # The other findings, without those whose sentence is on the page already.
    printed = {headline, *(unit.sentence for unit in status.units)}
    others = [finding for finding in status.findings if finding.sentence not in printed]
    yield from finding_lines(others)
    yield from _verdict_lines(status)
    yield from _lines_to_type(status)


def _mode_lines(status: HostStatus) -> Iterator[str]:
    """The mode of the check (STRICT or WARN), and what it means for the start of a gated unit. If a
    gate is open, the meaning is left out, because a unit with an open gate starts in any mode.
    """
    if status.config is None or not status.mode:
        return
    line = f"  mode {status.mode}"
    if all(finding.name != "gate-open" for finding in status.findings):
        line += f": {status.config.route_overlap.effect}"
    yield line


def _reasons_and_remedy(unit: UnitState) -> Iterator[str]:
    """The lines that follow the state of a unit: the errors of its last start, and what to type."""
    for reason in unit.reasons:  # not "because of": the cause may have ended, or a signal ended it
        yield f"    its last start said: {reason}"
    yield from remedy_lines(unit.remedy, indent=4)


def _route_lines(status: HostStatus) -> Iterator[str]:
    """The configured routes that the kernel has. `_lines_to_type` has what apply would change."""
    if status.plan is None:
        return
    kept = [step for step in status.plan.routes.steps if step.action == "keep"]
    if kept:
        yield f"  routes in force: {counted(len(kept), 'configured route')}"
        yield from indented("  ", [step.route for step in kept])


def _verdict_lines(status: HostStatus) -> Iterator[str]:
    """A line for each address family whose verdict is ok. Findings say what is wrong with the
    others.
    """
    if status.check is None:
        return
    for family in status.check.report.families:
        if family.verdict == "ok":
            yield str(family)


def _lines_to_type(status: HostStatus) -> Iterator[str]:
    """What apply would do, and the command that makes the host right."""
    if status.plan and status.plan.work:
        yield "What apply would do:"
        yield from indented("", status.plan.work)
    if status.command:
        yield "To make this host right, as root:"
        yield f"  {status.command}"
