"""The check of a host for an operator: its findings have the commands for this host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hostrouting.check.check import check_kernel
from hostrouting.check.document import check_document
from hostrouting.check.repair_line import line_to_allow, repair_line, repeated_option
from hostrouting.check.sentences import check_findings
from hostrouting.finding import Finding, Name, Remedy
from hostrouting.probe.obstacles import find_probe_obstacles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hostrouting.check.results import CheckReport
    from hostrouting.config.settings import HostRoutingConfig, Mode
    from hostrouting.host.host import Host


class HostCheck(NamedTuple):
    """The report of a check, with the findings that an operator reads: these have the commands for
    this host.
    """

    report: CheckReport
    mode: Mode
    findings: tuple[Finding, ...]
    repair_options: str
    """The options that a command `hostrouting repair` needs for this host (`repair_line`)."""

    @classmethod
    def of_report(
        cls, report: CheckReport, config: HostRoutingConfig, *, repair_options: str = ""
    ) -> HostCheck:
        """Make the HostCheck of a report, which a check against `config` has returned.
        `repair_options` are the options that the commands `hostrouting repair` in its findings
        need, such as ` --config FILE`.
        """
        return cls(
            report,
            config.route_overlap.mode,
            tuple(_findings_for_operator(report, config, repair_options)),
            repair_options,
        )

    def named(self, *names: Name) -> list[Finding]:
        """The findings with one of these names."""
        return [finding for finding in self.findings if finding.name in names]

    @property
    def doubts(self) -> list[Finding]:
        """The findings that make the verdict undecided, or would if no address escaped. In contrast
        to `report.doubts`, they have the remedies for this host.
        """
        return self.named(*(doubt.name for doubt in self.report.doubts))

    def document(self) -> dict[str, Any]:
        """The JSON value `hostrouting/check/1`."""
        return check_document(self.report, mode=self.mode, findings=self.findings)


def check_host(config: HostRoutingConfig, host: Host) -> HostCheck:
    """Check this host, as it is now, against `config`, which is installed."""
    with host.open_kernel() as kernel:
        return HostCheck.of_report(check_kernel(kernel, config), config)


def _findings_for_operator(
    report: CheckReport, config: HostRoutingConfig, repair_options: str
) -> Iterator[Finding]:
    """Yield the findings of the check, each with the commands that an operator can type on this
    host. Then yield what keeps rewritten probes from the pods.
    """
    for finding in check_findings(report, mode=config.route_overlap.mode):
        remedy = finding.remedy
        # "action" names the routes that would repair the host (`report.routes`), and has no remedy
        # if they would replace routes of ours.
        if finding.name == "action" and remedy:
            remedy = Remedy("for good", repair_line(repair_options))
        # Packets may be meant to leave through these devices: the command allows that.
        elif remedy and "mayAllow" in finding.facts:
            remedy = remedy._replace(
                command=line_to_allow(repair_options, finding.facts["mayAllow"])
            )
        # Only the operator knows which device is right, so there is a command for each.
        if finding.name == "default-routes" or finding.facts.get("reason") == "no-device":
            # A finding of default routes has the devices that the default routes name. The other
            # one has none, so the expected devices are offered. Those of the first family are
            # enough, because only devices that are right for both count below.
            devs = finding.facts.get("candidates", report.families[0].expected_devs)
            for dev in reversed(devs):  # each turn puts its command in front of the others
                # --dev counts for IPv4 and IPv6, so the device has to be right for both. Each
                # family must expect it, or have the same finding, and so the same candidates.
                if all(
                    dev in family.expected_devs or finding in family.flaws
                    for family in report.families
                ):
                    remedy = Remedy(
                        f"if {dev} is right",
                        repair_line(repair_options + repeated_option("--dev", [dev])),
                        otherwise=remedy,
                    )
        yield finding._replace(remedy=remedy)
    yield from find_probe_obstacles(config, report.snapshot)
