"""Step: what happened to one task in a run. Observers get it when it starts and ends, and the first is the report.

How a step is worded in a log is decided in `logs`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

import attrs

from phases.errors import TaskFailed
from phases.text import as_data, describe_error, draw_tree, escaped, for_stdout, printable, seconds_in_words

if TYPE_CHECKING:
    from datetime import datetime


class Status(str, enum.Enum):  # StrEnum is new in Python 3.11
    """The state of a step."""

    __str__ = str.__str__

    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


@attrs.define(eq=False)
class Step:
    """One task of a run and, in `children`, the steps inside it. The step of the whole run is its report.

    It changes until it has ended. A step that was never started has no `start` and no `seconds`.
    """

    path: tuple[str, ...]
    """The names from the root of the run down to this task."""
    run: str = ""
    """The id of the run; every log line has it."""
    action: str = "do"
    """The method that was called: do, plan or undo."""
    status: Status = Status.RUNNING
    start: datetime | None = None
    seconds: float | None = None
    result: object = None
    error: BaseException | None = None
    """What the task raised; for a group that only passes on failures, the TaskFailed with them."""
    reason: str = ""
    """Why it was cancelled or skipped; in a plan, under which condition it runs."""
    attempts: int = 1
    signal: int | None = None
    """The first signal that came during the run; on the root only."""
    children: list[Step] = attrs.field(factory=list)
    """In the order in which their tasks are listed."""

    @property
    def name(self) -> str:
        """The task's name."""
        return self.path[-1]

    @property
    def ok(self) -> bool:
        """Whether every task that was selected has done its work."""
        return self.status in {Status.OK, Status.SKIPPED}

    @property
    def exit_code(self) -> int:
        """The exit code for the program: 0, 1 for a failure, 128 + the signal that cancelled the run."""
        return 0 if self.ok else 128 + self.signal if self.status is Status.CANCELLED and self.signal else 1

    @property
    def failures(self) -> tuple[Step, ...]:
        """The steps that made this one fail, in the order in which they failed; itself, if it raised the error."""
        if self.status is not Status.FAILED:
            return ()
        if isinstance(self.error, TaskFailed) and self.error.failures[0].run == self.run:
            return self.error.failures
        inside = (child.failures for child in self.children if child.error is self.error)
        return next(inside, (self,))

    @property
    def failure(self) -> BaseException | None:
        """The error with which it failed, unless a step inside it raised that before."""
        return self.error if self.failures == (self,) else None

    @property
    def fields(self) -> Mapping[str, object]:
        """The log fields of its result. A result that cannot describe itself does not fail its task."""
        try:
            offer = getattr(self.result, "log_fields", None)
            return dict(offer()) if callable(offer) else {}
        except Exception as error:  # noqa: BLE001  the caller's code; only the description is lost
            return {"log_fields_error": describe_error(error)}

    def walk(self) -> Iterator[Step]:
        """The step itself and every one inside it, parents first."""
        yield self
        for child in tuple(self.children):
            yield from child.walk()

    def innermost_running(self) -> list[Step]:
        """The steps that run now and have no running step inside them."""
        running = [step for step in self.walk() if step.status is Status.RUNNING and step.start is not None]
        return [step for step in running if not any(child in running for child in step.children)]

    def find(self, name: str) -> Step:
        """The first step with this name (`routes`, or `network/routes`); KeyError lists the steps that exist."""
        for step in self.walk():
            if f"/{'/'.join(step.path)}".endswith(f"/{name}"):
                return step
        raise KeyError(f"no step {name!r} in this report; it has {', '.join('/'.join(s.path) for s in self.walk())}")

    def __str__(self) -> str:
        """The headline, which has the text of each failure, then one line for each step; of a plan, the plans."""
        return for_stdout("\n".join(self._planned() if self.action == "plan" else [self.headline, *self._lines()]))

    @property
    def headline(self) -> str:
        """The outcome in one line."""
        took = "" if self.seconds is None else f" after {self.took}"
        undone = "" if self.action == "do" else f" ({self.action})"
        why = describe_error(self.failure) if self.failure else str(self.error) if self.failures else self.reason
        return f"{self.name}{undone}: {self.status}{took}{f': {escaped(why)}' if why else ''}"

    @property
    def took(self) -> str:
        """How long it took, in words; empty if it has not ended or never started."""
        return "" if self.seconds is None else seconds_in_words(self.seconds)

    def note(self, *, in_short: bool = False) -> str:
        """Details of how the step ended, in one line; in short, an error is only its type."""
        parts = [f"{self.attempts} attempts"] if self.attempts > 1 else []
        if self.failure:
            parts.append(type(self.failure).__name__ if in_short else describe_error(self.failure))
        parts += [self.reason] if self.reason else []
        parts += [f"{key}={as_data(value)}" for key, value in self.fields.items()]
        return escaped(", ".join(parts))

    def _lines(self) -> Iterator[str]:
        steps = list(draw_tree(self, children=lambda step: step.children))
        rows = [(drawn + step.name, str(step.status), step.took, step.note(in_short=True)) for drawn, _, step in steps]
        names, statuses, times = (max(len(row[column]) for row in rows) for column in range(3))
        for name, status, took, note in rows:
            yield f"{name:{names}}  {status:{statuses}}  {took:>{times}}  {note}".rstrip()

    def _planned(self) -> Iterator[str]:
        for drawn, further, step in draw_tree(self, children=lambda step: step.children):
            words = "" if step.result is None or step.status is not Status.OK else printable(step.result)
            words = f"cannot say: {describe_error(step.failure)}" if step.failure else words
            reason = f"({step.reason})" if step.reason else ""
            first, *lines = [words] if "\n" not in words else ["", *words.splitlines()]
            yield "  ".join(part for part in (drawn + step.name, reason, first) if part)
            yield from (f"{further}  {line}" for line in lines)

    def to_json(self) -> str:
        """The report as JSON."""
        import json  # noqa: PLC0415  only this needs it

        return json.dumps(self.to_mapping())

    def to_mapping(self) -> dict[str, object]:
        """The report as plain values. An error is at the step that raised it, a result at the step that returned it."""
        import traceback  # noqa: PLC0415  only a stored report needs it

        error = self.failure
        return {
            "name": self.name,
            "run": self.run,
            "action": self.action,
            "status": str(self.status),
            "start": None if self.start is None else self.start.isoformat(),
            "seconds": self.seconds,
            "signal": self.signal,
            "attempts": self.attempts,
            "reason": self.reason,
            "error": describe_error(error) if error else None,
            "details": as_data(error) if callable(getattr(error, "to_mapping", None)) else None,
            "traceback": "".join(traceback.format_exception(error)) if error else None,
            "fields": as_data(self.fields),
            "result": None if self.children or self.status is Status.SKIPPED else as_data(self.result),
            "children": [child.to_mapping() for child in self.children],
        }


class Observer(Protocol):
    """What is called when a step starts and ends: one call at a time, from any thread.

    A step that is passed over only ends. If an observer raises, that is logged and the run continues. It must not wait
    for another step.
    """

    def started(self, step: Step, /) -> None:
        """The step has started."""

    def ended(self, step: Step, /) -> None:
        """The step has ended, or was not started."""
