"""What the tasks would do, and what they did: values for plans, reports and the wide log line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hostrouting.wording import foreseen_line, stays_line

if TYPE_CHECKING:
    from hostrouting.apply import Applied
    from hostrouting.kernel import Examination
    from hostrouting.model import Route
    from hostrouting.plan import RoutePlan

__all__ = ["CheckResult", "Preview", "RoutesResult"]


@attrs.frozen
class Preview:
    """What a task would do: the steps to the routes that are wanted, and the files that would change."""

    routes: RoutePlan | None
    files: tuple[str, ...] = ()
    removes: bool = False
    gate: tuple[str, ...] = ()
    """Those of the files that change first, whatever becomes of the routes."""
    stays: tuple[Route, ...] = ()
    """Of a removal, the routes that were wanted and are not ours."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be changed."""
        return not self.files and (self.routes is None or not (self.routes.changes or self.routes.conflicts))

    def __add__(self, other: Preview) -> Preview:
        """Both, of which one at most is about routes."""
        gate = (*self.gate, *other.gate)
        stays = (*self.stays, *other.stays)
        return Preview(self.routes or other.routes, (*self.files, *other.files), self.removes, gate, stays)

    def to_mapping(self) -> dict[str, object]:
        """The same as plain values."""
        steps = () if self.routes is None else self.routes.steps
        return {
            "steps": [{"action": it.action, "route": str(it.route), "reason": it.why} for it in steps],
            "pending": [] if self.routes is None else [str(it) for it in self.routes.pending],
            "notes": list(self._notes),
            "removes" if self.removes else "writes": list(self.files),
        }

    def __str__(self) -> str:
        lines = [str(self.routes)] if self.routes is not None and (self.routes.steps or self.routes.pending) else []
        verb = "remove" if self.removes else "write"
        lines += [f"{verb} {path}" for path in self.files]
        return "\n".join((*(lines or ["nothing to do"]), *self._notes))

    @property
    def _notes(self) -> tuple[str, ...]:
        """What there is to know besides, each in a sentence."""
        foreseen = () if self.routes is None else self.routes.foreseen
        return (*map(foreseen_line, foreseen), *map(stays_line, self.stays))


@attrs.frozen
class RoutesResult:
    """What ConfigureStaticRoutes did."""

    applied: Applied | None
    files: tuple[str, ...]
    started: bool = False

    def log_fields(self) -> dict[str, object]:
        """How many routes were added, replaced, deleted and kept, and do not last; how many files were written."""
        fields = {} if self.applied is None else self.applied.log_fields()
        foreseen = 0 if self.applied is None else len(self.applied.plan.foreseen)
        counts = {"foreseen": foreseen, "files": len(self.files)}
        return {**fields, **{name: count for name, count in counts.items() if count}}


@attrs.frozen
class CheckResult:
    """What CheckRouteOverlap found and did."""

    examination: Examination | None
    files: tuple[str, ...]

    def log_fields(self) -> dict[str, object]:
        """The verdict, and how many findings there are."""
        found = self.examination
        fields: dict[str, object] = {"files": len(self.files)} if self.files else {}
        return fields if found is None else {"verdict": found.verdict, "findings": len(found.report.findings), **fields}
