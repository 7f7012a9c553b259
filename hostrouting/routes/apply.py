"""Carry out a plan as a transaction: add before deleting, verify, and undo everything if anything fails.

Here: the only place where our routes are changed. Not here: which routes are wanted (`plan`), what else a task does,
and the routes of azure-vnet, which `tasks.cleanup` deletes.

How it works. First all additions are made, and read back. Then the deletions are made. Then the table is read again,
and has to match the plan for every key that the plan is about. If it does not match, or a change was refused, or the
run was cancelled, the table is read once more, and every difference from the state before is reversed. So it does not
matter how many changes had been made, or whether that is known. Routes that are not ours are never touched, with
the one exception that the last sentence names.

Two limits. The kernel adds a route before or after all others with its key, never between two of them. So if one of our
routes was deleted from between two routes that are not ours, and has to be restored, it is restored behind them, and
the message says so. The first route of a key, which is the one that the kernel uses, is always the same as before. And
in IPv6, each next hop is an entry of its own (`kernel.requests`), but only the protocol of the first can be read. So
tables are compared entry by entry, as if each had our protocol, and entries are deleted one at a time, with our
protocol. Entries that Linux does not delete belong to another program; `Applied.beside` names them. The kernel's
`replace` would delete these, too. It is used only if the one next hop of our route stays and other fields change: Linux
does not add this next hop again, and there must always be a route. If another program adds a next hop between the
reading and this change, Linux deletes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import attrs

from hostrouting.errors import ApplyError, BackendError
from hostrouting.host.effects import tell_effects
from hostrouting.kernel.base import Outcome, RouteBackend, RouteRequest
from hostrouting.model.prefix import IPV6
from hostrouting.model.route import OURS, Route, RouteKey
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.plan import RoutePlan, beside_finding, can_join, hop_of, is_shared, next_hop_stays
from hostrouting.routes.uplink import bare_leg
from phases.errors import add_note

if TYPE_CHECKING:
    from hostrouting.finding import Finding

_ELSE = "another program changes these routes at the same time"
_AT_ONCE = 5_000  # changes between two calls of `check`
_TRIES = 3  # attempts to roll back, before the remaining differences are reported


class Applied(NamedTuple):
    """What was done: the plan, and the changes that carried it out; empty if there was nothing to do."""

    plan: RoutePlan
    changes: tuple[RouteRequest, ...] = ()
    beside: tuple[Finding, ...] = ()
    """For each IPv6 route that has next hops of another program beside the wanted ones, a finding."""


def apply_plan(
    plan: RoutePlan, backend: RouteBackend, *, before: Snapshot, check: Callable[[], object] = lambda: None
) -> Applied:
    """Carry out the plan, which was made from the snapshot `before`, or leave everything as it was.

    Raises RouteConflict, before anything is changed, if a route that is not ours holds a key. Raises ApplyError if the
    kernel refuses a change, or if the table does not match the plan afterwards; the changes were then rolled back, and
    the error says what is true now. `check` is called wherever the run can be cancelled; what it raises is raised again
    after the rollback. A plan without changes writes nothing.
    """
    plan.require_possible()
    if plan.pending:
        raise ValueError(f"the plan is not ready: {'; '.join(map(str, plan.pending))}")
    made, broken = _changes(plan)
    if not made and not broken:
        return Applied(plan)
    transaction = _Transaction(plan, backend, before)
    try:
        transaction.carry_out(made, check)
        if made and broken:
            check()
            transaction.verify_made(made)
        transaction.carry_out(broken, check)
        check()
        beside = transaction.verify()
    except BackendError as error:
        after = transaction.undo()
        raise tell_effects(ApplyError(str(error), after=after), transaction.done) from error
    except _Refused as refused:
        after = transaction.undo()
        failed = ApplyError(*refused.reasons, after=after, refused=refused.keys)
        raise tell_effects(failed, transaction.done) from refused.__cause__
    except BaseException as stopped:
        add_note(stopped, transaction.undo())
        tell_effects(stopped, transaction.done)
        raise
    return Applied(plan, tuple(transaction.done), beside)


class _Refused(Exception):  # noqa: N818  it starts the rollback and never leaves this module
    """The kernel refused a change, or another program changed the routes."""

    def __init__(self, reasons: Iterable[tuple[RouteKey, str]]) -> None:
        found = tuple(reasons)
        self.keys = [key for key, _ in found]
        self.reasons = [text for _, text in found]


def _changes(plan: RoutePlan) -> tuple[list[RouteRequest], list[RouteRequest]]:
    """The additions and the deletions of the plan, as changes in the order of the plan.

    When one of our routes replaces another, the new one is added behind the old one, which is then deleted. So one of
    the two always exists, and no route that is not ours can be overwritten, even if it is added in between. If a route
    that is not ours is behind the old one, the new one is added before the old one; if the kernel could then confuse
    the two, the old one is deleted first.
    """
    made: list[RouteRequest] = []
    broken: list[RouteRequest] = []
    # The kernel has no identical routes with one key: one that is identical to a new route is deleted before.
    before: list[RouteRequest] = []
    coming = {_bare(step.route) for step in plan.changes if step.action == "replace"}
    for step in plan.asking:
        if step.action == "keep" and step.asked is not None:
            broken += _deletions(step.asked)
    for step in plan.changes:
        if step.action == "delete":
            (before if _bare(step.route) in coming else broken).extend(_deletions(step.route))
        elif step.held is None:
            made.append(RouteRequest("add", step.route))
        elif step.route.prefix.family == IPV6:
            new, old = _replacement(step.held, step.route)
            made += new
            broken += old
        else:
            made.append(RouteRequest("prepend" if step.is_first else "append", step.route))
            is_alike = step.is_first and _could_be(step.held, step.route)
            (before if is_alike else broken).append(RouteRequest("delete", step.held))
    return [*before, *made], broken


def _replacement(held: Route, wanted: Route) -> tuple[list[RouteRequest], list[RouteRequest]]:
    """The additions and the deletions that turn an IPv6 route of ours into the wanted one, next hop by next hop."""
    there, coming = ({_hop(entry): entry for entry in _entries(_bare(route))} for route in (held, wanted))
    gone = [entry for hop, entry in there.items() if hop not in coming]
    is_alone = len(there) == 1 and held.protocol == OURS
    if is_alone and not gone and len(coming) == 1:
        return [RouteRequest("replace", wanted)], []
    expected = {hop: attrs.evolve(entry, protocol=held.protocol) for hop, entry in coming.items()}
    # A single next hop can have a weight that Linux does not list.
    other = [hop for hop in coming if hop in there and (is_alone or there[hop] != expected[hop])]
    # There are others beside such a next hop while it is missing.
    changed = [change for hop in other for change in (_removal(there[hop]), RouteRequest("append", coming[hop]))]
    new = [RouteRequest("append", entry) for hop, entry in coming.items() if hop not in there]
    deleted = (RouteRequest("delete", entry) for entry in gone)
    old = [*deleted] if is_alone else [_removal(entry) for entry in gone]
    return [*new, *changed], old


def _deletions(route: Route) -> list[RouteRequest]:
    entries = _entries(route)
    if len(entries) == 1 and route.protocol == OURS:
        return [RouteRequest("delete", route)]
    return [_removal(entry) for entry in entries]


def _removal(entry: Route) -> RouteRequest:
    """The deletion of one of several next hops. Linux deletes it only if it is ours."""
    return RouteRequest("delete", attrs.evolve(entry, protocol=OURS))


def _entries(route: Route) -> tuple[Route, ...]:
    """The entries of the kernel's table that make up this route: in IPv6, one for each next hop."""
    return tuple(attrs.evolve(route, legs=(leg,)) for leg in route.legs) if is_shared(route) else (route,)


