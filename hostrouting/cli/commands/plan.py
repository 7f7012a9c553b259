"""`plan`: what apply would do, and the verdict afterwards. Nothing is changed.

Without --config, the installed configuration is planned.

Exit code 0: the host matches the configuration. 1: there is something to do, or apply would fail;
or, in mode STRICT, a gated unit starts unchecked, whatever apply does. 3: apply would wait, because
a default route or a device is missing or has to be named. With --snapshot, only routes are planned.
"""

import argparse
from collections.abc import Iterable
from typing import NamedTuple

import attrs

from hostrouting.boot.unit_gates import judge_gates, starts_unchecked
from hostrouting.cli.check import code_with
from hostrouting.cli.output import Answer, way_lines
from hostrouting.cli.running import plan_lines
from hostrouting.cli.source import (
    as_whom,
    bad_input,
    find_config,
    gating,
    read_config,
    typed_file,
    typed_name,
)
from hostrouting.codes import CANNOT_DECIDE, FINE, PROBLEM
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.finding import ESCAPES, Finding
from hostrouting.headline import what_is_wrong
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.install.host_check import HostCheck, take_snapshot
from hostrouting.install.plan import Plan
from hostrouting.install.typed_commands import gate_options, repair_pipeline, with_gate_command
from hostrouting.routes.plan import plan_static_routes
from hostrouting.status import IN_THE_WAY
from hostrouting.tasks.configure import Configure
from hostrouting.text import spoken

ARGUMENTS = ("--config", "--snapshot", "--fail-on", "--ignore", "--allow-removal", "--gate")

_AWAITED = ("route-waits", "no-default-route")
"""The failures that may go away by themselves while apply waits."""


class _Judged(NamedTuple):
    """The answer, with what follows it in the first line."""

    answer: str
    code: int
    rest: str
    cause: Finding | None = None
    """The finding whose sentence the rest ends with; its remedy follows."""


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    config = _read_config(arguments, host)
    plan = _make_plan(arguments, config, host)
    gating = _gating(arguments, plan)
    plan = attrs.evolve(plan, findings=with_gate_command(plan.findings, gating))
    check = None
    if plan.report is not None:
        check = HostCheck.of(plan.report, config, repair_options=typed_file(arguments))
    answer, code, rest, cause = _judge(arguments, plan, check)
    first = f"{answer.upper()}: {rest}"
    openings = _openings(arguments, config, host)
    if answer == "nothing to do" and openings:
        first += f", but {what_is_wrong(openings, None, config)}"
        if starts_unchecked(config, openings, arguments.ignore):
            code = PROBLEM
    findings = [*plan.with_findings(openings).findings]
    document = {
        "schema": "hostrouting/plan/4",
        "answer": answer,
        **plan.to_mapping(),
        "findings": [finding.to_mapping() for finding in findings],
        "check": check and check.document(),
    }
    who = as_whom(arguments)
    lines = [first, *way_lines(cause and cause.remedy, who)]
    others = tuple(finding for finding in findings if finding != cause)
    lines += plan_lines(attrs.evolve(plan, findings=others), who)
    if check is not None:
        findings += check.findings
        lines += ["", "The verdict afterwards:", *map(str, check.report.families)]
        if check.report.routes and not plan.errors and arguments.snapshot is None:
            lines += [f"To repair that, {who}:", f"  {gating}"]
    return Answer(code_with(arguments, code, findings), document, lines)


def _read_config(arguments: argparse.Namespace, host: Host) -> HostRoutingConfig:
    """The configuration to plan; without --config, the installed one, as if its file were typed."""
    if arguments.config is not None:
        return read_config(arguments.config, arguments.gate)
    installed = find_config(arguments, host)
    if installed == HostRoutingConfig():
        rule = "no configuration is given, and none is installed here"
        raise bad_input("--config", rule, "name a file")
    arguments.config = HostLayout.config_path
    return gating(installed, arguments.gate)


def _openings(
    arguments: argparse.Namespace, config: HostRoutingConfig, host: Host
) -> tuple[Finding, ...]:
    """What lets units start unchecked, also after apply; a snapshot does not have it."""
    if arguments.snapshot is not None:
        return ()
    return judge_gates(host, gated_units(config)).lasting


