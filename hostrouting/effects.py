"""What a task has changed, whether it came to its end or not: its result says so, and so does an error that ended it.

Here: the value, and how an error comes to carry it. Not here: how changes are made (`apply`, `fileset`), and told.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hostrouting.backends.base import Change

__all__ = ["Effects", "Operation", "effects_of", "having_changed", "tell_effects"]

E = TypeVar("E", bound=BaseException)


def _each_once(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))


@attrs.frozen
class Operation:
    """One thing that a task does, or would do, beside static routes and files: in words, with the reason."""

    verb: str
    object: str
    """What it is done to, such as `nftables table ip6 hostrouting_slb`."""
    reason: str

    def __str__(self) -> str:
        return f"{self.verb} {self.object}    # {self.reason}"


@attrs.frozen
class Effects:
    """The changes to routes that the kernel made, in order, the paths of the files that were changed, and the rest."""

    changes: tuple[Change, ...] = ()
    files: tuple[str, ...] = attrs.field(default=(), converter=_each_once)
    operations: tuple[Operation, ...] = ()

    def to_mapping(self) -> dict[str, object]:
        """The same as plain values; a route in the words of `ip route`."""
        return {
            "changes": [str(change) for change in self.changes],
            "files": list(self.files),
            "operations": [attrs.asdict(it) for it in self.operations],
        }

    def __add__(self, other: Effects) -> Effects:
        return Effects(
            (*self.changes, *other.changes), (*self.files, *other.files), (*self.operations, *other.operations)
        )


def effects_of(outcome: object) -> Effects:
    """What the error that ended a task says was changed, or a result, whose `files` and `operations` say it.

    Nothing where it says nothing of it.
    """
    found, files = getattr(outcome, "effects", None), getattr(outcome, "files", ())
    operations = getattr(outcome, "operations", ())
    if isinstance(found, Effects):
        return found
    # Anybody's result may have other `files` and `operations`.
    done = operations if isinstance(operations, tuple) and all(isinstance(it, Operation) for it in operations) else ()
    return Effects(files=files if isinstance(files, tuple) else (), operations=done)


def tell_effects(
    error: E, changes: Iterable[Change] = (), files: Iterable[str] = (), operations: Iterable[Operation] = ()
) -> E:
    """The error, which from now on says that these were changed before what it says already."""
    vars(error)["effects"] = Effects(tuple(changes), files, tuple(operations)) + effects_of(error)
    return error


@contextmanager
def having_changed(
    changes: Iterable[Change] = (), files: Iterable[str] = (), operations: Iterable[Operation] = ()
) -> Iterator[None]:
    """After these changes: whatever error comes out of the block, the order to stop included, carries them."""
    try:
        yield
    except BaseException as error:
        tell_effects(error, changes, files, operations)
        raise
