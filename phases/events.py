"""The events of a run, as plain values. How they are worded, drawn or stored is decided elsewhere.

A task that starts sends one Started and one Finished; a task that never starts sends one Skipped; a failed attempt
that will be followed by another sends one Retrying. All events of one task have the same `id`; `parent` is the id of
the task that ran it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from phases.text import describe_error

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

__all__ = ["Event", "Failure", "Finished", "Observer", "Retrying", "Skipped", "Started", "Status"]


class Status(str, enum.Enum):  # StrEnum is new in Python 3.11
    """The state of a task."""

    __str__ = str.__str__

    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


@attrs.frozen
class Started:
    """A task begins. `order` is its position among its siblings; `attempt` is the attempt by retry(), from 1."""

    run: str
    id: int
    parent: int | None
    path: tuple[str, ...]
    order: int
    attempt: int
    action: str
    at: datetime


@attrs.frozen
class Finished:
    """A task has ended.

    `error` is what it raised. `own` is false if it only passes on the failure of a task inside it.
    `reason` says why it was cancelled or skipped. `fields` are the log fields of its result.
    """

    run: str
    id: int
    path: tuple[str, ...]
    action: str
    status: Status
    started: datetime
    duration: float
    result: object
    error: BaseException | None
    own: bool
    reason: str
    attempts: int
    fields: Mapping[str, object]


@attrs.frozen
class Skipped:
    """A task was not started, and why."""

    run: str
    id: int
    parent: int | None
    path: tuple[str, ...]
    order: int
    attempt: int
    action: str
    reason: str


@attrs.frozen
class Retrying:
    """An attempt failed; the next one follows after `delay` seconds."""

    run: str
    id: int
    path: tuple[str, ...]
    attempt: int
    attempts: int
    delay: float
    error: Exception


@attrs.frozen
class Failure:
    """One task that failed: its path in the tree, and what it raised (with the traceback)."""

    path: tuple[str, ...]
    error: BaseException

    def __str__(self) -> str:
        where = "/".join(self.path)
        return f"{self.path[-1]} failed: {describe_error(self.error)} (in {where})"


Event = Started | Finished | Skipped | Retrying

# Called with each event, one at a time, in the order in which they happen.
Observer = Callable[[Event], None]
