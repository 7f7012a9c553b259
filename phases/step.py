"""Step: what happened to one task in a run. Observers get each step at its start and end; the root
is the report. TaskFailed is the error that has the steps that failed.
"""

from __future__ import annotations

import enum
import json
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os.path import commonprefix
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias

import attrs

from phases.errors import PhasesError, UnknownTask
from phases.values import as_data, describe_error, printable, seconds_in_words

if TYPE_CHECKING:
    from datetime import datetime

    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", covariant=True, default=object)
else:
    from typing import TypeVar  # its default is new in Python 3.13

    T_co = TypeVar("T_co", covariant=True)

Action: TypeAlias = Literal["do", "plan", "undo"]
"""What is done with a task: the name of its method."""


class Status(str, enum.Enum):  # StrEnum is new in Python 3.11
    """The state of a step. It equals its value."""

    __str__ = str.__str__
    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


@attrs.define(eq=False)
class Step(Generic[T_co]):
    """What happened to one task in a run; `children` are the steps inside it.

    The step of the whole run is its report.
    A step changes until it has ended. If it was never started, it has no `start` and no `seconds`.
    """

    path: tuple[str, ...]
    """The names from the root of the run down to this task."""
    run: str = ""
    """The id of the run; every log line has it."""
    action: Action = "do"
    """What the step is a part of: a run (do), a dry run (plan), or an undo.

    The tasks that an undo runs are also a part of the undo.
    """
    status: Status = Status.RUNNING
    start: datetime | None = None
    seconds: float | None = None
    result: T_co | None = None
    """What the task has returned: in a dry run, its plan; None for a Skip."""
    fields: Mapping[str, object] = attrs.field(factory=dict)
    """What the `log_fields()` of the result have returned."""
    error: BaseException | None = None
    """What the task raised itself; None if it was cancelled, or passed on the failures of steps
    inside it.
    """
    failures: tuple[Step, ...] = ()
    """The steps in which the errors began that made this step fail, in the order of the failures;
    this step itself if its own task raised the error.
    """
    reason: str = ""
    """Why the step was cancelled or skipped."""
    attempts: int = 1
    """How often this step's own task was tried."""
    signal: int | None = None
    """The first signal that came during the run, or for which the program cancelled it; on the root
    only.
    """
    children: list[Step] = attrs.field(factory=list)
    """The steps inside this one, in the order in which their tasks are listed."""

    @property
    def name(self) -> str:
        """The task's name."""
        return self.path[-1]

    @property
    def label(self) -> str:
        """The path, and in brackets the action, unless that is `do`."""
        path = "/".join(self.path)
        if self.action == "do":
            return path
        return f"{path} ({self.action})"

    @property
    def ok(self) -> bool:
        """Whether nothing failed, and nothing was cancelled."""
        return self.status in {Status.OK, Status.SKIPPED}

    @property
    def exit_code(self) -> int:
        """The exit code for the program: 0 if the run is ok; that of TaskFailed after a failure;
        128 + the signal if a signal came while the run was cancelled; else 1.
        """
        if self.ok:
            return 0
        if self.failures:
            return TaskFailed(self.failures).exit_code
        if self.signal:
            return 128 + self.signal
        return 1

    @property
    def why(self) -> str:
        """Why the step ended as it did, in words: its error or its reason."""
        if self.error is None:
            return self.reason
        return describe_error(self.error)

    @property
    def facts(self) -> dict[str, object]:
        """The facts that both the log lines and the JSON of the step have."""
        return {
            "run": self.run,
            "task": "/".join(self.path),
            "action": self.action,
            "status": str(self.status),
            "start": None if self.start is None else self.start.isoformat(),
            "seconds": self.seconds,
            "attempts": self.attempts,
            "reason": self.reason or None,
            "signal": self.signal,
            "error": None if self.error is None else describe_error(self.error),
        }

    def __bool__(self) -> bool:
        """Refuse `if report:`, which would be true even after a failure."""
        # Not `-> NoReturn`: type checkers would skip the code after `if report:`.
        raise TypeError("a report is always true; write `report.ok`")

    def __repr__(self) -> str:
        """The step in one line, without its children: a report can have hundreds."""
        words = f"{self.label} {self.status}"
        if self.why:
            words += f": {self.why}"
        return f"<Step {words}>"

    def walk(self) -> Iterator[Step]:
        """The step itself and every step inside it, parents first."""
        yield self
        for child in tuple(self.children):
            yield from child.walk()

    def find(self, name: str, *, action: str = "") -> Step:
        """The step with this name, from this one down: `routes`, or `network/routes` if several
        tasks are named routes. If the task was also undone, this is the step of its undo;
        `action="do"` asks for the step of the run. UnknownTask if no step has the name, or if two
        are equally near.
        """
        steps = [step for step in self.walk() if action in {"", step.action}]
        return nearest(name, steps, self.path)

    def __str__(self) -> str:
        """The tree of steps: a line for each, with its status, duration and details. A dry run has
        only details: the plans.
        """
        steps = list(_drawn(self))
        width = max(len(label) for label, _, _ in steps)
        lines: list[str] = []
        for label, indent, step in steps:
            line = f"{label:{width}}  "
            if self.action != "plan":
                line += f"{step.status:9}  {seconds_in_words(step.seconds):>8}  "
            first, *others = step._details.splitlines() or [""]
            lines.append((line + first).rstrip())
            lines.extend(f"{indent}  {other}" for other in others)
        return printable("\n".join(lines))

    @property
    def _details(self) -> str:
        """What the tree says of this step after its duration: the attempts, why it ended so, and
        the fields of its result. For a dry run, the plan takes the place of the fields. A plan of
        several lines begins on a new line.
        """
        parts: list[str] = []
        if self.attempts > 1:
            parts.append(f"{self.attempts} attempts")
        if self.why:
            parts.append(self.why)
        if self.action != "plan":
            parts.extend(f"{name}={value}" for name, value in self.fields.items())
        elif self.result is not None:
            plan = str(self.result)
            if "\n" in plan:
                return ", ".join(parts) + f"\n{plan}"
            if plan:
                parts.append(plan)
        return ", ".join(parts)

    def to_json(self) -> str:
        """The report as JSON."""
        return json.dumps(as_data(self), default=str)

    def to_mapping(self) -> dict[str, object]:
        """The step and all steps inside it, as in the JSON. An error is at the step that raised it,
        a result at the step that returned it. A result with a `to_mapping()` is a mapping.
        """
        return {"schema": "phases/report/1", **self._values()}

    def _values(self) -> dict[str, object]:
        """The keys and values of this step in the JSON; `children` has those of the inner steps."""
        error = self.error
        return {
            **self.facts,
            "fields": self.fields,
            "result": as_data(self.result),
            "details": as_data(error) if hasattr(error, "to_mapping") else None,
            "traceback": None if error is None else "".join(traceback.format_exception(error)),
            "children": [child._values() for child in self.children],
        }


