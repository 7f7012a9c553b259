"""A check as lines: the verdict first, what escapes, the repair now and permanently, its limits,
how to allow it last.

check, repair, plan, apply and status share this. The sentences are those of `check.sentences`.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from hostrouting.check.check import check_kernel, check_snapshot
from hostrouting.check.document import check_document
from hostrouting.check.sentences import check_findings, repair_commands
from hostrouting.cli.output import capped, finding_lines
from hostrouting.cli.source import open_kernel, read_host
from hostrouting.codes import CANNOT_DECIDE, PROBLEM, worst_code
from hostrouting.finding import AS_ROOT, ESCAPES, Finding, Remedy
from hostrouting.host.layout import HostLayout
from hostrouting.install.obstacles import find_networkd, find_probe_obstacles
from hostrouting.install.restoring import GIVEN_UP, gate_options, with_a_copy, without_a_copy
from hostrouting.install.session import find_session_at_risk
from hostrouting.model.route import OURS
from hostrouting.text import counted, spoken

if TYPE_CHECKING:
    from hostrouting.check.results import CheckReport
    from hostrouting.config.settings import HostRoutingConfig, Mode
    from hostrouting.host.host import Host
    from hostrouting.install.managed import Managed
    from hostrouting.model.snapshot import Snapshot

MANAGED = (
    "hostrouting manages this host, and removes routes of its own that its configuration does not "
    "have."
)


TO_KEEP = "to keep what they do"
"""What a repair is typed for where routes are not configured."""


class Check(NamedTuple):
    """The report of a check with its findings."""

    report: CheckReport
    mode: Mode
    findings: tuple[Finding, ...]
    managed: Managed | None = None
    """What is installed on this host, if anything is."""
    is_elsewhere: bool = False
    """Whether the report is about a snapshot: what is installed on its host is not known."""

    @classmethod
    def of(
        cls,
        report: CheckReport,
        config: HostRoutingConfig,
        host: Host | None = None,
        *,
        repaired: HostRoutingConfig | None = None,
    ) -> Check:
        """The report of a check against this configuration, of this host or of a snapshot.

        `repaired` is the configuration to which a repair adds its routes, if it is another one.
        """
        mode = config.route_overlap.mode
        snapshot = report.snapshot
        findings = [*check_findings(report, mode=mode), *find_probe_obstacles(config, snapshot)]
        if host is None:
            return cls(report, mode, tuple(dict.fromkeys(findings)), is_elsewhere=True)
        if config.static_routes.enabled or report.routes:
            findings += find_networkd(config, host.files)
        managed = None
        if host.may_have_ours:
            from hostrouting.install.managed import find_managed  # noqa: PLC0415  most hosts that are checked have none

            managed = find_managed(host, repaired or config, snapshot)
        findings += find_typed(snapshot) if managed is None else managed.unconfigured
        repaired_prefixes = [route.prefix for route in report.resolved]
        findings += find_session_at_risk(
            host, repaired_prefixes, snapshot, after=lambda: snapshot.with_routes(report.resolved)
        )
        return cls(report, mode, tuple(dict.fromkeys(findings)), managed)

    def code(self, ignored: Collection[str] = ()) -> int:
        """The exit code of the verdict, as if there were no findings with these names."""
        doubts = set(self.report.doubts)
        counting = [finding for finding in self.findings if finding.name not in ignored]
        escapes = (PROBLEM for finding in counting if finding.name in ESCAPES)
        open_ = (
            CANNOT_DECIDE
            for finding in counting
            if finding in doubts or finding.name == "no-default-route"
        )
        return worst_code(*escapes, *open_)

    def document(self) -> dict[str, Any]:
        """The JSON value `hostrouting/check/3`."""
        return check_document(self.report, mode=self.mode, findings=self.findings)

    def lines(self, options: str = "", who: str = AS_ROOT, note: str = "") -> Iterator[str]:
        """The whole page; the line of the repair gets these options, says who types it, and has a
        note.
        """
        yield from map(str, self.report.families)
        escapes = [finding for finding in self.findings if finding.name in ESCAPES]
        yield from capped([f"  {finding.sentence}" for finding in escapes])
        costs = [finding for finding in self.findings if finding.name in {"unsafe", "repair-cost"}]
        yield from _block(finding_lines(costs, who))
        yield from self._repair_lines(options, who, note)
        others: list[Finding] = []
        remedies = dict.fromkeys(finding.remedy for finding in escapes)
        decisive = {family.decisive for family in self.report.families}
        for finding in self.findings:
            if finding.name == "no-default-route" or finding in decisive:
                remedies[finding.remedy] = None  # the verdict has the sentence
            elif finding.name == "route-not-configured":
                if self.managed is None and self.report.resolved:
                    continue  # the repair has the command
                remedy = Remedy(TO_KEEP, self.pipeline(options))
                others.append(finding._replace(remedy=remedy))
            elif finding.target == HostLayout.config_path and self._must_restore(options):
                others.append(finding._replace(remedy=None))  # the repair has the commands
            elif finding.name not in (*ESCAPES, "action", "unsafe", "repair-cost"):
                others.append(finding)
        yield from _block(finding_lines(others, who))
        last = [remedy.text_for(who) for remedy in remedies if remedy is not None]
        yield from _block(capped([f"{text[0].upper()}{text[1:]}" for text in last]))

    def _repair_lines(self, options: str, who: str, note: str) -> Iterator[str]:
        """The repair for good; and until the next boot, where the gate would not delete it."""
        commands = repair_commands(self.report.resolved)
        if not commands:
            return
        part = ""
        if any(finding.name == "unsafe" for finding in self.findings):
            part = " (repairs only a part)"
        yield ""
        if self.managed is not None and self._must_restore(options):
            yield MANAGED
            yield f"Permanently, {who}, with a copy of {HostLayout.config_path}{part}:"
            yield f"  {with_a_copy(options)}"
            yield f"Without a copy, {GIVEN_UP}; permanently, {who}{part}:"
        elif self.managed is not None:
            yield MANAGED
            yield from consent_lines(self.managed)
            yield f"Permanently, {who}{part}{note}:"
        else:
            unless = ", unless hostrouting is installed there" if self.is_elsewhere else ""
            yield f"Until the next boot, {who}{part}{unless}:"
            yield from capped([f"  {command}" for command in commands])
            yield f"Permanently, {who}{part}{note}:"
        yield f"  {self.pipeline(options)}"

    def _must_restore(self, options: str) -> bool:
        """Whether the repair needs the installed configuration, which cannot be used."""
        if self.managed is None or self.managed.is_readable or not self.report.resolved:
            return False
        return "--config" not in options

    def pipeline(self, options: str = "") -> str:
        """The line to type that repairs this host for good; `repair` gets these options."""
        return repair_pipeline(options, self.managed)

    def gate_command(self, options: str, file: str) -> str:
        """The line to type that applies this file, with a repair if addresses would escape."""
        if self.report.routes or (self.managed and self.managed.unconfigured):
            return self.pipeline(options)
        return f"hostrouting apply --config {file}"


def find_typed(snapshot: Snapshot) -> tuple[Finding, ...]:
    """That routes of ours were typed, on a host where nothing is installed that would keep them."""
    typed = [str(route.prefix) for route in snapshot.routes if route.protocol == OURS]
    if not typed:
        return ()
    are = "is" if len(typed) == 1 else "are"
    sentence = f"{counted(len(typed), 'route')} of hostrouting {are} set until the next boot"
    remedy = Remedy(TO_KEEP, repair_pipeline(" CIDR"))
    facts = {"unconfigured": typed, "ranges": [], "routes": []}
    target = spoken(typed)
    return (Finding("route-not-configured", "warning", sentence, target, remedy, facts),)


def _block(lines: Iterable[str]) -> Iterator[str]:
    """The lines, after an empty one if there are any."""
    for number, line in enumerate(lines):
        if number == 0:
            yield ""
        yield line


def consent_lines(managed: Managed) -> Iterator[str]:
    """What the repair takes away on this host."""
    if not managed.is_readable:
        yield "The installed configuration cannot be read: that of the repair takes its place."
    for loss in managed.losses:
        yield f"The repair takes something away: {loss}"


def repair_pipeline(options: str = "", managed: Managed | None = None) -> str:
    """The line to type that repairs this host for good; `repair` gets these options."""
    repair, apply = f"hostrouting repair{options}", "hostrouting apply --config -"
    if managed is None:
        return f"{repair} | {apply}"
    if not managed.is_readable and "--config" not in options:
        return without_a_copy(options, managed.gated)
    if managed.needs_consent:
        apply += " --allow-removal"
    apply += gate_options(managed.gated)
    return f"{repair} | {apply}"


def with_gate_command(findings: Iterable[Finding], apply: str) -> tuple[Finding, ...]:
    """The findings; to gate the units that are not gated, this command is typed with their names.

    Without a command, they have no remedy.
    """
    findings = tuple(findings)
    units = [finding.target for finding in findings if finding.name == "unit-not-gated"]
    options = "".join(f" --gate {unit}" for unit in units)
    remedy = Remedy(command=f"{apply}{options}") if apply else None
    changed: list[Finding] = []
    for finding in findings:
        if finding.name == "unit-not-gated":
            changed.append(finding._replace(remedy=remedy))
        else:
            changed.append(finding)
    return tuple(changed)


def make_check(
    config: HostRoutingConfig,
    host: Host,
    saved: str | None = None,
    *,
    repaired: HostRoutingConfig | None = None,
) -> Check:
    """Check this host, or the one in a saved snapshot; `repaired` as in `Check.of`."""
    if saved is not None:
        return Check.of(check_snapshot(read_host(host, saved), config), config)
    with open_kernel(host) as kernel:
        report = check_kernel(kernel, config, name_servers=host.name_servers)
    return Check.of(report, config, host, repaired=repaired)


def code_with(arguments: argparse.Namespace, code: int, findings: Iterable[Finding]) -> int:
    """The exit code, which is 1 if there is a warning, and --fail-on asks for that."""
    counting = (finding for finding in findings if finding.name not in arguments.ignore)
    return (
        PROBLEM
        if arguments.fail_on and any(finding.severity != "note" for finding in counting)
        else code
    )
