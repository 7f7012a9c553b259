"""CheckRouteOverlap: the check that every address of the expected CIDRs leaves through an expected
device.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import attrs

import phases
from hostrouting.check.check import check_kernel, find_what_may_come
from hostrouting.check.document import check_document
from hostrouting.check.marker import leave_marker, remove_markers
from hostrouting.check.sentences import check_findings
from hostrouting.errors import HostError, NotReady, RouteOverlapError
from hostrouting.finding import WRONG, worst_first
from hostrouting.host.effects import Effects
from hostrouting.install.plan import Plan
from hostrouting.install.task import SectionTask
from hostrouting.kernel.awaiting import await_result
from hostrouting.text import first_of

if TYPE_CHECKING:
    from hostrouting.check.results import CheckReport
    from hostrouting.config.settings import HostRoutingConfig, Mode
    from hostrouting.finding import Finding
    from hostrouting.install.wanted import Wanted
    from hostrouting.model.snapshot import Snapshot

_SHOWN = 20
"""So many are in a log or an error: of what is wrong, of the remedies, and the worst of the other
findings. The result and the JSON document have all.
"""
_REMEDY_NAMES = ("action", "unsafe")
"""The findings that say what to do about what is wrong: they come after that, in the error, too."""


@attrs.frozen
class CheckResult(Effects):
    """What CheckRouteOverlap found and did; from Configure, also what its other tasks did."""

    report: CheckReport | None = attrs.field(default=None, kw_only=True)
    """None for an image, and where no CIDRs are expected."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the check found, as in the JSON document; empty without a report. In STRICT, nothing
        is wrong where there is a result: what was would have raised.
        """
        if self.report is None:
            return ()
        return check_findings(self.report)

    def log_fields(self) -> dict[str, object]:
        fields = super().log_fields()
        if self.report is None:
            return fields
        return {"verdict": self.report.verdict, "findings": len(self.findings), **fields}

    def to_mapping(self) -> dict[str, object]:
        """What was done and found, with the keys of `hostrouting/check/1`."""
        values = super().to_mapping()
        if self.report is None:
            return values
        document = check_document(self.report, mode="WARN")
        del document["schema"], document["mode"]  # they are not those of a task
        return values | document


class CheckRouteOverlap(SectionTask):
    """Check that every address of the expected CIDRs leaves through an expected device, now and at
    gated starts.

    In WARN an overlap is logged; in STRICT it raises RouteOverlapError. The markers under /run tell
    other programs; if no marker can be written, this is logged as a warning, because only the
    routes decide.
    """

    name = "check-route-overlap"
    section: ClassVar[str] = "route_overlap"
    checks_the_result: ClassVar[bool] = True
    reason_to_skip: ClassVar[str] = (
        "no expected CIDRs are configured, and the check is not installed"
    )

    def planned(self, _wanted: Wanted, _read_snapshot: Callable[[], Snapshot]) -> Plan:
        return Plan()  # a check changes nothing

    def carry_out(self, ctx: phases.Context, wanted: Wanted) -> CheckResult | phases.Skip:
        settings = wanted.config.route_overlap
        if not settings.cidrs:
            return phases.Skip(self.reason_to_skip)  # the step before this one has removed it
        if self.host.is_image:
            return CheckResult()
        report = self._check_kernel(wanted.config, ctx)
        try:
            # Whoever had the lock meanwhile may have changed the routes, and left its own marker.
            # If another run has replaced this section, the markers are left to that run: NotReady.
            with self.changing(ctx, wanted) as config:
                report = self._check_kernel(config)
                findings = check_findings(report, mode=settings.mode)
                leave_marker(self.host.files, report, findings)
        except HostError as error:
            remove_markers(self.host.files)  # also where there was no lock
            ctx.log.warning("%s", error)
        # This raises in STRICT, so the marker has to be there before.
        self._log_or_raise(ctx, report, settings.mode)
        return CheckResult(report=report)

    def _check_kernel(
        self, config: HostRoutingConfig, ctx: phases.Context | None = None
    ) -> CheckReport:
        """Check; with a context, wait for what may still come. If that fails, the markers go: they
        would be about another state.
        """
        try:
            with self.host.open_kernel() as kernel:
                check = partial(check_kernel, kernel, config)

                def attempt() -> tuple[CheckReport | None, str]:
                    report = check()
                    missing = find_what_may_come(report, config)
                    return (None if missing else report), missing

                if ctx is not None:
                    with suppress(NotReady):
                        return await_result(ctx, kernel, attempt, wait=self.wait)
                return check()
        except BaseException:
            # Perhaps without the lock, for which it could wait long: at worst, a marker is gone
            # that another run has just written, and no unit waits for one.
            remove_markers(self.host.files)
            raise

    def _log_or_raise(self, ctx: phases.Context, report: CheckReport, mode: Mode) -> None:
        """Log the findings; in STRICT, raise what is wrong instead, with its remedies."""
        findings = check_findings(report, mode=mode)
        wrong = [finding.line for finding in findings if finding.name in WRONG]
        remedies = [finding.line for finding in findings if finding.name in _REMEDY_NAMES]
        others = [each for each in findings if each.name not in (*WRONG, *_REMEDY_NAMES)]
        for finding in worst_first(others)[:_SHOWN]:
            ctx.log.log(finding.level, "%s", finding, extra={"verdict": report.verdict})

        lines = [*first_of(wrong, _SHOWN), *first_of(remedies, _SHOWN)]
        if wrong and mode == "STRICT":  # not logged, too: whoever catches the error reports it
            document = check_document(report, mode=mode, findings=findings)
            raise RouteOverlapError(
                "; ".join(lines), findings=findings, report=report, check=document
            )
        for line in lines:
            ctx.log.warning("%s", line, extra={"verdict": report.verdict})
