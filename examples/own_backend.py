"""A custom backend: it wraps another one, and records every change and its result.

A backend is an object with six methods. This one adds a journal to any other, real or fake. `hostrouting.testing` has
the contract suite for backends; the test of this example runs that suite on this class.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from hostrouting import IP, PLAIN, Flow, Route, Rule, Snapshot
from hostrouting.kernel import Answer, Outcome, RouteBackend, RouteRequest, Watch
from hostrouting.testing import h200

if TYPE_CHECKING:
    from typing_extensions import Self


class JournalBackend:
    """Another backend, with a journal of its changes and their results."""

    def __init__(self, inner: RouteBackend) -> None:
        self.inner = inner
        self.journal: list[str] = []

    def snapshot(self, **only: Any) -> Snapshot:
        """The snapshot of the other backend, restricted to what is asked for."""
        return self.inner.snapshot(**only)

    def lookup(self, destinations: Sequence[IP | str], flow: Flow = PLAIN) -> tuple[Answer, ...]:
        """The answers of the other backend."""
        return self.inner.lookup(destinations, flow)

    def change(self, changes: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """Let the other backend make the changes, and record the result of each."""
        outcomes = self.inner.change(changes)
        self.journal += [f"{outcome.change}: {'done' if outcome.ok else outcome.error}" for outcome in outcomes]
        return outcomes

    def change_rule(self, verb: Literal["add", "delete"], rule: Rule) -> bool:
        """Let the other backend add or delete a rule."""
        return self.inner.change_rule(verb, rule)

    def watch(self) -> Watch:
        """The watch of the other backend."""
        return self.inner.watch()

    def close(self) -> None:
        """Close the other backend."""
        self.inner.close()

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


if __name__ == "__main__":
    with JournalBackend(h200()) as backend:
        for gateway in ("10.0.0.1", "192.0.2.1"):
            backend.change([RouteRequest("add", Route.to("172.16.8.0/24", dev="eth0", gateway=gateway, protocol=213))])
    print("\n".join(backend.journal))
