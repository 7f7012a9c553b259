"""Making the fake kernel fail: at the n-th change, snapshot, lookup or wait from now.

Here: what happens, and when. Not here: what the kernel does without faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from hostrouting.errors import BackendError, BackendTimeout

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Faults", "Moment"]

Moment: TypeAlias = Literal["change", "snapshot", "lookup", "watch", "wait", "listen"]
"""What can fail. Every single change counts, even if many are passed at once.

A wait is one of a watch: if it fails, the watch cannot listen to routes until its next wait. If `listen` fails, which
also happens once in each wait after that, it cannot listen to nftables.
"""


@attrs.define
class _Fault:
    left: int
    error: BackendError | int | None = None
    happening: Callable[[], object] | None = None
    done: bool = False


class Faults:
    """Faults waiting for their moment; each happens once.

    `nth` counts from the call that sets the fault: 1 is the next moment.
    """

    def __init__(self) -> None:
        """Start without any."""
        self._waiting: dict[Moment, list[_Fault]] = {}

    def fail(self, moment: Moment, error: BackendError | int, *, nth: int = 1) -> None:
        """Fail with this error; nothing is changed.

        For a change it may be an errno, which is then reported as if the kernel had refused. A RouteRefused, or an
        errno, is the outcome of that change only; any other error is raised, and the changes after it are not tried.
        """
        self._set(moment, _Fault(nth, error=error))

    def hang(self, moment: Moment, *, nth: int = 1, done: bool = False) -> None:
        """Raise BackendTimeout at once, without waiting; `done` is whether the operation was still carried out."""
        timeout = BackendTimeout(f"the kernel did not answer a {moment} in time")
        self._set(moment, _Fault(nth, error=timeout, done=done))

    def meanwhile(self, moment: Moment, happening: Callable[[], object], *, nth: int = 1) -> None:
        """Call this just before the moment: to change a route as another program would, or to delete a device."""
        self._set(moment, _Fault(nth, happening=happening))

    @property
    def waiting(self) -> int:
        """The number of faults that have not happened yet: a test that ends with some left did not test them."""
        return sum(len(faults) for faults in self._waiting.values())

    def strike(self, moment: Moment) -> Strike:
        """The fault for this moment; called by the fake kernel each time."""
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
            raise ValueError(f"nth is {fault.left}, but the lowest value is 1 (the next time)")
        self._waiting.setdefault(moment, []).append(fault)


@attrs.frozen
class Strike:
    """The effect of a fault: an error, and whether the operation is still carried out; or nothing."""

    error: BackendError | int | None = None
    done: bool = False
