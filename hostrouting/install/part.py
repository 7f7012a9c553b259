"""The work of one section of the configuration, as an installation sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable

    import phases
    from hostrouting.host.effects import Effects
    from hostrouting.install.plan import Plan
    from hostrouting.install.wanted import Wanted
    from hostrouting.model.snapshot import Snapshot


class Part(ABC):
    """The work of one section on the kernel."""

    name: str
    checks_the_result: ClassVar[bool] = False
    """Whether the part judges what the others have done, so that a dry run judges the host as it
    would be.
    """

    @abstractmethod
    def planned(self, wanted: Wanted, read_snapshot: Callable[[], Snapshot]) -> Plan:
        """What would be done to the kernel.

        All parts of a run get the same snapshot, which is read when the first of them needs it.
        """

    @abstractmethod
    def carry_out(self, ctx: phases.Context, wanted: Wanted) -> Effects | phases.Skip:
        """Wait for what the part needs, then change the kernel. The files are installed already."""
