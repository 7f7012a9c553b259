"""hostrouting.testing.contract: the suite fails for backends that break a promise."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hostrouting.kernel.base import Outcome, RouteBackend, RouteRequest, Watch
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing import FaultyBackend
from hostrouting.testing.contract import BackendContract, contract_host

SUITE = [name for name in vars(BackendContract) if name.startswith("test_")]


def broken_by(lying: type[FaultyBackend]) -> set[str]:
    """The tests of the suite that fail for such a backend."""

    class Suite(BackendContract):
        @contextmanager
        def make(self) -> Iterator[RouteBackend]:
            yield lying(contract_host())

    broken: set[str] = set()
    for name in SUITE:
        try:
            getattr(Suite(), name)()
        except AssertionError:
            broken.add(name)
    return broken


def lying(**methods: Callable[..., Any]) -> type[FaultyBackend]:
    """A backend that passes everything on, but has these methods."""
    return type("Lying", (FaultyBackend,), methods)


def of_snapshots(change: Callable[[Snapshot], Snapshot]) -> type[FaultyBackend]:
    """A backend whose snapshots are changed."""
    return lying(snapshot=lambda self, near=None: change(self.inner.snapshot(near=near)))


def of_changes(change: Callable[[RouteRequest], RouteRequest]) -> type[FaultyBackend]:
    """A backend that makes other changes than those of the requests."""

    def changed(self: FaultyBackend, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        asked = tuple(requests)
        outcomes = self.inner.change(map(change, asked))
        return tuple(
            Outcome(each, outcome.error) for each, outcome in zip(asked, outcomes, strict=True)
        )

    return lying(change=changed)


def for_any_protocol(request: RouteRequest) -> RouteRequest:
    """Delete whose route it is."""
    if request.verb != "delete":
        return request
    return request._replace(route=request.route._replace(protocol=0))


def until_a_refusal(self: FaultyBackend, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
    """Try no change after one that was refused."""
    outcomes: list[Outcome] = []
    for request in requests:
        if all(outcome.ok for outcome in outcomes):
            outcomes += self.inner.change([request])
    return tuple(outcomes)


class Wrapped(Watch):
    """A watch that passes everything on."""

    def __init__(self, inner: Watch) -> None:
        """Wrap it."""
        self.inner = inner

    def wait(self, timeout: float, *, clock: Any = None) -> bool:
        """See Watch."""
        return self.inner.wait(timeout, clock=clock)

    def close(self) -> None:
        """See Watch."""
        self.inner.close()


class Impatient(Wrapped):
    """Waits for nothing."""

    def wait(self, timeout: float, *, clock: Any = None) -> bool:  # noqa: ARG002
        """See Watch."""
        return self.inner.wait(0)


class Deaf(Wrapped):
    """Reports nothing."""

    def wait(self, timeout: float, *, clock: Any = None) -> bool:
        """See Watch."""
        self.inner.wait(timeout, clock=clock)
        return False


def by(watch: type[Wrapped]) -> type[FaultyBackend]:
    """A backend with such a watch."""
    return lying(watch=lambda self: watch(self.inner.watch()))


LIES = {
    "no rule": (of_snapshots(lambda it: it._replace(rules=())), "snapshot"),
    "no route": (of_snapshots(lambda it: it._replace(routes=())), "snapshot"),
    "always restless": (of_snapshots(lambda it: it._replace(restless=True)), "snapshot"),
    "nothing is done": (
        lying(change=lambda _, requests: tuple(map(Outcome, requests))),
        "each_change_has_an_outcome",
    ),
    "any protocol is deleted": (of_changes(for_any_protocol), "each_change_has_an_outcome"),
    "append for add": (
        of_changes(lambda it: it._replace(verb="append") if it.verb == "add" else it),
        "each_change_has_an_outcome",
    ),
    "a refusal ends all": (lying(change=until_a_refusal), "each_change_has_an_outcome"),
    "answers from last to first": (
        lying(lookup=lambda self, asked: self.inner.lookup(asked)[::-1]),
        "lookup_answers_in_order",
    ),
    "it does not wait": (by(Impatient), "watch_waits"),
    "it reports nothing": (by(Deaf), "watch_reports_a_change"),
    "it is not closed": (lying(close=lambda _: None), "a_closed_backend_is_of_no_use"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_breaks_a_promise(lie: str) -> None:
    """The test that is about the lie fails."""
    backend, promise = LIES[lie]
    assert f"test_{promise}" in broken_by(backend)


def test_an_honest_backend() -> None:
    """The wrappers of these tests keep every promise if they do not lie."""
    assert broken_by(FaultyBackend) == set()
    assert broken_by(by(Wrapped)) == set()