def _hop(entry: Route) -> tuple[object, ...]:
    """What distinguishes the IPv6 entries of a key."""
    return (entry.nexthop_id, *map(hop_of, entry.legs))


def _place_of(change: RouteRequest) -> tuple[object, ...]:
    """The key and the next hop that the change is about."""
    return change.route.key, _hop(change.route)


def _could_be(route: Route, other: Route) -> bool:
    """Whether the kernel could delete the other route instead: it may compare only the first next hop."""
    one, two = route.legs[:1], other.legs[:1]
    return [(leg.dev, leg.gateway) for leg in one] == [(leg.dev, leg.gateway) for leg in two]


def _batches(changes: list[RouteRequest]) -> Iterator[list[RouteRequest]]:
    for begin in range(0, len(changes), _AT_ONCE):
        yield changes[begin : begin + _AT_ONCE]


class _Transaction:
    """One plan that is being carried out."""

    def __init__(self, plan: RoutePlan, backend: RouteBackend, before: Snapshot) -> None:
        self._plan, self._backend = plan, backend
        self._keys = {step.route.key for step in plan.steps}
        self._before = _Table(before, self._keys)
        self._wanted = _Table(plan.apply_to(before), self._keys)
        self._asked = _asked(plan)
        self._touched: set[tuple[object, ...]] = set()
        self.done: list[RouteRequest] = []
        """What the kernel has changed, in order, including the changes of a rollback."""

    def carry_out(self, changes: list[RouteRequest], check: Callable[[], object]) -> None:
        """Make the changes; a change that another program has already made counts as done.

        All of them are tried, so that the failure names every route that the kernel refuses.
        """
        failed: list[Outcome] = []
        for batch in _batches(changes):
            check()
            failed += [outcome for outcome in self._change(batch) if not _is_done(outcome)]
        if any(_is_there_already(outcome) for outcome in failed):
            now = self._read()
            failed = [
                outcome for outcome in failed if not (_is_there_already(outcome) and now.has(outcome.change.route))
            ]
        if failed:
            raise _Refused((outcome.change.route.key, str(outcome.error)) for outcome in failed) from failed[0].error

    def verify_made(self, made: Iterable[RouteRequest]) -> None:
        """Read back the additions: nothing is deleted before all of them exist."""
        now = self._read()
        asked = [change.route for change in made if change.verb != "delete"]
        missing = [route for route in asked if not now.has(route)]
        if missing:
            pairs = [(route, _words(now.at(route.key))) for route in missing]
            raise _Refused(
                (route.key, f"[{route}] was added, but the table now has {found}: {_ELSE}") for route, found in pairs
            )

    def verify(self) -> tuple[Finding, ...]:
        """Read the table back: it has to match the plan for each key that the plan is about.

        Returns a finding for each route with next hops that are not wanted and that Linux did not delete for us.
        """
        now = self._read()
        strange = [
            key for key in self._keys if now.at(key) != self._wanted.at(key) and not self._is_beside(key, now.at(key))
        ]
        if strange:
            words = [(key, _words(self._wanted.at(key)), _words(now.at(key))) for key in sorted(strange)]
            raise _Refused(
                (key, f"the table should have {wanted}, but now has {found}: {_ELSE}") for key, wanted, found in words
            )
        asked = sorted(self._asked.items())
        beside = ((key, [one for one in now.at(key) if _hop(one) in hops]) for key, hops in asked)
        return tuple(
            beside_finding(key.prefix, "; ".join(next_hop_stays(one) for one in stays))
            for key, stays in beside
            if stays
        )

    def _is_beside(self, key: RouteKey, now: tuple[Route, ...]) -> bool:
        """Whether the wanted IPv6 next hops are there, with no others but those that Linux did not delete for us."""
        wanted, there = set(map(_hop, self._wanted.at(key))), set(map(_hop, now))
        asked = self._asked.get(key)
        return asked is not None and wanted - asked <= there <= wanted | asked

    def undo(self) -> str:
        """Restore our routes as they were before, and return a sentence about what is true now.

        If the tables keep changing, the last snapshot is used: the next attempt finds any difference that it missed.
        """
        problem = ""
        for _ in range(_TRIES):
            try:
                changes = list(self._way_back(self._read_back()))
                for batch in _batches(changes):
                    self._change(batch)
            except BackendError as error:
                problem = f"rolling back failed too ({error}); "
                if not error.can_retry:
                    break
            else:
                problem = ""
                if not changes:
                    break
        try:
            now = self._read_back()
        except BackendError as error:
            return f"rolling back failed too ({error}); the present state of the route table is not known"
        return problem + self._truth(now)

    def _change(self, changes: list[RouteRequest]) -> tuple[Outcome, ...]:
        touched = self._touched
        self._touched = touched.union(map(_place_of, changes))  # without an answer, any of these may have been made
        outcomes = self._backend.change(changes)
        made = [outcome.change for outcome in outcomes if outcome.ok]
        self._touched = touched.union(map(_place_of, made))
        self.done += made
        return outcomes

    def _truth(self, now: _Table) -> str:
        """A sentence about the differences between the present routes and those before."""
        left = [key for key in self._keys if as_taken(now.at(key)) != as_taken(self._before.at(key))]
        moved = [key for key in self._keys if key not in left and now.at(key) != self._before.at(key)]
        if left:
            differences = "; ".join(
                f"{_words(now.at(key))} instead of {_words(self._before.at(key))}" for key in sorted(left)
            )
            return f"not every change could be rolled back: there is now {differences}"
        said = "every change was rolled back: the route table is as it was before"
        if moved:
            places = ", ".join(f"{key.prefix} metric {key.metric}" for key in sorted(moved))
            said += f", but where there are several routes to {places}, those after the first may be in another order"
        return said

    def _way_back(self, now: _Table) -> Iterator[RouteRequest]:
        """The changes that restore the routes: additions of our missing ones, then deletions of added ones."""
        pairs = [(now.at(key), self._former(key, now.at(key))) for key in sorted(self._keys)]
        for there, then in pairs:
            yield from (put_back_hops if _are_hops(there, then) else put_back)(there, then)
        for there, then in pairs:
            yield from (take_away_hops if _are_hops(there, then) else take_away)(there, then)

    def _former(self, key: RouteKey, there: tuple[Route, ...]) -> tuple[Route, ...]:
        """The entries before the change, without next hops that are gone although we did not delete them."""
        then, hops = self._before.at(key), set(map(_hop, there))
        if key not in self._before.shared:
            return then
        return tuple(entry for entry in then if _hop(entry) in hops or (key, _hop(entry)) in self._touched)

    def _read_back(self) -> _Table:
        """The table, also if it keeps changing. A next hop that looks as it was before is as we have added it since.

        Of several IPv6 next hops, Linux lists only the mtu of the first.
        """
        now = self._read(at_any_rate=True)
        ours = {_place_of(change): change.route for change in self.done}
        for key in now.shared:
            then = self._before.at(key)
            there = (ours.get((key, _hop(one)), one) if one in then else one for one in now.at(key))
            now.found[key] = tuple(there)
        return now

    def _read(self, *, at_any_rate: bool = False) -> _Table:
        families = {key.prefix.family for key in self._keys}
        tables = {key.table for key in self._keys}
        try:
            snapshot = self._backend.snapshot(
                family=families.pop() if len(families) == 1 else None,
                table=tables.pop() if len(tables) == 1 else None,
                prefixes={key.prefix for key in self._keys},
            )
        except BackendError as error:
            if not at_any_rate or not isinstance(error.last, Snapshot):
                raise
            snapshot = error.last
        return _Table(snapshot, self._keys)


