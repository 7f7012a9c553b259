"""Carry out a plan as a transaction: make before break, verify, and undo all of it when anything goes wrong.

Here: the one place where routes are changed. Not here: what is wanted (`plan`), and what else a task does.

The story. What is made goes first, and is read back; then what is broken; then the table is read again and has to
be, for every key that the plan is about, what the plan says. When it is not, or a change was refused, or the run was
told to stop, the table is read once more, and the difference to what it was before is undone: so it does not matter how
far things had come, nor whether anybody knows. Routes of others are not touched on any of these ways.

Two limits. The kernel puts a route before all others of its key or behind them, never between two: what is deleted
from between two routes of others and has to come back comes back behind them, and that is told; the route that the
kernel takes, the first, is always the one that it was. And in IPv6, where a second route becomes a leg of the first,
one of ours takes the place of another by the kernel's `replace`, which rewrites whoever is first at that moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs

from hostrouting.backends.base import Change, Outcome, RouteBackend
from hostrouting.effects import tell_effects
from hostrouting.errors import ApplyError, BackendError, NoSuchRoute, RouteConflict, RouteExists, Unsettled
from hostrouting.model import IPV6, OURS, Prefix, Route, Snapshot
from hostrouting.route_order import as_taken, put_back, take_away
from hostrouting.uplink import bare_leg
from phases.python310 import add_note

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from hostrouting.backends.base import Verb
    from hostrouting.plan import Place, RoutePlan

__all__ = ["Applied", "apply_plan"]

Key: TypeAlias = tuple[int, Prefix, int, int]  # what the kernel tells routes apart by, as in Route.key
_ELSE = "somebody else changes these routes at the same time"
_AT_ONCE = 5_000  # changes between two looks at whether to stop
_TRIES = 3  # at undoing, before what is left is reported
_VERBS: dict[Place, Verb] = {"only": "add", "first": "prepend", "last": "append"}


@attrs.frozen
class Applied:
    """What was done: the plan, and the changes that carried it out; none when there was nothing to do."""

    plan: RoutePlan
    changes: tuple[Change, ...] = ()

    def log_fields(self) -> dict[str, object]:
        """How many routes were added, replaced, deleted and kept."""
        actions = [step.action for step in self.plan.changes]
        counts = {action: actions.count(action) for action in ("add", "replace", "delete")}
        return {action: count for action, count in (counts | {"keep": self.plan.kept}).items() if count}


def apply_plan(
    plan: RoutePlan,
    backend: RouteBackend,
    *,
    before: Snapshot,
    protocol: int = OURS,
    former: Collection[int] = (),
    check: Callable[[], object] = lambda: None,
) -> Applied:
    """Carry out the plan, which was made from the snapshot `before`, or leave everything as it was.

    RouteConflict, before anything is touched, when somebody else holds a key; ApplyError when the kernel refuses a
    change or the table is not what the plan says afterwards. Ours are the routes that carry `protocol` or a `former`
    number. `check` is called where stopping is possible; whatever it raises comes out after what was done is undone.
    A plan that changes nothing writes nothing.
    """
    if plan.conflicts:
        raise RouteConflict([f"{step.route.prefix}: {step.why}" for step in plan.conflicts])
    if plan.pending:
        raise ValueError(f"the plan is not ready: {'; '.join(map(str, plan.pending))}")
    if not plan.changes:
        return Applied(plan)
    made, broken = _changes(plan)
    transaction = _Transaction(plan, backend, before, {protocol, *former})
    try:
        for batch in _batches(made):
            check()
            transaction.carry_out(batch)
        if made and broken:
            check()
            transaction.verify_made(made)
        for batch in _batches(broken):
            check()
            transaction.carry_out(batch)
        check()
        transaction.verify()
    except BackendError as error:
        after = transaction.undo()
        raise tell_effects(ApplyError(str(error), after=after), transaction.done) from error
    except _Refused as refused:
        after = transaction.undo()
        raise tell_effects(ApplyError(*refused.reasons, after=after), transaction.done) from refused.__cause__
    except BaseException as stopped:
        add_note(stopped, transaction.undo())
        tell_effects(stopped, transaction.done)
        raise
    return Applied(plan, (*made, *broken))


class _Refused(Exception):  # noqa: N818  it leads to the undoing and never leaves this module
    """The kernel would not do it, or somebody else was at work."""

    def __init__(self, reasons: Iterable[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__(*self.reasons)


def _changes(plan: RoutePlan) -> tuple[list[Change], list[Change]]:
    """What the plan makes, and what it breaks, as changes in the order of the plan.

    A route of ours that takes the place of another is put behind it, and then that one goes: there is no moment without
    either, and nobody else's can be overwritten, whoever comes in between. With somebody else's behind it, the new one
    is put before it; where the kernel could take it for the old one then, that one goes first. (In IPv6 it is rewritten
    in its place.)
    """
    made: list[Change] = []
    broken: list[Change] = []
    # The kernel has no route twice in one key: a twin behind goes before, and comes back after.
    before: list[Change] = []
    after: list[Change] = []
    replaced = [step for step in plan.changes if step.action == "replace"]
    coming = {_bare(step.route) for step in replaced}
    going = {_bare(step.held) for step in replaced if step.held is not None}
    for step in plan.changes:
        if step.action == "delete":
            (before if _bare(step.route) in coming else broken).append(Change("delete", step.route))
        elif step.action == "add":
            (after if _bare(step.route) in going else made).append(Change(_VERBS[step.place], step.route))
        elif step.held is None or step.route.prefix.family == IPV6:
            made.append(Change("replace", step.route))
        else:
            made.append(Change("append" if step.place == "only" else "prepend", step.route))
            first = step.place != "only" and _could_be(step.held, step.route)
            (before if first else broken).append(Change("delete", step.held))
    return [*before, *made], [*broken, *after]


def _could_be(route: Route, other: Route) -> bool:
    """Whether the kernel, told to delete the route, could take the other for it: it may look at the first leg only."""
    one, two = route.legs[:1], other.legs[:1]
    return [(leg.dev, leg.gateway) for leg in one] == [(leg.dev, leg.gateway) for leg in two]


def _batches(changes: list[Change]) -> Iterator[list[Change]]:
    for begin in range(0, len(changes), _AT_ONCE):
        yield changes[begin : begin + _AT_ONCE]


class _Transaction:
    """One plan on its way into the kernel."""

    def __init__(self, plan: RoutePlan, backend: RouteBackend, before: Snapshot, ours: set[int]) -> None:
        self._plan, self._backend, self._ours = plan, backend, ours
        self._keys = {step.route.key for step in plan.steps}
        self._before = _Table(before, self._keys)
        self._wanted = _Table(plan.apply_to(before), self._keys)
        self.done: list[Change] = []
        """What the kernel has changed, in order; what undoing changed is there as well."""

    def carry_out(self, changes: list[Change]) -> None:
        """Make the changes; what somebody else did first, exactly as it should be, is done."""
        failed = [outcome for outcome in self._change(changes) if not _is_done(outcome)]
        if any(_is_there_already(outcome) for outcome in failed):
            now = self._read()
            failed = [
                it for it in failed if not (_is_there_already(it) and it.change.route in now.at(it.change.route.key))
            ]
        if failed:
            raise _Refused(str(outcome.error) for outcome in failed) from failed[0].error

    def verify_made(self, made: Iterable[Change]) -> None:
        """Read back what was made: nothing is broken before all of it stands."""
        now = self._read()
        asked = [change.route for change in made if change.verb != "delete"]
        missing = [route for route in asked if route not in now.at(route.key)]
        if missing:
            raise _Refused(
                f"[{route}] was made, but read back is {_words(now.at(route.key))}: {_ELSE}" for route in missing
            )

    def verify(self) -> None:
        """Read the table back: for each key that the plan is about it has to be what the plan says."""
        now = self._read()
        strange = [key for key in self._keys if now.at(key) != self._wanted.at(key)]
        if strange:
            raise _Refused(
                f"{_words(self._wanted.at(key))} was to stand there, but read back is {_words(now.at(key))}: {_ELSE}"
                for key in sorted(strange)
            )

    def undo(self) -> str:
        """Bring back what was there before, as far as it is ours; say what is true now.

        On a host that never rests the last reading has to do: what is wrong with it is found at the next try.
        """
        problem = ""
        for _ in range(_TRIES):
            try:
                changes = list(self._way_back(self._read(at_any_rate=True)))
                for batch in _batches(changes):
                    self._change(batch)
            except BackendError as error:
                problem = f"undoing it failed too ({error}); "
                if not error.can_retry:
                    break
            else:
                problem = ""
                if not changes:
                    break
        try:
            now = self._read(at_any_rate=True)
        except BackendError as error:
            return f"undoing it failed too ({error}); what is in the route table now is not known"
        return problem + self._truth(now)

    def _change(self, changes: list[Change]) -> tuple[Outcome, ...]:
        outcomes = self._backend.change(changes)
        self.done += [outcome.change for outcome in outcomes if outcome.ok]
        return outcomes

    def _truth(self, now: _Table) -> str:
        """How what is there now differs from what was there before."""
        left = [key for key in self._keys if as_taken(now.at(key)) != as_taken(self._before.at(key))]
        moved = [key for key in self._keys if key not in left and now.at(key) != self._before.at(key)]
        if left:
            differences = "; ".join(
                f"{_words(now.at(key))} instead of {_words(self._before.at(key))}" for key in sorted(left)
            )
            return f"what had been done could not all be undone: there is now {differences}"
        said = "what had been done was undone: the route table is as it was before"
        if moved:
            places = ", ".join(f"{prefix} metric {metric}" for _, prefix, _, metric in sorted(moved))
            said += f", but for the order of the routes behind the first to {places}"
        return said

    def _way_back(self, now: _Table) -> Iterator[Change]:
        """What is ours and missing, then what is ours and too much."""
        pairs = [(now.at(key), self._before.at(key)) for key in sorted(self._keys)]
        for there, then in pairs:
            yield from put_back(there, then, self._ours)
        for there, then in pairs:
            yield from take_away(there, then, self._ours)

    def _read(self, *, at_any_rate: bool = False) -> _Table:
        families = {prefix.family for _, prefix, _, _ in self._keys}
        tables = {table for table, _, _, _ in self._keys}
        try:
            snapshot = self._backend.snapshot(
                family=families.pop() if len(families) == 1 else None,
                table=tables.pop() if len(tables) == 1 else None,
                prefixes={prefix for _, prefix, _, _ in self._keys},
            )
        except Unsettled as error:
            if not at_any_rate or not isinstance(error.last, Snapshot):
                raise
            snapshot = error.last
        return _Table(snapshot, self._keys)


class _Table:
    """Of a snapshot, the routes of the keys that a plan is about, without the state of their links."""

    def __init__(self, snapshot: Snapshot, keys: set[Key]) -> None:
        self._found: dict[Key, tuple[Route, ...]] = {}
        for place in snapshot.routes.leading_to({prefix for _, prefix, _, _ in keys}):
            route = _bare(snapshot.routes[place])
            self._found[route.key] = (*self._found.get(route.key, ()), route)

    def at(self, key: Key) -> tuple[Route, ...]:
        """The routes that hold the key, the one that the kernel takes first."""
        return self._found.get(key, ())


def _bare(route: Route) -> Route:
    return attrs.evolve(route, legs=tuple(map(bare_leg, route.legs)))


def _is_done(outcome: Outcome) -> bool:
    gone = outcome.change.verb == "delete" and isinstance(outcome.error, NoSuchRoute)
    return outcome.ok or gone


def _is_there_already(outcome: Outcome) -> bool:
    return isinstance(outcome.error, RouteExists)


def _words(routes: tuple[Route, ...]) -> str:
    return " and ".join(f"[{route}]" for route in routes) or "no route"
