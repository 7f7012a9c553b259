"""What happened in a run, as a tree that can be stored, printed and sent: a fold over the run's events.

`KEYS` lists every key of its JSON, `phases/report/1`, and what it means. Adding a key keeps the version; removing one
or changing its meaning increases the version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from phases.events import Event, Failure, Finished, Retrying, Skipped, Started, Status
from phases.text import as_data, describe_error, draw_tree, escaped, plain, seconds_in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

__all__ = ["KEYS", "Report", "ReportBuilder", "folded"]

SCHEMA = "phases/report/1"
KEYS = {
    "schema": "phases/report/1; on the root only, like the next two",
    "run": "the id of the run, also in its log lines",
    "signal": "the number of the signal that stopped the run; null if none did",
    "name": "the task",
    "action": "the method that was called: do or undo",
    "status": "running, ok, failed, cancelled or skipped",
    "started": "when it began, in UTC (ISO 8601); null if it never did",
    "duration": "how many seconds it took; null until it has ended",
    "attempt": "the attempt of the parent task that this task ran in, from 1",
    "attempts": "how many attempts this task took",
    "reason": "why it was skipped, cancelled or not started; otherwise empty",
    "error": "what it raised, in one line; also null if a group only passes on the failure of a task inside it",
    "details": "the error as data, from its method to_mapping(); null if it has no such method",
    "traceback": "the traceback of a failure, as text",
    "fields": "what its result adds to the log line, from its method log_fields()",
    "result": "what it returned, as data: from to_mapping(), else log_fields(), else as it is; null for a skipped "
    "task, and for one with children, which have their own results",
    "children": "the tasks inside it, each with these keys, in the order of the list",
}
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
        """The headline, which has the text of each failure, then one line for each task."""
        return "\n".join([self.headline, *self._lines()])

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
        """The report as plain values; `phases.report.KEYS` says what each key means."""
        return {"schema": SCHEMA, "run": self.run_id, "signal": self.signal, **self._plain()}

    def to_json(self, *, indent: int | None = None) -> str:
        """The same as JSON."""
        import json  # noqa: PLC0415  only this needs it

        return json.dumps(self.to_mapping(), indent=indent)

    def _plain(self) -> dict[str, object]:
        error = self.error if self.own else None
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
            "traceback": _traceback(error) if self.status is Status.FAILED else None,
            "fields": plain(self.fields),
            "result": None if self.children or self.status is Status.SKIPPED else as_data(self.result),
            "children": [child._plain() for child in self.children],
        }

    def _lines(self) -> Iterator[str]:
        nodes = list(draw_tree(self, children=lambda node: folded(node.children)))
        rows = [(drawn + node.label, str(node.status), node.took, node._in_short) for drawn, _, node in nodes]
        names, statuses, times = (max(len(row[column]) for row in rows) for column in range(3))
        for name, status, took, note in rows:
            yield f"{name:{names}}  {status:{statuses}}  {took:>{times}}  {note}".rstrip()

    @property
    def label(self) -> str:
        """Its name as shown below its parent."""
        return "/".join(self.path[self.depth :]) + (f" (attempt {self.attempt})" if self.attempt > 1 else "")

    @property
    def took(self) -> str:
        """How long it took, in words; empty if it never began."""
        return "" if self.duration is None else seconds_in_words(self.duration)

    @property
    def note(self) -> str:
        """Details of how it ended, in one line."""
        return self._note(describe_error)

    @property
    def _in_short(self) -> str:
        """The same with only the kind of the error, whose text is in the headline above."""
        return self._note(lambda error: type(error).__name__)

    def _note(self, told: Callable[[BaseException], str]) -> str:
        parts = [f"{self.attempts} attempts"] if self.attempts > 1 else []
        if self.error is not None and self.own and self.status is Status.FAILED:
            parts.append(told(self.error))
        if self.reason:
            parts.append(self.reason)
        parts += [f"{key}={plain(value)}" for key, value in self.fields.items()]
        return escaped(", ".join(parts))


_MATTERS = {Status.FAILED: 0, Status.RUNNING: 1, Status.CANCELLED: 2}


def folded(children: Sequence[Report], *, at_most: int = SHOWN_AT_MOST) -> Sequence[Report]:
    """The children that get a line: all of them or, if there are too many, the most important ones and a count."""
    if len(children) <= at_most:
        return children
    worst_first = sorted(range(len(children)), key=lambda place: _MATTERS.get(children[place].status, 3))
    shown = [children[place] for place in sorted(worst_first[: at_most - 1])]
    rest = [children[place] for place in worst_first[at_most - 1 :]]
    status = Status.OK if all(child.ok for child in rest) else rest[0].status
    words = f"… and {len(rest)} more"
    return [*shown, Report(path=(*children[0].path[:-1], words), status=status, depth=len(children[0].path) - 1)]


def _traceback(error: BaseException | None) -> str | None:
    if error is None:
        return None
    import traceback  # noqa: PLC0415  only a failure pays for it

    return "".join(traceback.format_exception(error))


class _Entry:
    """One task during the run."""

    __slots__ = ("begun", "children", "end", "ended", "retries")

    def __init__(self, begun: Started | Skipped) -> None:
        self.begun = begun
        self.children: list[_Entry] = []
        self.end: Finished | None = None
        self.ended: int | None = None
        self.retries = 0


class ReportBuilder:
    """An observer that builds the tree; `report()` returns it at any time, even during the run."""

    def __init__(self) -> None:
        """Start without events."""
        self._root: _Entry | None = None
        self._entries: dict[int, _Entry] = {}
        self._ended = 0

    def __call__(self, event: Event) -> None:
        """Add this event to the tree."""
        match event:
            case Started() | Skipped():
                entry = self._entries[event.id] = _Entry(event)
                above = None if event.parent is None else self._entries.get(event.parent)
                if above is not None:
                    above.children.append(entry)
                elif self._root is None:
                    self._root = entry
            case Finished():
                self._ended += 1
                entry = self._entries[event.id]
                entry.end, entry.ended = event, self._ended
            case Retrying():
                self._entries[event.id].retries += 1

    @property
    def begun(self) -> bool:
        """Whether there is anything to report."""
        return self._root is not None

    def report(self) -> Report:
        """The tree as it is now; raises ValueError before the first task has begun."""
        if self._root is None:
            raise ValueError("there is nothing to report: no task has begun")
        return _report(self._root, depth=len(self._root.begun.path) - 1)


def _report(entry: _Entry, *, depth: int) -> Report:
    begun, end = entry.begun, entry.end
    below = sorted(entry.children, key=lambda child: (child.begun.attempt, child.begun.order, child.begun.id))
    base = Report(
        path=begun.path,
        status=Status.SKIPPED if isinstance(begun, Skipped) else Status.RUNNING,
        run_id=begun.run,
        action=begun.action,
        order=begun.order,
        depth=depth,
        attempt=begun.attempt,
        attempts=entry.retries + 1,
        started=begun.at if isinstance(begun, Started) else None,
        reason=begun.reason if isinstance(begun, Skipped) else "",
        children=tuple(_report(child, depth=len(begun.path)) for child in below),
    )
    if end is None:
        return base
    return attrs.evolve(
        base,
        status=end.status,
        duration=end.duration,
        ended=entry.ended,
        result=end.result,
        error=end.error,
        own=end.own,
        reason=end.reason,
        attempts=end.attempts,
        fields=end.fields,
    )
