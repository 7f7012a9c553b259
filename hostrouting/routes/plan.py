"""The plan: the ordered steps from the present routes of a host to the wanted ones, each with its reason.

All are functions from values to values: a printed plan is the dry run, and `apply` carries out its steps.

Routes are compared key by key: table, prefix and metric. What holds a key is right, ours (protocol 213), or another
program's. No step changes a route that is not ours: if such a route holds the key of a wanted one, that is a conflict.

In IPv6, each next hop of a route is an entry of its own with its own protocol, but Linux lists them as one route with
the protocol of the first. So a route of ours with several next hops may be partly another program's. Linux deletes just
those of our protocol, but would replace all of them: where such a route is not as wanted, that is a conflict, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from hostrouting.errors import RouteConflict
from hostrouting.finding import Finding
from hostrouting.model.prefix import IPV4, width_of
from hostrouting.model.route import OURS, NextHop, Route, RouteKey, protocol_name
from hostrouting.routes.uplink import DesiredRoute, Pending, Uplink, bare_leg, wanted_routes

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.model.snapshot import Snapshot

Action: TypeAlias = Literal["keep", "add", "replace", "delete", "conflict"]

# Conflicts first, because they prevent the rest; then additions before deletions.
_SIGNS: dict[Action, str] = {"conflict": "!", "keep": " ", "add": "+", "replace": "~", "delete": "-"}


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
        return f"{self.reason}; {self.remedy}" if self.remedy else self.reason

    @property
    def finding(self) -> Finding:
        """The conflict as a finding."""
        prefix = str(self.route.prefix)
        held = None if self.held is None else str(self.held)
        facts = {"held": held, "metric": self.route.metric}
        sentence = f"{prefix} cannot be installed: {self.reason}"
        return Finding("route-conflict", "error", sentence, prefix, self.remedy, facts)

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
            raise RouteConflict(findings=(step.finding for step in conflicts))

    def findings(self) -> Iterator[Finding]:
        """What keeps the wanted routes from being installed."""
        yield from (step.finding for step in self.conflicts)
        lacking: dict[str, list[DesiredRoute]] = {}
        for pending in self.pending:
            lacking.setdefault(pending.missing, []).append(pending.desired)
        for missing, (first, *more) in lacking.items():
            need = f"{len(more) + 1:,} routes, such as {first}, need" if more else f"{first} needs"
            sentence, remedy = f"{need} {missing}", "add it, or correct the configuration"
            yield Finding("route-waits", "warning", sentence, str(first.destination), remedy, can_retry=True)
        yield from self.left_out

    def apply_to(self, snapshot: Snapshot) -> Snapshot:
        """The host after the plan was carried out; conflicts and pending routes change nothing."""
        changes = self.changes
        replaced = {step.held: step.route for step in changes if step.held is not None}
        deleted = {step.route for step in changes if step.action == "delete"}
        routes = [replaced.get(route, route) for route in snapshot.routes if route not in deleted]
        added = [step.route for step in changes if step.action == "add"]
        return snapshot._replace(routes=(*routes, *added))

    def __str__(self) -> str:
        lines = [str(step) for step in self.steps] + [f"? {pending}" for pending in self.pending]
        return "\n".join(lines) or "no routes are wanted, and none of our routes exist"


def plan_static_routes(config: HostRoutingConfig, snapshot: Snapshot) -> RoutePlan:
    """The plan that leads from this snapshot to the routes of a configuration."""
    return plan_routes(wanted_routes(config), snapshot)


def plan_routes(desired: Iterable[DesiredRoute], snapshot: Snapshot) -> RoutePlan:
    """Plan how to get from the snapshot to the desired routes; our other routes are deleted.

    An optional route that cannot be installed now is left out, with a warning. Raises ValueError for two different
    desired routes with one destination and metric.
    """
    wishes: dict[RouteKey, DesiredRoute] = {}
    for wish in desired:
        if (other := wishes.setdefault(wish.key, wish)) is not wish and other != wish:
            raise ValueError(f"two different routes are wanted for one destination and metric: {other}; {wish}")
    uplinks = {family: Uplink(snapshot, family) for family in {key.prefix.family for key in wishes}}
    holders = holders_of(snapshot, wishes)
    steps: list[Step] = []
    pending: list[Pending] = []
    left_out: list[Finding] = []
    for key, wish in wishes.items():
        # While a wish waits, our route with its key stays.
        route, present = uplinks[key.prefix.family].resolve(wish), holders.pop(key)
        new = [] if isinstance(route, Pending) else steps_for(route, present)
        obstacle = route if isinstance(route, Pending) else new[0]
        if wish.is_optional and (isinstance(obstacle, Pending) or obstacle.action == "conflict"):
            left_out.append(_left_out(wish, obstacle))
        elif isinstance(obstacle, Pending):
            pending.append(obstacle)
        else:
            steps += new
    steps += (step for present in holders.values() for step in steps_for(None, present))
    ordered = (step for action in _SIGNS for step in steps if step.action == action)
    return RoutePlan(tuple(ordered), tuple(pending), tuple(left_out))


def holders_of(snapshot: Snapshot, keys: Iterable[RouteKey]) -> dict[RouteKey, list[Route]]:
    """The routes that hold these keys, and our other routes; of the holders of a key, the kernel uses the first."""
    holders: dict[RouteKey, list[Route]] = {key: [] for key in keys}
    networks = {key.prefix.network for key in holders}
    for route in snapshot.routes:
        if route.protocol == OURS:
            holders.setdefault(route.key, []).append(route)
        elif route.prefix.network in networks and (present := holders.get(route.key)) is not None:
            present.append(route)
    return holders


def steps_for(wanted: Route | None, present: list[Route]) -> list[Step]:
    """The steps for one key: the wanted route, and the routes that hold the key now."""
    if wanted is None:
        return [Step("delete", route, "ours, and no longer wanted") for route in present if route.protocol == OURS]
    stale = [route for route in present if route.protocol == OURS and not is_as_wanted(route, wanted)]
    first = next((route for route in present if route not in stale), None) if stale else present[0] if present else None
    step = _step_for(wanted, first, stale)
    rest = [route for route in stale if route is not step.held] if stale and step.action != "conflict" else []
    return [step, *(Step("delete", route, "ours, and not needed beside the wanted route") for route in rest)]


def _step_for(wanted: Route, first: Route | None, stale: list[Route]) -> Step:
    """The step for the wanted route. `first` holds its key and stays; the stale ones are ours, and go."""
    if first is not None and first.protocol == OURS:
        return Step("keep", first, "exists")
    if first is not None and is_as_wanted(first, wanted):
        return Step("keep", first, f"exists (proto {protocol_name(first.protocol)}), and stays")
    if first is not None:
        reason = f"another route has the same destination and metric: [{first}], which is not ours"
        return Step("conflict", wanted, reason, first, _way_out(wanted))
    if wanted.prefix.family == IPV4:
        alike = stale
    elif joined := [route for route in stale if len(route.legs) > 1]:
        reason = f"next hops of another program may be a part of our present route: [{joined[0]}]"
        return Step("conflict", wanted, reason, joined[0], "delete it, or choose another metric")
    else:  # Linux replaces one with a gateway by one with a gateway
        alike = sorted(stale, key=lambda route: _has_gateway(route) is not _has_gateway(wanted))
    return Step("replace", wanted, "ours, but different", alike[0]) if alike else Step("add", wanted, "missing")


def _has_gateway(route: Route) -> bool:
    return any(leg.gateway is not None for leg in route.legs)


def is_as_wanted(route: Route, wanted: Route) -> bool:
    """Whether a route is as wanted, whatever its protocol and the state of its next hops."""
    return route == wanted or bare(route)._replace(protocol=wanted.protocol) == bare(wanted)


def bare(route: Route) -> Route:
    """The route without the state of its next hops.

    IPv6 next hops are separate entries without an order; Linux drops `onlink`, and the weight of a single one.
    """
    legs = tuple(map(bare_leg, route.legs))
    if route.prefix.family != IPV4:
        legs = tuple(sorted((NextHop(leg.dev, gateway=leg.gateway) for leg in legs), key=str))
    return route._replace(legs=legs)


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
