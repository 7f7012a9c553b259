"""Carry out a plan: add, read back, delete, read back; if anything fails, take back what was done.

A route is added where its key is free, and appended where others have it. A request to delete names
our protocol. So no request changes another program's route, whenever that route is added. A route
that changes stays beside its successor until the successor was read back, so packets do not stop.
Where Linux could take one for the other, the old route is deleted first (`plan.could_take`).

The table that is read back is right if a plan made from it has nothing left to do. If not, or if
Linux refuses a request or the run is cancelled, all requests are reversed, the last first. That
includes requests without an answer, which is harmless. Then the table is read once more, so that
the error says what is true now.

If Linux lists a next hop of an IPv6 route as ours, but does not delete it with our protocol, it is
another program's. If such a next hop is not wanted, the routes cannot be applied, which cannot be
known in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.errors import ApplyError, BackendError
from hostrouting.host.effects import having_changed
from hostrouting.kernel.base import Outcome, RouteBackend, RouteRequest, Verb
from hostrouting.model.route import OURS, Route, RouteKey, as_listed
from hostrouting.routes.plan import RoutePlan, could_take, holders_of, steps_for

if TYPE_CHECKING:
    from hostrouting.model.snapshot import Snapshot

_DONE = {"add": "exists", "append": "exists", "delete": "no-such-route"}
"""The refusal, by verb, that means that another program has done the same. Reading back decides."""

_RIVAL = (
    "another program changes these routes at the same time, or has a next hop in one: configure "
    "another metric"
)


class Applied(NamedTuple):
    """What was done: the plan, and the changes that carried it out; empty if there was nothing to
    do.
    """

    plan: RoutePlan
    changes: tuple[RouteRequest, ...] = ()


def apply_plan(
    plan: RoutePlan,
    backend: RouteBackend,
    *,
    before: Snapshot,
    check: Callable[[], object] = lambda: None,
) -> Applied:
    """Carry out the plan, which was made from the snapshot `before`, or leave everything as it was.

    Raises RouteConflict, before anything is changed, if another program's route holds a key. Raises
    ApplyError if the kernel refuses a change, or if the table does not match the plan afterwards.
    The changes were then rolled back, and the error says what is true now. `check` is called
    wherever the run can be cancelled; what it raises is raised again after the rollback. A plan
    without changes writes nothing.
    """
    plan.require_possible()
    if plan.pending:
        raise ValueError(f"the plan is not ready: {plan.pending[0]}")
    transaction = _Transaction(plan, backend, before)
    with having_changed(transaction.done):
        try:
            problems = transaction.carry_out(plan, check)
            after = transaction.undo() if problems else ""
        except BaseException as stopped:  # even during a rollback, which then begins again
            what_is_true_now = transaction.undo()
            vars(stopped).setdefault("__notes__", []).append(
                what_is_true_now
            )  # printed after the traceback
            raise
        if problems:
            can_retry = all(problem.can_retry for problem in problems)
            raise ApplyError(*map(str, problems), after=after, can_retry=can_retry) from problems[0]
    return Applied(plan, tuple(transaction.done))


class _Transaction:
    def __init__(self, plan: RoutePlan, backend: RouteBackend, before: Snapshot) -> None:
        self._backend = backend
        self._wanted: dict[RouteKey, list[Route]] = {}
        """The entries of the wanted route, by key; none if our routes are deleted."""
        for step in plan.steps:
            self._wanted.setdefault(step.route.key, []).extend(
                () if step.action == "delete" else (step.route,)
            )
        self._before = self._holders(before)
        self._sent: list[RouteRequest] = []
        """What may have been done, in order."""
        self.done: list[RouteRequest] = []
        """What the kernel has changed, in order, including the changes of a rollback."""

    def carry_out(self, plan: RoutePlan, check: Callable[[], object]) -> list[BackendError]:
        """Add, verify, delete, verify; returns the errors."""
        additions = [step.route for step in plan.changes if step.action == "add"]
        successors: dict[RouteKey, list[Route]] = {}
        for route in additions:
            successors.setdefault(route.key, []).append(route)
        in_the_way: list[RouteRequest] = []
        stale: list[RouteRequest] = []
        for step in plan.changes:
            if step.action == "delete":
                added_there = successors.get(step.route.key, ())
                is_in_the_way = any(could_take(route, step.route) for route in added_there)
                requests = in_the_way if is_in_the_way else stale
                requests.append(RouteRequest("delete", step.route))
        held = {key for key, routes in self._before.items() if routes}
        added = [_addition(route, held) for route in additions]
        try:
            for requests in filter(None, (in_the_way, added, stale)):
                check()
                if refusals := self._send(requests):
                    return refusals
                check()
                if requests is in_the_way:
                    continue
                if differences := self._differences(may_delete=requests is added):
                    return differences
        except BackendError as error:
            return [error]
        return []

    def _send(self, requests: list[RouteRequest]) -> list[BackendError]:
        """Make the changes. All of them are tried, so that the failure names every route that the
        kernel refuses.
        """
        count = len(self._sent)
        self._sent += requests
        outcomes = self._request(requests)
        self._sent[count:] = [outcome.change for outcome in outcomes if outcome.ok]
        refused = ((change.verb, error) for change, error in outcomes if error is not None)
        return [error for verb, error in refused if error.kind != _DONE[verb]]

    def _request(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        outcomes = self._backend.change(requests)
        self.done += [outcome.change for outcome in outcomes if outcome.ok]
        return outcomes

    def _differences(self, *, may_delete: bool) -> list[BackendError]:
        """Read back, and return what is left to do; with `may_delete`, deletions may be left."""
        now, differences = self._read(), []
        for key, wanted in self._wanted.items():
            rest = {step.action for step in steps_for(wanted, now[key])}
            if rest - {"keep"} - ({"delete"} if may_delete else set()):
                should = _words(as_listed(wanted)) if wanted else "no route of hostrouting"
                differences.append(
                    BackendError(
                        f"there should be {should}, but there is {_words(now[key])}: {_RIVAL}"
                    )
                )
        return differences

    def undo(self) -> str:
        """Reverse what was done, and return a sentence about what is true now."""
        problem = ""
        foreign = {
            key
            for key, routes in self._before.items()
            if any(route.protocol != OURS for route in routes)
        }
        held = foreign | {key for key, wanted in self._wanted.items() if wanted}
        requests = (
            _addition(request.route, held)
            if request.verb == "delete"
            else RouteRequest("delete", request.route)
            for request in reversed(self._sent)
        )
        try:
            self._request(requests)
        except BackendError as error:
            problem = f" ({error})"
        try:
            now = self._read()
        except BackendError as error:
            return f"whether every change could be rolled back is not known: {error}"
        left = [key for key, routes in self._before.items() if now[key] != routes]
        if not left:
            return "every change was rolled back: the route table is as it was before"
        pairs = "; ".join(
            f"{_words(now[key])} instead of {_words(self._before[key])}" for key in left
        )
        return f"not every change could be rolled back{problem}: there is now {pairs}"

    def _read(self) -> dict[RouteKey, list[Route]]:
        return self._holders(self._backend.snapshot(near={key.prefix for key in self._wanted}))

    def _holders(self, snapshot: Snapshot) -> dict[RouteKey, list[Route]]:
        holders = holders_of(snapshot, self._wanted)
        return {key: holders[key] for key in self._wanted}


def _addition(route: Route, held: set[RouteKey]) -> RouteRequest:
    """The request that adds this route, after those that hold its key; from then on, the key is
    held.
    """
    verb: Verb = "append" if route.key in held else "add"
    held.add(route.key)
    return RouteRequest(verb, route)


def _words(routes: Iterable[Route]) -> str:
    return " and ".join(f"[{route}]" for route in routes) or "no route"
