"""Step: what happened to one task in a run. Observers get each step at its start and end; the root
is the report. TaskFailed is the error that has the steps that failed.

A report can be pickled and copied, whatever tasks leave in it. A result that cannot be pickled is
replaced by its JSON value. An error is replaced by a PhasesError that describes it if it cannot be
pickled, or would be another error afterwards. Python never pickles tracebacks.
"""

from __future__ import annotations

import enum
import json
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, NoReturn

import attrs

from phases.arguments import must_be
from phases.errors import Cancelled, PhasesError, ReportedError, UnknownTask
from phases.values import (
    Results,
    as_data,
    describe_error,
    portable_error,
    portable_result,
    printable,
    seconds_in_words,
)

_SCHEMA = "phases/report/1"
_COMPARED = ("status", "reason", "error", "fields", "result")
"""The keys of the JSON in which the reports of two runs are compared."""
_PLAIN = ("run", "action", "seconds", "signal", "attempts", "attempt")
"""The attributes that are JSON values, and keys of the JSON by the same name."""
_TYPES: dict[str, Any] = {
    "task": str,
    "run": str,
    "action": str,
    "seconds": int | float | None,
    "signal": int | None,
    "attempts": int,
    "attempt": int,
    "reason": str | None,
    "error": str | None,
    "fields": dict,
}
"""Those of the values in the JSON of a step, where another one would be read."""


class Status(str, enum.Enum):  # StrEnum is new in Python 3.11
    """The state of a step. It equals its value; ValueError if it is compared with a text that no
    status has, such as "FAILED".
    """

    __str__ = str.__str__
    __hash__ = str.__hash__
    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"

    def __eq__(self, other: object) -> bool:
        if type(other) is str and other not in _STATUSES:  # not one of these themselves
            raise ValueError(f"{other!r:.80} is not a status; they are {', '.join(Status)}")
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


_STATUSES = frozenset(map(str, Status))


