"""`status`: whether this host is as the installed configuration asks, whether units are held back, the verdict now.

Here: collecting the facts, each once, the exit code that follows, and the page. Not here: the comparison
(`tasks.install`), what is wrong with the hold (`boot.health`), and how routes are checked (`check`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from hostrouting.boot.files import WRITER, writer_of
from hostrouting.boot.health import find_faults
from hostrouting.check.check import check_host
from hostrouting.cli.changes import Work
from hostrouting.cli.check import Check
from hostrouting.cli.command import FAILED, FINE, UNDECIDED, VERDICT_CODES, Command, Reply
from hostrouting.cli.output import Line, Painted, below, line, named_lines
from hostrouting.cli.source import open_kernel
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import ConfigError, HostRoutingError
from hostrouting.finding import Finding, worst_first
from hostrouting.host.fileset import FileChanges
from hostrouting.tasks.configure import Configure
from hostrouting.tasks.install import planned, read_installed
from hostrouting.tasks.results import Plan
from hostrouting.text import counted, spoken

if TYPE_CHECKING:
    import argparse

    from hostrouting.host.host import Host

T = TypeVar("T")

_FLAWS = {"local-rule", "missing-rule"}
"""What is wrong with the rules themselves: it has a remedy of its own."""
_PROBLEMS = {"gate-open", "probe-rewrite", "route-waits"}
"""The findings that are a problem even as a warning."""


class HostStatus:
    """The facts, each collected once; the others are still collected if one of them cannot be determined."""

    def __init__(self, host: Host) -> None:
        """Collect the facts."""
        self._host, self._findings = host, list[Finding]()
        self.config: HostRoutingConfig | None = None
        self.plan = Plan()  # from this host to what the installed configuration asks for
        self.check: Check | None = None  # none without expected CIDRs, or if it was not possible
        try:
            self.config = read_installed(host)
        except ConfigError as error:
            self._findings += (Finding("not-known", "error", str(fault), fault.path) for fault in error.faults)
        if self.config is not None:
            self._collect(self.config)
        self.findings = worst_first((*self._findings, *self.plan.findings))
        self.work = Work.of(self.plan)

    def _collect(self, config: HostRoutingConfig) -> None:
        host = self._host
        self.plan = self._known("the files", lambda: planned(host, config, ())) or Plan()
        for task in Configure(config, host=host).subtasks:
            self.plan += self._known(task.name, task.planned) or Plan()
        if writer_of(host.files.read(host.layout.config_path) or "") != WRITER:
            self.plan = attrs.evolve(self.plan, files=FileChanges())  # no edits: another release writes other texts
        self._findings += self._known("the gate", lambda: find_faults(host, config)) or ()
        self._findings += self._known("the units", lambda: tuple(_failed_units(host, is_done=self.plan.is_empty))) or ()
        if config.route_overlap.cidrs:
            self.check = self._known("the verdict", lambda: _checked(host, config))

    def _known(self, what: str, question: Callable[[], T]) -> T | None:
        """The answer; None if there is an error, which becomes a finding, once."""
        try:
            return question()
        except HostRoutingError as error:
            if not any(finding.sentence.endswith(f": {error}") for finding in self._findings):
                self._findings.append(Finding("not-known", "warning", f"{what}: {error}"))
            return None

    @property
    def verdict(self) -> str:
        """The verdict on the present routes; empty without a check."""
        return "" if self.check is None else self.check.report.verdict

    @property
    def code(self) -> int:
        """The exit code."""
        problems = (finding for finding in self.findings if finding.severity == "error" or finding.name in _PROBLEMS)
        if self.work or self.verdict == "overlap" or any(finding.severity != "note" for finding in problems):
            return FAILED
        is_unknown = any(finding.name == "not-known" for finding in self.findings)
        return UNDECIDED if is_unknown else VERDICT_CODES.get(self.verdict, FINE)


def _failed_units(host: Host, *, is_done: bool) -> Iterator[Finding]:
    """Our units that failed when they ran last; a note if their work was done since, for example by the gate."""
    manager, layout = host.running_manager, host.layout
    if manager is None:
        return
    for unit in (layout.routes_unit, layout.probe_unit, layout.guard_unit):
        if manager.state(unit).active == "failed":
            sentence = f"the last run of {unit} failed{', and its work was done since' if is_done else ''}"
            yield Finding("unit", "note" if is_done else "error", sentence, unit, f"see: journalctl -u {unit}")


def _checked(host: Host, config: HostRoutingConfig) -> Check:
    with open_kernel(lambda: host) as backend:
        return Check(check_host(backend, config), config)


def _answer(_: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    here = host()
    status = HostStatus(here)
    return Reply(status.code, lambda: _document(status), lambda: _page(status, here.layout.config_path))


def _page(status: HostStatus, path: str) -> Iterator[Line]:
    if status.config is None and not status.findings:
        sentence = " hostrouting has nothing installed on this host; to look for an overlap: hostrouting check CIDR"
        yield line(Painted("NOTHING:", "soft"), sentence)
        return
    if status.check is not None and status.verdict != "ok":
        yield from status.check.answer_lines()
        yield from named_lines([flaw for flaw in status.check.findings if flaw.name in _FLAWS])
        repair = "to print the repair: hostrouting repair; " if status.check.report.routes else ""
        yield line(f"  {repair}for details: hostrouting check")
    yield from named_lines([finding for finding in status.findings if finding.name != "route-conflict"])  # a step
    if not status.plan.is_empty:
        steps = [step for step in status.work.steps if step.action != "keep"]
        would = f"apply would {status.work}" if status.work else "and apply cannot change that"
        yield line(Painted("DIFFERENT:", "bad"), f" this host is not as {path} asks: {would}")
        yield from status.work._replace(steps=steps).lines()
        yield line(f"To make it so, as root: hostrouting apply --config {path}")
    if status.code == FINE:
        ending = ", and nothing escapes now" if status.check is not None else ""
        yield line(Painted("INSTALLED:", "good"), f" this host is as {path} asks{ending}")
    if status.config is not None:
        yield from below(_rows(status.config))


def _rows(config: HostRoutingConfig) -> Iterator[Line]:
    """The parts of the installed configuration, each on one line after its name."""
    check = config.route_overlap
    cidrs, devs = spoken([str(cidr) for cidr in check.cidrs]), spoken(check.expected_devs, last="or")
    routes, probes = config.static_routes.routes, config.probe_rewrite
    rows = {
        "static routes": counted(len(routes), "route") if routes else "",
        "check": f"{cidrs}{f' by {devs}' if devs else ''} in {check.mode}" if cidrs else "",
        "probe rewrite": f"on {spoken(probes.interfaces)}" if probes.enabled else "",
        "guard": "enabled" if config.guard.enabled else "",
        "gated units": spoken(gated_units(config)),
    }
    for name, fact in rows.items():
        yield from [line("  ", Painted(f"{name:<15}", "soft"), fact)] if fact else []


def _document(status: HostStatus) -> dict[str, Any]:
    return {
        "schema": COMMAND.schema,
        "installed": status.config is not None,
        "verdict": status.verdict or None,
        **status.work.document(),
        "findings": [finding.to_mapping() for finding in status.findings],
    }


COMMAND = Command(
    name="status",
    answer=_answer,
    version=4,
    more="""\
This host is compared with the configuration that is installed: files, routes, the table for probes, and whether systemd
runs the gate before each gated unit. The routes are checked as they are now, as by check.

Exit code 1 means that something differs or failed, that units start unchecked or cannot start, or that an address
escapes now. 3 means that not everything could be determined, or that the verdict is undecided.
""",
    examples="""\
# is everything that hostrouting installed in force?
hostrouting status
# the same for a program
hostrouting status --json
""",
    failing="something that hostrouting installed is wrong, or there is an overlap now",
)
