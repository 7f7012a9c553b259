"""Carry out a plan as a transaction: make before break, verify, and undo all of it when anything goes wrong.

Here: the one place where routes are changed. Not here: what is wanted (`plan`), and what else a task does.

The story. What is made goes first, in one batch, then what is broken; then the table is read back and has to be, for
every key that the plan is about, what the plan says. When it is not, or a change was refused, or the run was told to
stop, the table is read again, and the difference to what it was before is undone: so it does not matter how far things
had come, nor whether anybody knows. Routes of others are not touched on any of these ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from hostrouting.backends.base import Change, Outcome, RouteBackend
from hostrouting.errors import ApplyError, BackendError, NoSuchRoute, RouteConflict
from hostrouting.model import IPV6, OURS, Prefix, Route, Snapshot, route_keys
from hostrouting.uplink import bare_leg

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from hostrouting.plan import RoutePlan, Step

__all__ = ["Applied", "apply_plan"]

Key: TypeAlias = tuple[int, Prefix, int, int]  # what the kernel tells routes apart by, as in Route.key
_AT_ONCE = 5_000  # changes between two looks at whether to stop
_TRIES = 3  # at undoing, before what is left is reported


@attrs.frozen
class Applied:
    """What was done: the plan, and the changes that carried it out; none when there was nothing to do."""

    plan: RoutePlan
    changes: tuple[Change, ...] = ()

    def log_fields(self) -> dict[str, object]:
        """How many routes were added, replaced, deleted and kept."""
        actions = [step.action for step in self.plan.steps]
        return {action: actions.count(action) for action in ("add", "replace", "delete", "keep") if action in actions}


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
        raise RouteConflict([f"{step.route.prefix}: {step.reason}" for step in plan.conflicts])
    if plan.pending:
        raise ValueError(f"the plan is not ready: {'; '.join(map(str, plan.pending))}")
    if not plan.changes:
        return Applied(plan)
    made, broken = _changes(plan, before)
    transaction = _Transaction(plan, backend, before, {protocol, *former})
    try:
        for batch in (*_batches(made), *_batches(broken)):
            check()
            transaction.carry_out(batch)
        check()
        transaction.verify()
    except BackendError as error:
        raise ApplyError(str(error), after=transaction.undo()) from error
    except _Refused as refused:
        raise ApplyError(*refused.reasons, after=transaction.undo()) from refused.__cause__
    except BaseException as stopped:
        stopped.add_note(transaction.undo())
        raise
    return Applied(plan, (*made, *broken))


class _Refused(Exception):  # noqa: N818  it leads to the undoing and never leaves this module
    """The kernel would not do it, or somebody else was at work."""

    def __init__(self, reasons: Iterable[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__(*self.reasons)


def _changes(plan: RoutePlan, before: Snapshot) -> tuple[list[Change], list[Change]]:
    """What the plan makes, and what it breaks, as changes in the order of the plan.

    A route of ours that takes the place of another is put beside it before that one goes, so that there is no moment
    without either and nobody else's can be overwritten. Only where others stand beside it (or in IPv6, where
    a second one would become a leg of the first) does it have to be rewritten in its place.
    """
    made: list[Change] = []
    broken: list[Change] = []
    held = _Table(before, {step.route.key for step in plan.changes if step.action == "replace"})
    for step in plan.changes:
        if step.action == "delete":
            broken.append(Change("delete", step.route))
        elif step.action == "add":
            made.append(Change("add", step.route))
        elif _stands_alone(step, held):
            made.append(Change("append", step.route))
            broken.append(Change("delete", step.held or step.route))
        else:
            made.append(Change("replace", step.route))
    return made, broken


def _stands_alone(step: Step, held: _Table) -> bool:
    return step.route.prefix.family != IPV6 and len(held.at(step.route.key)) == 1


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

    def carry_out(self, changes: list[Change]) -> None:
        """Make the changes; a route that somebody else took away first is gone as it should be."""
        failed = [outcome for outcome in self._backend.change(changes) if not _is_done(outcome)]
        if failed:
            raise _Refused(str(outcome.error) for outcome in failed) from failed[0].error

    def verify(self) -> None:
        """Read the table back: for each key that the plan is about it has to be what the plan says."""
        now = self._read()
        strange = [key for key in self._keys if now.at(key) != self._wanted.at(key)]
        if strange:
            raise _Refused(
                f"{_words(self._wanted.at(key))} was to stand there, but read back is {_words(now.at(key))}: "
                "somebody else changes these routes at the same time"
                for key in sorted(strange)
            )

    def undo(self) -> str:
        """Bring back what was there before, as far as it is ours; say what is true now."""
        try:
            for _ in range(_TRIES):
                changes = list(self._way_back())
                if not changes:
                    break
                self._backend.change(changes)
            now = self._read()
        except BackendError as error:
            return f"undoing it failed too ({error}); what is in the route table now is not known"
        left = [key for key in self._keys if now.at(key) != self._before.at(key)]
        if not left:
            return "what had been done was undone: the route table is as it was before"
        differences = "; ".join(
            f"{_words(now.at(key))} instead of {_words(self._before.at(key))}" for key in sorted(left)
        )
        return f"what had been done could not all be undone: there is now {differences}"

    def _way_back(self) -> Iterator[Change]:
        """What is ours and missing, then what is ours and too much."""
        now = self._read()
        for key in sorted(self._keys):
            yield from self._back(now.at(key), self._before.at(key))
        for key in sorted(self._keys):
            for route in now.at(key):
                if route.protocol in self._ours and route not in self._before.at(key):
                    yield Change("delete", route)

    def _back(self, there: tuple[Route, ...], then: tuple[Route, ...]) -> Iterator[Change]:
        """What is ours and missing of one key, put where it stood: before the routes of others, or behind them.

        The kernel puts a route before all others of its key or behind them. So ours that stand between that end
        and a missing one are put there anew.
        """
        missing = [place for place, it in enumerate(then) if it not in there and it.protocol in self._ours]
        others = [place for place, it in enumerate(then) if it.protocol not in self._ours]
        if not there and missing:
            there = (then[missing.pop(0)],)
            yield Change("add", there[0])
        before = max((place for place in missing if others and place < others[0]), default=-1)
        for place in range(before, -1, -1):
            yield from self._anew("prepend", then[place], there)
        behind = min((place for place in missing if place > before), default=len(then))
        for place in range(behind, len(then)):
            if place not in others:
                yield from self._anew("append", then[place], there)

    def _anew(self, verb: Literal["append", "prepend"], route: Route, there: tuple[Route, ...]) -> Iterator[Change]:
        if route in there:
            yield Change("delete", route)
        yield Change(verb, route)

    def _read(self) -> _Table:
        families = {prefix.family for _, prefix, _, _ in self._keys}
        return _Table(self._backend.snapshot(family=families.pop() if len(families) == 1 else None), self._keys)


class _Table:
    """Of a snapshot, the routes of the keys that a plan is about, without the state of their links."""

    def __init__(self, snapshot: Snapshot, keys: set[Key]) -> None:
        self._found: dict[Key, tuple[Route, ...]] = {}
        near = {(prefix.family, table, prefix.network, prefix.length) for table, prefix, _, _ in keys}
        for position, (family, table, network, length, _) in enumerate(route_keys(snapshot.routes)):
            if (family, table, network, length) in near:
                route = _bare(snapshot.routes[position])
                self._found[route.key] = (*self._found.get(route.key, ()), route)

    def at(self, key: Key) -> tuple[Route, ...]:
        """The routes that hold the key, the one that the kernel takes first."""
        return self._found.get(key, ())


def _bare(route: Route) -> Route:
    return attrs.evolve(route, legs=tuple(map(bare_leg, route.legs)))


def _is_done(outcome: Outcome) -> bool:
    gone = outcome.change.verb == "delete" and isinstance(outcome.error, NoSuchRoute)
    return outcome.ok or gone


def _words(routes: tuple[Route, ...]) -> str:
    return " and ".join(f"[{route}]" for route in routes) or "no route"
