"""Step: what happened to one task in a run. Observers get each step at its start and end; the root
is the report. TaskFailed is the error that has the steps that failed.

A report can be pickled and copied, whatever tasks leave in it. A result that cannot be pickled is
replaced by its JSON value. An error is replaced by a PhasesError that describes it if it cannot be
pickled, or would be another error afterwards. Python never pickles tracebacks, so a report that was
pickled has none in its JSON.
"""

from __future__ import annotations

import enum
import json
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

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
_COMPARED = ("status", "attempts", "reason", "error", "fields", "result")
"""The keys of the JSON in which reports of two runs are compared: those that are not about time."""


class Status(str, enum.Enum):  # StrEnum is new in Python 3.11
    """The state of a step."""

    __str__ = str.__str__
    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


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
    error: BaseException | None = None
    """What the task raised itself, or Cancelled; None if it passed on the failures of steps inside
    it. `failed_with` is the same without Cancelled; `why` is that and the reason, in words.
    """
    failures: tuple[Step, ...] = ()
    """The steps in which the errors began that made this one fail, in the order in which they
    failed; this step itself if its own task raised the error.
    """
    reason: str = ""
    """Why the step was cancelled or skipped, or why its task was not tried again; in a plan, the
    condition under which it runs.
    """
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
    _document: Mapping[str, Any] | None = None
    """The JSON object that it was read from, if it was."""

    @property
    def name(self) -> str:
        """The task's name."""
        return self.path[-1]

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
    def result_fields(self) -> Mapping[str, object]:
        """The log fields of its result. A result that cannot describe itself does not fail its
        task.
        """
        if self._document is not None:
            return dict(self._document["fields"])
        try:
            describe = getattr(self.result, "log_fields", None)
            if callable(describe):
                return dict(describe())
        except Exception as error:  # noqa: BLE001  the caller's code; only the description is lost
            return {"log_fields_error": describe_error(error)}
        return {}

    @property
    def facts(self) -> dict[str, object]:
        """What its log lines and its JSON have in common: all but the result."""
        facts: dict[str, object] = {
            "run": self.run,
            "task": "/".join(self.path),
            "action": self.action,
            "status": str(self.status),
            "start": None,
            "seconds": self.seconds,
            "signal": self.signal,
            "attempts": self.attempts,
            "attempt": self.attempt,
            "reason": self.reason or None,
            "error": None,
        }
        if self.start is not None:
            facts["start"] = self.start.isoformat()
        if self.failed_with is not None:
            facts["error"] = describe_error(self.failed_with)
        return facts

    def __repr__(self) -> str:
        """One line: a report has hundreds."""
        words = "/".join(self.path)
        if self.action != "do":
            words += f" ({self.action})"
        words += f" {self.status}"
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
        steps = [step for step in self.walk() if action in {"", step.action}]
        return last_named(name, steps, "those of this report")

    def differences(self, later: Step) -> tuple[Difference, ...]:
        """In what a later report differs from this one, step by step, apart from the times.

        Of several steps with the same path and action, the last one counts.
        """
        must_be(Step, later, "differences: later", "a report: Step.from_json(text) reads one")
        before, after = _by_path(self), _by_path(later)
        differences: list[Difference] = []
        for path, action in {**before, **after}:
            one, other = before.get((path, action), {}), after.get((path, action), {})
            keys = _COMPARED if one and other else ("status",)
            for key in keys:
                if one.get(key) != other.get(key):
                    name = path if action == "do" else f"{path} ({action})"
                    differences.append(Difference(name, key, one.get(key), other.get(key)))
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
        return _for_standard_output("\n".join(lines))

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
        if self.failed_with is not None:
            parts.append(describe_error(self.failed_with))
        if self.reason:
            parts.append(self.reason)
        if self.action != "plan":
            for key, value in self.result_fields.items():
                parts.append(f"{key}={as_data(value)}")
        elif isinstance(self.result, str) or (self.result is not None and self._document is None):
            plan = printable(self.result)
            if "\n" in plan:
                return printable(", ".join(parts)) + f"\n{plan}"
            if plan:
                parts.append(plan)
        return printable(", ".join(parts))

    def to_json(self) -> str:
        """The report as JSON."""
        return json.dumps(self.to_mapping())

    def to_mapping(self) -> dict[str, object]:
        """The report as plain values. An error is at the step that raised it, a result at the step
        that returned it.
        """
        return {"schema": _SCHEMA, **self._without_schema()}

    @classmethod
    def from_json(cls, text: str | bytes) -> Step:
        """The report that was written as this JSON: to print it, to find steps in it, and to
        compare it with another one. Raises ValueError for any other text.

        A result is what JSON has of it, and an error is a ReportedError, which has the words.
        `failures` are all steps of the last attempts that have an error. A dry run is printed
        without its plans, except those that are texts.
        """
        document = json.loads(text)
        schema = document.get("schema") if isinstance(document, dict) else None
        if schema != _SCHEMA:
            raise ValueError(f"the schema of this report is {schema!r:.80}, not {_SCHEMA!r}")
        try:
            return cls._from_mapping(document)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is not a whole report: {describe_error(error)}") from error

    @classmethod
    def _from_mapping(cls, document: Mapping[str, Any]) -> Step:
        step = cls(
            path=tuple(document["task"].split("/")),
            run=document["run"],
            action=document["action"],
            status=Status(document["status"]),
            seconds=document["seconds"],
            result=document["result"],
            reason=document["reason"] or "",
            attempts=document["attempts"],
            attempt=document["attempt"],
            signal=document["signal"],
            children=[cls._from_mapping(child) for child in document["children"]],
            document=document,
        )
        if document["start"] is not None:
            step.start = datetime.fromisoformat(document["start"])
        if document["error"] is not None:
            step.error = ReportedError(document["error"])
        step.failures = _failures_of(step)
        return step

    def _without_schema(self) -> dict[str, object]:
        if self._document is not None:
            return {key: value for key, value in self._document.items() if key != "schema"}
        mapping: dict[str, object] = {
            **self.facts,
            "details": None,
            "traceback": None,
            "fields": as_data(self.result_fields),
            "result": None,
            "children": [child._without_schema() for child in self.children],
        }
        error = self.failed_with
        if error is not None:
            mapping["traceback"] = "".join(traceback.format_exception(error))
            if hasattr(error, "to_mapping"):
                mapping["details"] = as_data(error)
        if not isinstance(self.result, Results):  # those of a group are at the steps inside it
            mapping["result"] = as_data(self.result)
        return mapping


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


