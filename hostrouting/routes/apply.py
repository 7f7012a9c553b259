"""Carry out a plan: add, read back, delete, read back; if anything fails, take back what was done.

Here: the only place where our routes are changed. Not here: which routes are wanted (`plan`), and the routes of
azure-vnet, which `tasks.cleanup` deletes.

What is read back is right if a plan made from it has nothing to do. If it is not, or Linux refuses a change, or the run
was cancelled, each change is reversed, the last first: what was added is deleted, and what was deleted is added again.
That goes for changes without an answer, too: a request to delete is only for a route that is ours, and equal in every
field. Then the table is read once more, so that the error says what is true now.

A changed IPv4 route is one `replace`, planned only where our route is alone with its key. In IPv6 the new next hops are
added beside the old ones, which are deleted one at a time, with our protocol. Only the first is known to be ours, so it
is the last: if one of the others stays, that is another program's, and everything is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import attrs

from hostrouting.errors import ApplyError, BackendError
from hostrouting.host.effects import tell_effects
from hostrouting.kernel.base import RouteRequest
from hostrouting.model.prefix import IPV6
from hostrouting.model.route import OURS
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.plan import bare, holders_of, hops_of, steps_for
from phases.errors import add_note

if TYPE_CHECKING:
    from hostrouting.kernel.base import Outcome, RouteBackend
    from hostrouting.model.route import Route, RouteKey
    from hostrouting.routes.plan import RoutePlan, Step

T = TypeVar("T")
_Change: TypeAlias = "tuple[RouteRequest, RouteRequest]"
"""A request, and the one that reverses it."""

_TRIES = 3  # attempts to roll back while the kernel does not answer


class Applied(NamedTuple):
    """What was done: the plan, and the changes that carried it out; empty if there was nothing to do."""

    plan: RoutePlan
    changes: tuple[RouteRequest, ...] = ()


def apply_plan(
    plan: RoutePlan, backend: RouteBackend, *, before: Snapshot, check: Callable[[], object] = lambda: None
) -> Applied:
    """Carry out the plan, which was made from the snapshot `before`, or leave everything as it was.

    Raises RouteConflict, before anything is changed, if a route that is not ours holds a key. Raises ApplyError if the
    kernel refuses a change, or if the table does not match the plan afterwards; the changes were then rolled back, and
    the error says what is true now. `check` is called wherever the run can be cancelled; what it raises is raised again
    after that. A plan without changes writes nothing.
    """
    plan.require_possible()
    if plan.pending:
        raise ValueError(f"the plan is not ready: {'; '.join(map(str, plan.pending))}")
    if not plan.changes:
        return Applied(plan)
    transaction = _Transaction(plan, backend, before)
    try:
        transaction.carry_out(plan, check)
    except BackendError as error:
        raise tell_effects(ApplyError(str(error), after=transaction.undo()), transaction.done) from error
    except _Failed as failed:
        lost = ApplyError(*failed.reasons.values(), after=transaction.undo(), refused=failed.reasons)
        raise tell_effects(lost, transaction.done) from failed.__cause__
    except BaseException as stopped:
        add_note(stopped, transaction.undo())
        tell_effects(stopped, transaction.done)
        raise
    return Applied(plan, tuple(transaction.done))


class _Failed(Exception):  # noqa: N818  it starts the way back and never leaves this module
    """The kernel refused changes, or the table is not as it should be."""

    def __init__(self, reasons: dict[RouteKey, str]) -> None:
        self.reasons = reasons


def _changes(step: Step) -> tuple[list[_Change], list[_Change]]:
    """What this step adds, and what it deletes afterwards."""
    route, held = step.route, step.held
    if step.action == "delete":
        return [], [*map(_deleting, reversed(_entries(route)))]
    if held is None:
        return [(RouteRequest("add", route), RouteRequest("delete", route))], []
    if route.prefix.family != IPV6:
        return [(RouteRequest("replace", route), RouteRequest("replace", bare(held)))], []
    first, *others = _entries(held)
    if hops_of(route) == hops_of(held):  # other fields differ, and Linux does not add the same next hop again
        return [*map(_deleting, (*others, first)), (RouteRequest("add", route), RouteRequest("delete", route))], []
    new = [entry for entry in _entries(route) if not hops_of(entry) <= hops_of(held)]
    stale = [entry for entry in others if not hops_of(entry) <= hops_of(route)]
    added = [(RouteRequest("append", entry), RouteRequest("delete", entry)) for entry in new]
    return [*map(_deleting, stale), *added], [] if hops_of(first) <= hops_of(route) else [_deleting(first)]


def _deleting(route: Route) -> _Change:
    """Delete a route of ours. It is restored with `append`, because another can hold its key by then."""
    ours = attrs.evolve(bare(route), protocol=OURS)
    return RouteRequest("delete", ours), RouteRequest("append", ours)


def _entries(route: Route) -> tuple[Route, ...]:
    """The entries of the kernel's table that make up this route: in IPv6, one for each next hop."""
    if route.prefix.family != IPV6 or len(route.legs) < 2:
        return (route,)
    return tuple(attrs.evolve(route, legs=(attrs.evolve(leg, weight=1),)) for leg in route.legs)


