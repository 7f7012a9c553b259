"""Faults for tests: an error at a call, or an act of another program just before it.

`FaultyBackend` wraps any backend, a fake one or that of a kernel. `Faulty` gives the same to the other fakes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, get_args

import attrs

from hostrouting.errors import BackendError
from hostrouting.kernel.base import Outcome, RouteBackend
from hostrouting.kernel.refusals import refusal

if TYPE_CHECKING:
    from hostrouting.kernel.base import Answer, RouteRequest, Watch
    from hostrouting.model.prefix import IP
    from hostrouting.model.snapshot import Snapshot

E = TypeVar("E")
Moment: TypeAlias = Literal["change", "snapshot", "lookup", "watch"]
"""What can fail. Each route of a change counts, even if many are passed at once."""


@attrs.define
class Due(Generic[E]):
    """What comes at a call: an error, an act just before it, or nothing."""

    left: int
    error: E | None = None
    done: bool = False
    """Whether the call does its work before it raises."""
    happening: Callable[[], object] | None = None

    def strike(self) -> None:
        """Raise the error, if there is one."""
        if isinstance(self.error, Exception):
            raise self.error


class Faulty(Generic[E]):
    """A fake whose calls are counted, and fail as a test requires."""

    def __init__(self) -> None:
        """Start with nothing due."""
        self.fault: E | None = None
        """The error that every call raises; None for no error."""
        self._faults: list[Due[E]] = []

    @property
    def waiting(self) -> int:
        """The number of faults that have not happened yet."""
        return len(self._faults)

    def fail(self, error: E, *, nth: int = 1, done: bool = False) -> None:
        """Make the nth call from now raise this error; with `done`, after its work, as in a timeout."""
        self._wait(Due(nth, error, done))

    def meanwhile(self, happening: Callable[[], object], *, nth: int = 1) -> None:
        """Run this function just before the nth call from now."""
        self._wait(Due(nth, happening=happening))

    def meet(self) -> Due[E]:
        """Count the call, run what is due before it, and return the fault for it."""
        due: list[Due[E]] = []
        for fault in list(self._faults):
            fault.left -= 1
            if fault.left == 0:
                self._faults.remove(fault)
                due.append(fault)
        for fault in due:
            if fault.happening is not None:
                fault.happening()
        return next((fault for fault in due if fault.error is not None), Due(0, self.fault))

    @contextmanager
    def change(self) -> Iterator[None]:
        """Count a call that changes something in the block, and raise the fault for it: before, or after the work."""
        fault = self.meet()
        if not fault.done:
            fault.strike()
        yield
        fault.strike()

    def _wait(self, fault: Due[E]) -> None:
        if fault.left < 1:
            raise ValueError(f"nth is {fault.left}, but the next call is 1")
        self._faults.append(fault)


class FaultyBackend(RouteBackend):
    """A backend that passes everything on to another one, and fails as a test requires. Each fault happens once.

    `nth` counts from the call that sets the fault: 1 is the next moment::

        backend = FaultyBackend(h200())
        backend.fail("change", errno.ENOBUFS, nth=2)
        backend.meanwhile("snapshot", lambda: backend.inner.delete_link("ib0"))
    """

    def __init__(self, inner: RouteBackend) -> None:
        """Wrap this backend; it is closed with this one."""
        self.inner = inner
        self.is_restless = False
        """Set it, and every snapshot says that the tables changed while they were read."""
        self._moments: dict[str, Faulty[BackendError | int]] = {moment: Faulty() for moment in get_args(Moment)}

    def fail(self, moment: Moment, error: BackendError | int, *, nth: int = 1, done: bool = False) -> None:
        """Fail with this error; nothing is changed, unless it is `done` all the same, as in a timeout.

        An errno, or an error with a route, is the outcome of one route of a change, as if the kernel had refused it.
        Any other error is raised, and the routes after it are not tried.
        """
        if moment != "change" and isinstance(error, int):
            error = BackendError(f"the kernel refused a {moment}", errno=error)
        self._moments[moment].fail(error, nth=nth, done=done)

    def meanwhile(self, moment: Moment, happening: Callable[[], object], *, nth: int = 1) -> None:
        """Call this just before the moment: to change a route as another program would, or to delete a device."""
        self._moments[moment].meanwhile(happening, nth=nth)

    @property
    def waiting(self) -> int:
        """The number of faults that have not happened yet: a test that ends with some left did not test them."""
        return sum(faults.waiting for faults in self._moments.values())

    # The contract of RouteBackend

    def snapshot(self, **parts: Any) -> Snapshot:
        """See RouteBackend."""
        self._moments["snapshot"].meet().strike()
        snapshot = self.inner.snapshot(**parts)
        return snapshot._replace(restless=True) if self.is_restless else snapshot

    def lookup(self, destinations: Sequence[IP]) -> tuple[Answer, ...]:
        """See RouteBackend."""
        self._moments["lookup"].meet().strike()
        return self.inner.lookup(destinations)

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        """See RouteBackend."""
        if not self._moments["change"].waiting:
            return self.inner.change(requests)
        return tuple(map(self._change, tuple(requests)))

    def watch(self) -> Watch:
        """See RouteBackend."""
        self._moments["watch"].meet().strike()
        return self.inner.watch()

    def close(self) -> None:
        """See RouteBackend."""
        self.inner.close()

    def _change(self, request: RouteRequest) -> Outcome:
        due = self._moments["change"].meet()
        if due.error is None or due.done:
            [outcome] = self.inner.change([request])
            if due.error is None:
                return outcome
        if isinstance(due.error, int):
            return Outcome(request, refusal(request, due.error, "a fault of the test"))
        if due.error.route:
            return Outcome(request, due.error)
        raise due.error
