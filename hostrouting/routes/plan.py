"""The plan: the ordered steps from the present routes of a host to the wanted ones, each with its reason.

All are functions from values to values: a printed plan is the dry run, and `apply` carries out its steps.

Routes are compared key by key: table, prefix and metric. What holds a key is right, ours (protocol 213), or another
program's. No step changes a route that is not ours: if such a route holds the key of a wanted one, that is a conflict.

In IPv6, each next hop of a route is an entry of its own with its own protocol, but Linux lists those with gateways as
one route with the protocol of the first. So the plan has a step for each next hop, and takes those behind one of ours
for ours. One that is not ours stays: `apply` deletes by our protocol, and a refusal is a conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from hostrouting.errors import RouteConflict
from hostrouting.finding import Finding
from hostrouting.model.prefix import IPV4, width_of
from hostrouting.model.route import OURS, NextHop, Route, RouteKey, as_listed, entries_of, protocol_name
from hostrouting.routes.uplink import DesiredRoute, Pending, Uplink, bare_leg, wanted_routes

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.model.snapshot import Snapshot

Action: TypeAlias = Literal["keep", "add", "replace", "delete", "conflict"]

# Conflicts first, because they prevent the rest; then additions before deletions.
_SIGNS: dict[Action, str] = {"conflict": "!", "keep": " ", "add": "+", "replace": "+", "delete": "-"}


class Step(NamedTuple):
    """One step. `held` has the same key: for `replace` our route that goes, for `conflict` the one that stays."""

    action: Action
    route: Route
    reason: str
    held: Route | None = None
    remedy: str = ""
    """How to resolve a conflict."""

    @property
    def added(self) -> Route | None:
        """The route that comes."""
        return self.route if self.action in {"add", "replace"} else None

    @property
    def deleted(self) -> Route | None:
        """The route of ours that goes."""
        return self.route if self.action == "delete" else self.held if self.action == "replace" else None

    @property
    def is_in_the_way(self) -> bool:
        """Whether what goes has to go first: Linux has no next hop twice in IPv6."""
        return self.held is not None and self.action == "replace" and _has_hop_of(self.route, self.held)

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
        return f"{before}{_SIGNS[self.action]} {self.route}    # {self.action}: {self.why}"


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
        return len({step.route.key for step in self.steps if step.action == "keep"})

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
        keys = {step.route.key for step in self.changes}
        holders = holders_of(snapshot, keys)
        tables = {key: [entry for route in holders[key] for entry in entries_of(route)] for key in keys}
        for step in self.changes:
            entries = tables[step.route.key]
            if step.deleted is not None:
                entries.remove(step.deleted)
            if step.added is not None:
                entries.append(step.added)
        others = (route for route in snapshot.routes if route.key not in keys)
        return snapshot._replace(routes=(*others, *(route for key in tables for route in as_listed(tables[key]))))

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
        new = [] if isinstance(route, Pending) else steps_for(entries_of(route), present)
        obstacle = route if isinstance(route, Pending) else new[0]
        if wish.is_optional and (isinstance(obstacle, Pending) or obstacle.action == "conflict"):
            left_out.append(_left_out(wish, obstacle))
        elif isinstance(obstacle, Pending):
            pending.append(obstacle)
        else:
            steps += new
    steps += (step for present in holders.values() for step in steps_for((), present))
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


def steps_for(wanted: Sequence[Route], present: Sequence[Route]) -> list[Step]:
    """The steps for one key: the entries of the wanted route, if there is one, and the routes that hold the key now."""
    entries = [entry for route in present for entry in entries_of(route)]
    # The last first: the first is in use until the end, and is the first again if `apply` takes all back.
    stale = [entry for entry in entries[::-1] if entry.protocol == OURS and not _holder(entry, wanted)]
    if not wanted:
        return [Step("delete", entry, "ours, and no longer wanted") for entry in stale]
    if stale:
        present = [route for route in present if any(entry not in stale for entry in entries_of(route))]
    if present and present[0].protocol != OURS and not is_as_wanted(present[0], whole := as_listed(wanted)[0]):
        reason = f"another route has the same destination and metric: [{present[0]}], which is not ours"
        return [Step("conflict", whole, reason, present[0], _way_out(whole))]
    steps, missing = [], []
    for route in wanted:
        if holder := _holder(route, entries):
            whose = "" if holder.protocol == OURS else f" (proto {protocol_name(holder.protocol)}), and stays"
            steps.append(Step("keep", holder, f"exists{whose}"))
        else:
            missing.append(route)
    for route in sorted(missing, key=lambda route: not any(_has_hop_of(route, held) for held in stale)):
        held = next((held for held in stale if _has_hop_of(route, held)), stale[0] if stale else None)
        if held is None:
            steps.append(Step("add", route, "missing"))
        else:
            stale.remove(held)
            steps.append(Step("replace", route, "ours, but different", held))
    return [*steps, *(Step("delete", entry, "ours, and not needed beside the wanted route") for entry in stale)]


def _holder(entry: Route, others: Iterable[Route]) -> Route | None:
    """The first of the others that is as this one, whatever its protocol."""
    return next((other for other in others if is_as_wanted(entry, other)), None)


def _has_hop_of(entry: Route, other: Route) -> bool:
    """Whether Linux takes both for the same next hop of an IPv6 route."""
    return entry.prefix.family != IPV4 and bare(entry).legs == bare(other).legs


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
