"""Step: what happened to one task in a run. Observers get each step at its start and end; the root
is the report. TaskFailed is the error that has the steps that failed.

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
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import attrs

from phases.errors import PhasesError, describe_error, printable

if TYPE_CHECKING:
    from datetime import datetime


T = TypeVar("T")

SCHEMA = "phases/report/1"
"""The name and the version of a report's JSON."""


class Status(str, enum.Enum):  # StrEnum is new in Python 3.11
    """The state of a step."""

    __str__ = str.__str__
    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


@attrs.define(eq=False, slots=False)
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
    """How often the task was tried."""
    attempt: int = 1
    """In which of the attempts of the step around it this one was made."""
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
        if self.ok:
            return 0
        if self.status is Status.CANCELLED and self.signal is not None:
            return 128 + self.signal
        return 1

    @property
    def failures(self) -> tuple[Step, ...]:
        """The steps that made this one fail, in the order in which they failed; itself if it raised
        the error.
        """
        if self.status is not Status.FAILED:
            return ()
        if isinstance(self.error, TaskFailed) and self.error.failures[0].run == self.run:
            return self.error.failures
        for child in self.children:
            if child.error is self.error:
                return child.failures
        return (self,)

    @property
    def failure(self) -> BaseException | None:
        """The error that this step raised; None if it did not fail, or passed on the error of a
        step inside it.
        """
        if self.failures == (self,):
            return self.error
        return None

    @property
    def fields(self) -> Mapping[str, object]:
        """The log fields of its result. A result that cannot describe itself does not fail its
        task.
        """
        try:
            describe = getattr(self.result, "log_fields", None)
            if callable(describe):
                return dict(describe())
        except Exception as error:  # noqa: BLE001  the caller's code; only the description is lost
            return {"log_fields_error": describe_error(error)}
        return {}

    @property
    def facts(self) -> dict[str, object]:
        """The facts for the log lines and the report's JSON, without the result."""
        failure = self.failure
        return {
            "run": self.run,
            "task": "/".join(self.path),
            "action": self.action,
            "status": str(self.status),
            "start": None if self.start is None else self.start.isoformat(),
            "seconds": self.seconds,
            "signal": self.signal,
            "attempts": self.attempts,
            "attempt": self.attempt,
            "reason": self.reason or None,
            "error": None if failure is None else describe_error(failure),
        }

    def __getstate__(self) -> dict[str, object]:
        """What is pickled."""
        error = _portable_error(self.error)
        if error is not self.error and self.failures and self.failure is None:
            error = TaskFailed(self.failures)  # it passed on the error of a step inside it
        return {**vars(self), "result": _portable_result(self.result), "error": error}

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
        steps = list(self.walk())
        last = last_named(name, steps)
        if last is None:
            known = ", ".join("/".join(step.path) for step in steps)
            raise KeyError(f"there is no step {name!r}; the steps are {known}")
        return last

    def __str__(self) -> str:
        """The tree, one line for each step with its status, duration and details; for a plan, what
        each would do.
        """
        steps = list(_drawn(self))
        width = max(len(label) for label, _, _ in steps)
        lines: list[str] = []
        for label, indent, step in steps:
            line = f"{label:{width}}  "
            if self.action != "plan":
                line += f"{step.status:9}  {seconds_in_words(step.seconds):>8}  "
            first, *others = step.note.splitlines() or [""]
            lines.append((line + first).rstrip())
            lines.extend(f"{indent}  {other}" for other in others)
        return _for_standard_output("\n".join(lines))

    @property
    def note(self) -> str:
        """Details of how the step ended; for a plan, the lines of the plan."""
        parts: list[str] = []
        if self.attempt > 1:
            parts.append(f"attempt {self.attempt}")
        if self.attempts > 1:
            parts.append(f"{self.attempts} attempts")
        if self.failure is not None:
            parts.append(describe_error(self.failure))
        if self.reason:
            parts.append(self.reason)
        if self.action != "plan":
            parts.extend(f"{key}={as_data(value)}" for key, value in self.fields.items())
        elif self.result is not None:
            plan = printable(self.result)
            # What has several lines begins on a line of its own.
            parts.append(f"\n{plan}" if "\n" in plan else plan)
        return printable(", ".join(filter(None, parts)))

    def to_json(self) -> str:
        """The report as JSON."""
        return json.dumps(self.to_mapping())

    def to_mapping(self) -> dict[str, object]:
        """The report as plain values. An error is at the step that raised it, a result at the step
        that returned it.
        """
        return {"schema": SCHEMA, **self._values()}

    def _values(self) -> dict[str, object]:
        error = self.failure
        lines = () if error is None else traceback.format_exception(error)
        repeats_its_children = self.children and isinstance(self.result, tuple)
        return {
            **self.facts,
            "details": as_data(error) if hasattr(error, "to_mapping") else None,
            "traceback": "".join(lines) or None,
            "fields": as_data(self.fields),
            "result": None if repeats_its_children else as_data(self.result),
            "children": [child._values() for child in self.children],
        }


