"""The plan: the ordered steps from the present routes of a host to the wanted ones, each with its reason.

Here: keep, add, replace, delete, conflict, and why. All are functions from values to values: a printed plan is the dry
run. Not here: carrying out the steps (`apply`), and completing a wanted route (`uplink`).

Routes are compared key by key: table, prefix and metric. What holds a key is right, ours (protocol 213), or another
program's. No step changes a route that is not ours: if such a route holds the key of a wanted one, that is a conflict.

In IPv6, each next hop of a route is an entry of its own with its own protocol, but Linux lists them as one route with
the protocol of the first. So a route of ours with several next hops may be partly another program's. Linux deletes just
those of our protocol, but would replace all of them: where such a route is not as wanted, that is a conflict, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import attrs

from hostrouting.errors import RouteConflict
from hostrouting.fib.engine import Fib
from hostrouting.finding import Finding
from hostrouting.model.prefix import IPV4, width_of
from hostrouting.model.route import OURS, Route, RouteKey, protocol_name
from hostrouting.routes.uplink import DesiredRoute, Pending, Uplink, bare_leg, wanted_routes

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.model.snapshot import Snapshot

Action: TypeAlias = Literal["keep", "add", "replace", "delete", "conflict"]

# Conflicts first, because they prevent the rest; then additions before deletions.
_SIGNS: dict[Action, str] = {"conflict": "!", "keep": " ", "add": "+", "replace": "~", "delete": "-"}
_RANKS: dict[Action, int] = {action: rank for rank, action in enumerate(_SIGNS)}


class Step(NamedTuple):
    """One step. For `replace` and `conflict`, `held` is the present route with the key of `route`."""

    action: Action
    route: Route
    reason: str
    held: Route | None = None
    remedy: str = ""
    """How to resolve a conflict."""

    @property
    def why(self) -> str:
        """The reason and the remedy."""
        return "; ".join(part for part in (self.reason, self.remedy) if part)

    def __str__(self) -> str:
        before = f"- {self.held}\n" if self.action == "replace" else ""
        sign = "+" if self.action == "replace" else _SIGNS[self.action]
        return f"{before}{sign} {self.route}    # {self.action}: {self.why}"


class RoutePlan(NamedTuple):
    """The steps in their order, and the routes that cannot be planned yet."""

    steps: tuple[Step, ...] = ()
    pending: tuple[Pending, ...] = ()
    left_out: tuple[Finding, ...] = ()
    """For each optional route that cannot be installed now, a warning."""

    @property
    def changes(self) -> tuple[Step, ...]:
        """The steps that change the kernel."""
        return tuple(step for step in self.steps if step.action in {"add", "replace", "delete"})

    @property
    def conflicts(self) -> tuple[Step, ...]:
        """The steps for routes that cannot be added because a route that is not ours holds their key."""
        return tuple(step for step in self.steps if step.action == "conflict")

    @property
    def kept(self) -> int:
        """The number of routes that already exist as wanted."""
        return sum(step.action == "keep" for step in self.steps)

    def require_possible(self) -> None:
        """Raise RouteConflict if a route that is not ours holds the key of a wanted one."""
        if conflicts := self.conflicts:
            raise RouteConflict(_conflict(step) for step in conflicts)

    def findings(self, *, wait: float | None = None) -> Iterator[Finding]:
        """What keeps the wanted routes from being installed.

        `wait` is how long the task would wait for what is missing; None if that is not known.
        """
        yield from map(_conflict, self.conflicts)
        lacking: dict[str, list[DesiredRoute]] = {}
        for pending in self.pending:
            lacking.setdefault(pending.missing, []).append(pending.desired)
        for missing, wanted in lacking.items():
            need = f"{wanted[0]} needs" if len(wanted) == 1 else f"{len(wanted):,} routes, such as {wanted[0]}, need"
            then = f"; apply would wait up to {wait:g} s for it, then fail" if wait else ""
            then = "; apply would fail at once" if wait == 0 else then
            yield Finding(
                "route-waits",
                "error" if wait == 0 else "warning",
                f"{need} {missing}{then}",
                str(wanted[0].destination),
                "add it, or correct the configuration",
                can_retry=True,
            )
        yield from self.left_out

    def apply_to(self, snapshot: Snapshot) -> Snapshot:
        """The host after the plan was carried out; conflicts and pending routes change nothing."""
        changes = self.changes
        replaced = {step.held: step.route for step in changes if step.held is not None}
        deleted = {step.route for step in changes if step.action == "delete"}
        routes = [replaced.get(route, route) for route in snapshot.routes if route not in deleted]
        added = [step.route for step in changes if step.action == "add"]
        return attrs.evolve(snapshot, routes=(*routes, *added))

    def __str__(self) -> str:
        lines = [str(step) for step in self.steps] + [f"? {pending}" for pending in self.pending]
        return "\n".join(lines) or "no routes are wanted, and none of our routes exist"


def _conflict(step: Step) -> Finding:
    prefix = str(step.route.prefix)
    # A lifetime changes with each look.
    held = None if step.held is None else str(attrs.evolve(step.held, expires=None))
    facts = {"held": held, "metric": step.route.metric}
    sentence = f"{prefix} cannot be installed: {step.reason}"
    return Finding("route-conflict", "error", sentence, prefix, step.remedy, facts)


def plan_static_routes(config: HostRoutingConfig, snapshot: Snapshot) -> RoutePlan:
    """The plan that leads from this snapshot to the routes of a configuration."""
    return plan_routes(wanted_routes(config), snapshot)


def plan_routes(desired: Iterable[DesiredRoute], snapshot: Snapshot) -> RoutePlan:
    """Plan how to get from the snapshot to the desired routes; our other routes are deleted.

    An optional route that cannot be installed now is left out, with a warning. Raises ValueError for two different
    desired routes with one destination and metric.
    """
    wishes = _by_key(desired)
    families = {wish.destination.family for wish in wishes.values()}
    uplinks = {family: Uplink(Fib(snapshot, family)) for family in families}
    holders = holders_of(snapshot, wishes)
    steps: list[Step] = []
    pending: list[Pending] = []
    left_out: list[Finding] = []
    for key, wish in wishes.items():
        route = uplinks[wish.destination.family].resolve(wish)
        # While a wish waits, our route with its key stays.
        holding = holders.pop(key, [])
        new = list(steps_for(route, holding)) if isinstance(route, Route) else []
        if wish.is_optional and (isinstance(route, Pending) or new[0].action == "conflict"):
            left_out.append(_left_out(wish, route if isinstance(route, Pending) else new[0]))
        elif isinstance(route, Pending):
            pending.append(route)
        else:
            steps += new
    steps += (step for holding in holders.values() for step in steps_for(None, holding))
    return RoutePlan(tuple(sorted(steps, key=lambda step: _RANKS[step.action])), tuple(pending), tuple(left_out))


def _by_key(desired: Iterable[DesiredRoute]) -> dict[RouteKey, DesiredRoute]:
    """Each wish once, in an order that does not depend on the order of the input."""
    wishes: dict[RouteKey, DesiredRoute] = {}
    for wish in desired:
        other = wishes.setdefault(wish.key, wish)
        if other is not wish and other != wish:
            raise ValueError(f"two different routes are wanted for one destination and metric: {other}; {wish}")
    # Comparing numbers is faster than comparing keys.
    return dict(sorted(wishes.items(), key=lambda pair: (*attrs.astuple(pair[0].prefix), pair[0].metric)))


def holders_of(snapshot: Snapshot, keys: Iterable[RouteKey]) -> dict[RouteKey, list[Route]]:
    """The routes that hold these keys, and those of the keys of our other routes; the kernel uses the first of each."""
    holders: dict[RouteKey, list[Route]] = {key: [] for key in keys}
    routes = tuple(snapshot.routes)
    holders |= {route.key: [] for route in routes if route.protocol == OURS}
    prefixes = {key.prefix for key in holders}
    for route in routes:
        if route.prefix in prefixes and (holding := holders.get(route.key)) is not None:
            holding.append(route)
    return holders


def steps_for(wanted: Route | None, holders: list[Route]) -> Iterator[Step]:
    """The steps for one key: the wanted route, and the routes that hold the key now."""
    right = [] if wanted is None else [route for route in holders if is_as_wanted(route, wanted)]
    stale = [route for route in holders if route.protocol == OURS and route not in right]
    first = next((route for route in holders if route not in stale), None)
    if wanted is None:
        yield from (Step("delete", route, "ours, and no longer wanted") for route in stale)
    elif first is not None and first not in right:
        reason = f"another route has the same destination and metric: [{first}], which is not ours"
        yield Step("conflict", wanted, reason, first, _way_out(wanted))
    elif first is not None:
        reason = "exists" if first.protocol == OURS else f"exists (proto {protocol_name(first.protocol)}), and stays"
        yield Step("keep", first, reason)
        yield from (Step("delete", route, "ours, and not needed beside the wanted route") for route in stale)
    elif stale:
        # Linux replaces an IPv6 route with a gateway only by one with a gateway, if there are both.
        alike = (route for route in stale if _has_gateway(route) is _has_gateway(wanted))
        held = stale[0] if wanted.prefix.family == IPV4 else next(alike, stale[0])
        if wanted.prefix.family != IPV4 and (joined := [route for route in stale if len(route.legs) > 1]):
            reason = f"next hops of another program may be a part of our present route: [{joined[0]}]"
            yield Step("conflict", wanted, reason, joined[0], "delete it, or choose another metric")
            return
        yield Step("replace", wanted, "ours, but different", held)
        yield from (
            Step("delete", route, "ours, and not needed beside the wanted route")
            for route in stale
            if route is not held
        )
    else:
        yield Step("add", wanted, "missing")


def is_as_wanted(route: Route, wanted: Route) -> bool:
    """Whether a route is as wanted, whatever its protocol and the state of its next hops.

    IPv6 next hops are separate entries, without an order; Linux drops `onlink`, and the weight of a single one.
    """
    if route == wanted:
        return True
    is_ipv4 = route.prefix.family == IPV4
    has_hops = bare(route).legs == wanted.legs if is_ipv4 else hops_of(route) == hops_of(wanted)
    return has_hops and attrs.evolve(route, legs=wanted.legs, protocol=wanted.protocol) == wanted


def _has_gateway(route: Route) -> bool:
    return any(leg.gateway is not None for leg in route.legs)


def hops_of(route: Route) -> set[tuple[object, ...]]:
    """By what Linux distinguishes the IPv6 next hops of one key."""
    return {(leg.dev, leg.gateway) for leg in route.legs}


def bare(route: Route) -> Route:
    """The route without the state of its next hops."""
    return attrs.evolve(route, legs=tuple(map(bare_leg, route.legs)))


def _way_out(wanted: Route) -> str:
    """How to have a route to this prefix although another program holds its key."""
    prefix = wanted.prefix
    if prefix.family != IPV4:
        return "choose another metric: the lowest takes precedence"
    if prefix.length == width_of(IPV4):
        return "delete it first: no prefix can be longer"
    left, right = prefix.halves()
    return f"instead, configure {left} and {right}, which take precedence"


def _left_out(wish: DesiredRoute, obstacle: Step | Pending) -> Finding:
    prefix = str(wish.destination)
    if isinstance(obstacle, Step):
        sentence = f"{prefix} is left out: {obstacle.reason}"
        return Finding("route-conflict", "warning", sentence, prefix, obstacle.remedy)
    sentence = f"{wish} is left out, because it needs {obstacle.missing}"
    return Finding("route-waits", "warning", sentence, prefix, can_retry=True)
