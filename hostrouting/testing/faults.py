"""Faults for tests: a call fails, or a function acts just before it, as another program would.

`FaultyBackend` wraps any backend, a fake one or that of a kernel. `Faulty` is the base class of the
other fakes, which have such faults themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar, get_args

from hostrouting.errors import BackendError
from hostrouting.kernel.base import Answer, Outcome, RouteBackend, RouteRequest, Watch
from hostrouting.kernel.netlink.socket import KernelError
from hostrouting.kernel.refusals import refusal

if TYPE_CHECKING:
    from hostrouting.model.prefix import IP, Prefix
    from hostrouting.model.snapshot import Snapshot

E = TypeVar("E", bound=Exception)
FaultPoint: TypeAlias = Literal["change", "snapshot", "lookup", "watch"]
"""The calls that can fail. For `change`, each route counts, even if many are passed at once."""


class Faulty(Generic[E]):
    """A fake whose calls are counted, and fail as a test requires."""

    def __init__(self) -> None:
        self.fault: E | None = None
        """The error that every call raises; None for no error."""
        self._calls = 0
        # What a test has set, by the number of the call.
        self._errors: dict[int, E] = {}
        self._happenings: dict[int, list[Callable[[], object]]] = {}
        # The calls that do their work before they raise their error.
        self._fail_after_work: set[int] = set()

    @property
    def waiting(self) -> int:
        """The number of errors and functions that wait for their calls."""
        return len(self._errors) + sum(map(len, self._happenings.values()))

    def fail(self, error: E, *, nth: int = 1, done: bool = False) -> None:
        """Make the nth call from now raise this error: before its work or, with `done`, after its
        work, as a timeout can.
        """
        call = self._calls + nth
        self._errors[call] = error
        if done:
            self._fail_after_work.add(call)

    def meanwhile(self, happening: Callable[[], object], *, nth: int = 1) -> None:
        """Run this function just before the nth call from now."""
        self._happenings.setdefault(self._calls + nth, []).append(happening)

    @contextmanager
    def call_that_may_fail(self) -> Iterator[None]:
        """Run a call of the fake, whose work is the `with` block, with the faults of a test: count
        the call, run the functions that are set for it, and raise its error, or else the error of
        all calls (`fault`), before or after the block.
        """
        self._calls += 1
        number = self._calls
        for happening in self._happenings.pop(number, ()):
            happening()
        error = self._errors.pop(number, self.fault)
        if error is None or number in self._fail_after_work:
            yield
        if error is not None:
            raise error


class FaultyBackend(RouteBackend):
    """A backend that passes everything on to another one, and fails as a test requires. Each fault
    happens once.

    `point` is the kind of call. `nth` counts such calls from now on: 1 is the next one::

        backend = FaultyBackend(h200())
        backend.fail("change", errno.ENOBUFS, nth=2)
        backend.meanwhile("snapshot", lambda: backend.inner.delete_link("ib0"))
    """

    def __init__(self, inner: RouteBackend) -> None:
        """Wrap the backend `inner`. The method `close` closes `inner`, too."""
        self.inner = inner
        self.is_restless = False
        """If a test sets it, every snapshot says that the tables changed while they were read."""
        self._faults_at: dict[str, Faulty[BackendError | KernelError]] = {
            point: Faulty() for point in get_args(FaultPoint)
        }

    def fail(
        self, point: FaultPoint, error: BackendError | int, *, nth: int = 1, done: bool = False
    ) -> None:
        """Make the nth call, from now, of the method `point` fail: before its work or, with `done`,
        after its work, as a timeout can.

        For "change", `nth` counts routes. An errno, or an error with a `route`, becomes the outcome
        of the nth route, as if the kernel had refused it. Any other error is raised, and the routes
        after the nth are not tried.
        """
        fault: BackendError | KernelError
        # `_change_one` makes an outcome of a KernelError, and of an error with a `route`.
        if isinstance(error, BackendError):
            fault = error
        elif point == "change":
            fault = KernelError(error)
        else:
            fault = BackendError(f"the kernel refused a {point}", errno=error)
        self._faults_at[point].fail(fault, nth=nth, done=done)

    def meanwhile(
        self, point: FaultPoint, happening: Callable[[], object], *, nth: int = 1
    ) -> None:
        """Call the function just before the nth call, from now, of the method `point`. It may do
        what another program could do at this time, such as change a route or delete a device.
        """
        self._faults_at[point].meanwhile(happening, nth=nth)

    @property
    def waiting(self) -> int:
        """The number of faults that have not happened yet. At the end of a test, it should be 0:
        otherwise the test has not tested what it meant to.
        """
        return sum(faults.waiting for faults in self._faults_at.values())

    # The contract of RouteBackend

    def snapshot(self, *, near: Collection[Prefix] | None = None) -> Snapshot:
        with self._faults_at["snapshot"].call_that_may_fail():
            snapshot = self.inner.snapshot(near=near)
        if self.is_restless:
            return snapshot._replace(restless=True)
        return snapshot

    def lookup(self, destinations: Sequence[IP]) -> tuple[Answer, ...]:
        with self._faults_at["lookup"].call_that_may_fail():
            return self.inner.lookup(destinations)

    def change(self, requests: Iterable[RouteRequest]) -> tuple[Outcome, ...]:
        if not self._faults_at["change"].waiting:  # no fault is set, so no route has to be counted
            return self.inner.change(requests)
        # A test sets a fault for the nth route, so each route is changed by a call of its own.
        return tuple(map(self._change_one, requests))

    def watch(self) -> Watch:
        with self._faults_at["watch"].call_that_may_fail():
            return self.inner.watch()

    def close(self) -> None:
        self.inner.close()

    def _change_one(self, request: RouteRequest) -> Outcome:
        # Change one route, or let the fault happen that a test has set for it. An errno, or an
        # error with a `route`, becomes the outcome; any other error is raised.
        try:
            with self._faults_at["change"].call_that_may_fail():
                [outcome] = self.inner.change([request])
        except KernelError as error:  # the errno that was given to `fail`
            return Outcome(request, refusal(request, error.number))
        except BackendError as error:
            if not error.route:
                raise
            return Outcome(request, error)
        return outcome
