"""What the tasks would do, what they did, and what one look of the guard found: values for plans, reports and logs.

Not here: what follows from several looks (`guard.pace`, `guard.state`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import attrs

from hostrouting.check.report import check_document
from hostrouting.errors import Fault
from hostrouting.finding import Finding, of_severity, worst
from hostrouting.host.effects import Effects, Operation
from hostrouting.host.fileset import Changes

if TYPE_CHECKING:
    from typing_extensions import Self

    from hostrouting.check.examine import Examination
    from hostrouting.kernel.concern import Concern
    from hostrouting.model.snapshot import Snapshot
    from hostrouting.routes.plan import RoutePlan


@attrs.frozen
class Change:
    """What a task would do: the steps of its route plan, other operations, and the files that would change."""

    routes: RoutePlan | None = None
    files: Changes = attrs.field(factory=Changes)
    unread: bool = False
    """Whether systemd has not loaded the present content of the files: a daemon-reload is pending."""
    before: Snapshot | None = attrs.field(default=None, eq=False, repr=False)
    """The snapshot for which the routes were planned."""
    operations: tuple[Operation, ...] = ()
    """Changes that concern neither routes nor files."""
    others: tuple[Finding, ...] = ()
    """What there is to tell that does not follow from the route plan; an error prevents the operations."""
    has_fallback: bool = False
    """Whether the host has an earlier script, and keeps it if no route can be changed."""
    removals: tuple[Finding, ...] = ()
    """What the host loses because the configuration does not ask for it; an error if that is protection."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be changed."""
        is_settled = self.routes is None or not (self.routes.changes or self.routes.conflicts)
        return is_settled and not (self.files or self.unread or self.operations or self.conflicts)

    @property
    def conflicts(self) -> tuple[Finding, ...]:
        """What prevents the operations."""
        return tuple(of_severity(self.others, "error"))

    @property
    def changes_kernel(self) -> bool:
        """Whether routes or rules would change, now or once what is missing is there."""
        routes = self.routes
        return bool(self.operations) or (routes is not None and bool(routes.changes or routes.pending))

    @property
    def keeps_script(self) -> bool:
        """Whether the run would fail before any change of a route, and keep the earlier script."""
        return self.has_fallback and self.routes is not None and bool(self.routes.conflicts or self.routes.pending)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings."""
        of_routes = () if self.routes is None else self.routes.findings()
        return (*of_routes, *self.others, *self.removals)

    def __add__(self, other: Change) -> Change:
        """The sum of both; at most one of them may have a route plan."""
        return Change(
            self.routes or other.routes,
            self.files + other.files,
            self.unread or other.unread,
            other.before if self.before is None else self.before,
            (*self.operations, *other.operations),
            (*self.others, *other.others),
            self.has_fallback or other.has_fallback,
            (*self.removals, *other.removals),
        )

    def to_mapping(self) -> dict[str, object]:
        """The preview as plain values."""
        steps = () if self.routes is None else self.routes.steps
        return {
            "steps": [{"action": step.action, "route": str(step.route), "reason": step.why} for step in steps],
            "operations": [operation.to_mapping() for operation in self.operations],
            "writes": list(self.files.writes),
            "removes": list(self.files.removes),
            "findings": [finding.to_mapping() for finding in self.findings],
        }

    def __str__(self) -> str:
        lines = [str(self.routes)] if self.routes is not None and (self.routes.steps or self.routes.pending) else []
        lines += map(str, self.operations)
        lines += (f"conflict: {conflict}" for conflict in self.conflicts)
        lines += [f"write {path}" for path in self.files.writes]
        lines += [f"remove {path}" for path in self.files.removes]
        lines += ["have systemd read its files again"] if self.unread else []
        told = (finding for finding in self.findings if finding.name not in {"route-conflict", "route-waits"})
        notes = (str(finding) for finding in told if finding not in self.conflicts)
        return "\n".join((*(lines or ["nothing to do"]), *notes))


_TO_ADD = "write what is installed into this file"


def removal(path: str, text: str, *, is_protection: bool = False, remedy: str = _TO_ADD) -> Finding:
    """Something installed that the configuration takes away, because it is not asked for at `path`.

    A run that does not allow removals is refused if it takes protection away: what keeps gated units or routes right.
    """
    sentence = f"{path}: {text}"
    if not is_protection:
        return Finding("removal", "warning", sentence, path)
    allow = (
        "or allow this with --allow-removal (in Python allow_removal=True); to remove everything: hostrouting remove"
    )
    return Finding("removal", "error", sentence, path, f"{remedy}, {allow}")


def refusals(removals: Sequence[Finding]) -> tuple[Fault, ...]:
    """Each protection that would go, as a fault of the configuration."""
    return tuple(
        Fault(gone.target, "", gone.sentence.removeprefix(f"{gone.target}: "), gone.remedy)
        for gone in of_severity(removals, "error")
    )


@attrs.frozen
class RoutesResult(Effects):
    """What ConfigureStaticRoutes did."""

    plan: RoutePlan | None = attrs.field(default=None, kw_only=True)
    """The plan that was carried out; None for an image."""

    def log_fields(self) -> dict[str, object]:
        """The number of routes by action, of routes that will not last, and of files written."""
        counts: dict[str, object] = {}
        if self.plan is not None:
            actions = [step.action for step in self.plan.changes]
            counts = {action: actions.count(action) for action in ("add", "replace", "delete")}
            counts |= {"keep": self.plan.kept, "foreseen": len(self.plan.foreseen)}
        return {name: count for name, count in counts.items() if count} | super().log_fields()

    def to_mapping(self) -> dict[str, object]:
        """What was changed, as plain values; routes are written as in `ip route`."""
        return {**super().to_mapping(), "kept": 0 if self.plan is None else self.plan.kept}


@attrs.frozen
class CheckResult(Effects):
    """What CheckRouteOverlap found and did."""

    examination: Examination | None = attrs.field(default=None, kw_only=True)
    """None for an image."""

    def log_fields(self) -> dict[str, object]:
        """The verdict, and how many findings there are."""
        found = self.examination
        fields = {} if found is None else {"verdict": found.verdict, "findings": len(found.escapes)}
        return {**fields, **super().log_fields()}

    def to_mapping(self) -> dict[str, object]:
        """What was done and found, with the keys of `hostrouting/check/3`."""
        found = self.examination
        check = {} if found is None else check_document(found, mode="")
        return {**super().to_mapping(), **{key: check[key] for key in check if key not in {"schema", "mode"}}}


@attrs.frozen
class Standing:
    """The present state of a task's work on a host."""

    subject: str
    """What the task works on, in a few words."""
    is_on: bool = True
    """Whether the work should be in force on this host now, by the configuration and its conditions."""
    findings: tuple[Finding, ...] = ()
    """What is missing or wrong (errors), what keeps the work from having an effect (warnings), and remarks (notes)."""
    facts: tuple[str, ...] = ()
    """Facts such as counters, each a sentence."""

    @property
    def is_in_force(self) -> bool:
        """Whether the host has everything that the task installs."""
        return worst(self.findings) != "error"

    @property
    def is_right(self) -> bool:
        """Whether the work is in force and effective."""
        return worst(self.findings) == "note"

    def to_mapping(self) -> dict[str, object]:
        """The state as plain values."""
        return {
            "subject": self.subject,
            "on": self.is_on,
            "inForce": self.is_in_force,
            "findings": [finding.to_mapping() for finding in self.findings],
            "facts": list(self.facts),
        }


