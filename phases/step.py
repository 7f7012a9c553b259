"""Step: what happened to one task in a run. Observers get each step at its start and end; the root
is the report.

A report can be pickled and copied, whatever tasks leave in it. If a result cannot be pickled, its
JSON value takes its place. If an error cannot be, or would come back as a different one, a
PhasesError that describes it takes its place. Python never pickles tracebacks, so the JSON of a
report that was pickled has none.
"""

from __future__ import annotations

import enum
import json
import math
import pickle
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import attrs

from phases.errors import PhasesError, TaskFailed, describe_error, printable

if TYPE_CHECKING:
    from datetime import datetime


T = TypeVar("T")


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
    """One task of a run and, in `children`, the steps inside it. The step of the whole run is its
    report.

    A step changes until it has ended. One that was never started has no `start` and no `seconds`.
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
    """What the task raised; for a group, the TaskFailed with the failures of its tasks."""
    reason: str = ""
    """Why the step was cancelled or skipped; in a plan, the condition under which it runs."""
    attempts: int = 1
    signal: int | None = None
    """The first signal that came during the run; on the root only."""
    children: list[Step] = attrs.field(factory=list)
    """The steps inside this one, in the order in which their tasks are listed."""

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
        """The exit code for the program: 0, 1 for a failure, 128 + the signal that cancelled the
        run.
        """
        return (
            0
            if self.ok
            else 128 + self.signal
            if self.status is Status.CANCELLED and self.signal
            else 1
        )

    @property
    def failures(self) -> tuple[Step, ...]:
        """The steps that made this one fail, in the order in which they failed; itself if it raised
        the error.
        """
        if self.status is not Status.FAILED:
            return ()
        if isinstance(self.error, TaskFailed) and self.error.failures[0].run == self.run:
            return self.error.failures
        return next(
            (child.failures for child in self.children if child.error is self.error), (self,)
        )

    @property
    def failure(self) -> BaseException | None:
        """The error that this step raised; None if it did not fail, or passed on the error of a
        step inside it.
        """
        return self.error if self.failures == (self,) else None

    @property
    def fields(self) -> Mapping[str, object]:
        """The log fields of its result. A result that cannot describe itself does not fail its
        task.
        """
        try:
            offer = getattr(self.result, "log_fields", None)
            return dict(offer()) if callable(offer) else {}
        except Exception as error:  # noqa: BLE001  the caller's code; only the description is lost
            return {"log_fields_error": describe_error(error)}

    @property
    def facts(self) -> dict[str, object]:
        """The facts for the log lines and the report's JSON, without the result."""
        return {
            "run": self.run,
            "task": "/".join(self.path),
            "action": self.action,
            "status": str(self.status),
            "start": self.start and self.start.isoformat(),
            "seconds": self.seconds,
            "signal": self.signal,
            "attempts": self.attempts,
            "reason": self.reason or None,
            "error": describe_error(self.failure) if self.failure else None,
        }

    def __getstate__(self) -> dict[str, object]:
        """What is pickled."""
        values = attrs.asdict(self, recurse=False)
        values["result"] = _portable_result(self.result)
        values["error"] = _portable_error(self.error)
        return values

    def __setstate__(self, values: Mapping[str, object]) -> None:
        """Take what was pickled."""
        for name, value in values.items():
            setattr(self, name, value)

    def __copy__(self) -> Step:
        """A shallow copy: it stays in this process, so it needs no stand-ins."""
        return attrs.evolve(self)

    def walk(self) -> Iterator[Step]:
        """The step itself and every step inside it, parents first."""
        yield self
        for child in tuple(self.children):
            yield from child.walk()

    def find(self, name: str) -> Step:
        """The last step with this name (`routes`, or `network/routes`); without one, a KeyError
        names all steps.
        """
        steps = [("/".join(step.path), step) for step in self.walk()]
        for path, step in reversed(steps):
            if f"/{path}".endswith(f"/{name}"):
                return step
        raise KeyError(
            f"there is no step {name!r}; the steps are {', '.join(path for path, _ in steps)}"
        )

    def __str__(self) -> str:
        """The tree, one line for each step with its status, duration and details; for a plan, what
        each would do.
        """
        steps, lines = list(_drawn(self)), list[str]()
        width = max(len(drawn + step.name) for drawn, _, step in steps)
        for drawn, further, step in steps:
            ended = (
                ""
                if self.action == "plan"
                else f"{step.status:9}  {seconds_in_words(step.seconds):>8}  "
            )
            first, *others = step.note.splitlines() or [""]
            lines += [f"{drawn + step.name:{width}}  {ended}{first}".rstrip()]
            lines += [f"{further}  {line}" for line in others]
        return "\n".join(lines)

    @property
    def note(self) -> str:
        """Details of how the step ended; for a plan, the lines of the plan."""
        parts = [f"{self.attempts} attempts"] if self.attempts > 1 else []
        parts += [describe_error(self.failure)] if self.failure else []
        parts += [self.reason] if self.reason else []
        if self.action == "plan":
            words = "" if self.result is None else printable(self.result)
            parts += [f"\n{words}" if "\n" in words else words] if words else []
        else:
            parts += [f"{key}={as_data(value)}" for key, value in self.fields.items()]
        return printable(", ".join(parts))

    def to_json(self) -> str:
        """The report as JSON."""
        return json.dumps(self.to_mapping())

    def to_mapping(self) -> dict[str, object]:
        """The report as plain values. An error is at the step that raised it, a result at the step
        that returned it.
        """
        error = self.failure
        return {
            **self.facts,
            "details": as_data(error) if hasattr(error, "to_mapping") else None,
            "traceback": "".join(traceback.format_exception(error)) if error else None,
            "fields": as_data(self.fields),
            "result": None
            if self.children and isinstance(self.result, tuple)
            else as_data(self.result),
            "children": [child.to_mapping() for child in self.children],
        }


