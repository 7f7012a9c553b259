"""The events of a run as plain values, and the report that is made from them: a tree that can be stored.

A task that starts sends one Started and one Finished; a task that never starts sends one Skipped; a failed attempt
that will be followed by another sends one Retrying. All events of one task have the same `id`; `parent` is the id of
the task that ran it. How events are worded in a log is decided elsewhere.

`KEYS` lists every key of a report's JSON, `phases/report/1`, and what it means. Adding a key keeps the version;
removing one or changing its meaning increases the version.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from phases.text import as_data, describe_error, draw_tree, escaped, for_stdout, printable, seconds_in_words

if TYPE_CHECKING:
    from datetime import datetime


class Status(str, enum.Enum):  # StrEnum is new in Python 3.11
    """The state of a task."""

    __str__ = str.__str__

    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


@attrs.frozen
class _OfTask:
    run: str
    id: int
    path: tuple[str, ...]


@attrs.frozen
class _Begun(_OfTask):
    parent: int | None
    order: int
    attempt: int
    action: str


@attrs.frozen
class Started(_Begun):
    """A task begins. `order` is its position among its siblings; `attempt` is the attempt by retry(), from 1."""

    at: datetime


@attrs.frozen
class Skipped(_Begun):
    """A task was not started; `reason` says why."""

    reason: str


@attrs.frozen
class Finished(_OfTask):
    """A task has ended.

    `error` is what it raised. `own` is false if it only passes on the failure of a task inside it.
    `reason` says why it was cancelled or skipped. `fields` are the log fields of its result.
    """

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
class Retrying(_OfTask):
    """An attempt failed; the next one follows after `delay` seconds."""

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

SCHEMA = "phases/report/1"
SHOWN_AT_MOST = 30  # children of one group in the text; the JSON lists all of them


@attrs.frozen
class Report:
    """One task of a run and, in `children`, the tasks that ran inside it, in the order in which they are listed."""

    path: tuple[str, ...]
    status: Status
    run_id: str = ""
    action: str = "do"
    order: int = 0
    depth: int = 0
    """How many names of its path belong to its parent."""
    attempt: int = 1
    attempts: int = 1
    started: datetime | None = None
    duration: float | None = None
    ended: int | None = None
    """The position of this task in the order in which the tasks of the run ended, from 1."""
    result: object = None
    error: BaseException | None = None
    """What the task raised; for a group that only passes on a failure, that TaskFailed."""
    own: bool = True
    reason: str = ""
    fields: Mapping[str, object] = attrs.field(factory=dict)
    signal: int | None = None
    """The signal that stopped the run; set on the root only."""
    children: tuple[Report, ...] = ()

    @classmethod
    def from_events(cls, events: Iterable[Event]) -> Report:
        """The report of the run that sent these events; a task that has not ended is `running`."""
        builder = ReportBuilder()
        for event in events:
            builder(event)
        return builder.report()

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
        """The exit code for the program: 0, 1 for a failure, 128 + the signal that stopped the run."""
        if self.ok:
            return 0
        return 128 + self.signal if self.status is Status.CANCELLED and self.signal else 1

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Every innermost failure in this part of the tree, in the order in which they happened."""
        failed = [node for node in self.walk() if node.status is Status.FAILED and node.own and node.error]
        failed.sort(key=lambda node: node.ended or 0)
        return tuple(Failure(node.path, node.error) for node in failed if node.error is not None)

    def walk(self) -> Iterator[Report]:
        """The task itself and every one inside it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def find(self, name: str) -> Report:
        """The first task with this name (`routes`, or `network/routes`); KeyError lists the tasks that exist."""
        wanted = tuple(name.split("/"))
        for node in self.walk():
            if node.path[-len(wanted) :] == wanted:
                return node
        raise KeyError(f"no task {name!r} in this report; it has {', '.join('/'.join(n.path) for n in self.walk())}")

    def __str__(self) -> str:
        """The headline, which has the text of each failure, then one line for each task.

        Of a plan, what each task would do. In ASCII if standard output is not for UTF-8.
        """
        return for_stdout("\n".join(self._planned() if self.action == "plan" else [self.headline, *self._lines()]))

    def _planned(self) -> Iterator[str]:
        for drawn, further, node in draw_tree(self, children=lambda node: node.children):
            words = printable(node.result) if node.status is Status.OK and node.result is not None else ""
            if node.error is not None and node.own:
                words = f"cannot say: {describe_error(node.error)}"
            one_line = words if "\n" not in words else ""
            reason = f"({node.reason})" if node.reason else ""
            yield "  ".join(part for part in (f"{drawn}{node.name}", reason, one_line) if part)
            if not one_line:
                for line in words.splitlines():
                    yield f"{further}{'│' if node.children else ' '} {line}"

    @property
    def headline(self) -> str:
        """The outcome in one line."""
        took = "" if self.duration is None else f" after {seconds_in_words(self.duration)}"
        undone = "" if self.action == "do" else f" ({self.action})"
        # The name is left out of its own failure, because the line starts with it.
        told = (describe_error(each.error) if each.path == self.path else str(each) for each in self.failures)
        why = escaped("; also ".join(told) or self.reason)
        return f"{self.name}{undone}: {self.status}{took}{f': {why}' if why else ''}"

    def to_mapping(self) -> dict[str, object]:
        """The report as plain values."""
        return {"schema": SCHEMA, "run": self.run_id, "signal": self.signal, **self._plain()}

    def to_json(self, *, indent: int | None = None) -> str:
        """The report as JSON."""
        import json  # noqa: PLC0415  only this needs it

        return json.dumps(self.to_mapping(), indent=indent)

    def _plain(self) -> dict[str, object]:
        error, trace = self.error if self.own else None, None
        if error is not None and self.status is Status.FAILED:
            import traceback  # noqa: PLC0415  only a failure pays for it

            trace = "".join(traceback.format_exception(error))
        return {
            "name": self.name,
            "action": self.action,
            "status": str(self.status),
            "started": None if self.started is None else self.started.isoformat(),
            "duration": self.duration,
            "attempt": self.attempt,
            "attempts": self.attempts,
            "reason": self.reason,
            "error": None if error is None else describe_error(error),
            "details": as_data(error) if callable(getattr(error, "to_mapping", None)) else None,
            "traceback": trace,
            "fields": as_data(self.fields),
            "result": None if self.children or self.status is Status.SKIPPED else as_data(self.result),
            "children": [child._plain() for child in self.children],
        }

    def _lines(self) -> Iterator[str]:
        nodes = list(draw_tree(self, children=lambda node: folded(node.children)))
        rows = [(drawn + node.label, str(node.status), node.took, node.note(in_short=True)) for drawn, _, node in nodes]
        names, statuses, times = (max(len(row[column]) for row in rows) for column in range(3))
        for name, status, took, note in rows:
            yield f"{name:{names}}  {status:{statuses}}  {took:>{times}}  {note}".rstrip()

    @property
    def label(self) -> str:
        """The task's name as shown below its parent."""
        return "/".join(self.path[self.depth :]) + (f" (attempt {self.attempt})" if self.attempt > 1 else "")

    @property
    def took(self) -> str:
        """How long the task took, in words; empty if it never began."""
        return "" if self.duration is None else seconds_in_words(self.duration)

    def note(self, *, in_short: bool = False) -> str:
        """Details of how the task ended, in one line; in short, an error is only its type."""
        parts = [f"{self.attempts} attempts"] if self.attempts > 1 else []
        if self.error is not None and self.own and self.status is Status.FAILED:
            parts.append(type(self.error).__name__ if in_short else describe_error(self.error))
        if self.reason:
            parts.append(self.reason)
        parts += [f"{key}={as_data(value)}" for key, value in self.fields.items()]
        return escaped(", ".join(parts))


