"""CheckRouteOverlap: every address of the expected CIDRs leaves by an expected device, or the task says where else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import phases
from hostrouting.check.examine import Examination, examine
from hostrouting.check.report import check_document, check_findings
from hostrouting.config.values import Mode
from hostrouting.errors import FileError, RouteOverlapError
from hostrouting.finding import ESCAPES, SHOWN, Finding, first_lines, of_severity
from hostrouting.tasks.install import SectionTask
from hostrouting.tasks.results import CheckResult, Plan

_WRONG = (*ESCAPES, "no-default-route")
_REMEDIES = ("missing-rule", "action", "unsafe", "repair-cost")


class CheckRouteOverlap(SectionTask):
    """Check that every address of the expected CIDRs leaves by an expected device, now and before gated units start.

    In WARN an overlap is logged; in STRICT it raises RouteOverlapError. The markers under /run say the same, also to
    other programs; if they cannot be written, that is a warning: only the routes decide.
    """

    name: ClassVar[str] = "check-route-overlap"
    section: ClassVar[str] = "route_overlap"
    nothing: ClassVar[str] = "no expected CIDRs are configured, and the check is not installed"

    def planned(self) -> Plan:
        """See SectionTask. A check changes nothing."""
        return Plan()

    def carry_out(self, ctx: phases.Context) -> CheckResult | phases.Skip:
        """See SectionTask."""
        check = self.config.route_overlap
        if not check.expected_cidrs:
            return phases.Skip(self.nothing)
        if self.host.backend is None:
            return CheckResult()
        with self.host.backend() as backend:
            examination = examine(ctx, backend, self.config, wait=self.wait)
        findings = check_findings(examination, mode=check.mode, wait=self.wait)
        wrong = [finding for finding in findings if finding.name in _WRONG]
        remedies = [finding for finding in findings if finding.name in _REMEDIES]
        is_refused = bool(wrong) and check.mode is Mode.STRICT
        lines = (*first_lines(wrong), *first_lines(remedies))
        # In STRICT the error names the escapes, and its receiver reports them; only the rest is logged here.
        for line in () if is_refused else lines:
            ctx.log.warning("%s", line)
        rest = [finding for finding in findings if finding.name not in (*_WRONG, *_REMEDIES)]
        for finding in (finding for level in ("warning", "note") for finding in [*of_severity(rest, level)][:SHOWN]):
            ctx.log.log(finding.level, "%s", finding)
        try:
            self._mark(examination, wrong, findings)
        except FileError as error:
            ctx.log.warning("%s", error)
        if is_refused:
            document = check_document(examination, mode=check.mode, findings=findings)
            raise RouteOverlapError("; ".join(lines), findings=findings, report=examination, check=document)
        return CheckResult(examination=examination)

    def _mark(self, examination: Examination, wrong: Iterable[Finding], findings: Iterable[Finding]) -> None:
        """Write the marker of this verdict, as the boot script does; undecided has none."""
        files, layout, verdict = self.host.files, self.host.layout, examination.verdict
        texts: dict[str, str] = {}
        if verdict == "ok":
            texts[layout.ok_path] = _text((verdict, *map(str, findings)))
        elif verdict != "undecided":
            lines = ["no-default-route"] if verdict == "no-default-route" else [finding.line for finding in wrong]
            texts[layout.detected_path] = _text(lines)
        for path in layout.markers:
            if path not in texts:
                files.remove(path)
        for path, text in texts.items():
            files.write(path, text)


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
