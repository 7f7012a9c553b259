"""The state of tasks on a host, other than static routes and the check: collected, and as lines.

Here: asking each task, and the lines. Not here: how a task finds its state (`tasks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.cli.command import FAILED, FINE, UNDECIDED
from hostrouting.cli.page import Painted, line
from hostrouting.errors import HostRoutingError

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
    """The state of each task that reports one, and what could not be determined."""

    found: tuple[Standing, ...] = ()
    troubles: tuple[str, ...] = ()

    @classmethod
    def on(cls, host: Host, config: HostRoutingConfig) -> Self:
        """The present state on a host, by this configuration."""
        directories = (host.layout.at(host.layout.config_directory), host.layout.at(host.layout.state_directory))
        if not (config.probe_rewrite.enabled or config.guard.enabled or any(map(host.files.names, directories))):
            return cls()  # nothing of ours is here or wanted; to load the tasks takes longer than a check
        from hostrouting.tasks import Configure  # noqa: PLC0415  as above

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
        """Whether everything is in force and works."""
        return all(it.is_right for it in self.found)

    @property
    def faults(self) -> tuple[str, ...]:
        """What is not in force."""
        return tuple(fault for it in self.found for fault in it.faults)

    @property
    def code(self) -> int:
        """The exit code."""
        if not self.are_right:
            return FAILED
        return UNDECIDED if self.troubles else FINE

    def documents(self) -> list[dict[str, Any]]:
        """The same as plain values."""
        return [it.to_mapping() for it in self.found]

    def lines(self) -> Iterator[Line]:
        """One line for each that says whether it works, and below it what prevents that."""
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
        """One line for each fact that could not be determined."""
        yield from (line("Not known: ", Painted(trouble, "warn")) for trouble in self.troubles)
