"""`plan`: what apply would do, and the verdict afterwards. Nothing is changed.

Exit code 0: the host matches the configuration. 1: there is something to do, or apply would fail;
or, in mode STRICT, a gated unit starts unchecked, whatever apply does. 3: apply would wait, because
a default route or a device is missing or has to be named. With --snapshot, only routes are planned.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hostrouting.check.repair_line import RepairLine, typed
from hostrouting.cli.output import Answer
from hostrouting.cli.plan import plan_lines
from hostrouting.cli.source import (
    as_whom,
    code_with,
    read_config,
    typed_file,
)
from hostrouting.codes import CANNOT_DECIDE, FINE, PROBLEM
from hostrouting.command import Command, LineToType, Operator, call
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.finding import ESCAPES, Finding, worst_first
from hostrouting.gate.unit_gates import judge_gates, starts_unchecked
from hostrouting.host.host import Host
from hostrouting.install.host_check import HostCheck
from hostrouting.install.plan import Plan
from hostrouting.install.typed_commands import with_gate_command
from hostrouting.lines import way_lines
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.plan import plan_static_routes
from hostrouting.tasks.configure import Configure
from hostrouting.text import spoken

ARGUMENTS = ("--config", "--snapshot", "--fail-on", "--ignore", "--allow-removal", "--gate")
REQUIRED = ("--config",)

_AWAITED = ("route-waits", "no-default-route")
"""The failures that may go away by themselves while apply waits."""


class _Judged(NamedTuple):
    """What apply would do, as the first line says it."""

    answer: str
    code: int
    reason: str
    """What follows the answer: why, or who has to type what."""
    cause: Finding | None = None
    """The finding whose sentence ends the reason; its remedy follows."""
    command: str = ""
    """What ends the reason."""


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    config = read_config(arguments.config, arguments.gate)
    openings = _openings(arguments, config, host)
    plan = _make_plan(arguments, config, host)
    command = _command(arguments, plan)
    findings = [*with_gate_command(plan.findings, command), *openings]
    check = None
    if plan.report is not None:
        check = HostCheck.of_snapshot(plan.report, config, repair_options=typed_file(arguments))
    judged = _judge(arguments, plan, check, config, openings)
    document = {
        "schema": "hostrouting/plan/4",
        "answer": judged.answer,
        **plan.to_mapping(),
        "findings": [finding.to_mapping() for finding in findings],
        "check": check and check.document(),
    }
    lines = [*_answer_lines(judged, plan, worst_first(findings), as_whom(arguments))]
    if check is not None:
        findings += check.findings
        lines += _verdict_lines(arguments, check, command)
    return Answer(code_with(arguments, judged.code, findings), document, lines)


def _verdict_lines(arguments: argparse.Namespace, check: HostCheck, command: str) -> Iterator[str]:
    """The verdict on the host as it would be, and what to type to repair it on this host."""
    yield ""
    yield "The verdict afterwards:"
    yield from map(str, check.report.families)
    if check.report.routes and command and arguments.snapshot is None:
        who = as_whom(arguments)
        yield f"To repair that, {who}:"
        yield LineToType("  ", who.line(command))


def _answer_lines(
    judged: _Judged, plan: Plan, findings: Iterable[Finding], who: Operator
) -> Iterator[str]:
    """What apply would do, first in one sentence, and what there is to tell about it."""
    yield LineToType(f"{judged.answer.upper()}: {judged.reason}", who.line(judged.command))
    if judged.cause is not None:
        yield from way_lines(judged.cause.remedy, who)
    others = [finding for finding in findings if finding != judged.cause]
    yield from plan_lines(plan, others, who)


def _openings(
    arguments: argparse.Namespace, config: HostRoutingConfig, host: Host
) -> tuple[Finding, ...]:
    """What lets units start unchecked, also after apply; a snapshot does not have it."""
    if arguments.snapshot is not None:
        return ()
    return judge_gates(host, gated_units(config)).lasting


def _judge(
    arguments: argparse.Namespace,
    plan: Plan,
    check: HostCheck | None,
    config: HostRoutingConfig,
    openings: Sequence[Finding],
) -> _Judged:
    """What apply would do: fail, wait, change something, or nothing."""
    failures: list[Finding] = []
    for finding in plan.failures:
        # An error fails at once, whatever its name is.
        is_awaited = finding.name in _AWAITED and finding not in plan.errors
        if finding.name not in arguments.ignore and not is_awaited:
            failures.append(finding)
    if failures:
        return _failing(plan, failures)
    if plan.routes.waiting:
        return _waiting(plan)
    if check is not None and _awaits_default(check, arguments):
        return _without_default(plan, check)
    if not plan.is_empty:
        who = as_whom(arguments)
        if arguments.config == "-":
            return _Judged("to do", PROBLEM, f"{who}: the same command with apply instead of plan")
        return _Judged("to do", PROBLEM, f"{who}: ", command=_apply_command(arguments))
    match = "this host matches the configuration"
    if arguments.snapshot is not None:
        match = "the routes of the snapshot match the configuration"
    if openings:
        match += f"; what remains: {openings[0].sentence}"
    code = PROBLEM if starts_unchecked(config, openings, arguments.ignore) else FINE
    return _Judged("nothing to do", code, match)


def _awaits_default(check: HostCheck, arguments: argparse.Namespace) -> bool:
    """Whether the check would wait for a default route."""
    return check.report.verdict == "no-default-route" and check.code(arguments.ignore) != FINE


def _failing(plan: Plan, failures: Iterable[Finding]) -> _Judged:
    """Why apply would fail, and whether it would have changed something then."""
    for failure in failures:
        if failure.name == "route-conflict":
            return _Judged("would fail", PROBLEM, failure.sentence)
        if failure.name not in ESCAPES:
            reason = f"apply would change nothing, because {failure.sentence}"
            return _Judged("would fail", PROBLEM, reason, failure)
    reason = "addresses escape, and the mode is STRICT"
    if not plan.is_empty:
        reason += ", so apply would make the changes below, and then fail"
    return _Judged("would fail", PROBLEM, reason)


def _waiting(plan: Plan) -> _Judged:
    """What the first route waits for, and how that would end."""
    cause = plan.routes.route_waits[0]
    is_in_vain = any(route.missing.devs for route in plan.routes.waiting)
    end = ", and then fail" if is_in_vain else ""
    reason = f"apply would wait{end}: {cause.sentence}"
    return _Judged("not ready", CANNOT_DECIDE, reason, cause)


def _without_default(plan: Plan, check: HostCheck) -> _Judged:
    """Which default route the check would wait for, and how that would end."""
    reason = f"{spoken(check.report.missing_defaults)}, so apply would "
    if not plan.is_empty:
        reason += "make the changes below, "
    reason += "wait for one"
    if plan.mode == "STRICT":
        reason += ", and then fail"
    return _Judged("not ready", CANNOT_DECIDE, reason)


def _make_plan(arguments: argparse.Namespace, config: HostRoutingConfig, host: Host) -> Plan:
    """The plan for this host; for a snapshot, that of its routes."""
    if arguments.snapshot is None:
        return Configure(config, host=host, allow_removal=arguments.allow_removal).plan()
    snapshot = Snapshot.load(arguments.snapshot)
    return Plan(routes=plan_static_routes(config, snapshot)).with_check(config, snapshot)


def _command(arguments: argparse.Namespace, plan: Plan) -> str:
    """What to type so that nothing escapes: apply, after a repair if addresses would escape.
    Nothing, if apply would refuse.
    """
    if plan.errors:
        return ""
    if plan.report is not None and plan.report.routes:
        return RepairLine(typed_file(arguments)).line(more=_apply_options(arguments))
    return _apply_command(arguments)


def _apply_command(arguments: argparse.Namespace) -> Command:
    return call(f"apply{typed_file(arguments)}{_apply_options(arguments)}")


def _apply_options(arguments: argparse.Namespace) -> str:
    options = typed("--gate", arguments.gate)
    return f"{options} --allow-removal" if arguments.allow_removal else options
