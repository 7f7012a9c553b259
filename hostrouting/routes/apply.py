"""Carry out a plan: add, delete, read back; if anything fails, take back what was done.

If the key of a new route is free, the route is added. If an old route of ours has the key, the new
one is appended behind it, and Linux uses it as soon as the old one is deleted: packets always have
a route. An old one is deleted first only if a rollback, which deletes the new one, could take the
old one instead (`deletion_could_hit`). A request to delete names our protocol. So no request
changes another program's route, whenever that route is added.

The table that is read back is right if a plan made from it has nothing left to do. If not, or if
Linux refuses a request or the run is cancelled, each request that is in effect is reversed, the
last first. Then the table is read once more, so that the error says what is true now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from hostrouting.errors import ApplyError, BackendError
from hostrouting.kernel.base import RouteBackend, RouteRequest, Verb
from hostrouting.model.prefix import IPV4
from hostrouting.model.route import OURS, Route, RouteKey, bare, entries_of_route
from hostrouting.routes.plan import deletion_could_hit, present_by_key, steps_for_key
from hostrouting.text import first_few

if TYPE_CHECKING:
    from hostrouting.model.snapshot import Snapshot
    from hostrouting.routes.steps import RoutePlan


def apply_plan(
    plan: RoutePlan,
    backend: RouteBackend,
    *,
    before: Snapshot,
    done: list[RouteRequest],
    raise_if_cancelled: Callable[[], object] = lambda: None,
) -> None:
    """Carry out the plan, which was made from the snapshot `before`, or leave everything as it was.

    Raises RouteConflict, before anything is changed, if the plan has a conflict. Raises ApplyError
    if the kernel refuses a change, or if the table does not match the plan afterwards. Then the
    changes were rolled back as far as possible, and the error says what is in the table.
    `raise_if_cancelled` is called before each batch of changes; what it raises is raised again
    after the rollback. `done` gets the changes that are in effect at the end, also if an error is
    raised. A plan without changes writes nothing.
    """
    plan.require_no_conflict()
    if not plan.changes:
        return
    routes_before = _routes_of_keys(before, {step.route.key for step in plan.steps})
    in_effect: list[RouteRequest] = []  # `_carry_out` and `_undo` change it
    try:
        problems = _carry_out(plan, backend, raise_if_cancelled, in_effect)
        if not problems:
            return
        sentence = _undo(backend, routes_before, in_effect)
    except BaseException as stopped:
        # Roll back, then raise the error again. If the rollback above raised it, try once more.
        sentence = _undo(backend, routes_before, in_effect)
        # Python 3.11 and later print it after the traceback; `describe_failure` logs it. (Python
        # 3.10 has no `add_note`.)
        vars(stopped).setdefault("__notes__", []).append(sentence)
        raise
    finally:
        done += in_effect
    raise ApplyError(
        *map(str, problems),
        after=sentence,
        can_retry=all(problem.can_retry for problem in problems),
    ) from problems[0]


def _carry_out(
    plan: RoutePlan,
    backend: RouteBackend,
    raise_if_cancelled: Callable[[], object],
    done: list[RouteRequest],
) -> list[BackendError]:
    """Make the changes of the plan, then read the table back. Return what Linux has refused, or
    what is not as planned; empty if all is well. The changes in effect are added to `done`.
    """
    try:
        for requests in _batches(plan):
            raise_if_cancelled()
            refusals = _send(requests, backend, done)
            if refusals:
                return refusals
        return [*_find_deviations(plan, backend)]
    except BackendError as error:
        return [error]


def _batches(plan: RoutePlan) -> list[list[RouteRequest]]:
    """Return the requests in two batches, so that packets always have a route: the first adds the
    new routes, and the second deletes the old ones.

    There is one exception: an old route that a rollback could delete instead of the new one, if
    both were there (`deletion_could_hit`). It is deleted in the first batch, before the additions;
    a rollback adds it again.
    """
    added = {step.route.key: step.route for step in plan.changes if step.action == "add"}
    first_batch: list[RouteRequest] = []
    # Deletions of routes that lead packets until the new routes are there.
    last_batch: list[RouteRequest] = []
    for step in plan.changes:
        if step.action == "delete":
            successor = added.get(step.route.key)
            must_go_first = successor and deletion_could_hit(successor, step.route)
            batch = first_batch if must_go_first else last_batch
            batch.append(RouteRequest("delete", step.route))
    # Old routes that are still there have these keys, so the verb "add" would fail.
    keys_in_use = {request.route.key for request in last_batch}
    for route in added.values():
        verb: Verb = "append" if route.key in keys_in_use else "add"
        first_batch.append(RouteRequest(verb, route))
    return [first_batch, last_batch]


def _send(
    requests: list[RouteRequest], backend: RouteBackend, done: list[RouteRequest]
) -> list[BackendError]:
    """Send these requests to the kernel, and add those that it has carried out (`ok`) to `done`.
    Return the refusals, but not those of requests that had nothing left to do (`is_done`). All
    requests are tried, so that the error names every route that Linux refuses.
    """
    before = len(done)
    done += requests  # until there is an answer, any of them may be in effect
    outcomes = backend.change(requests)
    done[before:] = [outcome.change for outcome in outcomes if outcome.ok]
    return [each.error for each in outcomes if each.error is not None and not each.is_done]


def _find_deviations(plan: RoutePlan, backend: RouteBackend) -> Iterator[BackendError]:
    """After the changes, read the routes back. Yield an error for each key whose routes are not as
    planned: a new plan would still have something to do.
    """
    wanted = dict.fromkeys(step.route.key for step in plan.steps)  # None: no route is wanted
    wanted |= {step.route.key: step.route for step in plan.steps if step.action != "delete"}
    # `near` names the prefixes that matter, so that fewer routes are read.
    snapshot = backend.snapshot(near=[key.prefix for key in wanted])
    now = present_by_key(snapshot, wanted)
    for key, route in wanted.items():
        if any(step.action != "keep" for step in steps_for_key(route, now[key])):
            should = "no route of hostrouting" if route is None else f"[{route}]"
            yield BackendError(
                f"there should be {should}, but there is {_described(now[key])}: another program "
                "changes these routes at the same time, or has added a next hop to ours (in IPv6)"
            )


# The way back.


def _undo(
    backend: RouteBackend, before: dict[RouteKey, list[Route]], done: list[RouteRequest]
) -> str:
    """Roll back: reverse the requests of `done` that are in effect, and return a sentence about
    what is in the table now. `before` are the routes of each key before the changes. Afterwards,
    `done` has only the requests that are still in effect, or may be.
    """
    reversals: list[RouteRequest] = []
    problem = ""
    try:
        now = _read_routes_now(backend, before)
        # What was there before, or was added by our requests. All else is another program's.
        known_entries = {*_entries(*before.values()), *(bare(request.route) for request in done)}
        for request in reversed(_in_effect(done, now)):
            if request.verb != "delete":
                reversals.append(RouteRequest("delete", request.route))
            # Add a deleted route again, but only if no other program has added a route meanwhile:
            # ours would come behind that route and not be used.
            elif known_entries.issuperset(_entries(now[request.route.key])):
                reversals.append(RouteRequest("append", request.route))
        backend.change(reversals)
    except BackendError as error:
        problem = f" ({error})"
    try:
        now = _read_routes_now(backend, before)
    except BackendError as error:
        return f"whether every change could be rolled back is not known: {error}"
    done[:] = _in_effect(done, now)
    differing = [
        f"{_described(now[key])} instead of {_described(routes)}"
        for key, routes in before.items()
        if now[key] != routes
    ]
    if not differing:
        return "every change was rolled back: the route table is as it was before"
    return (
        f"not every change could be rolled back{problem}: there is now "
        f"{'; '.join(first_few(differing))}"
    )


def _in_effect(
    requests: Iterable[RouteRequest], now: dict[RouteKey, list[Route]]
) -> list[RouteRequest]:
    """Return the requests that are in effect, as the routes of `now` show: the added route is
    there, or the deleted one is not.

    Only these may be reversed, because a request to delete a route that is not there can do harm:
    in IPv4, without a metric, Linux then deletes a route of ours with another metric.
    """
    entries = _entries(*now.values())
    return [
        request
        for request in requests
        if (bare(request.route) in entries) == (request.verb != "delete")
    ]


def _entries(*lists: Iterable[Route]) -> set[Route]:
    """Split these routes into the entries that Linux has stored for them, so that they can be
    compared with requests. In IPv6, each next hop is an entry, and Linux lists the protocol of the
    first entry only. So IPv6 entries are compared without their protocols: all get ours, as in a
    request.
    """
    entries: set[Route] = set()
    for route in chain(*lists):
        protocol = route.protocol if route.prefix.family == IPV4 else OURS
        entries.update(entries_of_route(route._replace(protocol=protocol)))
    return entries


def _read_routes_now(
    backend: RouteBackend, keys: Collection[RouteKey]
) -> dict[RouteKey, list[Route]]:
    return _routes_of_keys(backend.snapshot(near=[key.prefix for key in keys]), keys)


def _routes_of_keys(snapshot: Snapshot, keys: Collection[RouteKey]) -> dict[RouteKey, list[Route]]:
    """The present routes of each of these keys, to compare the table before and after a change. The
    state of next hops (dead, linkdown) is left out, because it changes without any request.
    """
    present = present_by_key(snapshot, keys)
    return {key: [*map(bare, present[key])] for key in keys}


def _described(routes: Sequence[Route]) -> str:
    return " and ".join(f"[{route}]" for route in routes) or "no route"