@attrs.define(eq=False, repr=False, slots=False)
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
    """What the step is a part of: a run (do), a dry run (plan), or an undo.

    The tasks that an undo runs are also a part of the undo.
    """
    status: Status = Status.RUNNING
    start: datetime | None = None
    seconds: float | None = None
    result: object = None
    fields: Mapping[str, object] = attrs.field(factory=dict)
    """What the `log_fields()` of the result have returned, as JSON values."""
    error: BaseException | None = None
    """What the task raised itself, or Cancelled; None if it passed on the failures of steps inside
    it. `failed_with` is the same without Cancelled; `why` is that and the reason, in words.
    """
    failures: tuple[Step, ...] = ()
    """The steps in which the errors began that made this one fail, in the order in which they
    failed; this step itself if its own task raised the error.
    """
    reason: str = ""
    """Why the step was cancelled or skipped; in a plan, the condition under which it runs."""
    attempts: int = 1
    """How often this step's own task was tried."""
    attempt: int = 1
    """The attempt of the step around this one in which this one ran: 2 if a group that failed was
    tried again, and its tasks with it.
    """
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
        """Its path and, if that is not do, its action."""
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
        """The exit code for the program: 0 if the run is ok, else 1; 128 + the signal if that
        cancelled the run.
        """
        if self.ok:
            return 0
        if self.status is Status.CANCELLED and self.signal is not None:
            return 128 + self.signal
        return 1

    @property
    def failed_with(self) -> BaseException | None:
        """The error; None if that is Cancelled, which is not a failure."""
        if isinstance(self.error, Cancelled):
            return None
        return self.error

    @property
    def why(self) -> str:
        """Why it ended as it did, in words: its error, then its reason."""
        if self.failed_with is None:
            return self.reason
        words = describe_error(self.failed_with)
        if self.reason:
            words += f"; {self.reason}"
        return words

    @property
    def facts(self) -> dict[str, object]:
        """What its log lines and its JSON have in common."""
        facts: dict[str, object] = {name: getattr(self, name) for name in _PLAIN}
        facts["task"] = "/".join(self.path)
        facts["status"] = str(self.status)
        facts["reason"] = self.reason or None
        facts["start"] = facts["error"] = None
        if self.start is not None:
            facts["start"] = self.start.isoformat()
        if self.failed_with is not None:
            facts["error"] = describe_error(self.failed_with)
        return facts

    def __bool__(self) -> NoReturn:
        raise TypeError("a report is always true; write `report.ok`")

    def __repr__(self) -> str:
        """One line: a report has hundreds."""
        words = f"{self.label} {self.status}"
        if self.why:
            words += f": {self.why}"
        return f"<Step {printable(words)}>"

    def __getstate__(self) -> dict[str, object]:
        """What is pickled."""
        error = portable_error(self.error)
        return {**vars(self), "error": error, "result": portable_result(self.result)}

    def walk(self) -> Iterator[Step]:
        """The step itself and every step inside it, parents first."""
        yield self
        for child in tuple(self.children):
            yield from child.walk()

    def find(self, name: str, *, action: str = "") -> Step:
        """The last step with this name (`routes`, or `network/routes`): after an undo, that of the
        undo, unless `action="do"` asks for the run. Without one, UnknownTask names all steps.
        """
        if action not in {"", "do", "plan", "undo"}:
            raise ValueError(f"find: action is {action!r:.80}; it must be do, plan or undo")
        steps = [step for step in self.walk() if action in {"", step.action}]
        of_action = f" with the action {action}" if action else ""
        return last_named(name, steps, f"those of this report{of_action}")

    def differences(self, later: Step) -> tuple[Difference, ...]:
        """In what a later report differs from this one, step by step, apart from times and numbers
        of attempts.

        Of several steps with the same path and action, the last one counts.
        """
        must_be(Step, later, "differences: later", "a report: Step.from_json(text) reads one")
        before = _compared_values(self)
        after = _compared_values(later)
        differences: list[Difference] = []
        for task, key in {**before, **after}:
            difference = Difference(task, key, before.get((task, key)), after.get((task, key)))
            if difference.before != difference.after:
                differences.append(difference)
        return tuple(differences)

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
            first, *others = step._note.splitlines() or [""]
            lines.append((line + first).rstrip())
            lines.extend(f"{indent}  {other}" for other in others)
        return printable("\n".join(lines))

    @property
    def _note(self) -> str:
        """Details of how the step ended. In a dry run, its plan follows them: in the same line if
        the plan is a single line, and otherwise in lines of its own.
        """
        parts: list[str] = []
        if self.attempt > 1:
            parts.append(f"attempt {self.attempt}")
        if self.attempts > 1:
            parts.append(f"{self.attempts} attempts")
        if self.why:
            parts.append(self.why)
        if self.action != "plan":
            parts.extend(f"{name}={value}" for name, value in self.fields.items())
        elif self.result is not None:
            plan = printable(self.result)
            if "\n" in plan:
                return ", ".join(parts) + f"\n{plan}"
            if plan:
                parts.append(plan)
        return ", ".join(parts)

    def to_json(self) -> str:
        """The report as JSON."""
        return json.dumps(self.to_mapping())

    def to_mapping(self) -> dict[str, object]:
        """The report as plain values. An error is at the step that raised it, a result at the step
        that returned it.
        """
        return {"schema": _SCHEMA, **self._tree()}

    def _tree(self) -> dict[str, object]:
        return {**self._values(), "children": [child._tree() for child in self.children]}

    def _values(self) -> dict[str, object]:
        """The JSON of the step, without those inside it."""
        values = {**self.facts, "fields": self.fields, "result": None}
        if not isinstance(self.result, Results):  # those of a group are at the steps inside it
            values["result"] = as_data(self.result)
        values["details"] = values["traceback"] = None
        error = self.failed_with
        if error is not None:
            values["traceback"] = "".join(traceback.format_exception(error))
            if hasattr(error, "to_mapping"):
                values["details"] = as_data(error)
        return values

    @classmethod
    def from_json(cls, text: str | bytes) -> Step:
        """The report that was written as this JSON: to print it, to find steps in it, and to
        compare it with another one. Raises ValueError for any other text.

        A result is what JSON has of it. An error is a ReportedError, which has the words
        and the details, and no traceback. The `failures` of a failed step are all steps in it that
        have an error.
        """
        document = _parsed(text)
        schema = document.get("schema") if isinstance(document, dict) else None
        if schema != _SCHEMA:
            raise ValueError(f"the schema of this report is {schema!r:.80}, not {_SCHEMA!r}")
        try:
            return cls._from_mapping(document)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"this is not a whole report: {describe_error(error)}") from error

    @classmethod
    def _from_mapping(cls, document: Mapping[str, Any]) -> Step:
        for name, kind in _TYPES.items():
            must_be(kind, document[name], name, "what to_json writes")
        step = cls(
            path=tuple(document["task"].split("/")),
            status=Status(document["status"]),
            reason=document["reason"] or "",
            fields=document["fields"],
            result=document["result"],
            children=[cls._from_mapping(child) for child in document["children"]],
            **{name: document[name] for name in _PLAIN},
        )
        if document["start"] is not None:
            step.start = datetime.fromisoformat(document["start"])
        if document["error"] is not None:
            step.error = ReportedError(document["error"], document["details"])
        if step.status is Status.FAILED:
            step.failures = tuple(inner for inner in step.walk() if inner.failed_with is not None)
        return step