def _judge(arguments: argparse.Namespace, plan: Plan, check: HostCheck | None) -> _Judged:
    """What apply would do: fail, wait, change something, or nothing."""
    passed_over = (*arguments.ignore, *_AWAITED)
    failures = [finding for finding in plan.failures if finding.name not in passed_over]
    if failures:
        cause = _cause(failures)
        return _Judged("would fail", PROBLEM, _failure(plan, cause), cause)
    is_late = bool(plan.routes.waiting)
    if check is not None and check.report.verdict == "no-default-route":
        is_late = check.code(arguments.ignore) != FINE
    if is_late:
        cause = next(iter(plan.routes.route_waits), None)
        return _Judged("not ready", CANNOT_DECIDE, _delay(plan, cause), cause)
    if plan.is_empty:
        return _Judged("nothing to do", FINE, _match(arguments))
    return _Judged("to do", PROBLEM, _what_to_type(arguments))


def _cause(failures: Iterable[Finding]) -> Finding | None:
    """Why apply would refuse to begin; none if addresses escape, or if routes are in the way, which
    the lines of the routes say.
    """
    for failure in failures:
        if failure.name == "route-conflict":
            return None
        if failure.name not in ESCAPES:
            return failure
    return None


def _match(arguments: argparse.Namespace) -> str:
    """What matches the configuration."""
    if arguments.snapshot is not None:
        return "the routes of the snapshot match the configuration"
    if arguments.config == "-":
        return "this host matches the configuration"
    return f"this host matches {typed_name(arguments.config)}"


def _what_to_type(arguments: argparse.Namespace) -> str:
    """The command that carries the plan out."""
    who = as_whom(arguments)
    if arguments.config == "-":
        return f"{who}: the same command with apply instead of plan"
    return f"{who}: {_apply(arguments)}"


def _failure(plan: Plan, cause: Finding | None) -> str:
    """Why apply would fail, and whether it would have changed something then."""
    if cause is not None:
        return f"apply would change nothing, because {cause.sentence}"
    if plan.routes.conflicts:
        return IN_THE_WAY
    reason = "addresses escape, and the mode is STRICT"
    if plan.is_empty:
        return reason
    return f"{reason}, so apply would make the changes below, and then fail"


def _delay(plan: Plan, cause: Finding | None) -> str:
    """What apply would wait for, and how that would end."""
    if cause is not None:
        is_in_vain = any(route.missing.devs for route in plan.routes.waiting)
        end = ", and then fail" if is_in_vain else ""
        return f"apply would wait{end}: {cause.sentence}"
    changes = "" if plan.is_empty else "make the changes below, "
    end = ", and then fail" if plan.mode == "STRICT" else ""
    missing = "" if plan.report is None else spoken(plan.report.missing_defaults)
    return f"{missing}, so apply would {changes}wait for one{end}"


def _make_plan(arguments: argparse.Namespace, config: HostRoutingConfig, host: Host) -> Plan:
    """The plan for this host; for a snapshot, that of its routes."""
    if arguments.snapshot is None:
        return Configure(config, host=host, allow_removal=arguments.allow_removal).plan()
    snapshot = take_snapshot(host, arguments.snapshot)
    routes = plan_static_routes(config, snapshot)
    return Plan(routes=routes, findings=tuple(routes.findings())).with_check(config, snapshot)


def _apply(arguments: argparse.Namespace) -> str:
    file = "-"  # behind the same pipe
    if arguments.config != "-":
        file = typed_name(arguments.config)
    return f"hostrouting apply --config {file}{_options(arguments)}"


def _options(arguments: argparse.Namespace) -> str:
    options = gate_options(arguments.gate)
    return f"{options} --allow-removal" if arguments.allow_removal else options


def _gating(arguments: argparse.Namespace, plan: Plan) -> str:
    """What to type to gate further units, with a repair if addresses would escape.

    Nothing, if apply would refuse.
    """
    if plan.errors:
        return ""
    if plan.report is not None and plan.report.routes:
        given = ""
        if arguments.config != HostLayout.config_path:
            given = typed_file(arguments)
        return repair_pipeline(given) + _options(arguments)
    return _apply(arguments)
