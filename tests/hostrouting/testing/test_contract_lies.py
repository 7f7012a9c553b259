"""hostrouting.testing.contract: the suite fails for backends that break a promise."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import pytest

from hostrouting.kernel.base import Outcome, RouteBackend, RouteRequest, Watch
from hostrouting.model.route import OURS, Route
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing import FaultyBackend
from hostrouting.testing.contract import BackendContract, contract_host


def suite_of(backend: type[FaultyBackend]) -> BackendContract:
    class Suite(BackendContract):
        @contextmanager
        def make(self) -> Iterator[RouteBackend]:
            yield backend(contract_host())

    return Suite()


def lying(**methods: Callable[..., Any]) -> type[FaultyBackend]:
    """A backend that passes everything on, but has these methods."""
    return type("Lying", (FaultyBackend,), methods)


def of_snapshots(change: Callable[[Snapshot], Snapshot]) -> type[FaultyBackend]:
    return lying(snapshot=lambda self, near=None: change(self.inner.snapshot(near=near)))


def with_links(snapshot: Snapshot, **fields: Any) -> Snapshot:
    return snapshot._replace(links=tuple(link._replace(**fields) for link in snapshot.links))


def of_changes(change: Callable[[RouteRequest], RouteRequest]) -> type[FaultyBackend]:
    """A backend that makes other changes than those of the requests."""

    def changed(self: FaultyBackend, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        outcomes: list[Outcome] = []
        for request in requests:
            [outcome] = self.inner.change([change(request)])
            outcomes.append(Outcome(request, outcome.error))
        return tuple(outcomes)

    return lying(change=changed)


def of_waits(wait: Callable[..., bool]) -> type[FaultyBackend]:
    """A backend whose watches wait in this way, which gets the method of an honest one."""

    def watch(self: FaultyBackend) -> Watch:
        watch = self.inner.watch()
        watch.wait = partial(wait, watch.wait)  # type: ignore[method-assign]  # of this watch alone
        return watch

    return lying(watch=watch)


def until_a_refusal(self: FaultyBackend, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
    outcomes: list[Outcome] = []
    for request in requests:
        if all(outcome.ok for outcome in outcomes):
            outcomes += self.inner.change([request])
    return tuple(outcomes)


@cache
def first_snapshot_of(backend: RouteBackend) -> Snapshot:
    return backend.snapshot()


_METRIC_9 = Route.to("192.0.2.0/24", dev="eth0", gateway="10.0.0.1", protocol=OURS, metric=9)
LIES = {
    "no rule": (of_snapshots(lambda it: it._replace(rules=())), "snapshot"),
    "no route": (of_snapshots(lambda it: it._replace(routes=())), "snapshot"),
    "forwarding": (of_snapshots(lambda it: it._replace(ipv6_forwarding=True)), "snapshot"),
    "all is down": (of_snapshots(lambda it: with_links(it, up=False)), "snapshot"),
    "no masters": (of_snapshots(lambda it: with_links(it, master=None)), "snapshot"),
    "always restless": (of_snapshots(lambda it: it._replace(restless=True)), "snapshot"),
    "the first snapshot for ever": (
        lying(snapshot=lambda self, near=None: first_snapshot_of(self.inner)),  # noqa: ARG005
        "each_change_has_an_outcome",
    ),
    "append for add": (
        of_changes(lambda it: it._replace(verb="append") if it.verb == "add" else it),
        "each_change_has_an_outcome",
    ),
    "any type is deleted": (
        of_changes(lambda it: it._replace(route=_METRIC_9) if it.route.type == "blackhole" else it),
        "each_change_has_an_outcome",
    ),
    "a refusal ends all": (lying(change=until_a_refusal), "each_change_has_an_outcome"),
    "it reports nothing": (of_waits(lambda *_, **__: False), "watch_reports_a_change"),
    "it does not wait": (of_waits(lambda wait, _timeout, **_clock: wait(0)), "watch_waits"),
    "it is not closed": (lying(close=lambda _: None), "a_closed_backend_is_of_no_use"),
}


@pytest.mark.parametrize(("backend", "promise"), LIES.values(), ids=LIES)
def test_a_lie_breaks_a_promise(backend: type[FaultyBackend], promise: str) -> None:
    with pytest.raises(AssertionError):
        getattr(suite_of(backend), f"test_{promise}")()


def test_an_honest_backend() -> None:
    """What these tests wrap around a backend breaks nothing."""
    suite_of(of_changes(lambda request: request)).test_each_change_has_an_outcome()
    suite_of(of_waits(lambda wait, timeout, **clock: wait(timeout, **clock))).test_watch_waits()
