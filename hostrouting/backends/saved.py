"""SavedBackend: a host from a saved snapshot. It answers as its kernel would have, and cannot be changed.

Here: using a snapshot like a host. Not here: computing the answers (`hostrouting.fib`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.backends.base import Answer, asked_addresses, part_of
from hostrouting.errors import BackendError
from hostrouting.fib import ANY, Fib, Flow

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from hostrouting.backends.base import Change, Outcome
    from hostrouting.model import IP, Prefix, Snapshot
    from phases import Clock

__all__ = ["SavedBackend"]


class SavedBackend:
    """A saved snapshot as a RouteBackend, so that all code that reads a host can read a saved one."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Take the snapshot."""
        self._snapshot = snapshot
        self._fib: Fib | None = None

    def snapshot(
        self,
        *,
        family: int | None = None,
        table: int | None = None,
        protocol: int | None = None,
        prefixes: Collection[Prefix | str] | None = None,
    ) -> Snapshot:
        """See RouteBackend."""
        return part_of(self._snapshot, family=family, table=table, protocol=protocol, prefixes=prefixes)

    def lookup(self, destinations: Sequence[IP | str], flow: Flow = ANY) -> tuple[Answer, ...]:
        """See RouteBackend; unknown fields of the flow are those of a plain packet."""
        fib = self._fib = self._fib or Fib(self._snapshot)
        known = flow.assumed()
        return tuple(
            Answer(it.kind, it.route)
            for it in (fib.lookup(address, known) for address in asked_addresses(destinations))
        )

    def change(self, changes: Iterable[Change]) -> tuple[Outcome, ...]:
        """Raise BackendError: a saved snapshot cannot be changed."""
        raise BackendError(
            f"a saved snapshot cannot be changed ({len(list(changes))} changes were requested)", can_retry=False
        )

    def watch(self) -> _Still:
        """See RouteBackend: no change ever comes."""
        return _Still()

    def close(self) -> None:
        """See RouteBackend."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class _Still:
    """A watch that never waits, because nothing changes."""

    troubles = ()

    def listen(self, *, nftables: bool) -> None:
        """See Watch."""

    def wait(self, timeout: float, *, clock: Clock | None = None) -> bool:  # noqa: ARG002  waiting would have no effect
        """See Watch."""
        return False

    def wake(self) -> None:
        """See Watch."""

    def close(self) -> None:
        """See Watch."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