_MATTERS = {Status.FAILED: 0, Status.RUNNING: 1, Status.CANCELLED: 2}


def folded(children: Sequence[Report], *, at_most: int = SHOWN_AT_MOST) -> Sequence[Report]:
    """The children that get a line: all, or the most important ones and a count of the others."""
    if len(children) <= at_most:
        return children
    worst_first = sorted(range(len(children)), key=lambda place: _MATTERS.get(children[place].status, 3))
    shown = [children[place] for place in sorted(worst_first[: at_most - 1])]
    rest = [children[place] for place in worst_first[at_most - 1 :]]
    status = Status.OK if all(child.ok for child in rest) else rest[0].status
    words = f"… and {len(rest)} more"
    return [*shown, Report(path=(*children[0].path[:-1], words), status=status, depth=len(children[0].path) - 1)]


class ReportBuilder:
    """An observer that builds the tree; `report()` returns it at any time, even during the run."""

    def __init__(self) -> None:
        """Start without events."""
        self._root = 0
        self._facts: dict[int, dict[str, Any]] = {}
        self._inside: dict[int, list[int]] = {}
        self._ended = 0

    def __call__(self, event: Event) -> None:
        """Add this event to the tree."""
        match event:
            case Started() | Skipped():
                above = self._inside.get(event.parent or 0)
                if above is not None:
                    above.append(event.id)
                self._root = self._root or event.id
                self._inside[event.id] = []
                facts = self._facts[event.id] = {"path": event.path, "run_id": event.run, "action": event.action}
                facts |= {"order": event.order, "attempt": event.attempt}
                if isinstance(event, Started):
                    facts |= {"status": Status.RUNNING, "started": event.at}
                else:
                    facts |= {"status": Status.SKIPPED, "reason": event.reason}
            case Finished():
                self._ended += 1
                facts = self._facts[event.id]
                facts |= {"status": event.status, "duration": event.duration, "ended": self._ended}
                facts |= {"result": event.result, "error": event.error, "own": event.own, "reason": event.reason}
                facts |= {"attempts": event.attempts, "fields": event.fields}
            case Retrying():
                self._facts[event.id]["attempts"] = event.attempt + 1

    @property
    def status(self) -> Status | None:
        """The status of the first task; None if there is nothing to report."""
        return self._facts[self._root]["status"] if self._root else None

    def report(self) -> Report:
        """The tree as it is now; raises ValueError before the first task has begun."""
        if not self._root:
            raise ValueError("there is nothing to report: no task has begun")
        return self._report(self._root, depth=len(self._facts[self._root]["path"]) - 1)

    def _report(self, number: int, *, depth: int) -> Report:
        facts = {"depth": depth} | self._facts[number]
        below = sorted(
            self._inside[number], key=lambda inner: (self._facts[inner]["attempt"], self._facts[inner]["order"], inner)
        )
        return Report(**facts, children=tuple(self._report(inner, depth=len(facts["path"])) for inner in below))
