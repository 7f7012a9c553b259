"""A backend of one's own: it wraps another, and writes down every change before it is tried.

A backend is an object with five verbs. This one adds a journal to any other, real or fake; `hostrouting.testing`
has the promises as a test suite, and the test of this example is that suite on this class.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hostrouting.backends.base import Answer, Change, Outcome, RouteBackend, Watch
from hostrouting.fib import PLAIN, Flow
from hostrouting.model import IP, Route, Snapshot
from hostrouting.testing import h200

if TYPE_CHECKING:
    from typing_extensions import Self


class JournalBackend:
    """Another backend, and what was asked of it and how that went."""

    def __init__(self, inner: RouteBackend) -> None:
        self.inner = inner
        self.journal: list[str] = []

    def snapshot(self, **only: Any) -> Snapshot:
        """Everything as it is now, or only what is asked for of it, from the other."""
        return self.inner.snapshot(**only)

    def lookup(self, destinations: Sequence[IP | str], flow: Flow = PLAIN) -> tuple[Answer, ...]:
        """What the other says."""
        return self.inner.lookup(destinations, flow)

    def change(self, changes: Iterable[Change]) -> tuple[Outcome, ...]:
        """Let the other do it, and write down how each change went."""
        outcomes = self.inner.change(changes)
        self.journal += [f"{it.change}: {'done' if it.ok else it.error}" for it in outcomes]
        return outcomes

    def watch(self) -> Watch:
        """Listen to the other."""
        return self.inner.watch()

    def close(self) -> None:
        """Close the other."""
        self.inner.close()

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


if __name__ == "__main__":
    with JournalBackend(h200()) as backend:
        for gateway in ("10.0.0.1", "192.0.2.1"):
            backend.change([Change("add", Route.to("172.16.8.0/24", dev="eth0", gateway=gateway, protocol=213))])
    print("\n".join(backend.journal))
