"""The changes that a command makes or would make: the steps as data, and a run of our tasks.

Shared by `plan`, `apply`, `status`, `remove`, `render` and `clean`. Here: the values, their lines and documents. Not
here: what the task does (`hostrouting.tasks`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

import phases
from hostrouting.cli.command import FINE
from hostrouting.cli.failure import code_of, errors_in
from hostrouting.cli.output import SHOWN, Line, Painted, Tone, capped, line
from hostrouting.cli.terminal import log_to_stderr
from hostrouting.host.effects import Effects, Operation, effects_of
from hostrouting.routes.plan import Step
from hostrouting.routes.uplink import bare_leg
from hostrouting.text import counted
from phases.errors import BaseExceptionGroup

if TYPE_CHECKING:
    from typing_extensions import Self

    from hostrouting.host.host import Host
    from hostrouting.model.route import Route
    from hostrouting.tasks.results import Plan

_TONES: dict[str, Tone] = {"conflict": "bad", "add": "good", "replace": "warn", "delete": "warn", "keep": "soft"}
_DONE = {"add": "added", "replace": "replaced", "delete": "deleted", "keep": "kept", "create": "created"}
_DONE |= {"start": "started", "write": "written", "remove": "removed"}


class Work(NamedTuple):
    """What a command would do, or has done: the steps for routes, other operations, and files."""

    steps: Sequence[Step] = ()
    operations: Sequence[Operation] = ()
    writes: Sequence[str] = ()
    removes: Sequence[str] = ()
    needs_reload: bool = False
    """Whether systemd has not read the present text of one of our files."""
    is_done: bool = False

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """What a task would do. With conflicts, these are the only steps, because no route would be changed."""
        routes = plan.routes
        steps = () if routes is None else routes.conflicts or routes.steps
        return cls(steps, plan.operations, plan.files.writes, plan.files.removes, plan.needs_reload)

    def __bool__(self) -> bool:
        """Whether anything is changed."""
        has_steps = any(step.action not in {"keep", "conflict"} for step in self.steps)
        return has_steps or bool(self.operations or self.writes or self.removes or self.needs_reload)

    def __str__(self) -> str:
        """A short summary: `add 2 routes, write 11 files`."""
        counts = {action: sum(step.action == action for step in self.steps) for action in _DONE}
        if not self.is_done:
            del counts["keep"]
        parts = [(action, counted(count, "route")) for action, count in counts.items() if count]
        for verb in dict.fromkeys(operation.verb for operation in self.operations):
            things = [operation.object for operation in self.operations if operation.verb == verb]
            noun = "other thing" if self.steps else "thing"
            parts.append((verb, things[0] if len(things) == 1 else counted(len(things), noun)))
        files = {"write": self.writes, "remove": self.removes}
        parts += [(verb, counted(len(paths), "file")) for verb, paths in files.items() if paths]
        parts += [("reload", "systemd")] if self.needs_reload else []
        return ", ".join(f"{what} {_DONE[verb]}" if self.is_done else f"{verb} {what}" for verb, what in parts)

    def lines(self) -> Iterator[Line]:
        """The steps as in a diff: first the changes, then what would stay; then the operations and the files."""
        for action, tone in _TONES.items():
            alike = [step for step in self.steps if step.action == action and not (self.is_done and action == "keep")]
            shown = [text for step in alike[:SHOWN] for text in str(step).splitlines()]
            yield from capped((line("  ", Painted(text, tone)) for text in shown), len(alike))
        shown_acts = (
            line("  ", Painted(str(act), "warn" if act.verb == "delete" else "good")) for act in self.operations[:SHOWN]
        )
        yield from capped(shown_acts, len(self.operations))
        verbs = ("wrote", "removed") if self.is_done else ("write", "remove")
        for verb, paths in zip(verbs, (self.writes, self.removes), strict=True):
            yield from capped((line("  ", Painted(f"{verb} ", "soft"), path) for path in paths[:SHOWN]), len(paths))

    def document(self) -> dict[str, Any]:
        """The work as plain values."""
        return {
            "steps": [
                {
                    "action": step.action,
                    "route": str(step.route),
                    "reason": step.why,
                    "existing": None if step.held is None else str(step.held),
                }
                for step in self.steps
            ],
            "operations": [operation.to_mapping() for operation in self.operations],
            "files": {"write": list(self.writes), "remove": list(self.removes)},
        }


class Run(NamedTuple):
    """A finished run, and the files that it has changed permanently."""

    report: phases.Report
    effects: Effects
    wrote: tuple[str, ...]
    removed: tuple[str, ...]

    def work(self, steps: Sequence[Step] | None = None) -> Work:
        """What was done; `steps` replaces the steps for routes that follow from the run's effects."""
        steps = self.steps if steps is None else steps
        return Work(steps, self.effects.operations, self.wrote, self.removed, is_done=True)

    def lines(self, work: Work, nothing: str, more: str = "", *, verdict: Iterable[Line] = ()) -> Iterator[Line]:
        """The answer, unless the run failed: what was done and `more`, or `nothing`; the verdict; then each change."""
        if self.ok:
            word, sentence = ("DONE:", f"{work}{more}") if work else ("NOTHING TO DO:", nothing)
            yield line(Painted(word, "good"), f" {sentence}")
        yield from verdict
        if work:
            yield line()
            if not self.ok:
                yield line("What it has changed before it failed:")
        yield from work.lines()

    @property
    def ok(self) -> bool:
        """Whether everything was done."""
        return self.report.ok

    @property
    def failed(self) -> phases.Report | None:
        """The report if the run failed, else None."""
        return None if self.ok else self.report

    @property
    def code(self) -> int:
        """The exit code: 0, that of the worst failure (1 before 3), or 128 plus the signal that stopped the run."""
        if self.ok:
            return FINE
        if not self.report.failures:
            return self.report.exit_code
        return code_of(BaseExceptionGroup("failures", [failure.error for failure in self.report.failures]))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The net changes of routes: a change that was rolled back is not included."""
        counts: dict[Route, int] = {}
        for change in self.effects.changes:
            # As it was requested: without the state of its next hops, which the kernel adds.
            route = attrs.evolve(change.route, legs=tuple(map(bare_leg, change.route.legs)))
            counts[route] = counts.get(route, 0) + (-1 if change.verb == "delete" else 1)
        added = [Step("add", route, "it did not exist") for route, count in counts.items() if count > 0]
        return (*added, *(Step("delete", route, "it existed") for route, count in counts.items() if count < 0))

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The failures as plain values, each with the path of its task."""
        return [
            {
                "task": "/".join(failure.path),
                "error": type(error).__name__,
                "kind": getattr(error, "kind", ""),
                "message": str(error),
            }
            for failure in self.report.failures
            for error in errors_in(failure.error)
        ]


def run_task(task: phases.AnyTask, host: Host, *, quietly: bool = False) -> Run:
    """Run the task on this host. If it is stopped, it undoes what it has begun.

    SIGHUP stops it like SIGTERM, so that closing the terminal stops the run cleanly.
    """
    log_to_stderr()
    with _hangup():
        # The answer has the text of each error.
        report = phases.run(task, observers=[] if quietly else phases.default_observers(errors=False))
    effects = sum((effects_of(outcome) for node in report.walk() for outcome in (node.result, node.error)), Effects())
    lasting = [file for file in effects.files if file not in host.layout.markers]
    wrote = tuple(path for path in lasting if host.files.is_there(path))
    return Run(report, effects, wrote, tuple(path for path in lasting if path not in wrote))


@contextmanager
def _hangup() -> Iterator[None]:
    """For each SIGHUP during the block, raise SIGTERM, unless the process runs under nohup."""
    import signal  # noqa: PLC0415  a command that only shows changes does not need it

    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGHUP) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
