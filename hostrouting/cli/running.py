"""What a task would change, as lines; and a run of it: what it waits for, and then what it has
changed.
"""

import logging
import signal
import threading
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import phases
from hostrouting.cli.output import capped, error_document, finding_lines
from hostrouting.codes import code_of, worst_code
from hostrouting.errors import RouteOverlapError
from hostrouting.host.effects import Effects, effects_of
from hostrouting.host.host import Host
from hostrouting.install.plan import Plan
from phases.observers import FIELDS, LOGGER, live_tree


def plan_lines(plan: Plan) -> Iterator[str]:
    """What would be changed, and what there is to tell about it."""
    routes = (*plan.routes.conflicts, *plan.routes.changes)
    writes = [f"write {path}" for path in plan.files.writes]
    removes = [f"remove {path}" for path in plan.files.removes]
    yield from _blocks(routes, (*plan.systemd, *plan.operations), writes, removes)
    yield from finding_lines(
        finding for finding in plan.findings if finding.name != "route-conflict"
    )  # a step


def _blocks(*blocks: Iterable[object]) -> Iterator[str]:
    for block in blocks:
        yield from capped([f"  {line}" for thing in block for line in str(thing).splitlines()])


class Run(NamedTuple):
    """A finished run, and the files that it has written and removed."""

    report: phases.Step
    effects: Effects
    wrote: tuple[str, ...]
    removed: tuple[str, ...]
    undone: phases.Step | None = None
    """The step that took the changes back, if that was tried."""

    @property
    def errors(self) -> tuple[BaseException, ...]:
        """Why the run failed; each message once."""
        undo = [] if self.undone is None else [*self.undone.walk()]
        failures = [step for step in self.report.failures if step not in undo]
        return tuple({str(step.error): step.error for step in failures if step.error}.values())

    @property
    def is_taken_back(self) -> bool:
        """Whether this host is as it was before the run."""
        return self.undone is not None and self.undone.ok

    @property
    def code(self) -> int:
        """The exit code; after a signal, 128 plus its number."""
        return worst_code(*map(code_of, self.errors)) or self.report.exit_code

    @property
    def has_changed(self) -> bool:
        """Whether anything was changed."""
        return bool(self.effects.changes or self.effects.operations or self.wrote or self.removed)

    def lines(self, done: str, nothing: str) -> Iterator[str]:
        """How the run ended, with `done` if it changed anything, else with `nothing`; and what it
        changed.
        """
        for error in self.errors:
            words = str(error) or type(error).__name__
            if (
                isinstance(error, RouteOverlapError) and error.check is not None
            ):  # the page of its check follows
                words = f"the verdict is {error.check['verdict']}, and the mode is STRICT"
                # Do not say that no unit starts: the boot script does not judge the packets of
                # pods.
                words += "; the gate checks again before each start of a gated unit"
            first, *others = words.splitlines()
            yield from (f"FAILED: {first}", *(f"  {line}" for line in others))
        if self.report.ok:
            yield f"DONE: {done}" if self.has_changed else f"NOTHING TO DO: {nothing}"
        elif not self.errors:
            yield f"STOPPED: {self.report.reason}"
        if self.undone is not None and self.has_changed:
            if self.is_taken_back:
                yield "TAKEN BACK: files, routes and units are as they were before"
                return
            for step in self.undone.failures:
                yield f"NOT TAKEN BACK: {step.error}"
        if self.has_changed and not self.report.ok:
            yield "What this run has changed:"
        wrote, removed = (
            (f"wrote {path}" for path in self.wrote),
            (f"removed {path}" for path in self.removed),
        )
        yield from _blocks((*self.effects.changes, *self.effects.operations), wrote, removed)

    def document(self) -> dict[str, Any]:
        """The same as plain values."""
        document: dict[str, Any] = {
            "ok": self.report.ok,
            "changed": self.has_changed and not self.is_taken_back,
            **self.effects.to_mapping(),
            "files": {"write": list(self.wrote), "remove": list(self.removed)},
            "failures": [error_document(error) for error in self.errors],
        }
        if self.undone is not None:
            document["takenBack"] = self.is_taken_back
        return document


def run_task(task: phases.AnyTask, host: Host, *, undo_on_failure: bool = False) -> Run:
    """Run the task on this host. After a signal, or the end of its terminal, it takes back what it
    has begun; with `undo_on_failure`, all of it.

    Standard error has what the run waits for, and warnings; but not what the page says afterwards.
    """
    handler = logging.StreamHandler()
    handler.addFilter(
        lambda record: {"verdict", "finding"}.isdisjoint(getattr(record, FIELDS, ()))
    )  # on the page
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[handler])
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # not under nohup
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    report = phases.run(
        task,
        observers=[tree for tree in [live_tree(LOGGER)] if tree],
        undo_on_failure=undo_on_failure,
    )
    steps = [*report.walk()]
    undone = next((step for step in steps if step.action == "undo"), None)
    undo = [] if undone is None else [*undone.walk()]
    effects = Effects()
    for step in steps:
        if step not in undo and not step.children:  # the result of a group repeats theirs
            effects += effects_of(step.result) + effects_of(step.error)
    wrote = tuple(path for path in effects.files if host.files.look(path))
    removed = tuple(path for path in effects.files if path not in wrote)
    return Run(report, effects, wrote, removed, undone)