Observer = Callable[[Step], object]
"""Called with each step when it starts and when it has ended: one call at a time, from any thread.

A step that is passed over only has an end. What an observer raises is logged, and the run
continues. An observer must not wait for another step.
"""


class TaskFailed(PhasesError):  # noqa: N818  reads as what happened
    """One or more tasks failed.

    `failures` are their steps, in the order in which they failed, each with its `path` and its
    `error`. `error` is the first error, and also `__cause__`, so that a printed traceback begins
    where it was raised.
    """

    __slots__ = ("error", "failures")

    def __init__(self, failures: Sequence[Step]) -> None:
        self.failures = tuple(failures)
        self.error = self.failures[0].error
        self.__cause__ = self.error
        super().__init__("; also ".join(map(_failure_in_words, self.failures)))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the steps, which have the errors, and what was added later, such as notes."""
        return type(self), (self.failures,), vars(self)


def last_named(name: str, steps: Sequence[Step]) -> Step | None:
    """The last of the steps with this name (`routes`, or `network/routes`), if there is one."""
    for step in reversed(steps):
        path = "/".join(step.path)
        if f"/{path}".endswith(f"/{name}"):
            return step
    return None


def _failure_in_words(step: Step) -> str:
    words = f"{step.name} failed"
    if step.error is not None:
        words += f": {describe_error(step.error)}"
    return f"{words} (in {'/'.join(step.path)})"


def seconds_in_words(seconds: float | None) -> str:
    """A duration in words: `12 ms`, `3.25 s`, `2 min 05 s`; empty if there is none."""
    if seconds is None:
        return ""
    if seconds < 0.999_5:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 59.995:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s"


def _drawn(step: Step, before: str = "", below: str = "") -> Iterator[tuple[str, str, Step]]:
    """Each step from this one down: its name in the drawing, the indent of its further lines, and
    the step.
    """
    label = before + step.name
    if step.action == "undo":
        label += " (undo)"
    yield label, below, step

    children = tuple(step.children)
    for child in children:
        branch, indent = "├─ ", "│  "
        if child is children[-1]:
            branch, indent = "└─ ", "   "
        yield from _drawn(child, below + branch, below + indent)


def _for_standard_output(text: str) -> str:
    """The text, with what standard output cannot encode escaped: `print(report)` raises nothing,
    whatever the locale is.
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        drawn = text.translate(str.maketrans("├│└─", "||`-"))
        return drawn.encode(encoding, "backslashreplace").decode(encoding)
    return text


def as_data(value: object) -> object:
    """The value in JSON types. An object becomes the result of its `to_mapping()` or
    `log_fields()`, or its text.
    """
    try:
        for name in ("to_mapping", "log_fields"):
            describe = getattr(value, name, None)
            if callable(describe) and not isinstance(value, type):
                return as_data(describe())
        if isinstance(value, Mapping):
            return {str(key): as_data(member) for key, member in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [as_data(member) for member in value]
    except Exception as error:  # noqa: BLE001  the caller's code; only the description is lost
        return f"<{type(value).__name__} that cannot be described: {describe_error(error)}>"
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return printable(value)


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
    sent = describe_error(error)
    try:
        received = describe_error(_as_received(error))
    except Exception as refused:  # noqa: BLE001  code of others runs
        why = describe_error(refused)
    else:
        if received == sent:
            return error
        why = f"it would become {received}"
    return PhasesError(f"{sent} (this error could not be pickled: {why})")


def _as_received(value: T) -> T:
    """What another process would receive. What can be pickled may still not be made again."""
    received: T = pickle.loads(pickle.dumps(value))  # noqa: S301  our own bytes
    return received
