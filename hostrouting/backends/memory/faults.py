"""How the fake kernel is made to fail: at the n-th change, snapshot or lookup from now.

Here: what is to happen and when. Not here: what the kernel does by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from hostrouting.errors import BackendError, BackendTimeout

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Faults", "Moment"]

Moment: TypeAlias = Literal["change", "snapshot", "lookup", "watch"]
"""What can fail. Every single change counts, also where many are handed in at once."""


@attrs.define
class _Fault:
    left: int
    error: BackendError | int | None = None
    happening: Callable[[], object] | None = None
    done: bool = False


class Faults:
    """Faults that lie in wait; each happens once.

    `nth` counts from the moment at which the fault is set: 1 is the next one.
    """

    def __init__(self) -> None:
        """Start without any."""
        self._waiting: dict[Moment, list[_Fault]] = {}

    def fail(self, moment: Moment, error: BackendError | int, *, nth: int = 1) -> None:
        """Fail with this error; nothing is done.

        For a change it may be an errno, which then becomes what the kernel would say; a RouteRefused, or an errno,
        is the outcome of that change alone, any other error is raised and the changes after it are not tried.
        """
        self._set(moment, _Fault(nth, error=error))

    def hang(self, moment: Moment, *, nth: int = 1, done: bool = False) -> None:
        """Do not answer until the time is over: BackendTimeout, at once. `done` is whether it was done all the same."""
        timeout = BackendTimeout(f"the kernel did not answer a {moment} in time")
        self._set(moment, _Fault(nth, error=timeout, done=done))

    def meanwhile(self, moment: Moment, happening: Callable[[], object], *, nth: int = 1) -> None:
        """Let something happen to the world just before: someone else changes a route, a link vanishes."""
        self._set(moment, _Fault(nth, happening=happening))

    @property
    def waiting(self) -> int:
        """How many have not happened yet: a test that is over with some left did not test them."""
        return sum(len(faults) for faults in self._waiting.values())

    def strike(self, moment: Moment) -> Strike:
        """What is to happen now, as the kernel asks at each such moment."""
        due: list[_Fault] = []
        for fault in list(self._waiting.get(moment, ())):
            fault.left -= 1
            if fault.left == 0:
                self._waiting[moment].remove(fault)
                due.append(fault)
        struck = Strike()
        for fault in due:
            if fault.happening is not None:
                fault.happening()
            elif struck.error is None:
                struck = Strike(fault.error, fault.done)
        return struck

    def _set(self, moment: Moment, fault: _Fault) -> None:
        if fault.left < 1:
            raise ValueError(f"nth is {fault.left}: the next one is 1")
        self._waiting.setdefault(moment, []).append(fault)


@attrs.frozen
class Strike:
    """What a fault comes to: an error, and whether the thing is done nevertheless; or nothing at all."""

    error: BackendError | int | None = None
    done: bool = False
