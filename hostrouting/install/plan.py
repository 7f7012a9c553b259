"""What a run would do: one value, which the dry run prints and the run carries out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from hostrouting.check.check import check_snapshot
from hostrouting.check.document import check_document
from hostrouting.finding import Finding, Remedy, worst_first
from hostrouting.host.fileset import FileChanges
from hostrouting.routes.steps import RoutePlan
from hostrouting.text import first_few
from hostrouting.upkeep.passes import findings_of

if TYPE_CHECKING:
    from hostrouting.check.results import CheckReport
    from hostrouting.config.settings import HostRoutingConfig, Mode
    from hostrouting.errors import Fault
    from hostrouting.host.operation import Operation
    from hostrouting.model.snapshot import Snapshot

ALLOWED_BY = "--allow-removal, in Python allow_removal=True"
"""How a removal is allowed: on the command line, and in a task."""
_KEEP = Remedy(f"keep this in the configuration, or allow the removal ({ALLOWED_BY})")


@attrs.frozen
class Plan:
    """What a task would do to the files, the routes and the rest of a host; and the check of the
    host as it would be afterwards.
    """

    files: FileChanges = attrs.field(factory=FileChanges)
    systemd: tuple[Operation, ...] = ()
    """What systemd has to do: `reload` its files, and `start`, `stop` or `restart` the guard."""
    routes: RoutePlan = attrs.field(factory=RoutePlan)
    operations: tuple[Operation, ...] = ()
    """Other changes of the kernel."""
    obstacles: tuple[Finding, ...] = ()
    """Findings about the host as it is. An error makes the run fail: a gate that another program
    cancels ("gate-open") at its end, any other error before its first change.
    """
    losses: tuple[Fault, ...] = ()
    """The protection that the run would take away and must not."""
    report: CheckReport | None = None
    """The check of the host as it would be. None if no CIDR is expected, or if a route conflicts or
    waits: then nobody knows how the host would be.
    """
    mode: Mode = "WARN"
    """What happens if an address escapes in this check."""
    check_findings: tuple[Finding, ...] = ()
    """The findings of this check: an error makes the run fail."""

    @property
    def is_empty(self) -> bool:
        """Whether the plan changes nothing, and no route conflicts or waits."""
        routes = self.routes
        return not (
            self.files
            or self.systemd
            or self.operations
            or routes.changes
            or routes.conflicts
            or routes.waiting
        )

    @property
    def is_downgrade(self) -> bool:
        """Whether the run would replace the program of a newer release, as an obstacle says."""
        return any(finding.name == "route-differs" for finding in self.obstacles)

    @property
    def work(self) -> list[str]:
        """What there is to do, a line for each change."""
        return [*map(str, self.routes.changes), *self.other_work]

    @property
    def other_work(self) -> list[str]:
        """What there is to do apart from static routes, a line for each change."""
        lines = [*map(str, (*self.systemd, *self.operations))]
        lines += [f"write {path}" for path in self.files.written_paths]
        lines += [f"remove {path}" for path in self.files.removes]
        return lines

    def for_systemd(self, *verbs: str) -> tuple[Operation, ...]:
        """What systemd has to do, of these verbs only."""
        return tuple(operation for operation in self.systemd if operation.verb in verbs)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings but those of the check, the worst first; an error makes the run fail."""
        removals = [
            Finding("removal", "error", str(loss), loss.path, _KEEP) for loss in self.losses
        ]
        return worst_first([*self.obstacles, *removals, *self.routes.findings()])

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The warnings about the host as it is. Those about routes are not here: the run logs them
        when it sets the routes.
        """
        return tuple(finding for finding in self.obstacles if finding.severity == "warning")

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The reasons for which the run would fail if the host stayed as it is. The run may succeed
        all the same: what a route waits for, or a missing default route, may come in time.
        """
        failures = [*self.errors, *self.routes.wait_warnings]
        failures += [finding for finding in self.check_findings if finding.severity == "error"]
        return tuple(dict.fromkeys(failures))

    @property
    def would_fail(self) -> str:
        """Why the run would fail, for `phases.plan`; empty if it would succeed."""
        return "; ".join(first_few([str(failure) for failure in self.failures]))

    def with_check(
        self, config: HostRoutingConfig, snapshot: Snapshot, earlier: Sequence[Plan] = ()
    ) -> Plan:
        """Return this plan with a check of the host as the plan would leave it; `snapshot` is the
        host now. Without expected CIDRs, there is nothing to check. If a route conflicts or waits,
        there is no check either, because nobody knows then how the host would be.
        """
        if not config.route_overlap.cidrs:
            return self
        # A plan of a task that sets routes has a step for each static route, also for one that is
        # right already. If this plan has no step, its task only checks, and the static routes are
        # those of the tasks before it (`earlier`).
        plans: Sequence[Plan] = (self,) if self.routes != RoutePlan() else earlier
        for plan in plans:
            if plan.routes.conflicts or plan.routes.waiting:
                return self
            snapshot = plan.routes.apply_to(snapshot)
        report = check_snapshot(snapshot, config)
        settings = config.route_overlap
        return attrs.evolve(
            self,
            report=report,
            mode=settings.mode,
            check_findings=findings_of(report, settings),
        )

    def to_mapping(self) -> dict[str, object]:
        check = None
        if self.report is not None:
            check = check_document(self.report, mode=self.mode, findings=self.check_findings)
        return {
            "wouldFail": self.would_fail,
            "steps": [
                {"action": step.action, "route": str(step.route), "reason": step.reason}
                for step in self.routes.steps
            ],
            "operations": [each._asdict() for each in (*self.systemd, *self.operations)],
            "writes": list(self.files.written_paths),
            "removes": list(self.files.removes),
            "findings": [finding.to_mapping() for finding in self.findings],
            "check": check,
        }

    def __str__(self) -> str:
        """What there is to do, all findings but those of the check, and the verdict of the check
        with the repair that it proposes.
        """
        lines: list[object] = [*self.routes.steps, *self.other_work]
        if self.is_empty:
            lines.append("nothing to do")
        lines += self.findings
        if self.report is not None:
            lines += [f"afterwards: {family}" for family in self.report.families]
            lines += [finding for finding in self.check_findings if finding.name == "action"]
        return "\n".join(map(str, lines))
