"""Carry out a plan: add, read back, delete, read back; if anything fails, take back what was done.

Each step is one request, and has one that reverses it. What is read back is right if a plan made from it has nothing
left to do. If it does, or if Linux refuses a request, or the run was cancelled, the reverse requests are made, the last
first, also for requests without an answer. All of them are harmless then: a request to delete names our protocol, and
one to add is refused while another route has the key. Then the table is read once more, so that the error says what is
true now.

A replaced route is ours alone, or it would be a conflict (`plan`). In IPv6, a route of ours can have next hops of
another program. Linux deletes each next hop by its protocol, so theirs stay; that it could not delete them is no error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.errors import ApplyError, BackendError
from hostrouting.host.effects import tell_effects
from hostrouting.kernel.base import RouteRequest
from hostrouting.routes.plan import bare, holders_of, steps_for

if TYPE_CHECKING:
    from hostrouting.kernel.base import Outcome, RouteBackend
    from hostrouting.model.route import Route, RouteKey
    from hostrouting.model.snapshot import Snapshot
    from hostrouting.routes.plan import RoutePlan, Step

_DONE = {"add": "exists", "delete": "no-such-route"}
"""By verb: the refusal that means that another program has done the same. Reading back decides."""


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
        lost = ApplyError(*failed.reasons.values(), after=transaction.undo())
        raise tell_effects(lost, transaction.done) from failed.__cause__
    except BaseException as stopped:
        vars(stopped).setdefault("__notes__", []).append(transaction.undo())  # what a traceback prints after it
        tell_effects(stopped, transaction.done)
        raise
    return Applied(plan, tuple(transaction.done))


class _Failed(Exception):  # noqa: N818  it starts the way back and never leaves this module
    """The kernel refused changes, or the table is not as it should be."""

    def __init__(self, reasons: dict[RouteKey, str]) -> None:
        self.reasons = reasons


def _request_for(step: Step, *, is_reverse: bool = False) -> RouteRequest:
    """The request that carries out this step, or takes it back."""
    if step.held is not None:
        return RouteRequest("replace", step.held if is_reverse else step.route)
    return RouteRequest("delete" if (step.action == "delete") is not is_reverse else "add", step.route)


class _Transaction:
    """One plan that is being carried out."""

    def __init__(self, plan: RoutePlan, backend: RouteBackend, before: Snapshot) -> None:
        self._backend = backend
        self._wanted: dict[RouteKey, Route | None] = {}
        for step in plan.steps:  # deletions are the last: what they delete can be beside a wanted route
            self._wanted.setdefault(step.route.key, None if step.action == "delete" else step.route)
        self._before = self._table(before)
        self._sent: list[Step] = []
        """What may have been done, in order."""
        self.done: list[RouteRequest] = []
        """What the kernel has changed, in order, including the changes of the way back."""

    def carry_out(self, plan: RoutePlan, check: Callable[[], object]) -> None:
        """Add, verify, delete, verify."""
        for is_last, actions in enumerate(({"add", "replace"}, {"delete"})):
            if steps := [step for step in plan.changes if step.action in actions]:
                check()
                self._send(steps)
                check()
                self._verify(may_delete=not is_last)

    def _send(self, steps: list[Step]) -> None:
        """Make the changes. All of them are tried, so that the failure names every route that the kernel refuses."""
        count = len(self._sent)
        self._sent += steps
        outcomes = self._request(map(_request_for, steps))
        # Of an IPv6 route to delete, Linux may have deleted our next hops and refused the others.
        made = [outcome.ok or (_is_done(outcome) and outcome.change.verb == "delete") for outcome in outcomes]
        self._sent[count:] = [step for step, is_made in zip(steps, made, strict=True) if is_made]
        if failed := [outcome for outcome in outcomes if not _is_done(outcome)]:
            raise _Failed({outcome.change.route.key: str(outcome.error) for outcome in failed}) from failed[0].error

    def _request(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        outcomes = self._backend.change(requests)
        self.done += [outcome.change for outcome in outcomes if outcome.ok]
        return outcomes

    def _verify(self, *, may_delete: bool) -> None:
        """Read back: nothing is left to do, or only to delete."""
        now, reasons = self._read(), {}
        for key, wanted in self._wanted.items():
            rest = {step.action for step in steps_for(wanted, now[key])}
            if rest - {"keep"} - ({"delete"} if may_delete else set()):
                should = "no route of ours" if wanted is None else f"[{wanted}]"
                rival = "another program changes these routes at the same time"
                reasons[key] = f"there should be {should}, but there is {_words(now[key])}: {rival}"
        if reasons:
            raise _Failed(reasons)

    def undo(self) -> str:
        """Reverse what was done, and return a sentence about what is true now."""
        problem = ""
        try:
            self._request(_request_for(step, is_reverse=True) for step in reversed(self._sent))
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


def _is_done(outcome: Outcome) -> bool:
    return outcome.error is None or outcome.error.kind == _DONE.get(outcome.change.verb)


def _words(routes: Iterable[Route]) -> str:
    return " and ".join(f"[{route}]" for route in routes) or "no route"
