"""What the tasks would do, and what they did: values for plans, reports and logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hostrouting.check.check import check_snapshot
from hostrouting.check.proposal import find_unconfigured
from hostrouting.check.report import check_document, check_findings
from hostrouting.finding import WRONG, Finding, worst_first
from hostrouting.host.effects import Effects, Operation
from hostrouting.host.fileset import FileChanges
from hostrouting.routes.plan import RoutePlan
from hostrouting.text import first_of

if TYPE_CHECKING:
    from hostrouting.check.check import CheckReport
    from hostrouting.config.settings import HostRoutingConfig, Mode
    from hostrouting.model.prefix import IP
    from hostrouting.model.snapshot import Snapshot


@attrs.frozen
class Plan:
    """What a task would do to files, routes and the rest of the host, and the check afterwards."""

    files: FileChanges = attrs.field(factory=FileChanges)
    needs_reload: bool = False
    """Whether one of our files has changed or gone since systemd last read it."""
    routes: RoutePlan = attrs.field(factory=RoutePlan)
    operations: tuple[Operation, ...] = ()
    """Changes that concern neither routes nor files."""
    findings: tuple[Finding, ...] = ()
    """What there is to tell about the host as it is; an error makes the run fail."""
    report: CheckReport | None = None
    """The check of the host as it would be.

    None if nothing is expected, or if a route conflicts or waits.
    """
    mode: Mode = "WARN"
    """What happens if an address escapes in this check."""

    @property
    def is_empty(self) -> bool:
        routes = self.routes.changes or self.routes.conflicts
        return not (routes or self.files or self.needs_reload or self.operations)

    @property
    def changes_kernel(self) -> bool:
        """Whether routes or other state of the kernel would change, now or once nothing is missing
        any more.
        """
        return bool(self.operations or self.routes.changes or self.routes.pending)

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def failures(self) -> tuple[Finding, ...]:
        """What would make the run fail on the host as it is now.

        A run waits for what its routes need and for a default route. It fails if they do not come.
        """
        failures = [*self.errors, *self.routes.waits]
        if self.mode == "STRICT":
            failures += [finding for finding in self.check_findings if finding.name in WRONG]
        return tuple(dict.fromkeys(failures))

    @property
    def check_findings(self) -> tuple[Finding, ...]:
        """The findings of the check of the host as it would be."""
        return () if self.report is None else check_findings(self.report, mode=self.mode)

    @property
    def would_fail(self) -> str:
        """Why the run would fail, for `phases.plan`; empty if it would succeed."""
        return "; ".join(first_of([*map(str, self.failures)]))

    def __add__(self, other: Plan) -> Plan:
        """Both together; at most one of them may have steps for routes, and at most one a check."""
        return Plan(
            FileChanges(
                (*self.files.files, *other.files.files), (*self.files.removes, *other.files.removes)
            ),
            self.needs_reload or other.needs_reload,
            other.routes if self.routes == RoutePlan() else self.routes,
            (*self.operations, *other.operations),
            worst_first((*self.findings, *other.findings)),
            self.report or other.report,
            other.mode if self.report is None else self.mode,
        )

    def with_check(self, config: HostRoutingConfig, snapshot: Snapshot) -> Plan:
        """The same with the check of the host of this snapshot after the plan was carried out."""
        if not config.route_overlap.cidrs or self.routes.conflicts or self.routes.pending:
            return self
        report = check_snapshot(self.routes.apply_to(snapshot), config)
        unconfigured = find_unconfigured(self.routes, snapshot, config, after=report)
        findings = worst_first((*self.findings, *unconfigured))
        return attrs.evolve(self, findings=findings, report=report, mode=config.route_overlap.mode)

    def to_mapping(self) -> dict[str, object]:
        steps, report = self.routes.steps, self.report
        return {
            "wouldFail": self.would_fail,
            "steps": [
                {"action": step.action, "route": str(step.route), "reason": step.why}
                for step in steps
            ],
            "operations": [operation._asdict() for operation in self.operations],
            "writes": list(self.files.writes),
            "removes": list(self.files.removes),
            "findings": [finding.to_mapping() for finding in self.findings],
            "check": None if report is None else check_document(report, mode=self.mode),
        }

    def __str__(self) -> str:
        lines = [str(self.routes)] if self.routes.steps or self.routes.pending else []
        lines += map(str, self.operations)
        lines += [f"write {path}" for path in self.files.writes]
        lines += [f"remove {path}" for path in self.files.removes]
        lines += ["have systemd read its files again"] if self.needs_reload else []
        lines = lines or ["nothing to do"]
        lines += map(str, self.findings)
        if self.report is not None:
            lines += [f"afterwards: {family}" for family in self.report.families]
            lines += [str(finding) for finding in self.check_findings if finding.name == "action"]
        return "\n".join(lines)


@attrs.frozen
class CheckResult(Effects):
    """What CheckRouteOverlap found and did; from Configure, also what its other tasks did."""

    report: CheckReport | None = attrs.field(default=None, kw_only=True)
    """None for an image, and where no CIDRs are expected."""

    @property
    def node_ips(self) -> dict[int, IP]:
        """The address of the expected device, by family (4, 6) if there is exactly one: kubelet's
        `--node-ip`.
        """
        return {} if self.report is None else self.report.node_ips

    def __str__(self) -> str:
        return super().__str__() if self.report is None else f"{self.report}\n{super().__str__()}"

    def log_fields(self) -> dict[str, object]:
        report = self.report
        fields = (
            {} if report is None else {"verdict": report.verdict, "findings": len(report.escapes)}
        )
        return {**fields, **super().log_fields()}

    def to_mapping(self) -> dict[str, object]:
        """What was done and found, with the keys of `hostrouting/check/3`."""
        check = {} if self.report is None else check_document(self.report, mode="WARN")
        return {
            **super().to_mapping(),
            **{key: check[key] for key in check if key not in {"schema", "mode"}},
        }
