"""The line that an operator types to repair a host for good, or to have something allowed."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.command import Command, call, joined

if TYPE_CHECKING:
    from collections.abc import Iterable


class RepairLine(NamedTuple):
    """How `repair` is typed for a host that was checked, and what comes after it."""

    options: str = ""
    """With these, `repair` finds the configuration: they are as typed behind that word, so they
    begin with a space, or are empty.
    """
    needs_consent: bool = False
    """Whether the repair takes something away that protects the host now."""

    def line(
        self,
        option: str = "",
        values: Iterable[str] = (),
        *,
        into: str = "apply",
        more: str = "",
    ) -> Command:
        """The line to type. `repair` gets this option with each of these values, and the command
        that it goes into, which may be `plan`, gets `more`.
        """
        if self.needs_consent:
            more += " --allow-removal"
        repair = call(f"repair{self.options}{typed(option, values)}")
        return joined(" | ", repair, call(f"{into} --config -{more}"))


def typed(option: str, values: Iterable[str]) -> str:
    """An option as it is typed with each of these values."""
    return "".join(f" {option} {shlex.quote(value)}" for value in values)
