"""Routes that are ours by a number that marked them before the configuration named another.

Here: the plan that takes them to the number of today. Not here: which numbers those are (`installation` reads them from
our own files), and any other planning (`plan`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from hostrouting.model import Route
from hostrouting.plan import RoutePlan, Step, plan_routes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from hostrouting.model import Snapshot
    from hostrouting.uplink import DesiredRoute

__all__ = ["plan_renumbered"]


@attrs.frozen(kw_only=True)
class _Former(Route):
    """A route of ours as if it carried the number of today; it never says what is wanted, for it does not."""

    real: Route

    @classmethod
    def of(cls, route: Route, protocol: int) -> _Former:
        """The route, renumbered."""
        fields = {field.name: getattr(route, field.name) for field in attrs.fields(Route)}
        return cls(**{**fields, "protocol": protocol, "real": route})


def plan_renumbered(
    desired: Iterable[DesiredRoute], snapshot: Snapshot, *, protocol: int, former: Collection[int]
) -> RoutePlan:
    """As `plan_routes`, but routes of a former number are ours too: replaced where wanted, deleted otherwise."""
    routes = tuple(_Former.of(it, protocol) if it.protocol in former else it for it in snapshot.routes)
    if not any(isinstance(it, _Former) for it in routes):
        return plan_routes(desired, snapshot, protocol=protocol)
    plan = plan_routes(desired, attrs.evolve(snapshot, routes=routes), protocol=protocol)
    return attrs.evolve(plan, steps=tuple(map(_as_it_is, plan.steps)))


def _as_it_is(step: Step) -> Step:
    """The same step with the route that really stands there."""
    if isinstance(step.route, _Former):
        return attrs.evolve(step, route=step.route.real, reason=_reason(step.route.real))
    if isinstance(step.held, _Former):
        return attrs.evolve(step, held=step.held.real, reason=_reason(step.held.real))
    return step


def _reason(route: Route) -> str:
    return f"ours, by the route protocol number {route.protocol} of an earlier configuration"
