"""Carry out a plan: add, read back, delete, read back; if anything fails, take back what was done.

A route is added where its key is free, and appended where others have it. So no request changes a route of another
program, whenever that comes: a request to delete names our protocol, and a route that changes is there beside its
successor until that was read back. Packets do not stop.

What is read back is right if a plan made from it has nothing left to do. If it does, or if Linux refuses a request, or
the run was cancelled, the reverse requests are made, the last first, also for requests without an answer, which is
harmless. Then the table is read once more, so that the error says what is true now.

A next hop of an IPv6 route that Linux lists as ours, but does not delete by our protocol, is another program's. If it
is not wanted, that is a conflict, which cannot be known before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.errors import ApplyError, BackendError, RouteConflict
from hostrouting.host.effects import tell_effects
from hostrouting.kernel.base import RouteRequest
from hostrouting.model.prefix import IPV4
from hostrouting.model.route import OURS, as_listed, entries_of
from hostrouting.routes.plan import Step, bare, holders_of, steps_for

if TYPE_CHECKING:
    from hostrouting.kernel.base import Outcome, RouteBackend, Verb
    from hostrouting.model.route import Route, RouteKey
    from hostrouting.model.snapshot import Snapshot
    from hostrouting.routes.plan import RoutePlan

_DONE = {"add": "exists", "append": "exists", "delete": "no-such-route"}
"""By verb: the refusal that means that another program has done the same. Reading back decides."""

_REMEDY = "delete it, or choose another metric"


class Applied(NamedTuple):
    """What was done: the plan, and the changes that carried it out; empty if there was nothing to do."""

    plan: RoutePlan
    changes: tuple[RouteRequest, ...] = ()


def apply_plan(
    plan: RoutePlan, backend: RouteBackend, *, before: Snapshot, check: Callable[[], object] = lambda: None
) -> Applied:
    """Carry out the plan, which was made from the snapshot `before`, or leave everything as it was.

    Raises RouteConflict, before anything is changed, if a route that is not ours holds a key. Raises ApplyError if the
    kernel refuses a change, or if the table does not match the plan afterwards; if a next hop of ours turns out not to
    be, RouteConflict. The changes were then rolled back, and the error says what is true now. `check` is called
    wherever the run can be cancelled; what it raises is raised again after that. A plan without changes writes nothing.
    """
    plan.require_possible()
    if plan.pending:
        raise ValueError(f"the plan is not ready: {'; '.join(map(str, plan.pending))}")
    if not plan.changes:
        return Applied(plan)
    transaction = _Transaction(plan, backend, before)
    try:
        try:
            transaction.carry_out(plan, check)
        except BackendError as error:
            raise ApplyError(str(error), after=transaction.undo()) from error
        except _Failed as failed:
            raise _error_of(failed, transaction.undo()) from failed.__cause__
    except (ApplyError, RouteConflict) as error:
        tell_effects(error, transaction.done)
        raise
    except BaseException as stopped:  # also on the way back, which then begins again
        vars(stopped).setdefault("__notes__", []).append(transaction.undo())  # what a traceback prints after it
        tell_effects(stopped, transaction.done)
        raise
    return Applied(plan, tuple(transaction.done))


class _Failed(Exception):  # noqa: N818  it starts the way back and never leaves this module
    """The kernel refused changes, or the table is not as it should be."""

    def __init__(self, reasons: Iterable[str], conflicts: Iterable[Step] = ()) -> None:
        self.reasons, self.conflicts = tuple(reasons), tuple(conflicts)


def _error_of(failed: _Failed, after: str) -> ApplyError | RouteConflict:
    if not failed.conflicts:
        return ApplyError(*failed.reasons, after=after)
    conflict = RouteConflict(findings=(step.finding for step in failed.conflicts))
    conflict.add(after)
    return conflict


class _Transaction:
    """One plan that is being carried out."""

    def __init__(self, plan: RoutePlan, backend: RouteBackend, before: Snapshot) -> None:
        self._backend = backend
        self._wanted: dict[RouteKey, list[Route]] = {}
        """By key the entries of the wanted route; none if our routes go."""
        for step in plan.steps:
            self._wanted.setdefault(step.route.key, []).extend(() if step.action == "delete" else (step.route,))
        self._before = self._table(before)
        self._sent: list[RouteRequest] = []
        """What may have been done, in order."""
        self._not_ours: set[Route] = set()
        """What the kernel did not delete, because it is gone, or is not ours."""
        self.done: list[RouteRequest] = []
        """What the kernel has changed, in order, including the changes of the way back."""

    def carry_out(self, plan: RoutePlan, check: Callable[[], object]) -> None:
        """Add, verify, delete, verify."""
        held = {key for key, routes in self._before.items() if routes}
        additions: list[RouteRequest] = []
        deletions: list[RouteRequest] = []
        for step in plan.changes:
            if step.deleted is not None:
                (additions if step.is_in_the_way else deletions).append(RouteRequest("delete", step.deleted))
            if step.added is not None:
                additions.append(_addition(step.added, held))
        for requests in (additions, deletions):
            if requests:
                check()
                self._send(requests)
                check()
                self._verify(may_delete=requests is additions)

    def _send(self, requests: list[RouteRequest]) -> None:
        """Make the changes. All of them are tried, so that the failure names every route that the kernel refuses."""
        count = len(self._sent)
        self._sent += requests
        outcomes = self._request(requests)
        self._sent[count:] = [outcome.change for outcome in outcomes if outcome.ok]
        refused = (change.route for change, error in outcomes if error is not None and change.verb == "delete")
        self._not_ours.update(map(bare, refused))
        if failed := [outcome for outcome in outcomes if not _is_done(outcome)]:
            raise _Failed(str(outcome.error) for outcome in failed) from failed[0].error

    def _request(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        outcomes = self._backend.change(requests)
        self.done += [outcome.change for outcome in outcomes if outcome.ok]
        return outcomes

    def _verify(self, *, may_delete: bool) -> None:
        """Read back: nothing is left to do, or only to delete."""
        now, reasons, conflicts = self._read(), [], []
        for key, wanted in self._wanted.items():
            rest = {step.action for step in steps_for(wanted, now[key])}
            if rest - {"keep"} - ({"delete"} if may_delete else set()):
                listed = as_listed(wanted)
                should = f"[{listed[0]}]" if listed else "no route of ours"
                rival = "another program changes these routes at the same time"
                reasons.append(f"there should be {should}, but there is {_words(now[key])}: {rival}")
                conflicts += [
                    Step("conflict", listed[0], f"this next hop of our route is not ours: [{hop}]", hop, _REMEDY)
                    for hop in self._hops_not_ours(now[key] if listed else [])
                ]
        if reasons:
            raise _Failed(reasons, conflicts)

    def _hops_not_ours(self, present: list[Route]) -> list[Route]:
        """The next hops of an IPv6 route that are still there after a request to delete them by our protocol."""
        entries = [entry._replace(protocol=OURS) for route in present for entry in entries_of(route)]
        return [entry for entry in entries if entry.prefix.family != IPV4 and entry in self._not_ours]

    def undo(self) -> str:
        """Reverse what was done, and return a sentence about what is true now."""
        problem = ""
        foreign = {key for key, routes in self._before.items() if any(route.protocol != OURS for route in routes)}
        held = foreign | {key for key, wanted in self._wanted.items() if wanted}
        requests = (
            _addition(request.route, held) if request.verb == "delete" else RouteRequest("delete", request.route)
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
        pairs = "; ".join(f"{_words(now[key])} instead of {_words(self._before[key])}" for key in left)
        return f"not every change could be rolled back{problem}: there is now {pairs}"

    def _read(self) -> dict[RouteKey, list[Route]]:
        return self._table(self._backend.snapshot(near={key.prefix for key in self._wanted}))

    def _table(self, snapshot: Snapshot) -> dict[RouteKey, list[Route]]:
        """By key the routes of a snapshot that the plan is about."""
        holders = holders_of(snapshot, self._wanted)
        return {key: [bare(route) for route in holders[key]] for key in self._wanted}


def _addition(route: Route, held: set[RouteKey]) -> RouteRequest:
    """The request that adds this route, behind those that hold its key; then the key is held."""
    verb: Verb = "append" if route.key in held else "add"
    held.add(route.key)
    return RouteRequest(verb, route)


def _is_done(outcome: Outcome) -> bool:
    return outcome.error is None or outcome.error.kind == _DONE.get(outcome.change.verb)


def _words(routes: Iterable[Route]) -> str:
    return " and ".join(f"[{route}]" for route in routes) or "no route"
