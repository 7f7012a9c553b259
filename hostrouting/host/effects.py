"""The effects of a task: its result if it succeeded, an attribute of the error if it failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import attrs

if TYPE_CHECKING:
    from hostrouting.finding import Finding
    from hostrouting.host.operation import Operation
    from hostrouting.kernel.base import RouteRequest

T = TypeVar("T", bound="Effects")


def each_once(paths: Iterable[str]) -> tuple[str, ...]:
    """The paths without repetitions, in their order."""
    return tuple(dict.fromkeys(paths))


@attrs.frozen
class Effects:
    """What a task has changed on the host: the result of most tasks, and the base class of the
    other results.

    `changes` are those of static routes, in the order in which the kernel has made them; `files`
    are the paths of changed files.
    """

    changes: tuple[RouteRequest, ...] = ()
    files: tuple[str, ...] = attrs.field(default=(), converter=each_once)
    operations: tuple[Operation, ...] = ()
    warnings: tuple[Finding, ...] = ()
    """What the run succeeded in spite of, such as a route for probes that waits."""

    @property
    def changed(self) -> bool:
        return bool(self.changes or self.files or self.operations)

    def log_fields(self) -> dict[str, object]:
        """How many routes, operations, files and warnings these effects have, as the fields of a
        log record; a number that is 0 is left out.
        """
        fields = {
            "routes": len(self.changes),
            "operations": len(self.operations),
            "files": len(self.files),
            "warnings": len(self.warnings),
        }
        return {name: value for name, value in fields.items() if value}

    def to_mapping(self) -> dict[str, object]:
        """The effects as plain values, for JSON; a command adds its own keys, such as `changed`."""
        return {
            "changes": [str(change) for change in self.changes],
            "files": list(self.files),
            "operations": [operation._asdict() for operation in self.operations],
            "warnings": [finding.to_mapping() for finding in self.warnings],
        }

    def __add__(self, other: T) -> T:
        """Join these effects with those of a later task, `other`. The result is a copy of `other`
        with the entries of `self` in front. A field that only a subclass has, such as the report of
        a check, stays as `other` has it.
        """
        return attrs.evolve(
            other,
            changes=self.changes + other.changes,
            files=self.files + other.files,
            operations=self.operations + other.operations,
            warnings=self.warnings + other.warnings,
        )


def effects_of(outcome: object) -> Effects:
    """Read what a task has changed from its result, or from the error with which it failed; empty
    if nothing is recorded there. A `phases.TaskFailed` stands for all errors in it.
    """
    if isinstance(outcome, Effects):
        return outcome
    recorded = getattr(outcome, "effects", None)  # an error has it from `recorded_in_errors`
    if isinstance(recorded, Effects):
        return recorded
    effects = Effects()
    for failed_step in getattr(outcome, "failures", ()):  # of a phases.TaskFailed
        effects += effects_of(failed_step.error)
    return effects


@contextmanager
def recorded_in_errors(
    changes: Iterable[RouteRequest] = (),
    files: Iterable[str] = (),
    operations: Iterable[Operation] = (),
    warnings: tuple[Finding, ...] = (),
) -> Iterator[None]:
    """If an error leaves the block, record in the error what was changed by then, so that
    `effects_of` finds it. Any error counts, even `phases.Cancelled`. Effects that an inner block
    has already recorded in the error are kept, after those of this block.

    The arguments are read only when the error comes, so the caller may fill the lists in the block.
    """
    try:
        yield
    except BaseException as error:
        made_here = Effects(tuple(changes), tuple(files), tuple(operations), warnings)
        if made_here != Effects():
            # The attribute that `effects_of` reads. Errors do not declare it, so mypy would refuse
            # an assignment.
            vars(error)["effects"] = made_here + effects_of(error)
        raise
