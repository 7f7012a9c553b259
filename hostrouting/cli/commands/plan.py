"""`plan`: what apply would do, and the verdict afterwards. Nothing is changed.

Exit code 0: the host is as the configuration asks. 1: there is something to do, or apply would fail. 3: a default route
or a device is missing, so it is not known yet. Of a snapshot, only routes are planned.
"""

from __future__ import annotations

import argparse

import attrs

from hostrouting.check.check import check_snapshot
from hostrouting.cli.check import Check, code_with
from hostrouting.cli.failure import CANNOT_DECIDE, FINE, PROBLEM
from hostrouting.cli.output import Answer
from hostrouting.cli.running import plan_lines
from hostrouting.cli.source import GetHost, read_config, read_host, typed_name
from hostrouting.finding import Finding
from hostrouting.routes.plan import RoutePlan, plan_static_routes
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.install import read_installed
from hostrouting.tasks.requirements import find_losses
from hostrouting.tasks.results import Plan

ARGUMENTS = ("--config FILE", "--snapshot", "--fail-on", "--ignore", "--allow-removal")


def run(arguments: argparse.Namespace, host: GetHost) -> Answer:
    """See the module."""
    config, ignored = read_config(arguments.config), arguments.ignore
    before = read_host(arguments, host)
    plan = Plan(routes=plan_static_routes(config, before))
    if arguments.snapshot is None:
        plan = Configure(config, host=host()).plan()
        losses = () if arguments.allow_removal else find_losses(read_installed(host()), config)
        removals = [Finding("removal", "error", f"{loss.path}: {loss.rule}", loss.path, loss.remedy) for loss in losses]
        plan = attrs.evolve(plan, findings=(*removals, *plan.findings))
    routes, after = plan.routes or RoutePlan(), None
    if config.route_overlap.cidrs and not (routes.conflicts or routes.pending):
        after = Check.of(check_snapshot(routes.apply_to(before), config), config)
    verdict, code_after = (None, FINE) if after is None else (after.report.verdict, after.code(ignored))
    is_strict = config.route_overlap.mode == "STRICT"
    errors = [finding for finding in plan.errors if finding.name not in ignored]
    if errors or (routes.conflicts and "route-conflict" not in ignored) or (code_after == PROBLEM and is_strict):
        code, answer = PROBLEM, "WOULD FAIL: apply would fail, for the reasons below"
    elif routes.pending or (verdict == "no-default-route" and code_after):
        code, answer = CANNOT_DECIDE, "NOT READY: apply would wait for what is missing"
    elif plan.is_empty:
        code, answer = FINE, "NOTHING TO DO: this host is as the configuration asks"
    else:
        code, answer = PROBLEM, f"TO DO: as root: hostrouting apply --config {typed_name(arguments.config)}"
    code = code_with(arguments, code, (*plan.findings, *(after.findings if after else ())))
    told = {"verdict": verdict, "check": after and after.document()}
    document = {"schema": "hostrouting/plan/3", "answer": answer.partition(":")[0].lower(), **plan.to_mapping(), **told}
    verdicts = ["", "The verdict afterwards:", *after.verdict_lines()] if after else []
    return Answer(code, document, [answer, *plan_lines(plan), *verdicts])
