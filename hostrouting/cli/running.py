"""A run of a task for an operator: what it waits for, how it has ended, and what it has changed."""

import logging
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

# These are loaded now, although they are needed late: a run can delete the archive that has them.
import hostrouting.kernel.netlink.watch
import hostrouting.kernel.nftables  # noqa: F401
import phases
from hostrouting.cli.output import error_document, print_lines
from hostrouting.finding import Finding
from hostrouting.host.effects import Effects, effects_of
from hostrouting.host.host import Host
from hostrouting.lines import finding_lines, indented
from phases.observers import FIELDS

_FIELDS_OF_THE_PAGE = {"verdict", "finding", "status"}
"""Log lines with one of these fields say what the page says later."""


class TaskRun(NamedTuple):
    """A finished run of a task, and what it has changed on the host."""

    report: phases.Step
    code: int
    """The exit code; after a signal, 128 plus its number."""
    effects: Effects
    wrote: tuple[str, ...]
    """The changed files that are there now."""
    removed: tuple[str, ...]
    """The changed files that are gone."""

    def lines(
        self, done: str, nothing: str = "", *, shown_below: Sequence[Finding] = ()
    ) -> Iterator[str]:
        """The lines of the page that say how the run ended, and what it changed. After a success,
        the first line ends with `done` or, if nothing was changed, with `nothing` (if given). After
        a failure, the first line says what failed. `shown_below` are findings that the page shows
        after these lines, so they are left out here; only a line FAILED may repeat a sentence.
        """
        if not self.report.ok:
            yield from self._failure_lines({finding.sentence for finding in shown_below})
        elif self.effects.changed:
            yield f"DONE: {done}"
        else:
            yield f"NOTHING TO DO: {nothing or done}"
        yield from indented("", [*self.effects.changes, *self.effects.operations])
        yield from indented("wrote ", self.wrote)
        yield from indented("removed ", self.removed)

    def _failure_lines(self, shown_below: Collection[str]) -> Iterator[str]:
        # Why the run failed or stopped, and the heading of the list of what it has changed. For
        # each step, a line FAILED has the first error, and the other errors follow with their
        # remedies, except those whose sentences are `shown_below`, later on the page.
        for step in self.report.failures:
            errors = [
                finding
                for finding in getattr(step.error, "findings", ())
                if finding.severity == "error"
            ]
            if errors:
                first = errors[0]
                yield f"FAILED: {first.sentence}"
                lines = finding_lines(
                    [error for error in errors if error.sentence not in shown_below]
                )
                if first.sentence not in shown_below:
                    next(lines)  # skip the sentence of `first`, but not its remedy
                yield from lines
            else:
                yield f"FAILED: {str(step.error) or type(step.error).__name__}"
        if self.report.reason:
            yield f"STOPPED: {self.report.reason}"
        if self.effects.changed:
            yield "What this run has changed:"
        else:
            yield "Nothing was changed."

    def document(self) -> dict[str, Any]:
        """The part of the --json document that is about the run, as plain values."""
        return {
            "ok": self.report.ok,
            "changed": self.effects.changed,
            # Not `self.effects.to_mapping()`, because a subclass, which some tasks use, adds keys.
            **Effects.to_mapping(self.effects),
            "files": {"write": self.wrote, "remove": self.removed},
            "failures": [error_document(step.error) for step in self.report.failures],
            "stopped": "" if self.report.ok else self.report.reason,
        }


def run_task(task: phases.AnyTask, host: Host) -> TaskRun:
    """Run the task on this host. A signal stops the run, which then takes back the changes of
    routes that it is making. Standard error shows what the run waits for, and warnings.
    """
    _log_to_standard_error()
    return outcome_of(phases.run(task), host)


def outcome_of(report: phases.Step, host: Host) -> TaskRun:
    """Collect what a finished run has changed on this host. `report` is the step of the run."""
    effects = Effects()
    for step in report.walk():
        if not step.children:  # else the step's result repeats those of its children
            effects += effects_of(step.error or step.result)
    wrote = tuple(path for path in effects.files if host.files.look(path) is not None)
    removed = tuple(path for path in effects.files if path not in wrote)
    return TaskRun(report, report.exit_code, effects, wrote, removed)


class _StandardErrorHandler(logging.Handler):
    """Prints log lines on standard error, escaped like all other output."""

    def emit(self, record: logging.LogRecord) -> None:
        print_lines([self.format(record)], sys.stderr)


def _log_to_standard_error() -> None:
    """Show log lines on standard error while a task runs, except those that the page repeats. If
    the program has set up logging already, nothing is changed.
    """
    handler = _StandardErrorHandler()
    # `phases` puts the fields of a log line into its record, as the attribute FIELDS.
    handler.addFilter(lambda record: _FIELDS_OF_THE_PAGE.isdisjoint(getattr(record, FIELDS, ())))
    logging.basicConfig(level=logging.INFO, handlers=[handler], format="%(message)s")