def _parsed(text: str | bytes) -> Any:
    """The JSON value in this text; ValueError if there is none, perhaps because its end is cut
    off.
    """
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        words = f"this is not a whole report: it is not JSON ({error}); pass the text of to_json()"
        raise ValueError(words) from error


class Difference(NamedTuple):
    """What differs in the step of a task, in two reports."""

    task: str
    """Its path and, if that is not do, its action."""
    key: str
    """The key in the JSON of the step."""
    before: object
    """The value of the key in the first report; None if it has no such step."""
    after: object
    """That in the later report."""

    def __str__(self) -> str:
        return printable(f"{self.task}: {self.key} was {self.before}, is {self.after}")


def _compared_values(report: Step) -> dict[tuple[str, str], object]:
    """By the label of a step and a key of its JSON, the value; no fields are None."""
    compared: dict[tuple[str, str], object] = {}
    for step in report.walk():
        values = step._values()
        for key in _COMPARED:
            value = values[key]
            compared[step.label, key] = None if value == {} else value
    return compared


Observer = Callable[[Step], object]
"""Called with each step when it starts and when it has ended: one call at a time, from any thread.

A step that is passed over only has an end. If the observer has a method `attempt_failed`, that is
called with each FailedAttempt. An Exception that an observer raises is logged, and the run
continues. An observer must not wait for another step.
"""


@attrs.frozen
class FailedAttempt:
    """An attempt of a task that has failed, and that is followed by another one."""

    step: Step
    number: int
    """1 for the first attempt of this retry; `step.attempts` also counts those of other retries
    around the same task.
    """
    attempts: int | None
    """How many attempts this retry makes at most; None if it tries until the deadline."""
    error: Exception
    wait: float
    """The seconds until the next attempt."""


class TaskFailed(PhasesError):  # noqa: N818  reads as what happened
    """One or more tasks failed.

    `failures` are their steps, at least one, in the order in which they failed, each with its
    `path` and its `error`. `error` is the first error, and also `__cause__`, so that a printed
    traceback begins where it was raised.
    """

    # Slots, so that vars() has only what was added later: the constructor sets these two again.
    __slots__ = ("error", "failures")

    def __init__(self, failures: Sequence[Step]) -> None:
        self.failures = tuple(failures)
        self.error = self.failures[0].error
        self.__cause__ = self.error
        super().__init__("; also ".join(map(_failure_in_words, self.failures)))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the steps, which have the errors, and vars(), such as notes."""
        return type(self), (self.failures,), vars(self)


def last_named(name: str, steps: Sequence[Step], which: str) -> Step:
    """The last of the steps with this name (`routes`, or `network/routes`). Without one,
    UnknownTask says which steps these are, and names them.
    """
    for step in reversed(steps):
        if f"/{'/'.join(step.path)}".endswith(f"/{name}"):
            return step
    known = ", ".join("/".join(step.path) for step in steps) or "none"
    raise UnknownTask(f"no step {name!r} among {which}: {known}")


def _failure_in_words(step: Step) -> str:
    return f"{step.name} failed: {step.why} (in {'/'.join(step.path)})"


def _drawn(step: Step, branch: str = "", indent: str = "") -> Iterator[tuple[str, str, Step]]:
    """Each step from this one down: its label, the indent of its further lines, and the step.

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
