"""What is wrong with a host, in one order: the state of the host is that of the first finding.

Errors come before warnings, and those before notes. Of one severity, what lets units start
unchecked comes first, then what holds them back, such as an address that escapes, and then why that
may be: another card that Linux prefers, and routes that are missing.

A host may have several causes, so the first line has the first finding about each part of it: the
routing, the gate, and the rest of the host, such as files and units.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from hostrouting.finding import ESCAPES, SEVERITIES, WRONG, Finding, Name, Remedy, Severity
from hostrouting.gate.unit_states import PREDICATES
from hostrouting.host.layout import HostLayout
from hostrouting.text import agreeing, command_of, counted, spoken

if TYPE_CHECKING:
    from hostrouting.gate.unit_states import UnitState
    from hostrouting.install.plan import Plan
    from hostrouting.routes.steps import Step

State: TypeAlias = Literal["nothing", "in force", "differs", "open", "shut", "waiting"]
"""How a host is, as an operator has to know it:

- nothing: nothing is installed.
- in force: what is installed is in force, and nothing is wrong.
- differs: the host is not as config.json asks, addresses escape, or a unit does not start.
- open: a unit can start unchecked.
- shut: no gated unit can start, whatever the routes are.
- waiting: something may still come or answer, or an operator has to decide.
"""
STATES: dict[Name, State] = {
    "gate-open": "open",
    "gate-shut": "shut",
    "no-default-route": "differs",
    "route-conflict": "differs",
    "route-waits": "differs",
    **dict.fromkeys(ESCAPES, "differs"),
    "default-routes": "waiting",
    "route-differs": "differs",
    "requirement": "differs",
    "unit": "differs",
    "file": "differs",
    "probe-rewrite": "differs",
    "two-cnis": "waiting",
    "doubtful-route": "waiting",
    "other-packets": "waiting",
    "unknown-source": "waiting",
    "not-judged": "waiting",
    "kernel-differs": "waiting",
    "missing-rule": "waiting",
    "unit-not-gated": "open",
    "route-stays": "differs",
    "route-not-configured": "differs",
}
"""The state that a finding brings unless it may go away by itself, in the order of the findings of
one severity.
"""
Part: TypeAlias = Literal["routing", "gate", "host"]
_OF_GATE: tuple[Name, ...] = ("gate-open", "unit-not-gated")
_OF_HOST: tuple[Name, ...] = ("gate-shut", "requirement", "unit", "file", "lock", "probe-rewrite")
"""What is wrong with files, programs and units, whatever the routes are."""
_RANKS = {name: rank for rank, name in enumerate(STATES)}
_HOLD_BACK: tuple[Name, ...] = ("gate-shut", "route-conflict", "route-waits", *WRONG)
"""The errors because of which the gate refuses a start. In mode WARN, an escape is a warning."""
_PATH = HostLayout.config_path


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings, the worst first. Of those with the same sentence, only the worst: what shuts
    the gate makes apply fail, too; and a route that waits holds units back here, and not in a plan.
    """
    by_sentence: dict[str, Finding] = {}
    for finding in sorted(findings, key=_rank):
        by_sentence.setdefault(finding.sentence, finding)
    return tuple(by_sentence.values())


def _rank(finding: Finding) -> tuple[int, int]:
    return SEVERITIES.index(finding.severity), _RANKS.get(finding.name, len(_RANKS))