def _asked(plan: RoutePlan) -> dict[RouteKey, set[tuple[object, ...]]]:
    """The unwanted next hops of each key that are deleted only if they are ours."""
    found: dict[RouteKey, set[tuple[object, ...]]] = {step.route.key: set() for step in plan.asking}
    for step in (*plan.changes, *plan.asking):
        held = step.route if step.action == "delete" else step.held
        routes = [route for route in (step.asked, held if held and is_shared(held) else None) if route is not None]
        wanted = set() if step.action in {"delete", "keep"} else set(map(_hop, _entries(step.route)))
        for route in routes:
            found.setdefault(step.route.key, set()).update(set(map(_hop, _entries(_bare(route)))) - wanted)
    return found


class _Table:
    """The entries of a snapshot with the keys of a plan, without the state of their next hops."""

    def __init__(self, snapshot: Snapshot, keys: set[RouteKey]) -> None:
        """Our protocol is taken for next hops that the kernel lists together, without the protocol of each."""
        self.found: dict[RouteKey, tuple[Route, ...]] = {}
        self.shared: set[RouteKey] = set()
        for place in snapshot.routes.leading_to({key.prefix for key in keys}):
            route = _bare(snapshot.routes[place])
            if is_shared(route):
                route = attrs.evolve(route, protocol=OURS)
                self.shared.add(route.key)
            self.found[route.key] = (*self.found.get(route.key, ()), *sorted(_entries(route), key=str))

    def at(self, key: RouteKey) -> tuple[Route, ...]:
        """The entries that hold the key; the kernel uses the first."""
        return self.found.get(key, ())

    def has(self, route: Route) -> bool:
        """Whether the table has this route. The protocols of IPv6 next hops are not listed, so any counts."""
        there = self.at(route.key)
        if route.key not in self.shared:
            return route in there
        return set(map(_hop, _entries(route))) <= set(map(_hop, there))


