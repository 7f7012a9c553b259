"""What the tasks would do, and what they did: values for plans, reports and logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hostrouting.check.report import check_document
from hostrouting.finding import Finding, worst_first
from hostrouting.host.effects import Effects, Operation
from hostrouting.host.fileset import FileChanges
from hostrouting.routes.plan import RoutePlan

if TYPE_CHECKING:
    from hostrouting.check.check import CheckReport
    from hostrouting.model.prefix import IP


@attrs.frozen
class Plan:
    """What a task would do: files that differ, the steps for routes, other operations, and findings."""

    files: FileChanges = attrs.field(factory=FileChanges)
    needs_reload: bool = False
    """Whether one of our files has changed or gone since systemd last read it."""
    routes: RoutePlan = attrs.field(factory=RoutePlan)
    operations: tuple[Operation, ...] = ()
    """Changes that concern neither routes nor files."""
    findings: tuple[Finding, ...] = ()
    """What there is to tell; an error prevents the run."""

    @property
    def is_empty(self) -> bool:
        routes = self.routes.changes or self.routes.conflicts
        return not (routes or self.files or self.needs_reload or self.operations)

    @property
    def changes_kernel(self) -> bool:
        """Whether routes or other state of the kernel would change, now or once nothing is missing any more."""
        return bool(self.operations or self.routes.changes or self.routes.pending)

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "error")

    def __add__(self, other: Plan) -> Plan:
        """Both together; at most one of them may have steps for routes."""
        return Plan(
            FileChanges((*self.files.files, *other.files.files), (*self.files.removes, *other.files.removes)),
            self.needs_reload or other.needs_reload,
            other.routes if self.routes == RoutePlan() else self.routes,
            (*self.operations, *other.operations),
            worst_first((*self.findings, *other.findings)),
        )

    def to_mapping(self) -> dict[str, object]:
        steps = self.routes.steps
        return {
            "steps": [{"action": step.action, "route": str(step.route), "reason": step.why} for step in steps],
            "operations": [operation._asdict() for operation in self.operations],
            "writes": list(self.files.writes),
            "removes": list(self.files.removes),
            "findings": [finding.to_mapping() for finding in self.findings],
        }

    def __str__(self) -> str:
        lines = [str(self.routes)] if self.routes.steps or self.routes.pending else []
        lines += map(str, self.operations)
        lines += [f"write {path}" for path in self.files.writes]
        lines += [f"remove {path}" for path in self.files.removes]
        lines += ["have systemd read its files again"] if self.needs_reload else []
        return "\n".join((*(lines or ["nothing to do"]), *map(str, self.findings)))


@attrs.frozen
class CheckResult(Effects):
    """What CheckRouteOverlap found and did; from Configure, also what its other tasks did."""

    report: CheckReport | None = attrs.field(default=None, kw_only=True)
    """None for an image, and where no CIDRs are expected."""

    @property
    def node_ips(self) -> dict[int, IP]:
        """The address of the expected device, by family (4, 6) if there is exactly one: kubelet's `--node-ip`."""
        return {} if self.report is None else self.report.node_ips

    def __str__(self) -> str:
        return super().__str__() if self.report is None else f"{self.report}\n{super().__str__()}"

    def log_fields(self) -> dict[str, object]:
        report = self.report
        fields = {} if report is None else {"verdict": report.verdict, "findings": len(report.escapes)}
        return {**fields, **super().log_fields()}

    def to_mapping(self) -> dict[str, object]:
        """What was done and found, with the keys of `hostrouting/check/3`."""
        check = {} if self.report is None else check_document(self.report, mode="WARN")
        return {**super().to_mapping(), **{key: check[key] for key in check if key not in {"schema", "mode"}}}