class _Transaction:
    """One plan that is being carried out."""

    def __init__(self, plan: RoutePlan, backend: RouteBackend, before: Snapshot) -> None:
        self._backend = backend
        self._wanted: dict[RouteKey, Route | None] = {}
        for step in plan.steps:  # deletions are the last: what they delete can be beside a wanted route
            self._wanted.setdefault(step.route.key, None if step.action == "delete" else step.route)
        self._before = self._table(before)
        self._sent: list[_Change] = []
        """What may have been done, in order."""
        self.done: list[RouteRequest] = []
        """What the kernel has changed, in order, including the changes of the way back."""

    def carry_out(self, plan: RoutePlan, check: Callable[[], object]) -> None:
        """Add, verify, delete, verify."""
        changes = [_changes(step) for step in plan.changes]
        for is_complete in (False, True):
            if some := [change for halves in changes for change in halves[is_complete]]:
                check()
                self._send(some)
                check()
                self._verify(is_complete=is_complete or not any(deleting for _, deleting in changes))

    def _send(self, changes: list[_Change]) -> None:
        """Make the changes. All of them are tried, so that the failure names every route that the kernel refuses.

        What another program has done already does not fail: reading back decides.
        """
        done = len(self._sent)
        self._sent += changes
        outcomes = self._request(request for request, _ in changes)
        self._sent[done:] = [pair for pair, outcome in zip(changes, outcomes, strict=True) if outcome.ok]
        failed = [outcome for outcome in outcomes if not outcome.ok and not _is_done(outcome)]
        if failed:
            raise _Failed({outcome.change.route.key: str(outcome.error) for outcome in failed}) from failed[0].error

    def _request(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        outcomes = self._backend.change(requests)
        self.done += [outcome.change for outcome in outcomes if outcome.ok]
        return outcomes

    def _verify(self, *, is_complete: bool) -> None:
        """Read back: every wanted route is there, beside at most one old next hop; once all is done, nothing else."""
        now, reasons = self._table(self._read()), {}
        for key, wanted in self._wanted.items():
            hops = set() if wanted is None else hops_of(wanted)
            present = [hops_of(route) for route in now[key]]
            is_there = wanted is None or any(hops <= some and len(some - hops) < 2 for some in present)
            if not is_there or (is_complete and any(step.action != "keep" for step in steps_for(wanted, now[key]))):
                reasons[key] = _reason(wanted, now[key])
        if reasons:
            raise _Failed(reasons)

    def undo(self) -> str:
        """Reverse what was done, and return a sentence about what is true now."""
        problem = ""
        try:
            _patiently(lambda: self._request(reverse for _, reverse in reversed(self._sent)))
        except BackendError as error:
            problem = f" ({error})"
        try:
            now = _patiently(lambda: self._table(self._read()))
        except BackendError as error:
            if not isinstance(error.last, Snapshot):
                return f"whether every change could be rolled back is not known: {error}"
            now = self._table(error.last)
        left = [key for key, routes in self._before.items() if now[key] != routes]
        if not left:
            return "every change was rolled back: the route table is as it was before"
        pairs = "; ".join(f"{_words(now[key])} instead of {_words(self._before[key])}" for key in left)
        return f"not every change could be rolled back{problem}: there is now {pairs}"

    def _read(self) -> Snapshot:
        prefixes = {key.prefix for key in self._wanted}
        families = {prefix.family for prefix in prefixes}
        return self._backend.snapshot(family=families.pop() if len(families) == 1 else None, near=prefixes)

    def _table(self, snapshot: Snapshot) -> dict[RouteKey, list[Route]]:
        """By key the routes of a snapshot that the plan is about, without the state of their next hops.

        Those of IPv6 are sorted: Linux adds each at the end, whatever the order was.
        """
        holders = holders_of(snapshot, self._wanted)
        return {key: [_in_order(bare(route)) for route in holders[key]] for key in self._wanted}


def _patiently(call: Callable[[], T]) -> T:
    """The result of the call, which is repeated while the kernel does not answer."""
    for _ in range(_TRIES - 1):
        with suppress(BackendError):
            return call()
    return call()


def _in_order(route: Route) -> Route:
    return attrs.evolve(route, legs=tuple(sorted(route.legs, key=str))) if route.prefix.family == IPV6 else route


def _is_done(outcome: Outcome) -> bool:
    kind = "" if outcome.error is None else outcome.error.kind
    return kind == ("no-such-route" if outcome.change.verb == "delete" else "exists")


def _reason(wanted: Route | None, holding: list[Route]) -> str:
    """Why what was read back is not right."""
    hops = frozenset() if wanted is None else hops_of(wanted)
    mixed = [
        route for route in holding if route.prefix.family == IPV6 and len(route.legs) > 1 and hops < hops_of(route)
    ]
    if mixed:
        ways = ", ".join(entry.ways[0] for entry in _entries(mixed[0]) if not hops_of(entry) <= hops)
        way_out = "delete it" if wanted is None else "delete it, or choose another metric"
        return f"{mixed[0].prefix}: another program has a next hop beside ours ({ways}): {way_out}"
    should, present = "no route of ours" if wanted is None else f"[{wanted}]", _words(holding)
    return f"there should be {should}, but there is {present}: another program changes these routes at the same time"


def _words(routes: Iterable[Route]) -> str:
    return " and ".join(f"[{route}]" for route in routes) or "no route"
