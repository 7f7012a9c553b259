"""`plan`: what apply would do, and the verdict afterwards. Nothing is changed.

Exit code 0: the host matches the configuration. 1: there is something to do, or apply would fail. 3: apply would
wait, because a default route or a device is missing. With --snapshot, only routes are planned.
"""

import argparse

from hostrouting.check.check import check_snapshot
from hostrouting.cli.check import Check, code_with
from hostrouting.cli.output import CANNOT_DECIDE, FINE, PROBLEM, Answer
from hostrouting.cli.running import plan_lines
from hostrouting.cli.source import as_whom, read_config, read_host, typed_name
from hostrouting.finding import Finding
from hostrouting.host.host import Host
from hostrouting.routes.plan import plan_static_routes
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.install import planned, read_installed
from hostrouting.tasks.requirements import find_losses
from hostrouting.tasks.results import Plan

ARGUMENTS = ("--config required", "--snapshot", "--fail-on", "--ignore", "--allow-removal")


def run(arguments: argparse.Namespace, host: Host) -> Answer:
    config, before, check = read_config(arguments.config), read_host(host, arguments.snapshot), None
    if arguments.snapshot is None:
        plan = planned(Configure(config, host=host).parts())
        losses = () if arguments.allow_removal else find_losses(read_installed(host), config)
        remedy = "keep this in the configuration, or allow the removal (--allow-removal)"
        removals = [Finding("removal", "error", str(loss), loss.path, remedy) for loss in losses]
        plan = Plan(findings=tuple(removals)) + plan
    else:
        steps = plan_static_routes(config, before)
        plan = Plan(routes=steps, findings=tuple(steps.findings()))
    if config.route_overlap.cidrs and not (plan.routes.conflicts or plan.routes.pending):
        check = Check.of(check_snapshot(plan.routes.apply_to(before), config), config)
    code_after = check.code(arguments.ignore) if check else FINE
    is_lost = code_after == PROBLEM and config.route_overlap.mode == "STRICT"
    if is_lost or any(error.name not in arguments.ignore for error in plan.errors):
        why = "in mode STRICT, because addresses escape" if is_lost and not plan.errors else "for the reasons below"
        code, answer = PROBLEM, f"WOULD FAIL: {why}"
    elif plan.routes.pending or (check and check.report.verdict == "no-default-route" and code_after):
        code, answer = CANNOT_DECIDE, "NOT READY: apply would wait, for the reasons below"
    elif plan.is_empty:
        whole = "this host matches" if arguments.snapshot is None else "the routes of the snapshot match"
        code, answer = FINE, f"NOTHING TO DO: {whole} the configuration"
    else:
        typed = f"{typed_name(arguments.config)}{' --allow-removal' if arguments.allow_removal else ''}"
        code, answer = PROBLEM, f"TO DO: {as_whom(arguments)}: hostrouting apply --config {typed}"
    code = code_with(arguments, code, (*plan.findings, *(check.findings if check else ())))
    verdicts = ("", "The verdict afterwards:", *map(str, check.report.families)) if check else ()
    lines = [answer, *plan_lines(plan), *verdicts]
    more = {"answer": answer.partition(":")[0].lower(), **plan.to_mapping(), "check": check and check.document()}
    return Answer(code, {"schema": "hostrouting/plan/4", **more}, lines)
