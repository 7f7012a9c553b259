"""`plan`: what apply would do, and the verdict afterwards. Nothing is changed.

Exit code 0: the host matches the configuration. 1: there is something to do,
or apply would fail. 3: apply would fail because a static route waits for a
default route or a device, or because, in STRICT, there is no default route,
or an undecided verdict is to be refused. In WARN, apply waits for a default
route, too, but succeeds without it.
"""

import argparse
from collections.abc import Iterator

from hostrouting.cli.output import Page
from hostrouting.codes import CANNOT_DECIDE, CODE_OF_VERDICT, FINE, PROBLEM
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.host import Host
from hostrouting.install.plan import Plan
from hostrouting.lines import SHOWN, count_of_others, finding_lines, indented, remedy_lines
from hostrouting.tasks.configure import Configure


def run(arguments: argparse.Namespace, host: Host) -> Page:
    # Show what `apply` would do with this configuration.
    config = HostRoutingConfig.load(arguments.config)
    plan = Configure(config, host=host, allow_removal=arguments.allow_removal).plan()
    return Page(
        plan_code(plan),
        {"schema": "hostrouting/plan/1", **plan.to_mapping()},
        plan_lines(plan),
    )


def plan_code(plan: Plan) -> int:
    """The exit code for a plan: FINE if the host matches the configuration; the code of apply if it
    would fail only because a route waits, or because of the verdict; else PROBLEM, as with `diff`,
    also if apply would succeed and change something.
    """
    # `failures` are all reasons why apply would fail. `errors` are those but for the verdict, and
    # for a route that waits, such as for its device.
    if plan.failures and not plan.errors:
        # If a route waits, there is no report. Otherwise, the verdict is the failure.
        return CANNOT_DECIDE if plan.report is None else CODE_OF_VERDICT[plan.report.verdict]
    return FINE if plan.is_empty and not plan.errors else PROBLEM


def plan_lines(plan: Plan) -> Iterator[str]:
    """The page of a dry run: whether the run would fail, what it would change, the findings, and
    the verdict afterwards.
    """
    if plan.failures:
        yield from _failure_lines(plan)
    else:
        yield "NOTHING TO DO" if plan.is_empty else "TO DO:"
    steps = [*plan.routes.conflicts, *plan.routes.changes]
    for step in steps[:SHOWN]:
        yield f"  {step}"
        yield from remedy_lines(step.remedy, indent=6)
    yield from count_of_others(steps)
    yield from indented("", [*plan.systemd, *plan.operations])
    yield from indented("write ", plan.files.written_paths)
    yield from indented("remove ", plan.files.removes)
    # The findings that make the run fail stand in the first lines already.
    yield from finding_lines([finding for finding in plan.findings if finding not in plan.failures])
    if plan.report is not None:
        yield "The verdict afterwards:"
        yield from map(str, plan.report.families)
        # The lines of the families say what escapes, "action" says what repairs it, and
        # "default-routes" that the right device is unclear, so that there is no "action".
        yield from finding_lines(
            [
                finding
                for finding in plan.check_findings
                if finding.name in {"action", "default-routes"}
            ]
        )


def _failure_lines(plan: Plan) -> Iterator[str]:
    """Why the run would fail: the headline has the first failure, and the lines below have the
    others. They leave out conflicts of routes, which `plan_lines` lists with their remedies.
    """
    word = "NOT READY" if plan_code(plan) == CANNOT_DECIDE else "WOULD FAIL"
    first = plan.failures[0]
    yield f"{word}: {first.sentence}"
    lines = finding_lines(
        [failure for failure in plan.failures if failure.name != "route-conflict"]
    )
    if first.name != "route-conflict":
        next(lines)  # skip the sentence of `first`, but not its remedy
    yield from lines