Observer = Callable[[Step], object]
"""Called with each step when it starts and when it has ended: one call at a time, from any thread.

A step that is passed over only has an end. What an observer raises is logged, and the run
continues. An observer must not wait for another step.
"""


def seconds_in_words(seconds: float | None) -> str:
    """A duration in words: `12 ms`, `3.25 s`, `2 min 05 s`; empty if there is none."""
    if seconds is None:
        return ""
    if seconds < 0.999_5:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 59.995:
        return f"{seconds:.2f} s"
    return f"{round(seconds) // 60} min {round(seconds) % 60:02} s"


def _drawn(step: Step, *, indent: str = "", branch: str = "") -> Iterator[tuple[str, str, Step]]:
    """Every step from this one down, with the text before its first line and before its further
    lines.
    """
    further = indent + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
    yield indent + branch, further, step
    members = tuple(step.children)
    for place, child in enumerate(members, start=1):
        yield from _drawn(child, indent=further, branch="└─ " if place == len(members) else "├─ ")


def as_data(value: object) -> object:
    """The value in JSON types. An object becomes the result of its `to_mapping()` or
    `log_fields()`, or its text.
    """
    try:
        for name in () if isinstance(value, type) else ("to_mapping", "log_fields"):
            if callable(offer := getattr(value, name, None)):
                return as_data(offer())
        if isinstance(value, Mapping):
            return {str(key): as_data(member) for key, member in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [as_data(member) for member in value]
    except Exception as error:  # noqa: BLE001  the caller's code; only the description is lost
        return f"<{type(value).__name__} that cannot be described: {describe_error(error)}>"
    is_plain = (
        value is None
        or isinstance(value, str | int)
        or (isinstance(value, float) and math.isfinite(value))
    )
    return value if is_plain else printable(value)


def _portable_result(result: object) -> object:
    """The result if another process can have it, or else its JSON value."""
    try:
        _as_received(result)
    except Exception:  # noqa: BLE001  code of others runs
        return as_data(result)
    return result


def _portable_error(error: BaseException | None) -> BaseException | None:
    """The error if another process can have it, or else a PhasesError that describes it."""
    if error is None or isinstance(error, TaskFailed):  # its errors are in steps of their own
        return error
    try:
        received = _as_received(error)
    except Exception as refused:  # noqa: BLE001  code of others runs
        why = describe_error(refused)
    else:
        if describe_error(received) == describe_error(error):
            return error
        why = f"it would become {describe_error(received)}"
    return PhasesError(f"{describe_error(error)} (this error could not be pickled: {why})")


def _as_received(value: T) -> T:
    """What another process would receive. What can be pickled may still not be made again."""
    received: T = pickle.loads(pickle.dumps(value))  # noqa: S301  our own bytes
    return received
