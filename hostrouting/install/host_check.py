"""The check of a host, with what else there is to tell about this host: what escapes after its next
boot, what hinders a repair, and what the repair would take away.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from hostrouting.check.check import check_kernel
from hostrouting.check.document import check_document
from hostrouting.check.next_boot import find_lost_at_boot
from hostrouting.check.repair_line import RepairLine
from hostrouting.check.sentences import check_findings
from hostrouting.codes import CANNOT_DECIDE, FINE, PROBLEM
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import Fault, HostError, HostRoutingError, is_denied
from hostrouting.finding import ESCAPES, Finding, Name, Remedy
from hostrouting.host.layout import HostLayout
from hostrouting.install.gateways import find_silent_gateways
from hostrouting.install.networkd import find_networkd
from hostrouting.install.typed_commands import GUARD_IS_MASKED
from hostrouting.probe.obstacles import find_probe_obstacles

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from hostrouting.check.results import CheckReport
    from hostrouting.config.settings import Mode
    from hostrouting.host.host import Host


class HostCheck(NamedTuple):
    """The report of a check with its findings."""

    report: CheckReport
    mode: Mode
    findings: tuple[Finding, ...]
    repair: RepairLine = RepairLine()
    """How the repair is typed."""
    losses: tuple[Fault, ...] = ()
    """What protects the host now, and the repair takes away: it is for another configuration."""

    @classmethod
    def of_snapshot(
        cls, report: CheckReport, config: HostRoutingConfig, *, repair_options: str = ""
    ) -> HostCheck:
        """The check of a snapshot against this configuration."""
        repair = RepairLine(repair_options)
        findings = tuple(_findings_of(report, config, repair))
        return cls(report, config.route_overlap.mode, findings, repair)

    def named(self, *names: Name) -> list[Finding]:
        """The findings with one of these names."""
        return [finding for finding in self.findings if finding.name in names]

    @property
    def doubts(self) -> list[Finding]:
        """The findings because of which a verdict is undecided, or would be. Each has the name and
        the target of a doubt of the report, and perhaps another remedy.
        """
        doubts = {(doubt.name, doubt.target) for doubt in self.report.doubts}
        return [finding for finding in self.findings if (finding.name, finding.target) in doubts]

    def code(self, ignored: Collection[str] = ()) -> int:
        """The exit code of the verdict, as if there were no findings with these names. A host
        without a default route is wrong, but has the code of a doubt: through which device
        addresses should leave is not known.
        """
        if any(finding.name not in ignored for finding in self.named(*ESCAPES)):
            return PROBLEM
        undecided = [*self.named("no-default-route"), *self.report.doubts]
        if any(finding.name not in ignored for finding in undecided):
            return CANNOT_DECIDE
        return FINE

    def document(self) -> dict[str, Any]:
        """The JSON value `hostrouting/check/3`."""
        return check_document(self.report, mode=self.mode, findings=self.findings)


def check_host(
    config: HostRoutingConfig,
    host: Host,
    *,
    to_repair: HostRoutingConfig | None = None,
    repair_options: str = "",
) -> HostCheck:
    """Check this host against `config`.

    `to_repair` is the configuration to which a repair adds its routes, if that is not `config`
    itself: where CIDRs were typed, it also expects those of the known configuration, and is the
    same otherwise. `repair_options` are those of RepairLine.
    """
    with host.open_kernel() as kernel:
        report = check_kernel(kernel, config, name_servers=host.name_servers)
    if to_repair is None:
        to_repair = config
    installed, losses = _what_is_installed(host, to_repair)
    repair = RepairLine(repair_options, needs_consent=bool(losses))
    findings = [*_findings_of(report, config, repair)]
    findings += find_silent_gateways(config, host.files, report.snapshot)
    if config.static_routes.enabled or report.routes:  # what networkd could delete
        findings += find_networkd(config, host.files)
    if to_repair.guard.enabled and _is_guard_masked(host):
        findings.append(GUARD_IS_MASKED)
    if installed is not None:
        findings += find_lost_at_boot(
            report, config, installed, Remedy("to keep them", repair.line())
        )
    return HostCheck(report, config.route_overlap.mode, tuple(findings), repair, losses)


def _what_is_installed(
    host: Host, config: HostRoutingConfig
) -> tuple[HostRoutingConfig | None, tuple[Fault, ...]]:
    """The installed configuration, which asks for nothing if none is, or None if it cannot be read;
    and what protects the host now, and a repair for this configuration takes away.
    """
    if not host.may_have_ours:
        return HostRoutingConfig(), ()
    from hostrouting.install.installed import read_installed  # noqa: PLC0415  see Host.may_have_ours
    from hostrouting.install.losses import find_losses  # noqa: PLC0415

    try:
        installed = read_installed(host)
    except HostRoutingError as error:
        if is_denied(error):  # root can perhaps read it
            return None, ()
        rule = "cannot be read, so nobody knows what it protects"
        return None, (Fault(HostLayout.config_path, "", rule),)
    return installed, tuple(find_losses(installed, config))


def _is_guard_masked(host: Host) -> bool:
    """Whether systemd refuses to start the guard; false if it does not answer."""
    from hostrouting.gate.unit_states import is_masked_unit  # noqa: PLC0415  see Host.may_have_ours

    manager = host.running_manager
    if manager is None:
        return False
    with suppress(HostError):
        return is_masked_unit(manager, HostLayout.guard_unit)
    return False


def _findings_of(
    report: CheckReport, config: HostRoutingConfig, repair: RepairLine
) -> Iterator[Finding]:
    """The findings of the check, and what hinders the probe rewrite."""
    for finding in check_findings(report, mode=config.route_overlap.mode, repair=repair):
        if finding.name == "action":
            remedy = Remedy("for good", repair.line(), otherwise=finding.remedy)
            yield finding._replace(remedy=remedy)
        else:
            yield finding
    yield from find_probe_obstacles(config, report.snapshot)
