"""CheckRouteOverlap: the check that every address of the expected CIDRs leaves through an expected
device.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import ClassVar

import phases
from hostrouting.check.check import check_kernel
from hostrouting.check.report import check_document, check_findings
from hostrouting.errors import HostError, RouteOverlapError
from hostrouting.finding import SEVERITIES, WRONG
from hostrouting.host.fileset import File
from hostrouting.host.layout import HostLayout
from hostrouting.tasks.install import SectionTask
from hostrouting.tasks.results import CheckResult
from hostrouting.text import first_of

_SHOWN = 20  # findings of one kind in a log or an error
_REMEDIES = ("missing-rule", "action", "unsafe", "repair-cost")


class CheckRouteOverlap(SectionTask):
    """Check that every address of the expected CIDRs leaves through an expected device, now and at
    gated starts.

    In WARN an overlap is logged; in STRICT it raises RouteOverlapError. The markers under /run tell
    other programs; if no marker can be written, this is logged as a warning, because only the
    routes decide.
    """

    name = "check-route-overlap"
    section: ClassVar[str] = "route_overlap"
    step: ClassVar[str] = HostLayout.check_step
    nothing: ClassVar[str] = "no expected CIDRs are configured, and the check is not installed"

    def carry_out(self, ctx: phases.Context) -> CheckResult | phases.Skip:
        check = self.config.route_overlap
        if not check.cidrs:
            return phases.Skip(self.nothing)
        if self.host.backend is None:
            return CheckResult()
        began = ctx.clock.now()
        try:
            with self.host.backend() as backend:
                servers = self.host.name_servers
                report = check_kernel(
                    backend, self.config, ctx=ctx, wait=self.wait, name_servers=servers
                )
        except BaseException:
            with suppress(HostError):
                self._mark(None, ())  # the present ones would be about another state
            raise
        self.require_installed()  # else the markers would be about another configuration
        wait = min(self.wait, round(ctx.clock.now() - began, 1))  # a deadline may have shortened it
        findings = check_findings(report, mode=check.mode, wait=wait)
        wrong = [finding for finding in findings if finding.name in WRONG]
        remedies = [finding for finding in findings if finding.name in _REMEDIES]
        rest = [finding for finding in findings if finding.name not in (*WRONG, *_REMEDIES)]
        lines = [
            text
            for kind in (wrong, remedies)
            for text in first_of([finding.line for finding in kind], _SHOWN)
        ]
        open_families = [family for family in report.families if family.verdict == "undecided"]
        marks: dict[str, tuple[str, Iterable[str]]] = {
            "ok": (HostLayout.ok_path, ("ok", *map(str, findings))),
            "overlap": (HostLayout.detected_path, (finding.line for finding in wrong)),
            "no-default-route": (HostLayout.detected_path, ("no-default-route",)),
            "undecided": (HostLayout.undecided_path, map(str, open_families)),
        }
        try:
            self._mark(*marks[report.verdict])
        except HostError as error:
            ctx.log.warning("%s", error)
        for severity in SEVERITIES:
            for finding in [finding for finding in rest if finding.severity == severity][:_SHOWN]:
                ctx.log.log(finding.level, "%s", finding, extra={"verdict": report.verdict})
        if wrong and check.mode == "STRICT":  # whoever catches it reports what it names
            document = check_document(report, mode=check.mode, findings=findings)
            raise RouteOverlapError(
                "; ".join(lines), findings=findings, report=report, check=document
            )
        for line in lines:
            ctx.log.warning("%s", line, extra={"verdict": report.verdict})
        return CheckResult(report=report)

    def _mark(self, marker: str | None, lines: Iterable[str]) -> None:
        """Write this marker, as the boot script does, and remove the others."""
        for path in HostLayout.markers:
            if path != marker:
                self.host.files.remove(path)
        if marker is not None:
            File(marker, "".join(f"{line}\n" for line in lines)).write(self.host.files)
