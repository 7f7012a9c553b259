"""The check of a host, with what else there is to tell about this host: what is installed there,
what undoes or hinders a repair, and whose session the repair would move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hostrouting.check.check import check_kernel, check_snapshot
from hostrouting.check.document import check_document
from hostrouting.check.sentences import check_findings
from hostrouting.codes import CANNOT_DECIDE, FINE, PROBLEM
from hostrouting.errors import BackendError
from hostrouting.finding import ESCAPES, Finding, Remedy
from hostrouting.install.obstacles import find_networkd, find_probe_obstacles
from hostrouting.install.pipeline import TO_KEEP, repair_pipeline, with_typed_options
from hostrouting.install.session import find_session_at_risk
from hostrouting.model.route import OURS
from hostrouting.model.snapshot import Snapshot
from hostrouting.text import counted, spoken

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from contextlib import AbstractContextManager

    from hostrouting.check.results import CheckReport
    from hostrouting.config.settings import HostRoutingConfig, Mode
    from hostrouting.host.host import Host
    from hostrouting.install.managed import Managed
    from hostrouting.kernel.base import RouteBackend


class HostCheck(NamedTuple):
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
        options: str = "",
    ) -> HostCheck:
        """The report of a check against this configuration, of this host or of a snapshot.

        `repaired` is the configuration to which a repair adds its routes, if it is another one, and
        `options` are those with which `repair` has it.
        """
        mode = config.route_overlap.mode
        snapshot = report.snapshot
        findings = [*check_findings(report, mode=mode), *find_probe_obstacles(config, snapshot)]
        if host is None:
            typed = with_typed_options(dict.fromkeys(findings), options)
            return cls(report, mode, typed, is_elsewhere=True)
        if config.static_routes.enabled or report.routes:
            findings += find_networkd(config, host.files)
        managed = None
        if host.may_have_ours:
            from hostrouting.install.managed import find_managed  # noqa: PLC0415  most hosts that are checked have none

            managed = find_managed(host, repaired or config, snapshot)
        if managed is None:
            findings += find_typed(snapshot)
        else:
            if managed.is_readable:  # else the file comes first
                from hostrouting.check.proposal import find_by_hand  # noqa: PLC0415  most hosts that are checked have none

                pipeline = repair_pipeline(options, managed)
                findings += find_by_hand(config, now=report, pipeline=pipeline)
            findings += managed.unconfigured
        repaired_prefixes = [route.prefix for route in report.resolved]
        findings += find_session_at_risk(
            host, repaired_prefixes, snapshot, after=lambda: snapshot.with_routes(report.resolved)
        )
        return cls(
            report, mode, with_typed_options(dict.fromkeys(findings), options, managed), managed
        )

    @property
    def is_wrong(self) -> bool:
        """Whether addresses escape, or there is no default route."""
        return self.report.verdict not in {"ok", "undecided"}

    def code(self, ignored: Collection[str] = ()) -> int:
        """The exit code of the verdict, as if there were no findings with these names."""
        doubts = {doubt.sentence for doubt in self.report.doubts}
        code = FINE
        for finding in self.findings:
            if finding.name in ignored:
                continue
            if finding.name in ESCAPES:
                return PROBLEM
            if finding.sentence in doubts or finding.name == "no-default-route":
                code = CANNOT_DECIDE
        return code

    def document(self) -> dict[str, Any]:
        """The JSON value `hostrouting/check/3`."""
        return check_document(self.report, mode=self.mode, findings=self.findings)


def check_host(
    config: HostRoutingConfig,
    host: Host,
    saved: str | None = None,
    *,
    repaired: HostRoutingConfig | None = None,
    options: str = "",
) -> HostCheck:
    """Check this host, or the one in a saved snapshot; `repaired` and `options` as in
    `HostCheck.of`.
    """
    if saved is not None:
        report = check_snapshot(read_host(host, saved), config)
        return HostCheck.of(report, config, options=options)
    with open_kernel(host) as kernel:
        report = check_kernel(kernel, config, name_servers=host.name_servers)
    return HostCheck.of(report, config, host, repaired=repaired, options=options)


def find_typed(snapshot: Snapshot) -> Iterator[Finding]:
    """That routes of ours were typed, on a host where nothing is installed that would keep them."""
    typed = [str(route.prefix) for route in snapshot.routes if route.protocol == OURS]
    if not typed:
        return
    are = "is" if len(typed) == 1 else "are"
    sentence = f"{counted(len(typed), 'route')} of hostrouting {are} set until the next boot"
    remedy = Remedy(TO_KEEP, repair_pipeline(" CIDR"))
    facts = {"unconfigured": typed, "ranges": [], "routes": []}
    yield Finding("route-not-configured", "warning", sentence, spoken(typed), remedy, facts)


def read_host(host: Host, saved: str | None = None) -> Snapshot:
    """The snapshot of this host, or a saved one."""
    if saved is not None:
        return Snapshot.load(saved)
    with open_kernel(host) as kernel:
        return kernel.snapshot()._replace(name_servers=host.name_servers)


def open_kernel(host: Host) -> AbstractContextManager[RouteBackend]:
    """Connect to the routing of this host's kernel for a `with` block."""
    if host.backend is None:
        sentence = "an image has no kernel; use a snapshot of its host, with --snapshot"
        raise BackendError(sentence, kind="unavailable")
    return host.backend()
