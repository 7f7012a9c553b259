"""What a backend may leave out of a snapshot: the words of RouteBackend.snapshot, once more."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar
from unittest import mock

from hostrouting.fib.engine import Fib
from hostrouting.kernel.base import Answer
from hostrouting.model.prefix import IP, Prefix
from hostrouting.model.route import OURS, Route
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing import FaultyBackend

T = TypeVar("T")


def kept_near(routes: Iterable[Route], near: Collection[Prefix]) -> list[Route]:
    """The routes that are kept if as many as allowed are left out."""
    kept: list[Route] = []
    kinds: set[tuple[object, ...]] = set()
    for route in routes:
        family, _, length = route.prefix
        kind = (family, length, *route[1:])
        is_always_kept = length <= 1 or not route.has_gateway or route.protocol == OURS
        is_asked_for = any(route.prefix.overlaps(block) for block in near)
        if is_always_kept or is_asked_for or kind not in kinds:
            kept.append(route)
        kinds.add(kind)
    return kept


class LeavesOut(FaultyBackend):
    """A backend that leaves out as many routes of another one as it may."""

    def snapshot(self, *, near: Collection[Prefix] | None = None) -> Snapshot:
        snapshot = super().snapshot()
        if near is None:
            return snapshot
        return snapshot._replace(routes=tuple(kept_near(snapshot.routes, near)))


def by_all_and_by_few(snapshot: Snapshot, work: Callable[[LeavesOut], T]) -> tuple[T, T]:
    """The result of this work with a kernel of which nothing is left out, and with LeavesOut."""

    def answers(destinations: Sequence[IP]) -> tuple[Answer, ...]:
        routes = [Fib(snapshot, each.version).lookup(each).route for each in destinations]
        return tuple(Answer(route.type if route else "no-route", route) for route in routes)

    whole = mock.Mock(snapshot=mock.Mock(return_value=snapshot), lookup=answers)
    return work(whole), work(LeavesOut(whole))
