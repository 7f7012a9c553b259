"""The check of a host, with what else there is to tell about this host: what is installed there,
what undoes or hinders a repair, and whose session the repair would move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hostrouting.check.check import check_kernel, check_snapshot
from hostrouting.check.document import check_document
from hostrouting.check.sentences import check_findings, not_configured
from hostrouting.codes import CANNOT_DECIDE, FINE, PROBLEM
from hostrouting.finding import ESCAPES, WRONG, Finding, Name, Remedy
from hostrouting.install.obstacles import find_networkd, find_probe_obstacles
from hostrouting.install.session_risk import find_session_at_risk
from hostrouting.install.typed_commands import TO_KEEP, repair_pipeline, with_typed_options
from hostrouting.model.route import OURS
from hostrouting.model.snapshot import Snapshot
from hostrouting.text import agreeing, counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from hostrouting.check.results import CheckReport
    from hostrouting.config.settings import HostRoutingConfig, Mode
    from hostrouting.host.host import Host
    from hostrouting.install.managed import Managed


class HostCheck(NamedTuple):
    """The report of a check with its findings."""

    report: CheckReport
    mode: Mode
    findings: tuple[Finding, ...]
    repair_command: str
    """What to type as root to repair the host for good."""
    managed: Managed | None = None
    """What is installed on this host, if anything is."""
    is_of_snapshot: bool = False
    """Whether the report is about a snapshot: what is installed on its host is not known."""

    @classmethod
    def of_snapshot(
        cls, report: CheckReport, config: HostRoutingConfig, *, repair_options: str = ""
    ) -> HostCheck:
        """The check of a snapshot against this configuration; `repair_options` as in
        `check_host`.
        """
        pipeline = repair_pipeline(repair_options)
        findings = with_typed_options(_findings_of(report, config, pipeline), repair_options)
        return cls(report, config.route_overlap.mode, findings, pipeline, is_of_snapshot=True)

    @property
    def is_wrong(self) -> bool:
        """Whether addresses escape, or there is no default route."""
        return bool(self.named(*WRONG))

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
    saved: str | None = None,
    *,
    to_repair: HostRoutingConfig | None = None,
    repair_options: str = "",
) -> HostCheck:
    """Check this host, or the one in a saved snapshot, against `config`.

    `to_repair` is the configuration to which a repair adds its routes, and with which what is
    installed is compared, if that is not `config` itself: where CIDRs were typed, it also expects
    those of the known configuration, and is the same otherwise. With `repair_options`, `repair`
    finds it: they are as typed behind that word, so they begin with a space, or are empty.
    """
    if saved is not None:
        report = check_snapshot(take_snapshot(host, saved), config)
        return HostCheck.of_snapshot(report, config, repair_options=repair_options)
    with host.open_kernel() as kernel:
        report = check_kernel(kernel, config, name_servers=host.name_servers)
    if to_repair is None:
        to_repair = config
    snapshot = report.snapshot
    if to_repair != config and host.may_have_ours:
        # The check has read only what CIDRs of `config` need, and `to_repair` has others.
        snapshot = take_snapshot(host)
    managed = managed_here(host, to_repair, snapshot)
    pipeline = _repair_command(repair_options, managed)
    findings = [*_findings_of(report, config, pipeline)]
    if config.static_routes.enabled or report.routes:  # what networkd could delete
        findings += find_networkd(config, host.files)
    if managed is None:
        findings += find_unkept_routes(report.snapshot, repair_options)
    else:
        findings += managed.findings(config, report, pipeline)
    # The routes of the repair, now with the gateway and the device that they get.
    prefixes = [route.prefix for route in report.resolved]
    after_repair = report.snapshot.with_routes(report.resolved)
    findings += find_session_at_risk(host, prefixes, report.snapshot, after_repair)
    shown = with_typed_options(findings, repair_options, managed)
    return HostCheck(report, config.route_overlap.mode, shown, pipeline, managed)


def managed_here(host: Host, config: HostRoutingConfig, snapshot: Snapshot) -> Managed | None:
    """What is installed on this host, for a repair of this configuration; None if nothing is."""
    if not host.may_have_ours:
        return None
    from hostrouting.install.managed import find_managed  # noqa: PLC0415  see Host.may_have_ours

    return find_managed(host, config, snapshot)


def _repair_command(options: str, managed: Managed | None) -> str:
    """What to type to repair this host for good: a repair, unless it is configured already."""
    if managed is not None and managed.is_repaired_by_apply:
        from hostrouting.gate.unit_gates import APPLY  # noqa: PLC0415  see Host.may_have_ours

        return APPLY.command
    return repair_pipeline(options, managed)


def _findings_of(
    report: CheckReport, config: HostRoutingConfig, pipeline: str
) -> Iterator[Finding]:
    """The findings of the check, and what hinders the probe rewrite; the pipeline is the line to
    type that repairs the host.
    """
    for finding in check_findings(report, mode=config.route_overlap.mode):
        if finding.name == "action":
            remedy = Remedy("for good", pipeline, otherwise=finding.remedy)
            yield finding._replace(remedy=remedy)
        else:
            yield finding
    yield from find_probe_obstacles(config, report.snapshot)


def find_unkept_routes(snapshot: Snapshot, repair_options: str = "") -> Iterator[Finding]:
    """That routes of ours were typed, on a host where nothing is installed that would keep them. To
    configure them, `repair` needs a CIDR. Every snapshot has all routes of ours.
    """
    typed = [str(route.prefix) for route in snapshot.routes if route.protocol == OURS]
    if not typed:
        return
    are = agreeing("is", len(typed))
    sentence = f"{counted(len(typed), 'route')} of hostrouting {are} set until the next boot"
    remedy = Remedy(TO_KEEP, repair_pipeline(repair_options or " CIDR"))
    yield not_configured(sentence, typed, remedy)


def take_snapshot(host: Host, saved: str | None = None) -> Snapshot:
    """The snapshot of this host, or a saved one, which has its name servers."""
    if saved is not None:
        return Snapshot.load(saved)
    with host.open_kernel() as kernel:
        return kernel.snapshot()._replace(name_servers=host.name_servers)
