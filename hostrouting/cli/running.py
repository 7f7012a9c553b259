"""What a task would change, as lines; and a run of it: what it waits for, and then what it has
changed.
"""

import logging
import signal
import threading
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import phases
from hostrouting.cli.output import capped, code_of, error_document, finding_lines, worst_code
from hostrouting.errors import RouteOverlapError
from hostrouting.host.effects import Effects, effects_of
from hostrouting.host.host import Host
from hostrouting.install.plan import Plan
from phases.observers import FIELDS, LOGGER, live_tree


def plan_lines(plan: Plan) -> Iterator[str]:
    """What would be changed, and what there is to tell about it."""
    routes, files = plan.routes, plan.files
    writes, removes = (
        (f"write {path}" for path in files.writes),
        (f"remove {path}" for path in files.removes),
    )
    yield from _blocks((*routes.conflicts, *routes.changes), plan.operations, writes, removes)
    yield from ["  have systemd read its files again"] if plan.needs_reload else []
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

    @property
    def errors(self) -> tuple[BaseException, ...]:
        """Why the run failed; each message once."""
        return tuple(
            {str(step.error): step.error for step in self.report.failures if step.error}.values()
        )

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
        yield from ["What this run has changed:"] if self.has_changed and not self.report.ok else []
        wrote, removed = (
            (f"wrote {path}" for path in self.wrote),
            (f"removed {path}" for path in self.removed),
        )
        yield from _blocks((*self.effects.changes, *self.effects.operations), wrote, removed)

    def document(self) -> dict[str, Any]:
        """The same as plain values."""
        changes, files = (
            self.effects.to_mapping(),
            {"write": list(self.wrote), "remove": list(self.removed)},
        )
        failures = [error_document(error) for error in self.errors]
        return {
            "ok": self.report.ok,
            "changed": self.has_changed,
            **changes,
            "files": files,
            "failures": failures,
        }


def run_task(task: phases.AnyTask, host: Host) -> Run:
    """Run the task on this host. After a signal, or the end of its terminal, it takes back what it
    has begun.

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
    report = phases.run(task, observers=[tree for tree in [live_tree(LOGGER)] if tree])
    leaves = [
        step for step in report.walk() if not step.children
    ]  # the result of a group repeats theirs
    effects = sum(
        (effects_of(outcome) for step in leaves for outcome in (step.result, step.error)), Effects()
    )
    wrote = tuple(path for path in effects.files if host.files.look(path))
    return Run(report, effects, wrote, tuple(path for path in effects.files if path not in wrote))
