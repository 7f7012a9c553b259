"""Faults for fakes: an error at a call, or an act of another process just before it.

Here: counting calls, and what is due at which call; for the fake kernel, at the n-th change, snapshot, lookup or wait
from now. Not here: the fakes, what they do without faults, and what their errors mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Literal, TypeAlias, TypeVar

import attrs

from hostrouting.errors import BackendError

E = TypeVar("E")


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


def _count(waiting: list[Due[E]], struck: Due[E]) -> Due[E]:
    """Count a call, run what comes before it, and return the first error that is due."""
    due: list[Due[E]] = []
    for fault in list(waiting):
        fault.left -= 1
        if fault.left == 0:
            waiting.remove(fault)
            due.append(fault)
    for fault in due:
        if fault.happening is not None:
            fault.happening()
        elif struck.error is None:
            struck = fault
    return struck


class Faulty(Generic[E]):
    """A fake whose calls are counted, and fail as a test requires."""

    def __init__(self) -> None:
        """Start with nothing due."""
        self.fault: E | None = None
        """The error that every call raises; None for no error."""
        self._faults: list[Due[E]] = []

    def fail(self, error: E, *, nth: int = 1, done: bool = False) -> None:
        """Make the nth call from now raise this error; with `done`, after its work, as in a timeout."""
        self._wait(Due(nth, error, done))

    def meanwhile(self, happening: Callable[[], object], *, nth: int = 1) -> None:
        """Run this function just before the nth call from now."""
        self._wait(Due(nth, happening=happening))

    def meet(self) -> Due[E]:
        """Count the call, run what is due before it, and return the fault for it."""
        return _count(self._faults, Due(0, self.fault))

    def _wait(self, fault: Due[E]) -> None:
        if fault.left < 1:
            raise ValueError(f"nth is {fault.left}, but the next call is 1")
        self._faults.append(fault)


# The fake kernel has several kinds of calls.

Moment: TypeAlias = Literal["change", "snapshot", "lookup", "watch", "wait", "listen"]
"""What can fail. Every single change counts, even if many are passed at once.

A wait is one of a watch: if it fails, the watch cannot listen to routes until its next wait. If `listen` fails, which
also happens once in each wait after that, it cannot listen to nftables.
"""


Strike: TypeAlias = "Due[BackendError | int]"
"""What is due at a moment: an error of the backend, or an errno."""


class Faults:
    """Faults waiting for their moment; each happens once.

    `nth` counts from the call that sets the fault: 1 is the next moment.
    """

    def __init__(self) -> None:
        """Start without any."""
        self._waiting: dict[Moment, list[Strike]] = {}

    def fail(self, moment: Moment, error: BackendError | int, *, nth: int = 1) -> None:
        """Fail with this error; nothing is changed.

        For a change it may be an errno, which is then reported as if the kernel had refused. A BackendError, or an
        errno, is the outcome of that change only; any other error is raised, and the changes after it are not tried.
        """
        self._set(moment, Due(nth, error=error))

    def hang(self, moment: Moment, *, nth: int = 1, done: bool = False) -> None:
        """Raise a timeout at once, without waiting; `done` is whether the operation was still carried out."""
        timeout = BackendError(f"the kernel did not answer a {moment} in time", kind="timeout")
        self._set(moment, Due(nth, error=timeout, done=done))

    def meanwhile(self, moment: Moment, happening: Callable[[], object], *, nth: int = 1) -> None:
        """Call this just before the moment: to change a route as another program would, or to delete a device."""
        self._set(moment, Due(nth, happening=happening))

    @property
    def waiting(self) -> int:
        """The number of faults that have not happened yet: a test that ends with some left did not test them."""
        return sum(len(faults) for faults in self._waiting.values())

    def strike(self, moment: Moment) -> Strike:
        """The fault for this moment; called by the fake kernel each time."""
        return _count(self._waiting.get(moment, []), Due(0))

    def _set(self, moment: Moment, fault: Strike) -> None:
        if fault.left < 1:
            raise ValueError(f"nth is {fault.left}, but the lowest value is 1 (the next time)")
        self._waiting.setdefault(moment, []).append(fault)
