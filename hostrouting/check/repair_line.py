"""The line that an operator types to repair a host for good."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from hostrouting.release import call


def repair_line(options: str = "") -> str:
    """The line to type. With the options, `repair` finds the configuration: they are as typed
    behind that word, so they begin with a space, or are empty.
    """
    return f"{call(f'repair{options}')} | {call('apply --config -')}"


def line_to_allow(options: str, devs: Iterable[str]) -> str:
    """The line that has these devices allowed, instead of repairing what leaves through them."""
    return repair_line(options + typed("--allow", devs))


def typed(option: str, values: Iterable[str]) -> str:
    """An option as it is typed with each of these values."""
    return "".join(f" {option} {shlex.quote(value)}" for value in values)