# From the present routes of a key and the former ones: the changes that restore ours in their order.


def put_back(there: tuple[Route, ...], then: tuple[Route, ...]) -> Iterator[RouteRequest]:
    """Add our missing routes of one key where they were: before the present routes, or after them."""
    while (wrong := _misplaced(there, then)) is not None:
        yield RouteRequest("delete", wrong)
        there = tuple(route for route in there if route != wrong)
    missing = [place for place, route in enumerate(then) if route not in there and route.protocol == OURS]
    ahead = _ahead(there, then)
    for place in reversed([place for place in missing if place < ahead]):
        yield RouteRequest("prepend", then[place])
    for number, place in enumerate(place for place in missing if place >= ahead):
        yield RouteRequest("append" if there or number else "add", then[place])


def take_away(there: tuple[Route, ...], then: tuple[Route, ...]) -> Iterator[RouteRequest]:
    """Delete our routes that were not there before."""
    for route in there:
        if _is_new(route, then):
            yield RouteRequest("delete", route)


# The same for IPv6 next hops: their order does not matter, and Linux deletes only ours.


def _are_hops(*tables: tuple[Route, ...]) -> bool:
    return all(can_join(entry) for entries in tables for entry in entries)


def put_back_hops(there: tuple[Route, ...], then: tuple[Route, ...]) -> Iterator[RouteRequest]:
    """Add our next hops of one key that are missing or have changed."""
    now = {_hop(entry): entry for entry in there}
    former = [entry for entry in then if entry.protocol == OURS]
    yield from (RouteRequest("append", entry) for entry in former if _hop(entry) not in now)
    for entry in former:
        standing = now.get(_hop(entry), entry)
        if standing != entry and standing.protocol == OURS:
            yield from (_removal(standing), RouteRequest("append", entry))