Observer = Callable[[Step], object]
"""Called with each step when it starts and when it has ended: one call at a time, from any thread.

A step that was not started has only an end. An Exception that an observer raises is logged, and the
run continues. An observer must not wait for another step.
"""


class TaskFailed(PhasesError):  # noqa: N818  reads as what happened
    """One or more tasks failed.

    `failures` are their steps, at least one, in the order in which they failed, each with its
    `path` and its `error`. `error` is the first error, and also `__cause__`, so that a printed
    traceback begins where it was raised.
    """

    def __init__(self, failures: Sequence[Step]) -> None:
        self.failures = tuple(failures)
        self.error = self.failures[0].error
        self.__cause__ = self.error
        texts = [f"{step.name} failed: {step.why} (in {'/'.join(step.path)})" for step in failures]
        super().__init__("; also ".join(texts))

    @property
    def exit_code(self) -> int:
        """The exit code for a program: the lowest `exit_code` of the errors. An error without one,
        or with one that is not from 1 to 255, counts as 1.
        """
        # Python takes any number, but a process that exits with 256 has the exit code 0.
        codes = [getattr(step.error, "exit_code", 1) for step in self.failures]
        return min(code if code in range(1, 256) else 1 for code in codes)


def nearest(name: str, steps: Iterable[Step], path: tuple[str, ...]) -> Step:
    """Of steps that have ended, find the one with this name (`routes`, or `network/routes`) that is
    nearest to the step at `path`: inside it, or else beside it, or else further out. If several
    steps have the same path, such as those of a task and of its undo, the last one is taken.

    UnknownTask if no step has the name, or if two are equally near.
    """
    by_path = {"/".join(step.path): step for step in steps}
    matching = [step for joined, step in by_path.items() if f"/{joined}".endswith(f"/{name}")]
    if not matching:
        known = ", ".join(by_path) or "none"
        raise UnknownTask(f"no step {name!r} has ended; the steps that have ended are: {known}")

    matching.sort(key=lambda step: _distance(path, step.path))
    first, *others = matching
    if others and _distance(path, others[0].path) == _distance(path, first.path):
        raise UnknownTask(
            f"{name!r} may be {'/'.join(first.path)} or {'/'.join(others[0].path)}, which are as "
            f"near; write 'group/{name}'"
        )
    return first


def _distance(path: tuple[str, ...], other: tuple[str, ...]) -> tuple[int, int]:
    """How far the other path is from this one: how many levels up to a common group, and then how
    many levels down.
    """
    common = len(commonprefix([path, other]))  # noqa: RUF071  they are tuples, not texts
    return len(path) - common, len(other) - common


def _drawn(step: Step, branch: str = "", indent: str = "") -> Iterator[tuple[str, str, Step]]:
    """The tree, from this step down: for each step the beginning of its first line, the indent of
    its further lines, and the step itself.

    `branch` is drawn before the name of this step, `indent` before everything below it.
    """
    label = branch + step.name
    if step.action == "undo":
        label += " (undo)"
    yield label, indent, step

    children = tuple(step.children)
    for child in children:
        if child is children[-1]:
            yield from _drawn(child, indent + "└─ ", indent + "   ")
        else:
            yield from _drawn(child, indent + "├─ ", indent + "│  ")
