"""Desired routes and a snapshot: the ordered steps from what is to what is wanted.

Here: keep, add, replace, delete, conflict, and why. Not here: carrying them out. A step never names a route to
change that is not ours; printing a plan is the dry run.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, Self, TypeAlias

import attrs

from hostrouting.fib import Fib
from hostrouting.model import OURS, Route, Snapshot, protocol_name, route_keys, width_of
from hostrouting.uplink import DesiredRoute, Pending, Uplink, bare_leg

__all__ = ["Action", "RoutePlan", "Step", "plan_routes"]

Action: TypeAlias = Literal["keep", "add", "replace", "delete", "conflict"]

# Conflicts first, for they forbid the rest; then what is made, before what is broken.
_ORDER: dict[Action, int] = {"conflict": 0, "keep": 1, "add": 2, "replace": 3, "delete": 4}
_SIGNS: dict[Action, str] = {"keep": " ", "add": "+", "replace": "~", "delete": "-", "conflict": "!"}


@attrs.frozen
class Step:
    """One step: for `replace` and `conflict`, `held` is the route that stands where `route` is to be."""

    action: Action
    route: Route
    reason: str
    held: Route | None = None

    def __str__(self) -> str:
        sign = _SIGNS[self.action]
        before = f"- {self.held}\n" if self.action == "replace" else ""
        sign = "+" if self.action == "replace" else sign
        return f"{before}{sign} {self.route}    # {self.action}: {self.reason}"


@attrs.frozen
class RoutePlan:
    """The steps in the order in which they are to be taken, and what is not ready to be planned yet."""

    steps: tuple[Step, ...] = ()
    pending: tuple[Pending, ...] = ()

    @property
    def changes(self) -> tuple[Step, ...]:
        """The steps that change the kernel."""
        return tuple(step for step in self.steps if step.action in {"add", "replace", "delete"})

    @property
    def conflicts(self) -> tuple[Step, ...]:
        """The routes that cannot be had, for somebody else holds their key."""
        return tuple(step for step in self.steps if step.action == "conflict")

    def inverse(self) -> Self:
        """The steps that take the host from where this plan leads back to where it began."""
        return type(self)(tuple(map(_undo, reversed(self.changes))))

    def apply_to(self, snapshot: Snapshot) -> Snapshot:
        """The host after the plan was carried out; conflicts and what is pending change nothing."""
        for step in self.changes:
            if step.action == "replace" and step.held is not None:
                snapshot = snapshot.with_replaced(step.held, step.route)
            elif step.action == "delete":
                snapshot = snapshot.with_routes(without=[step.route])
            else:
                snapshot = snapshot.with_routes([step.route])
        return snapshot

    def __str__(self) -> str:
        lines = [str(step) for step in self.steps] + [f"? {pending}" for pending in self.pending]
        return "\n".join(lines) or "nothing is wanted, and nothing of ours is there"


def plan_routes(desired: Iterable[DesiredRoute], snapshot: Snapshot, *, protocol: int = OURS) -> RoutePlan:
    """How to get from the snapshot to the desired routes, and to no other route that carries `protocol`.

    Two wishes for one destination and metric that are not the same are refused with ValueError.
    """
    fib = Fib(snapshot)
    uplink = Uplink(fib, protocol=protocol)
    resolved = [uplink.resolve(wish) for wish in _distinct(desired)]
    pending = tuple(it for it in resolved if isinstance(it, Pending))
    # What is there for a wish that waits stays until it is known what is wanted.
    settled = {it.desired.key if isinstance(it, Pending) else it.key for it in resolved}
    steps = [step for it in resolved if isinstance(it, Route) for step in _steps(it, fib, protocol)]
    for position, key in enumerate(route_keys(snapshot.routes)):
        if key[4] == protocol and (route := snapshot.routes[position]).key not in settled:
            steps.append(Step("delete", route, "ours, and no longer wanted"))
    return RoutePlan(tuple(sorted(steps, key=_place)), pending)


def _distinct(desired: Iterable[DesiredRoute]) -> list[DesiredRoute]:
    """Each wish once, in an order that does not depend on how they were given."""
    found: dict[tuple[object, ...], DesiredRoute] = {}
    for wish in desired:
        other = found.setdefault(wish.key, wish)
        if other != wish:
            raise ValueError(f"two different routes are wanted for one destination and metric: {other}; {wish}")
    return sorted(found.values(), key=lambda wish: (wish.destination, wish.metric))


def _steps(wanted: Route, fib: Fib, protocol: int) -> Iterator[Step]:
    """What to do about one route that is wanted, given those that hold its key; the kernel takes the first."""
    near = fib.routes(wanted.prefix)
    if len(near) == 1 and near[0] == wanted:
        yield Step("keep", near[0], _why_kept(near[0], protocol))
        return
    holders = [route for route in near if route.key == wanted.key]
    stale = [route for route in holders if route.protocol == protocol and not _says(route, wanted)]
    standing = [route for route in holders if route not in stale]
    if standing and _says(standing[0], wanted):
        yield Step("keep", standing[0], _why_kept(standing[0], protocol))
        for route in stale:
            yield Step("delete", route, "ours, and another route of this key is the right one")
    elif stale and holders[0] == stale[0]:
        yield Step("replace", wanted, "ours, and it says something else", holders[0])
        for route in stale[1:]:
            yield Step("delete", route, "ours, and another route of this key is the right one")
    elif standing:
        yield Step("conflict", wanted, _way_out(standing[0]), standing[0])
    else:
        before = [route for route in near if not route.tos and route.metric < wanted.metric]
        shadow = f"; it stands behind [{before[0]}], whose metric is lower" if before else ""
        yield Step("add", wanted, f"it is not there{shadow}")


def _says(route: Route, wanted: Route) -> bool:
    """Whether a route says exactly what is wanted, whoever it belongs to and whatever state its legs are in."""
    return attrs.evolve(route, legs=tuple(map(bare_leg, route.legs)), protocol=wanted.protocol) == wanted


def _why_kept(route: Route, protocol: int) -> str:
    if route.protocol == protocol:
        return "it is there"
    return f"it is there, from {protocol_name(route.protocol)}, and stays theirs"


def _way_out(holder: Route) -> str:
    """Who holds the key, and what wins without touching them."""
    prefix = holder.prefix
    remedy = "remove it, or give the route another metric"
    if prefix.length < width_of(prefix.family):
        left, right = prefix.halves()
        remedy = f"{left} and {right} win without touching it"
    elif holder.metric:
        remedy = "a lower metric wins without touching it"
    return f"its key is held by [{holder}], which is not ours: {remedy}"


def _place(step: Step) -> tuple[object, ...]:
    """Where a step belongs: what needs no gateway is made first, and broken last."""
    route, prefix = step.route, step.route.prefix
    through = any(leg.gateway for leg in route.legs)
    late = not through if step.action == "delete" else through
    return (_ORDER[step.action], late, prefix.family, prefix.network, prefix.length, route.table, route.metric)


def _undo(step: Step) -> Step:
    if step.action == "replace" and step.held is not None:
        return Step("replace", step.held, "as it was before", step.route)
    return Step("delete" if step.action == "add" else "add", step.route, "as it was before")