class Repair(NamedTuple):
    """One repair: its key, the wanted state, and the state that was found."""

    key: str
    """What the repair is about, such as `172.16.0.0/17` or `nftables table ip6 hostrouting_slb`."""
    ours: str
    found: str
    """What was there, such as `no route`."""

    @classmethod
    def of(cls, operation: Operation) -> Self:
        """The operation as a repair."""
        if operation.verb == "delete":
            return cls(operation.object, "none", operation.object)
        found = "none" if operation.verb in {"add", "create"} else f"a changed one ({operation.reason})"
        return cls(operation.object, "the one that was installed", found)


@attrs.frozen(kw_only=True)
class Look:
    """What one look at the host found and did."""

    repairs: tuple[Repair, ...] = ()
    """What was repaired."""
    lost: tuple[Repair, ...] = ()
    """What was repaired too, but was undone before it could be read back."""
    waiting: tuple[str, ...] = ()
    """The keys of what cannot be repaired yet, such as a route whose device is down: Linux itself took it away."""
    findings: tuple[Finding, ...] = ()
    """What is wrong and could not be repaired."""
    failures: Mapping[str, str] = attrs.field(factory=dict)
    """By the name of the task: why its look, or a repair, failed."""
    unknown: tuple[str, ...] = ()
    """The names of the tasks that could not read the host, so that their answers are those of an earlier look."""
    routes: tuple[int, int, int] | None = None
    """The number of routes that are wanted, that are there as wanted, and that are ours."""
    verdict: str = ""
    """The verdict of the check; empty if nothing is checked."""
    verdicts: Mapping[str, str] = attrs.field(factory=dict)
    """The verdict on each expected CIDR."""
    escapes: Mapping[str, int] = attrs.field(factory=dict)
    """For each expected CIDR, the number of ranges that escape."""
    concerns: tuple[Concern, ...] | None = attrs.field(default=(), repr=False)
    """What these answers depend on: nothing else needs another look. None means every change."""
    seconds: float = 0.0
    """How long it took."""
    repair_seconds: float = 0.0
    """How long the repairs took."""

    def __add__(self, other: Look) -> Look:
        """The sum of both looks."""
        return Look(
            repairs=(*self.repairs, *other.repairs),
            lost=(*self.lost, *other.lost),
            waiting=(*self.waiting, *other.waiting),
            findings=(*self.findings, *other.findings),
            failures={**self.failures, **other.failures},
            unknown=(*self.unknown, *other.unknown),
            routes=self.routes or other.routes,
            verdict=self.verdict or other.verdict,
            verdicts={**self.verdicts, **other.verdicts},
            escapes={**self.escapes, **other.escapes},
            concerns=None if self.concerns is None or other.concerns is None else (*self.concerns, *other.concerns),
            seconds=self.seconds + other.seconds,
            repair_seconds=self.repair_seconds + other.repair_seconds,
        )
