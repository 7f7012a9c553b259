"""Fault injection for fakes: an error at a call, or something that another process does just before it.

Here: counting calls, and what is due at which call. Not here: the fakes, and what their errors mean.
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
    """Whether the call does its work before it raises."""
    happening: Callable[[], object] | None = None

    def strike(self) -> None:
        """Raise the error, if there is one."""
        if self.error is not None:
            raise self.error


class Faulty(Generic[E]):
    """A fake whose calls are counted, and fail as a test requires."""

    def __init__(self) -> None:
        """Start with nothing due."""
        self.fault: E | None = None
        """The error that every call raises; None for no error."""
        self._faults: list[Due[E]] = []

    def fail(self, error: E, *, nth: int = 1, done: bool = False) -> None:
        """Make the nth call from now raise this; with `done` it does its work first, as in a timeout."""
        self._wait(Due(nth, error, done))

    def meanwhile(self, happening: Callable[[], object], *, nth: int = 1) -> None:
        """Run this function just before the nth call from now."""
        self._wait(Due(nth, happening=happening))

    def meet(self) -> Due[E]:
        """Count the call, run what is due before it, and return the fault for it."""
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
            raise ValueError(f"nth is {fault.left}, but the next call is 1")
        self._faults.append(fault)
