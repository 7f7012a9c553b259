"""The check of a host for an operator: its findings have the commands for this host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hostrouting.check.check import check_kernel
from hostrouting.check.document import check_document
from hostrouting.check.repair_line import line_to_allow, repair_line, typed
from hostrouting.check.sentences import check_findings
from hostrouting.codes import CANNOT_DECIDE, FINE, PROBLEM
from hostrouting.finding import ESCAPES, Finding, Name, Remedy
from hostrouting.probe.obstacles import find_probe_obstacles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.check.results import CheckReport
    from hostrouting.config.settings import HostRoutingConfig, Mode
    from hostrouting.host.host import Host


class HostCheck(NamedTuple):
    """The report of a check, with the findings that an operator reads."""

    report: CheckReport
    mode: Mode
    findings: tuple[Finding, ...]
    repair_options: str
    """The options that a command `hostrouting repair` needs for this host (`repair_line`)."""

    @classmethod
    def of_snapshot(
        cls, report: CheckReport, config: HostRoutingConfig, *, repair_options: str
    ) -> HostCheck:
        """Add the findings for an operator to the report of a snapshot that was checked against
        `config`. `repair_options`: see the field.
        """
        return cls(
            report,
            config.route_overlap.mode,
            tuple(_findings_of(report, config, repair_options)),
            repair_options,
        )

    def named(self, *names: Name) -> list[Finding]:
        """The findings with one of these names."""
        return [finding for finding in self.findings if finding.name in names]

    @property
    def doubts(self) -> list[Finding]:
        """The findings because of which a verdict is undecided, or would be if nothing escaped:
        those with the name of a doubt in the report, whose finding may have another remedy.
        """
        return self.named(*(doubt.name for doubt in self.report.doubts))

    def code(self) -> int:
        """The exit code of the verdict. A missing default route is an error, but has the code of a
        doubt: nobody knows through which device addresses should leave.
        """
        if self.named(*ESCAPES):
            return PROBLEM
        if self.doubts or self.named("no-default-route"):
            return CANNOT_DECIDE
        return FINE

    def document(self) -> dict[str, Any]:
        """The JSON value `hostrouting/check/1`."""
        return check_document(self.report, mode=self.mode, findings=self.findings)


def check_host(config: HostRoutingConfig, host: Host, *, repair_options: str = "") -> HostCheck:
    """Check this host, as it is now, against `config`. `repair_options` are the options of the
    command `hostrouting repair` that the findings propose, such as ` --config FILE`.
    """
    with host.open_kernel() as kernel:
        return HostCheck.of_snapshot(
            check_kernel(kernel, config), config, repair_options=repair_options
        )


def _findings_of(
    report: CheckReport, config: HostRoutingConfig, repair_options: str
) -> Iterator[Finding]:
    """Yield the findings of the check, with the commands that fit this host; then what hinders the
    probe rewrite. The finding "action" is about the routes of a repair (`report.routes`), and gets
    the command that sets them. A finding that a device may be allowed gets the command for this.
    One about several default routes gets a command for each device; that which Linux prefers is
    last, because what is there now may lead through another one.
    """
    configured = {route.key for route in config.static_routes.routes}
    for finding in check_findings(report, mode=config.route_overlap.mode):
        remedy = finding.remedy
        if finding.name == "action":
            if configured.issuperset(route.key for route in report.routes):
                remedy = None  # there is nothing to add to the configuration by hand
            remedy = Remedy("for good", repair_line(repair_options), otherwise=remedy)
        elif remedy and "mayAllow" in finding.facts:
            remedy = remedy._replace(
                command=line_to_allow(repair_options, finding.facts["mayAllow"])
            )
        for dev in finding.facts.get("candidates", {}):
            remedy = Remedy(
                f"if {dev} is right",
                repair_line(repair_options + typed("--dev", [dev])),
                otherwise=remedy,
            )
        yield finding._replace(remedy=remedy)
    yield from find_probe_obstacles(config, report.snapshot)
