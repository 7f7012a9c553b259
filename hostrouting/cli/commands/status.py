"""`status`: whether this host matches the installed configuration: files, routes, units, and the verdict now.

Exit code 1: something differs, a unit can start unchecked or cannot start, or an address escapes now. 3: the verdict is
undecided, or a part of the host does not answer; the other parts are shown.
"""

import argparse
from collections.abc import Callable
from typing import TypeVar

import attrs

from hostrouting.boot.files import WRITER, writer_of
from hostrouting.boot.health import find_faults
from hostrouting.cli.check import make_check
from hostrouting.cli.output import FINE, PROBLEM, Answer, code_of, finding_lines, worst_code
from hostrouting.cli.running import headline, plan_lines
from hostrouting.errors import HostRoutingError
from hostrouting.finding import Finding, worst_first
from hostrouting.host.fileset import FileChanges
from hostrouting.host.host import Host
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.install import planned, read_installed
from hostrouting.tasks.results import Plan

T = TypeVar("T")


def run(_: argparse.Namespace, host: Host) -> Answer:
    plan, check = Plan(), None
    unanswered, none = list[HostRoutingError](), tuple[Finding, ...]()

    def ask(question: Callable[[], T], otherwise: T) -> T:
        """The answer; the other parts of the host are asked even if this one does not answer."""
        try:
            return question()
        except HostRoutingError as error:
            unanswered.append(error)
            return otherwise

    if (config := read_installed(host)) is not None:
        plan = ask(lambda: planned(Configure(config, host=host).parts()), plan)
        if writer_of(host.files) != WRITER:
            plan = attrs.evolve(plan, files=FileChanges())  # no edits: another release writes other texts
        plan = attrs.evolve(plan, findings=(*ask(lambda: find_faults(host, config), none), *plan.findings))
        check = ask(lambda: make_check(config, host), None) if config.route_overlap.cidrs else None
    is_wrong = not plan.is_empty or any(finding.severity != "note" for finding in plan.findings)
    code = worst_code(PROBLEM if is_wrong else FINE, check.code() if check else FINE, *map(code_of, unanswered))
    unknown = (finding for error in unanswered for finding in error.findings)
    plan = attrs.evolve(plan, findings=worst_first((*unknown, *plan.findings)))
    grave = [] if check is None else [row for row in check.findings if row.name in {"missing-rule", "unsafe"}]
    brief = () if check is None else (*map(str, check.report.families), *finding_lines(grave))
    now = check.lines() if check and plan.is_empty else brief
    head = [*headline(plan, is_installed=config is not None, is_fine=code == FINE)]
    vain, title = "hostrouting apply" if plan.routes.conflicts else "\n", "".join(head)  # no remedy has a line break
    shown = (row._replace(remedy="") if row.remedy in title or vain in row.remedy else row for row in plan.findings)
    lines = (*head, *plan_lines(attrs.evolve(plan, findings=tuple(shown))), *now)
    more = {"installed": config is not None, **plan.to_mapping(), "check": check and check.document()}
    return Answer(code, {"schema": "hostrouting/status/6", **more}, lines, check and check.report)