def _by_path(report: Step) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The JSON of each step, by its path and its action."""
    documents: dict[tuple[str, str], Mapping[str, Any]] = {}
    for step in report.walk():
        documents["/".join(step.path), step.action] = step._without_schema()
    return documents


def _failures_of(step: Step) -> tuple[Step, ...]:
    """The steps inside this one, and itself, in which its failure began."""
    if step.status is not Status.FAILED:
        return ()
    failures: list[Step] = []
    for child in step.children:
        is_of_its_undo = child.action != step.action
        if child.attempt == step.attempts and (step.error is None or is_of_its_undo):
            failures.extend(child.failures)
    failures.sort(key=_end_of)
    if step.error is not None:
        failures.insert(0, step)
    return tuple(failures)


def _end_of(step: Step) -> datetime:
    assert step.start is not None  # noqa: S101  it has failed
    return step.start + timedelta(seconds=step.seconds or 0)


Observer = Callable[[Step], object]
"""Called with each step when it starts and when it has ended: one call at a time, from any thread.

A step that is passed over only has an end. If the observer has a method `attempt_failed`, that is
called with each FailedAttempt. What an observer raises is logged, and the run continues; only
Ctrl-C ends it. An observer must not wait for another step.
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


def is_named(step: Step, name: str) -> bool:
    """Whether this is its name, or the end of its path: `routes`, or `network/routes`."""
    return f"/{'/'.join(step.path)}".endswith(f"/{name}")


def last_named(name: str, steps: Sequence[Step], which: str) -> Step:
    """The last of the steps with this name (`routes`, or `network/routes`). Without one,
    UnknownTask says which steps these are, and names them.
    """
    for step in reversed(steps):
        if is_named(step, name):
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


def _for_standard_output(text: str) -> str:
    """The text, with what standard output cannot encode escaped: `print(report)` raises nothing,
    whatever the locale is.
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
