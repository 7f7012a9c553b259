"""`status`: whether this host is as the installed configuration asks: files, routes, units, and the verdict now.

Exit code 1: something differs or failed, a unit can start unchecked or cannot start, or an address escapes now. 3: not
everything could be determined, or the verdict is undecided.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.boot.files import WRITER, writer_of
from hostrouting.boot.health import find_faults
from hostrouting.check.check import check_host
from hostrouting.cli.check import Check
from hostrouting.cli.failure import CANNOT_DECIDE, FINE, PROBLEM, worst_code
from hostrouting.cli.output import Answer
from hostrouting.cli.running import plan_lines
from hostrouting.cli.source import GetHost, open_kernel
from hostrouting.errors import ConfigError, HostRoutingError
from hostrouting.finding import Finding, worst_first
from hostrouting.host.fileset import FileChanges
from hostrouting.host.name_servers import read_name_servers
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.install import planned, read_installed
from hostrouting.tasks.results import Plan

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host

_PROBLEMS = {"gate-open", "probe-rewrite", "route-waits"}
"""The findings that are a problem even as a warning."""


class Status:
    """What is known of a host. What one part cannot say is a finding, and the others are still asked."""

    config: HostRoutingConfig | None = None
    check: Check | None = None

    def __init__(self, host: Host) -> None:
        """Collect it."""
        self.path, self.plan, self.findings = host.layout.config_path, Plan(), list[Finding]()
        with self._part("the configuration"):
            self.config = read_installed(host)
        if (config := self.config) is None:
            return
        with self._part("the files"):
            self.plan += planned(host, config, ())
        for task in Configure(config, host=host).subtasks:
            with self._part(task.name):
                self.plan += task.planned()
        if writer_of(host.files.read(self.path) or "") != WRITER:
            self.plan = attrs.evolve(self.plan, files=FileChanges())  # no edits: another release writes other texts
        with self._part("the gate"):
            self.findings += find_faults(host, config)
        with self._part("the units"):
            self.findings += _failed_units(host, is_done=self.plan.is_empty)
        if config.route_overlap.cidrs:
            with self._part("the verdict"), open_kernel(lambda: host) as kernel:
                self.check = Check.of(check_host(kernel, config, name_servers=read_name_servers(host)), config)

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        """Make a finding of an error, once."""
        try:
            yield
        except ConfigError as error:
            self.findings.append(Finding("not-known", "error", str(error), self.path))
        except HostRoutingError as error:
            if not any(finding.sentence.endswith(f": {error}") for finding in self.findings):
                self.findings.append(Finding("not-known", "warning", f"{name}: {error}"))


def _failed_units(host: Host, *, is_done: bool) -> Iterator[Finding]:
    """Our units that failed when they ran last; a note if their work was done since, for example by the gate."""
    manager, layout = host.running_manager, host.layout
    for unit in (layout.routes_unit, layout.probe_unit, layout.guard_unit) if manager is not None else ():
        if manager is not None and manager.state(unit).active == "failed":
            sentence = f"the last run of {unit} failed{', and its work was done since' if is_done else ''}"
            yield Finding("unit", "note" if is_done else "error", sentence, unit, f"see: journalctl -u {unit}")


def _code(plan: Plan, check: Check | None) -> int:
    codes = {FINE if plan.is_empty else PROBLEM, FINE if check is None else check.code}
    for finding in plan.findings:
        if finding.severity == "error" or (finding.severity == "warning" and finding.name in _PROBLEMS):
            codes.add(PROBLEM)
        elif finding.name == "not-known":
            codes.add(CANNOT_DECIDE)
    return worst_code(codes)


def run(_: argparse.Namespace, host: GetHost) -> Answer:
    """See the module."""
    status = Status(host())
    plan = attrs.evolve(status.plan, findings=worst_first((*status.findings, *status.plan.findings)))
    code, check, path, is_installed = _code(plan, status.check), status.check, status.path, status.config is not None

    def document() -> dict[str, Any]:
        verdict = check and check.report.verdict
        return {"schema": "hostrouting/status/5", "installed": is_installed, "verdict": verdict, **plan.to_mapping()}

    def lines() -> Iterator[str]:
        if not is_installed and not plan.findings:
            yield "NOTHING: hostrouting has nothing installed on this host; to check its routes: hostrouting check CIDR"
        elif not plan.is_empty:
            yield f"DIFFERENT: this host is not as {path} asks; as root: hostrouting apply --config {path}"
        elif code == FINE:
            yield f"INSTALLED: this host is as {path} asks"
        yield from plan_lines(plan)
        yield from check.lines() if check is not None else ()

    return Answer(code, document, lines)
