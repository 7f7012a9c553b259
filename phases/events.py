"""What happens in a run, as plain facts. How they are worded, drawn or stored is decided elsewhere.

Each task that starts gives one Started and one Finished; a task that never starts gives one Skipped; an
attempt that will be followed by another gives one Retrying. `id` ties the facts about one task together,
`parent` is the id of the task that ran it.
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


class Status(enum.StrEnum):
    """How a task stands."""

    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


@attrs.frozen
class Started:
    """A task begins. `order` is its place among its siblings; `attempt` counts what retry() makes of them."""

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

    `error` is what it raised. `own` is false where it only passes on the failure of a task inside it.
    `reason` says why it was cancelled or skipped. `fields` is what its result offers to the log.
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
    """A task never began, and why."""

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
    """One task that failed: where in the tree, and what it raised (its traceback is on the error)."""

    path: tuple[str, ...]
    error: BaseException

    def __str__(self) -> str:
        where = "/".join(self.path)
        return f"{self.path[-1]} failed: {describe_error(self.error)} (in {where})"


Event = Started | Finished | Skipped | Retrying

# Whoever wants to know is called with each event, one at a time, in the order in which they happen.
Observer = Callable[[Event], None]
