"""How the work of tasks stands on a host, beside static routes and the check: found out, and told in lines.

Here: asking each task, and the lines. Not here: what a task finds (`tasks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.cli.command import FAILED, FINE, UNDECIDED
from hostrouting.cli.page import Painted, line
from hostrouting.errors import HostRoutingError
from hostrouting.tasks import Configure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

    from hostrouting.cli.page import Line
    from hostrouting.config import HostRoutingConfig
    from hostrouting.host import Host
    from hostrouting.tasks import Standing

__all__ = ["Standings"]


@attrs.frozen
class Standings:
    """How the work of each task that has something to say stands, and what could not be found out."""

    found: tuple[Standing, ...] = ()
    troubles: tuple[str, ...] = ()

    @classmethod
    def on(cls, host: Host, config: HostRoutingConfig) -> Self:
        """As it is now, by this configuration."""
        found, troubles = [], []
        for task in Configure(config, host=host).subtasks:
            try:
                if (standing := task.standing()) is not None:
                    found.append(standing)
            except HostRoutingError as error:
                troubles.append(f"{task.name}: {error}")
        return cls(tuple(found), tuple(troubles))

    @property
    def are_right(self) -> bool:
        """Whether everything that was found is in force and works."""
        return all(it.is_right for it in self.found)

    @property
    def faults(self) -> tuple[str, ...]:
        """What is not in force."""
        return tuple(fault for it in self.found for fault in it.faults)

    @property
    def code(self) -> int:
        """What a program exits with for them."""
        if not self.are_right:
            return FAILED
        return UNDECIDED if self.troubles else FINE

    def documents(self) -> list[dict[str, Any]]:
        """The same as plain values."""
        return [it.to_mapping() for it in self.found]

    def lines(self) -> Iterator[Line]:
        """Each in a line that says whether it works, and below it what keeps it from that."""
        for it in self.found:
            yield line()
            if it.faults:
                yield line(Painted("NOT IN FORCE:", "bad"), f" {it.subject}")
            elif it.hindrances:
                yield line(Painted("NOT WORKING:", "bad"), f" {it.subject}: the rules are in force, but")
            elif it.is_on:
                yield line(Painted("IN FORCE:", "good"), f" {it.subject}")
            else:
                yield line(Painted("OFF:", "soft"), f" {it.subject}")
            yield from (line("  ", Painted(text, "bad")) for text in (*it.faults, *it.hindrances))
            yield from (line("  ", Painted(text, "warn")) for text in it.notes)
            yield from (line("  ", Painted(text, "soft")) for text in it.facts)

    def trouble_lines(self) -> Iterator[Line]:
        """What could not be found out."""
        yield from (line("Could not be found out: ", Painted(trouble, "warn")) for trouble in self.troubles)
