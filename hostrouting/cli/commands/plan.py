"""`plan`: what apply would do, and the verdict afterwards. Nothing is changed.

Exit code 0: the host matches the configuration. 1: there is something to do, or apply would fail.
3: apply would wait, because a default route or a device is missing. With --snapshot, only routes
are planned.
"""

import argparse
from collections.abc import Sequence

import attrs

from hostrouting.cli.check import Check, code_with, repair_pipeline, with_gate_command
from hostrouting.cli.output import Answer
from hostrouting.cli.running import plan_lines
from hostrouting.cli.source import as_whom, read_config, read_host, typed_name
from hostrouting.codes import CANNOT_DECIDE, FINE, PROBLEM
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.finding import ESCAPES, Finding
from hostrouting.host.host import Host
from hostrouting.install.plan import Plan
from hostrouting.routes.plan import plan_static_routes
from hostrouting.tasks.configure import Configure

ARGUMENTS = (
    "--config required",
    "--snapshot",
    "--fail-on",
    "--ignore",
    "--allow-removal",
    "--gate",
)

_AWAITED = ("route-waits", "no-default-route")
"""The failures that may go away by themselves while apply waits."""


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    config = read_config(arguments.config, arguments.gate)
    plan = _make_plan(arguments, config, host)
    check = None if plan.report is None else Check.of(plan.report, config)
    findings = with_gate_command(plan.findings, _gating_command(arguments, plan))
    plan = attrs.evolve(plan, findings=findings)
    is_late = bool(plan.routes.waiting)
    if check is not None and check.report.verdict == "no-default-route":
        is_late = check.code(arguments.ignore) != FINE
    passed_over = (*arguments.ignore, *_AWAITED)
    failures = [finding for finding in plan.failures if finding.name not in passed_over]
    if failures:
        code, answer = PROBLEM, f"WOULD FAIL: {_reason(failures)}"
    elif is_late:
        code, answer = CANNOT_DECIDE, "NOT READY: apply would wait, for the reasons below"
    elif plan.is_empty:
        whole = (
            "this host matches"
            if arguments.snapshot is None
            else "the routes of the snapshot match"
        )
        code, answer = FINE, f"NOTHING TO DO: {whole} the configuration"
    else:
        typed = f"hostrouting apply --config {typed_name(arguments.config)}{_options(arguments)}"
        code, answer = PROBLEM, f"TO DO: {as_whom(arguments)}: {typed}"
    code = code_with(arguments, code, (*plan.findings, *(check.findings if check else ())))
    verdicts = ("", "The verdict afterwards:", *map(str, check.report.families)) if check else ()
    lines = [answer, *plan_lines(plan), *verdicts]
    more = {
        "answer": answer.partition(":")[0].lower(),
        **plan.to_mapping(),
        "check": check and check.document(),
    }
    return Answer(code, {"schema": "hostrouting/plan/4", **more}, lines)


def _make_plan(arguments: argparse.Namespace, config: HostRoutingConfig, host: Host) -> Plan:
    """The plan for this host; for a snapshot, that of its routes."""
    if arguments.snapshot is None:
        return Configure(config, host=host, allow_removal=arguments.allow_removal).plan()
    snapshot = read_host(host, arguments.snapshot)
    routes = plan_static_routes(config, snapshot)
    return Plan(routes=routes, findings=tuple(routes.findings())).with_check(config, snapshot)


def _options(arguments: argparse.Namespace) -> str:
    options = "".join(f" --gate {unit}" for unit in arguments.gate)
    return f"{options} --allow-removal" if arguments.allow_removal else options


def _gating_command(arguments: argparse.Namespace, plan: Plan) -> str:
    """What to type to gate further units, with a repair if addresses would escape.

    Nothing, if apply would refuse.
    """
    file = typed_name(arguments.config)
    if plan.errors:
        return ""
    if plan.report is not None and plan.report.routes:
        return repair_pipeline(f" --config {file}") + _options(arguments)
    return f"hostrouting apply --config {file}{_options(arguments)}"


def _reason(failures: Sequence[Finding]) -> str:
    if all(finding.name in ESCAPES for finding in failures):
        return "in mode STRICT, because addresses escape"
    return "for the reasons below"
