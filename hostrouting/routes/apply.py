"""Carry out a plan: add, read back, delete, read back; if anything fails, take back what was done.

A route is added where its key is free, and appended where others have it. A request to delete names
our protocol. So no request changes another program's route, whenever that route is added. A route
that changes stays beside its successor until the successor was read back, so packets do not stop.
Where Linux could take one for the other, the old route is deleted first
(`plan.deletion_could_take`).

The table that is read back is right if a plan made from it has nothing left to do. If not, or if
Linux refuses a request or the run is cancelled, the table is read, and each request that is in
effect is reversed, the last first. So it does not matter whether there was an answer to a request,
and a rollback that was interrupted can begin again. Then the table is read once more, so that the
error says what is true now.

Linux lists the next hops of an IPv6 route as if all had the protocol of the first. So whether a
next hop behind the first is ours is not known before a request to delete it, which names our
protocol: a next hop that is still there then is another program's, and a conflict if it is not
wanted. Such requests are made before any other. Meanwhile, packets use the first next hop, which is
ours.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.errors import ApplyError, BackendError, RouteConflict
from hostrouting.kernel.base import RouteBackend, RouteRequest, Verb, counted
from hostrouting.model.prefix import IPV4
from hostrouting.model.route import Route, RouteKey, as_listed, as_stored, bare
from hostrouting.routes.plan import deletion_could_take, has_ours, present_by_key, steps_for_key
from hostrouting.routes.steps import conflict_with_next_hop
from hostrouting.text import first_of

if TYPE_CHECKING:
    from hostrouting.finding import Finding
    from hostrouting.model.snapshot import Snapshot
    from hostrouting.routes.steps import Action, RoutePlan

_RIVAL = "another program changes these routes at the same time: configure another metric"


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
    done: list[RouteRequest] | None = None,
) -> Applied:
    """Carry out the plan, which was made from the snapshot `before`, or leave everything as it was.

    Raises RouteConflict, before anything is added, if another program's route holds a key, or if
    another program has added a next hop to one of ours. Raises ApplyError if the kernel refuses a
    change, or if the table does not match the plan afterwards. Then the changes were rolled back as
    far as possible, and the error says what is in the table. `check` is called wherever the run can
    be cancelled; what it raises is raised again after the rollback. `done`, an empty list, gets the
    changes that are in effect at the end, so they are known also if an error is raised. A plan
    without changes writes nothing.
    """
    plan.require_no_conflict()
    if plan.waiting:
        raise ValueError(f"the plan is not ready: {plan.waiting[0]}")
    if not plan.changes:
        return Applied(plan)
    if done is None:
        done = []
    transaction = _Transaction(plan, backend, before, check, done)
    try:
        problems = transaction.carry_out()
        if not problems:
            return Applied(plan, tuple(done))
        after = transaction.undo()
    except BaseException as stopped:  # even during a rollback, which then begins again
        what_is_true_now = transaction.undo()
        _add_note(stopped, what_is_true_now)
        raise
    can_retry = all(problem.can_retry for problem in problems)
    raise ApplyError(*map(str, problems), after=after, can_retry=can_retry) from problems[0]


class _FailedError(Exception):
    """What Linux has refused, or what is not as planned."""

    def __init__(self, problems: list[BackendError]) -> None:
        self.problems = problems


class _Transaction:
    def __init__(
        self,
        plan: RoutePlan,
        backend: RouteBackend,
        before: Snapshot,
        check: Callable[[], object],
        done: list[RouteRequest],
    ) -> None:
        self._plan = plan
        self._backend = backend
        self._check = check
        self._wanted: dict[RouteKey, list[Route]] = {}
        """By each key that has steps: the entries that are wanted; none where our routes are only
        deleted. The route for replies to probes has no steps while it cannot be set, so its key is
        left alone.
        """
        for step in plan.steps:
            entries = self._wanted.setdefault(step.route.key, [])
            if step.action != "delete":
                entries.append(step.route)
        self._before = self._with_wanted_keys(before)
        self._behind_first = _next_hops_behind_first(before)
        self._done = done
        """The requests that Linux has carried out, in order; until there is an answer, also those
        that were sent last.
        """

    def carry_out(self) -> list[BackendError]:
        """Ask Linux first to delete next hops that may be another program's: it deletes only ours.
        Then delete what is in the way, add, verify, delete the rest, and verify; return the errors.

        Between the deletion of what is in the way and the additions, packets lack their route, so
        nothing is read there.
        """
        added = [step.route for step in self._plan.changes if step.action == "add"]
        occupied = _occupied(self._before)
        additions = [_addition(route, occupied) for route in added]
        doubtful = [route for route in self._plan.deleted if self._may_be_theirs(route)]
        certain = [route for route in self._plan.deleted if not self._may_be_theirs(route)]
        in_the_way, stale = _deletions(certain, added)
        try:
            self._send([RouteRequest("delete", route) for route in doubtful])
            self._require_ours(doubtful)
            self._send(in_the_way)
            self._send(additions)
            if additions and stale:
                self._require_planned({"keep", "delete"})
            self._send(stale)
            self._require_planned({"keep"})
        except _FailedError as failed:
            return failed.problems
        except BackendError as error:
            return [error]
        return []

    def _may_be_theirs(self, entry: Route) -> bool:
        """Whether this may be another program's next hop in the place of a wanted route. Where none
        is wanted, another program's may stay.
        """
        if entry.prefix.family == IPV4 or not self._wanted[entry.key]:
            return False
        return entry in self._behind_first

    def _require_ours(self, deleted: Sequence[Route]) -> None:
        """Raise RouteConflict if one of these next hops is still there: it is not ours."""
        if not deleted:
            return
        now = self._read()
        findings: list[Finding] = []
        for entry in deleted:
            present = [stored for route in now[entry.key] for stored in as_stored(route)]
            if entry in present:
                wanted_route = as_listed(self._wanted[entry.key])[0]
                findings.append(conflict_with_next_hop(entry, wanted_route).finding)
        if findings:
            raise RouteConflict(findings=findings)

    def _send(self, requests: Sequence[RouteRequest]) -> None:
        """Make the changes. All of them are tried, so that the failure names every route that the
        kernel refuses.
        """
        if not requests:
            return
        self._check()
        before = len(self._done)
        self._done += requests
        outcomes = counted(self._backend.change(requests), len(requests), "change")
        self._done[before:] = [outcome.change for outcome in outcomes if outcome.ok]
        refusals = [each.error for each in outcomes if each.error is not None and not each.is_done]
        if refusals:
            raise _FailedError(refusals)

    def _require_planned(self, tolerated: Container[Action]) -> None:
        """Read back; name the keys for which a plan has more to do than these actions."""
        now = self._read()
        differences: list[BackendError] = []
        for key, wanted in self._wanted.items():
            steps = steps_for_key(wanted, now[key])
            if all(step.action in tolerated for step in steps):
                continue
            should = _words(as_listed(wanted)) if wanted else "no route of hostrouting"
            problem = f"there should be {should}, but there is {_words(now[key])}: {_RIVAL}"
            differences.append(BackendError(problem))
        if differences:
            raise _FailedError(differences)

    def undo(self) -> str:
        """Reverse what is in effect, and return a sentence about what is true now. After that, only
        what could not be reversed counts as done.
        """
        problem = ""
        # If the table cannot be read, each request counts as in effect, and each key as occupied:
        # to append is right where the key is free, too.
        in_effect = self._done
        occupied = set(self._before)
        with suppress(BackendError):
            now = self._read()
            in_effect, occupied = self._in_effect(now), _occupied(now)
        try:
            requests: list[RouteRequest] = []
            for request in reversed(in_effect):
                if request.verb == "delete":
                    requests.append(_addition(request.route, occupied))
                else:
                    requests.append(RouteRequest("delete", request.route))
            counted(self._backend.change(requests), len(requests), "change")
        except BackendError as error:
            problem = f" ({error})"
        try:
            now = self._read()
        except BackendError as error:
            return f"whether every change could be rolled back is not known: {error}"

        self._done[:] = self._in_effect(now)
        differing: list[str] = []
        for key, routes in self._before.items():
            if now[key] != routes:
                differing.append(f"{_words(now[key])} instead of {_words(routes)}")
        if not differing:
            return "every change was rolled back: the route table is as it was before"
        pairs = "; ".join(first_of(differing))
        return f"not every change could be rolled back{problem}: there is now {pairs}"

    def _in_effect(self, now: Mapping[RouteKey, Sequence[Route]]) -> list[RouteRequest]:
        """Those of our requests whose effect these routes show: an added route that is there, a
        deleted one that is not.

        The others must not be reversed: in IPv4, a request to delete a route without a metric takes
        a route of ours with any metric if there is none without.
        """
        in_effect: list[RouteRequest] = []
        for request in self._done:
            is_there = has_ours(now[request.route.key], request.route)
            if is_there != (request.verb == "delete"):
                in_effect.append(request)
        return in_effect

    def _read(self) -> dict[RouteKey, list[Route]]:
        near = {key.prefix for key in self._wanted}
        return self._with_wanted_keys(self._backend.snapshot(near=near))

    def _with_wanted_keys(self, snapshot: Snapshot) -> dict[RouteKey, list[Route]]:
        present = present_by_key(snapshot, self._wanted)
        return {key: [*map(bare, present[key])] for key in self._wanted}


def _next_hops_behind_first(snapshot: Snapshot) -> set[Route]:
    """The entries of IPv6 routes but the first of each: Linux does not list their protocols."""
    entries: set[Route] = set()
    for route in snapshot.routes:
        if len(route.next_hops) > 1:
            _, *others = as_stored(route)
            entries.update(map(bare, others))
    return entries


def _deletions(
    deleted: Iterable[Route], added: Iterable[Route]
) -> tuple[list[RouteRequest], list[RouteRequest]]:
    """The deletions that come before the additions, because a request to delete the new route,
    which undo would make, could take the old one; and the others.
    """
    successors: dict[RouteKey, list[Route]] = {}
    for route in added:
        successors.setdefault(route.key, []).append(route)
    in_the_way: list[RouteRequest] = []
    stale: list[RouteRequest] = []
    for route in deleted:
        request = RouteRequest("delete", route)
        if any(deletion_could_take(new, route) for new in successors.get(route.key, ())):
            in_the_way.append(request)
        else:
            stale.append(request)
    return in_the_way, stale


def _occupied(routes_of_keys: Mapping[RouteKey, Sequence[Route]]) -> set[RouteKey]:
    """The keys that have routes."""
    return {key for key, routes in routes_of_keys.items() if routes}


def _addition(route: Route, occupied: set[RouteKey]) -> RouteRequest:
    """The request that adds this route: behind others if its key is occupied, as it is from then
    on.
    """
    verb: Verb = "append" if route.key in occupied else "add"
    occupied.add(route.key)
    return RouteRequest(verb, route)


def _add_note(error: BaseException, note: str) -> None:
    """Have the note printed after the traceback; Python 3.10 has no `add_note`."""
    notes: list[str] = vars(error).setdefault("__notes__", [])
    notes.append(note)


def _words(routes: Iterable[Route]) -> str:
    return " and ".join(f"[{route}]" for route in routes) or "no route"