def take_away_hops(there: tuple[Route, ...], then: tuple[Route, ...]) -> Iterator[RouteRequest]:
    """Delete our next hops that were not there before."""
    for entry in there:
        if _hop(entry) not in map(_hop, then):
            yield _removal(entry)


def as_taken(routes: tuple[Route, ...]) -> object:
    """The routes of a key in an order that can be restored: the one in use first, then those behind it."""
    return routes[:1], sorted(map(str, routes[1:]))


def _ahead(there: tuple[Route, ...], then: tuple[Route, ...]) -> int:
    """The number of former routes before the present first one; 0 if that is new and not ours."""
    known = [then.index(route) for route in there if route in then]
    if not there or not (there[0] in then or _is_new(there[0], then)):
        return 0
    return min(known, default=len(then))


def _misplaced(there: tuple[Route, ...], then: tuple[Route, ...]) -> Route | None:
    """Return our route that is now first, if another route that was first before is still there."""
    first = next((route for route in there if route in then), None)
    was_first = next((route for route in then if route in there), None)
    return first if first is not None and first != was_first and first.protocol == OURS else None


def _is_new(route: Route, then: tuple[Route, ...]) -> bool:
    return route.protocol == OURS and route not in then


def _bare(route: Route) -> Route:
    return attrs.evolve(route, legs=tuple(map(bare_leg, route.legs)))


def _is_done(outcome: Outcome) -> bool:
    if outcome.error is None:
        return True
    return outcome.change.verb == "delete" and outcome.error.kind == "no-such-route"


def _is_there_already(outcome: Outcome) -> bool:
    return outcome.error is not None and outcome.error.kind == "exists"


def _words(routes: tuple[Route, ...]) -> str:
    return " and ".join(f"[{route}]" for route in routes) or "no route"