def causes_of(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Of these, which are in order, the worst about each part of the host: each can be a cause, and
    what ends one does not end another.
    """
    by_part: dict[Part, Finding] = {}
    for finding in findings:
        if finding.severity != "note":
            by_part.setdefault(_part_of(finding), finding)
    return tuple(by_part.values())


def failures_of(findings: Iterable[Finding], units: Iterable[UnitState]) -> list[str]:
    """Of these, the sentences of the units that fail by themselves or are masked."""
    failing = [unit.unit for unit in units if unit.state in {"fails", "masked"}]
    return [each.sentence for each in findings if each.name == "unit" and each.target in failing]


def is_beside_routing(finding: Finding) -> bool:
    """Whether this finding, which is not a note, is about the gate, files, programs or units."""
    return finding.severity != "note" and _part_of(finding) != "routing"


def _part_of(finding: Finding) -> Part:
    if finding.name in _OF_GATE:
        return "gate"
    return "host" if finding.name in _OF_HOST else "routing"


def state_of(finding: Finding) -> State:
    """The state of a host with which nothing worse is wrong."""
    if finding.can_retry:
        return "waiting"
    state = STATES.get(finding.name, "differs")
    # An operator has to decide, too, if Linux prefers another card, but what is there is wrong.
    if state == "waiting" and finding.severity == "error":
        return "differs"
    return state


def find_stuck(units: Sequence[UnitState], findings: Sequence[Finding]) -> Iterator[Finding]:
    """The units that do not start, beside those that these findings hold back: they fail by
    themselves or are masked, the lock or a script holds them back, or nothing that is known does.
    """
    are_held_back = any(map(_holds_back, findings))
    startable: list[str] = []
    for unit in units:
        if unit.state in {"fails", "masked"}:
            yield _stuck(unit, "note")  # a kubelet that has not joined a cluster fails, too
        elif unit.held_by or (unit.state == "waiting" and not are_held_back):
            yield _stuck(unit, "warning")
        elif unit.state == "refused" and not are_held_back:
            startable.append(unit.unit)
    if startable:
        were = agreeing(PREDICATES["refused"], len(startable))
        sentence = f"{spoken(startable)} {were}, and nothing is known to hold back a start now"
        remedy = Remedy("to start again", command_of("systemctl start", *startable))
        yield Finding("unit", "warning", sentence, startable[0], remedy)


def _holds_back(finding: Finding) -> bool:
    return finding.severity == "error" and finding.name in _HOLD_BACK


def _stuck(unit: UnitState, severity: Severity) -> Finding:
    """The unit and its state, with what holds it back beside the routes."""
    sentence = f"{unit.unit} {PREDICATES[unit.state]}{unit.details}"
    if unit.held_by:
        sentence = ": ".join((sentence, *unit.reasons[-1:]))
    is_waiting = unit.state == "waiting"
    return Finding("unit", severity, sentence, unit.unit, unit.remedy, can_retry=is_waiting)


def find_differences(plan: Plan) -> Iterator[Finding]:
    """What is on the host and not in config.json, or the other way round. Perhaps config.json was
    edited, so nothing is called wrong: both sides are named. `gate.health` has the files that are
    not as they should be.
    """
    routes = plan.routes.changes
    yield from _route_finding([step for step in routes if step.action == "add"], "is missing")
    unconfigured = [step for step in routes if step.action == "delete"]
    yield from _route_finding(unconfigured, f"is hostrouting's, and not in {_PATH}")
    for path in plan.files.removes:
        yield _difference("file", f"{path} is there, and {_PATH} does not ask for it", path)
    for operation in plan.operations:
        sentence = f"{operation.object} is not as {_PATH} asks: {operation.reason}"
        yield _difference("probe-rewrite", sentence, operation.object)
    if plan.for_systemd("reload") and not plan.files:
        sentence = "systemd has not read the files of its units as they are now"
        yield _difference("unit", sentence, "systemd")
    guard = HostLayout.guard_unit
    if plan.for_systemd("start"):
        yield _difference("unit", f"{guard} does not run, and {_PATH} enables it", guard)
    if plan.for_systemd("stop"):
        yield _difference("unit", f"{guard} runs, and {_PATH} does not enable it", guard)


def _route_finding(steps: Sequence[Step], predicate: str) -> Iterator[Finding]:
    if steps:
        first = steps[0].route
        sentence = f"the route {first} {predicate}"
        if len(steps) > 1:
            predicate = agreeing(predicate, len(steps))
            sentence = f"{counted(len(steps), 'route')}, such as {first}, {predicate}"
        yield _difference("route-differs", sentence, str(first.prefix))


def _difference(name: Name, sentence: str, target: str) -> Finding:
    return Finding(name, "error", sentence, target)
