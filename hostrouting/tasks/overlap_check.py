"""CheckRouteOverlap: every address of the expected CIDRs leaves as expected, now and before every machine."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar

import attrs

import phases
from hostrouting.errors import RouteOverlapError
from hostrouting.host import Host
from hostrouting.installation import Installation, check_installation
from hostrouting.kernel import Examination, examine
from hostrouting.render import DEFAULT_WAIT
from hostrouting.tasks.boot import announce, take_down
from hostrouting.tasks.results import CheckResult, Preview
from hostrouting.wording import check_document, diversion_line, finding_line, note_line, repair_line, unsafe_line

if TYPE_CHECKING:
    from hostrouting.backends.base import RouteBackend
    from hostrouting.config import HostRoutingConfig

__all__ = ["CheckRouteOverlap"]


@attrs.frozen
class CheckRouteOverlap:
    """Check that every address of the expected CIDRs leaves by an expected device, now and before every machine.

    The gate is in place before the verdict is known, so that a bootstrap that fails here leaves it shut. In WARN an
    overlap is logged; in STRICT it raises RouteOverlapError. Without expected CIDRs there is nothing to
    check, and what was installed for it goes.
    """

    name: ClassVar[str] = "check-route-overlap"
    config: HostRoutingConfig
    host: Host = attrs.field(factory=Host.local, kw_only=True)
    wait: float = attrs.field(default=DEFAULT_WAIT, kw_only=True)
    """How many seconds are waited for what is needed of the host, now and at every boot."""

    def do(self, ctx: phases.Context) -> CheckResult | phases.Skip:
        """See the class."""
        if not self.config.route_overlap.expected_cidrs:
            if not self._present():
                return phases.Skip("no expected CIDRs are configured, and nothing of the check is here")
            with self.host.locked(ctx):
                return CheckResult(None, self._take_down(ctx))
        with self.host.locked(ctx):
            files = self._installation.install(self.host.files)
            announce(ctx, self.host, self.host.layout.check_unit, changed=files)
            if self.host.backend is None:
                return CheckResult(None, files)
            with self.host.backend() as backend:
                found = self._examine(ctx, backend)
            return CheckResult(found, files)

    def plan(self, _ctx: phases.Context) -> Preview:
        """The files that do() would write or remove; changes nothing."""
        if self.config.route_overlap.expected_cidrs:
            return Preview(None, self._installation.differences(self.host.files))
        return self.plan_removal()

    def plan_removal(self) -> Preview:
        """The files that undo() would remove; changes nothing."""
        return Preview(None, self._present(), removes=True)

    def undo(self, ctx: phases.Context) -> CheckResult:
        """Take away what was installed for the check, whatever the configuration says."""
        with self.host.locked(ctx):
            return CheckResult(None, self._take_down(ctx))

    @property
    def _installation(self) -> Installation:
        return check_installation(self.config, self.host.layout, wait=self.wait)

    @property
    def _markers(self) -> tuple[str, ...]:
        layout = self.host.layout
        return (layout.ok_path, layout.detected_path, layout.report_path)

    def _present(self) -> tuple[str, ...]:
        markers = tuple(path for path in self._markers if self.host.files.is_there(path))
        return (*self._installation.present(self.host.files), *markers)

    def _take_down(self, ctx: phases.Context) -> tuple[str, ...]:
        gone = take_down(ctx, self.host, self._installation)
        return (*gone, *(path for path in self._markers if self.host.files.remove(path)))

    def _examine(self, ctx: phases.Context, backend: RouteBackend) -> Examination:
        found = examine(ctx, backend, self.config, wait=self.wait)
        lines = _lines(found)
        for level, line in lines:
            ctx.log.log(level, "%s", line)
        self._mark(found, [line for level, line in lines if level >= logging.WARNING])
        if self.config.route_overlap.mode == "STRICT" and found.report.verdict in {"overlap", "no-default-route"}:
            summary = "; ".join(line for _, line in lines)
            raise RouteOverlapError(summary, report=found)
        return found

    def _mark(self, found: Examination, lines: list[str]) -> None:
        """Leave the verdict where operators and other programs look for it; none is stale at any moment."""
        import json  # noqa: PLC0415  only a check needs it

        files, layout = self.host.files, self.host.layout
        document = check_document(found.report, found.repair, mode=self.config.route_overlap.mode)
        document["verdict"] = found.verdict
        document["notes"] = [*document["notes"], *found.surprises]
        for path in (layout.ok_path, layout.detected_path):
            files.remove(path)
        files.write(layout.report_path, json.dumps(document) + "\n")
        if found.report.verdict == "no-default-route":
            files.write(layout.detected_path, "no-default-route\n")
        elif found.report.findings:
            files.write(layout.detected_path, "\n".join(lines) + "\n")
        elif found.verdict == "ok":
            files.write(layout.ok_path, "")


def _lines(found: Examination) -> list[tuple[int, str]]:
    """What there is to tell, in the order in which an operator needs it, each with how much it matters."""
    report = found.report
    if report.verdict == "no-default-route":
        return [(logging.ERROR, "NO-DEFAULT-ROUTE: there is no IPv4 default route, so nothing is known to be expected")]
    lines = [(logging.ERROR, finding_line(it, report.expected_devs)) for it in report.findings]
    lines += [(logging.ERROR, action)] if (action := repair_line(report, found.repair)) else []
    lines += [(logging.WARNING, f"UNSAFE: {unsafe_line(it)}") for it in found.repair.unsafe]
    lines += [(logging.WARNING, f"NOTE: {diversion_line(it)}") for it in found.repair.diverted]
    lines += [(logging.WARNING, f"NOTE: {note_line(it)}") for it in report.notes]
    lines += [(logging.WARNING, f"NOTE: {it}") for it in found.surprises]
    return lines
