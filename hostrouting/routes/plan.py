"""The plan: the ordered steps from the present routes of a host to the configured ones, each with
its reason.

All functions here go from values to values: a printed plan is the dry run, and `apply` carries out
its steps.

Routes are compared key by key: table, prefix and metric. A route that holds a key is right, ours
(protocol 213), or another program's. No step changes a route that is not ours: if it holds the key
of a wanted one, that is a conflict. What changes nothing about where packets go is not compared
(`_compared`). While a wanted route lacks something, the present one of ours is the wanted one if it
is usable (`uplink`).

In IPv6, each next hop of a route is an entry of its own with its own protocol, but Linux lists
those with gateways as one route with the protocol of the first. So the plan has a step for each
next hop. If the first is ours, all count as ours. If one is not ours, the plan cannot be applied:
`apply` deletes with our protocol, so that next hop stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from hostrouting.config.settings import HostRoutingConfig, StaticRoute
from hostrouting.errors import RouteConflict
from hostrouting.finding import Finding
from hostrouting.model.prefix import IPV4, Prefix, width_of
from hostrouting.model.route import (
    OURS,
    NextHop,
    Route,
    RouteKey,
    as_listed,
    as_stored,
    protocol_name,
)
from hostrouting.routes.uplink import Need, Uplink, bare_hop

if TYPE_CHECKING:
    from hostrouting.model.snapshot import Snapshot

Action: TypeAlias = Literal["conflict", "keep", "add", "delete"]

# Conflicts first, because they prevent the rest; then additions before deletions.
_SIGNS: dict[Action, str] = {"conflict": "!", "keep": " ", "add": "+", "delete": "-"}

SENTENCES = {
    "waits": "{route} needs {missing}",
    "conflict": "{prefix} cannot be installed: {reason}",
    "held": "another program's route has the same destination and metric: [{held}]",
    "metric": "configure another metric: the lowest takes precedence",
    "delete": "delete that route: no prefix can be longer",
    "halves": "configure {left} and {right} instead, which take precedence",
}
"""What static-routes.sh says, too."""

_PLAIN = NextHop()[2:]  # the fields of a next hop except its device and gateway


class Step(NamedTuple):
    """One step; for a conflict, `held` is the route of another program that stays."""

    action: Action
    route: Route
    reason: str
    held: Route | None = None

    @property
    def remedy(self) -> str:
        """How to have a route to this prefix although another program holds its key; empty without
        a conflict.
        """
        prefix = self.route.prefix
        if self.held is None:
            return ""
        if prefix.family != IPV4:
            return SENTENCES["metric"]
        if prefix.length == width_of(IPV4):
            return SENTENCES["delete"]
        left, right = prefix.halves()
        return SENTENCES["halves"].format(left=left, right=right)

    @property
    def why(self) -> str:
        """The reason and the remedy."""
        return "; ".join(filter(None, (self.reason, self.remedy)))

    @property
    def finding(self) -> Finding:
        """The conflict as a finding."""
        prefix = str(self.route.prefix)
        facts = {"held": str(self.held), "metric": self.route.metric}
        sentence = SENTENCES["conflict"].format(prefix=prefix, reason=self.reason)
        return Finding("route-conflict", "error", sentence, prefix, self.remedy, facts)

    def __str__(self) -> str:
        return f"{_SIGNS[self.action]} {self.route}    # {self.action}: {self.why}"


class Pending(NamedTuple):
    """A configured route that cannot be installed yet, and what is missing."""

    route: StaticRoute
    missing: Need

    def __str__(self) -> str:
        return SENTENCES["waits"].format(route=self.route, missing=self.missing)


class RoutePlan(NamedTuple):
    """The steps in their order, and the routes that cannot be planned yet."""

    steps: tuple[Step, ...] = ()
    pending: tuple[Pending, ...] = ()
    left_out: tuple[Finding, ...] = ()
    """Why the route for replies to probes cannot be installed now; a warning, because nothing waits
    for it.
    """

    @property
    def changes(self) -> tuple[Step, ...]:
        """The steps that change the kernel."""
        return tuple(step for step in self.steps if step.action in {"add", "delete"})

    @property
    def conflicts(self) -> tuple[Step, ...]:
        """The steps for routes that cannot be added because a route that is not ours holds their
        key.
        """
        return tuple(step for step in self.steps if step.action == "conflict")

    def require_possible(self) -> None:
        """Raise RouteConflict if a route that is not ours holds the key of a wanted one."""
        if conflicts := self.conflicts:
            raise RouteConflict(findings=(step.finding for step in conflicts))

    @property
    def waits(self) -> tuple[Finding, ...]:
        """What the pending routes wait for; routes that need the same thing share a finding."""
        waiting: dict[Need, list[Pending]] = {}
        for pending in self.pending:
            waiting.setdefault(pending.missing, []).append(pending)
        return tuple(map(_waits, waiting.values()))

    def findings(self) -> Iterator[Finding]:
        """What keeps the wanted routes from being installed."""
        yield from (step.finding for step in self.conflicts)
        yield from self.waits
        yield from self.left_out

    def apply_to(self, snapshot: Snapshot) -> Snapshot:
        """The host after the plan was carried out; conflicts and pending routes change nothing."""
        keys = {step.route.key for step in self.changes}
        deleted = {step.route for step in self.changes if step.action == "delete"}
        tables: dict[RouteKey, list[Route]] = {key: [] for key in keys}
        for route in snapshot.routes:
            if route.key in keys:
                tables[route.key] += (
                    entry for entry in as_stored(route) if bare(entry) not in deleted
                )
        for step in self.changes:
            if step.action == "add":
                tables[step.route.key].append(step.route)
        others = (route for route in snapshot.routes if route.key not in keys)
        return snapshot._replace(
            routes=(*others, *(route for key in tables for route in as_listed(tables[key])))
        )

    def __str__(self) -> str:
        lines = [str(step) for step in self.steps] + [f"? {pending}" for pending in self.pending]
        return "\n".join(lines) or "no routes are configured, and hostrouting has added none"


def reply_routes(config: HostRoutingConfig) -> tuple[StaticRoute, ...]:
    """The route for replies to probes, whose destination is on the link, if a configuration wants
    it.

    A configured route with its key takes its place.
    """
    rewrite = config.probe_rewrite
    if not (rewrite.enabled and rewrite.ensure_route):
        return ()
    [dev] = rewrite.interfaces
    reply = StaticRoute(Prefix.of(rewrite.global_address).to_network(), dev=dev)
    return () if reply.key in {route.key for route in config.static_routes.routes} else (reply,)


def plan_static_routes(config: HostRoutingConfig, snapshot: Snapshot) -> RoutePlan:
    """Plan how to get from the snapshot to the routes of a configuration; our other routes are
    deleted.
    """
    replies = reply_routes(config)
    wanted = {route.key: route for route in (*config.static_routes.routes, *replies)}
    expected = config.route_overlap.expected_devs
    uplinks = {
        family: Uplink(snapshot, family, expected)
        for family in {key.prefix.family for key in wanted}
    }
    holders = holders_of(snapshot, wanted)
    steps: list[Step] = []
    pending: list[Pending] = []
    left_out: list[Finding] = []
    for key, static in wanted.items():
        present = holders.pop(key)
        is_reply = static in replies
        uplink = uplinks[key.prefix.family]
        way = uplink.route_to(
            key.prefix, dev=static.dev, gateway=static.gateway, metric=key.metric, on_link=is_reply
        )
        if isinstance(way, Need):
            standing = _standing(static, present, uplink)
            if standing is not None:
                steps += _staying(standing, present, way)
            elif is_reply:
                left_out.append(_waits([Pending(static, way)]))
            else:
                pending.append(Pending(static, way))
            continue
        new = steps_for(as_stored(way), present)
        if is_reply and new[0].action == "conflict":
            left_out.append(new[0].finding)
        else:
            steps += new
    for present in holders.values():
        steps += steps_for((), present)
    ordered = (step for action in _SIGNS for step in steps if step.action == action)
    warnings = (finding._replace(severity="warning") for finding in left_out)
    return RoutePlan(tuple(ordered), tuple(pending), tuple(warnings))


def _standing(static: StaticRoute, present: Sequence[Route], uplink: Uplink) -> Route | None:
    """The route of ours that Linux uses for this key, if it is right although the configured one
    waits.
    """
    if not present or present[0].protocol != OURS:
        return None
    if not uplink.can_stay(present[0], dev=static.dev, gateway=static.gateway):
        return None
    return present[0]


def _staying(standing: Route, present: Sequence[Route], missing: str) -> Iterator[Step]:
    """The steps for one key if the present route stays: it is the wanted one."""
    for step in steps_for(as_stored(standing), present):
        if step.action == "keep":
            yield step._replace(reason=f"exists, and stays; a new one would need {missing}")
        else:
            yield step


def _waits(waiting: Sequence[Pending]) -> Finding:
    first, missing = waiting[0]
    more = len(waiting) - 1
    need = f"{more + 1:,} routes, such as {first}, need" if more else f"{first} needs"
    return Finding(
        "route-waits",
        "warning",
        f"{need} {missing}",
        str(first.destination),
        missing.remedy,
        can_retry=True,
    )


def holders_of(snapshot: Snapshot, keys: Iterable[RouteKey]) -> dict[RouteKey, list[Route]]:
    """The routes that hold these keys, and our other routes, made `bare`; the kernel uses the first
    of a key.
    """
    holders: dict[RouteKey, list[Route]] = {key: [] for key in keys}
    firsts = {key.prefix.first for key in holders}
    for route in snapshot.routes:
        if route.protocol == OURS:
            holders.setdefault(route.key, []).append(bare(route))
        elif route.prefix.first in firsts and (present := holders.get(route.key)) is not None:
            present.append(bare(route))
    return holders


def steps_for(wanted: Sequence[Route], present: Sequence[Route]) -> list[Step]:
    """The steps for one key, from the entries of the wanted route (none: delete ours) and what
    holds the key now.
    """
    needed = {_compared(entry): entry for entry in wanted}
    entries = [entry for route in present for entry in as_stored(route)]
    kept: list[Route] = []
    stale: list[Route] = []
    for entry in entries:
        if entry.protocol != OURS:
            continue
        if _compared(entry) in needed:
            kept.append(entry)
        elif not any(could_take(entry, before) for before in kept):
            stale.append(
                entry
            )  # any other one stays behind the right one, where Linux does not use it
    # The last entry goes first: the first is in use until the end, and is first again if `apply`
    # rolls back. But those with several next hops go last: a request to delete one also takes a
    # route with the first of them.
    stale.reverse()
    stale.sort(key=lambda entry: len(entry.next_hops))
    if wanted:
        conflict = _conflict(wanted, present, stale)
        if conflict is not None:
            return [conflict]
    steps: list[Step] = []
    for compared, entry in needed.items():
        holder = next((holder for holder in entries if _compared(holder) == compared), None)
        if holder is None:
            steps.append(Step("add", entry, "missing"))
        elif holder.protocol == OURS:
            steps.append(Step("keep", holder, "exists"))
        else:
            steps.append(
                Step(
                    "keep",
                    holder,
                    f"exists (proto {protocol_name(holder.protocol)}), and is not changed",
                )
            )
    steps += (Step("delete", entry, "no longer configured") for entry in stale)
    return steps


def could_take(request: Route, other: Route) -> bool:
    """Whether a request to delete a route could take another one of ours with its key, if that
    comes first.

    It could if the other has the first next hops of the request, and nothing that the request has
    differs. In IPv6, a route cannot even have one next hop twice.
    """
    for name in ("type", "scope"):
        if getattr(request, name) != getattr(other, name):
            return False
    for name in ("prefsrc", "mtu", "advmss"):
        if getattr(request, name) not in {None, getattr(other, name)}:
            return False
    way = [(hop.dev, hop.gateway) for hop in other.next_hops]
    return bool(way) and way == [(hop.dev, hop.gateway) for hop in request.next_hops[: len(way)]]


def _conflict(
    wanted: Sequence[Route], present: Sequence[Route], stale: Sequence[Route]
) -> Step | None:
    """The conflict, if the first route that stays is another program's, and is not as wanted."""
    for route in present:
        if set(as_stored(route)) <= set(stale):
            continue
        [whole] = as_listed(wanted)
        if route.protocol == OURS or _compared(route) == _compared(whole):
            return None
        return Step("conflict", whole, SENTENCES["held"].format(held=route), route)
    return None


def _compared(route: Route) -> Route:
    """The route without what changes nothing about where packets go: whose it is, and `onlink`.

    `onlink` only says that Linux did not check the gateway when the route was added.
    """
    plain = bare(route)
    if plain.protocol != OURS:
        plain = plain._replace(protocol=OURS)
    if not any(hop.onlink for hop in plain.next_hops):
        return plain
    return plain._replace(next_hops=tuple(hop._replace(onlink=False) for hop in plain.next_hops))


def bare(route: Route) -> Route:
    """The route without the state of its next hops.

    IPv6 next hops are separate entries without an order; Linux drops `onlink`, and the weight of a
    single one.
    """
    if len(route.next_hops) == 1 and route.next_hops[0][2:] == _PLAIN:
        return route  # most routes: a plan of 10,000 takes half the time
    next_hops = tuple(map(bare_hop, route.next_hops))
    if route.prefix.family != IPV4:
        next_hops = tuple(
            sorted((NextHop(hop.dev, gateway=hop.gateway) for hop in next_hops), key=str)
        )
    return route._replace(next_hops=next_hops)
