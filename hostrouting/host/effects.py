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
    """The effects of a task: the result of most tasks, and the base class of the other results.

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
        """Whether anything was changed."""
        return bool(self.changes or self.files or self.operations)

    def __str__(self) -> str:
        lines = [f"changed {path}" for path in self.files]
        lines += map(str, (*self.changes, *self.operations))
        return "\n".join(lines) or "nothing was changed"

    def log_fields(self) -> dict[str, object]:
        """The numbers of routes, operations, files and warnings, for a log; none that is 0."""
        fields = {
            "routes": len(self.changes),
            "operations": len(self.operations),
            "files": len(self.files),
            "warnings": len(self.warnings),
        }
        return {name: value for name, value in fields.items() if value}

    def to_mapping(self) -> dict[str, object]:
        """The effects as plain values, for JSON. The result of a command has keys of its own beside
        these, such as `changed`.
        """
        return {
            "changes": [str(change) for change in self.changes],
            "files": list(self.files),
            "operations": [operation._asdict() for operation in self.operations],
            "warnings": [finding.to_mapping() for finding in self.warnings],
        }

    def __add__(self, other: T) -> T:
        """Join these effects with the later ones, `other`. The other fields of a result, such as
        the report of a check, are those of `other`.
        """
        return attrs.evolve(
            other,
            changes=self.changes + other.changes,
            files=self.files + other.files,
            operations=self.operations + other.operations,
            warnings=self.warnings + other.warnings,
        )


def effects_of(outcome: object) -> Effects:
    """The effects of a result, of an error, or of all errors in a `phases.TaskFailed`; empty if
    there are none.
    """
    if isinstance(outcome, Effects):
        return outcome
    recorded = getattr(outcome, "effects", None)  # by `recorded_in_errors`
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
    """Add these effects to any error that leaves the block, even `phases.Cancelled`; they come
    before those that the error already has.

    The arguments are read when the error comes, so lists may grow in the block.
    """
    try:
        yield
    except BaseException as error:
        earlier = Effects(tuple(changes), tuple(files), tuple(operations), warnings)
        # Any error, even one of Python, gets the attribute that `effects_of` reads. As this class
        # does not declare it, mypy would refuse an assignment.
        if earlier != Effects():
            vars(error)["effects"] = earlier + effects_of(error)
        raise
