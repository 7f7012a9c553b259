"""Every error of hostrouting and the facts it carries, and nothing else.

    HostRoutingError
    ├── ConfigError        the operator's: the configuration cannot be used; all its faults at once
    └── ForeignPhases      the installation's: the `phases` that was imported is another project's

One root, so that a caller can catch all of it; each subclass says whose fault it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ConfigError", "Fault", "ForeignPhases", "HostRoutingError"]


class HostRoutingError(Exception):
    """The root: catch this to catch everything that hostrouting raises on purpose."""


@attrs.frozen
class Fault:
    """One thing wrong with a configuration; `str()` is the sentence that an operator reads."""

    path: str
    """Where: `hostRouting.staticRoutes.routes[1].gateway`, or the document's name when it is all of it."""
    value: str
    """What was found there, as printable JSON and shortened; empty where the absence is the fault."""
    rule: str
    """What is wrong with it."""
    remedy: str = ""
    """What to do about it; empty where nobody can know."""

    def __str__(self) -> str:
        found = f"{self.value} {self.rule}" if self.value else self.rule
        return f"{self.path}: {found}; {self.remedy}" if self.remedy else f"{self.path}: {found}"


class ConfigError(HostRoutingError, ValueError):
    """The configuration cannot be used: every fault in it, found before anything touched the host."""

    def __init__(self, faults: Iterable[Fault], source: str | None = None) -> None:
        """Carry the faults in the order of the document, and the file they are in where there is one."""
        self.faults = tuple(faults)
        self.source = source
        super().__init__(self.faults, source)

    def __str__(self) -> str:
        if len(self.faults) == 1:
            (fault,) = self.faults
            return str(fault) if self.source in (None, fault.path) else f"{self.source}: {fault}"
        where = self.source or "the configuration"
        return "\n".join([f"{where} has {len(self.faults)} faults:", *(f"  {fault}" for fault in self.faults)])


class ForeignPhases(HostRoutingError, ImportError):  # noqa: N818  the name says what was found
    """Another distribution's `phases` hides the one that hostrouting brings."""

    def __init__(self, found: str) -> None:
        """Name the file that was found in our place."""
        self.found = found
        super().__init__(
            f"the package 'phases' found at {found} is not the one that hostrouting brings; "
            "another distribution of that name is installed over it: uninstall it (pip uninstall phases), "
            "then reinstall hostrouting (pip install --force-reinstall --no-deps hostrouting)"
        )
