"""What a test can have happen at a call of a double: an error, or something that another process does just before it.

Here: counting calls, and what is due at which of them. Not here: the doubles, and what their errors mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Due", "Faulty"]

E = TypeVar("E", bound=Exception)


@attrs.define
class Due(Generic[E]):
    """What is due at a call: an error, something that happens just before it, or nothing."""

    left: int
    error: E | None = None
    done: bool = False
    """Whether the call has done its work all the same."""
    happening: Callable[[], object] | None = None

    def strike(self) -> None:
        """Raise what there is to raise."""
        if self.error is not None:
            raise self.error


class Faulty(Generic[E]):
    """A double whose calls are counted, and fail when a test says so."""

    def __init__(self) -> None:
        """Begin without anything that is due."""
        self.fault: E | None = None
        """What every call raises until it is None again."""
        self._faults: list[Due[E]] = []

    def fail(self, error: E, *, nth: int = 1, done: bool = False) -> None:
        """Have the nth call from now raise this; `done` is whether it was done all the same, as with a time-out."""
        self._wait(Due(nth, error, done))

    def meanwhile(self, happening: Callable[[], object], *, nth: int = 1) -> None:
        """Have something happen just before the nth call from now."""
        self._wait(Due(nth, happening=happening))

    def meet(self) -> Due[E]:
        """Count the call, let happen what is due before it, and give the fault that is to strike it."""
        struck = Due(0, self.fault)
        for fault in list(self._faults):
            fault.left -= 1
            if fault.left == 0:
                self._faults.remove(fault)
                if fault.happening is not None:
                    fault.happening()
                elif struck.error is None:
                    struck = fault
        return struck

    def _wait(self, fault: Due[E]) -> None:
        if fault.left < 1:
            raise ValueError(f"nth is {fault.left}: the next one is 1")
        self._faults.append(fault)
