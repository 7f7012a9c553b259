"""`status`: whether this host is as the installed configuration asks: files, routes, units, and the verdict now.

Exit code 1: something differs or failed, a unit can start unchecked or cannot start, or an address escapes now. 3: not
everything could be determined, or the verdict is undecided.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import attrs

from hostrouting.boot.files import WRITER, writer_of
from hostrouting.boot.health import find_faults
from hostrouting.cli.check import check_here
from hostrouting.cli.failure import CANNOT_DECIDE, FINE, PROBLEM, worst_code
from hostrouting.cli.output import Answer
from hostrouting.cli.running import plan_lines
from hostrouting.errors import ConfigError, HostRoutingError
from hostrouting.finding import Finding, Severity, worst_first
from hostrouting.host.fileset import FileChanges
from hostrouting.host.layout import HostLayout
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.install import planned, read_installed
from hostrouting.tasks.results import Plan

if TYPE_CHECKING:
    from hostrouting.cli.source import GetHost
    from hostrouting.host.host import Host

T = TypeVar("T")
_PROBLEMS = {"gate-open", "probe-rewrite", "route-waits"}
"""The findings that are a problem even as a warning."""


def run(_: argparse.Namespace, host: GetHost) -> Answer:
    """See the module."""
    here, plan, findings = host(), Plan(), list[Finding]()
    path, check = HostLayout.config_path, None

    def asked(ask: Callable[[], T], otherwise: T) -> T:
        """The answer; of an error, a finding: what one part cannot say does not keep the others from being asked."""
        try:
            return ask()
        except HostRoutingError as error:
            severity: Severity = "error" if isinstance(error, ConfigError) else "warning"
            findings.append(Finding("not-known", severity, str(error), path if severity == "error" else ""))
            return otherwise

    if (config := asked(lambda: read_installed(here), None)) is not None:
        plan = asked(lambda: planned(here, config, ()), plan)
        if writer_of(here.files.read(path) or "") != WRITER:
            plan = attrs.evolve(plan, files=FileChanges())  # no edits: another release writes other texts
        for task in Configure(config, host=here).subtasks:
            plan += asked(task.planned, Plan())
        findings += asked(lambda: find_faults(here, config), ())
        findings += asked(lambda: _failed_units(here), ())
        check = asked(lambda: check_here(config, lambda: here), None) if config.route_overlap.cidrs else None
    plan = attrs.evolve(plan, findings=worst_first((*findings, *plan.findings)))
    code = worst_code((FINE if plan.is_empty else PROBLEM, check.code() if check else FINE, *map(_code, plan.findings)))
    lines = [f"INSTALLED: this host is as {path} asks"] if code == FINE else []
    if config is None and not plan.findings:
        lines = ["NOTHING: hostrouting has nothing installed on this host; to check its routes: hostrouting check CIDR"]
    elif not plan.is_empty:
        lines = [f"DIFFERENT: this host is not as {path} asks; as root: hostrouting apply --config {path}"]
    told = {"installed": config is not None, "verdict": check and check.report.verdict}
    lines += [*plan_lines(plan), *(check.lines() if check else ())]
    document = {"schema": "hostrouting/status/5", **told, **plan.to_mapping()}
    return Answer(code, document, lines, check and check.report)


def _code(finding: Finding) -> int:
    is_problem = finding.severity == "error" or (finding.severity == "warning" and finding.name in _PROBLEMS)
    return PROBLEM if is_problem else CANNOT_DECIDE if finding.name == "not-known" else FINE


def _failed_units(host: Host) -> tuple[Finding, ...]:
    """Our units that failed when they ran last: a note, because what they should have done is compared as well."""
    units = (HostLayout.routes_unit, HostLayout.probe_unit, HostLayout.guard_unit)
    failed = [unit for unit in units if (manager := host.running_manager) and manager.state(unit) == "failed"]
    return tuple(
        Finding("unit", "note", f"the last run of {unit} failed", unit, f"see: journalctl -u {unit}") for unit in failed
    )
