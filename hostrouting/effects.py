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

__all__ = ["Effects", "effects_of", "having_changed", "tell_effects"]

E = TypeVar("E", bound=BaseException)


def _each_once(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))


@attrs.frozen
class Effects:
    """The changes to routes that the kernel made, in order, and the paths of the files that were changed."""

    changes: tuple[Change, ...] = ()
    files: tuple[str, ...] = attrs.field(default=(), converter=_each_once)

    def __add__(self, other: Effects) -> Effects:
        return Effects((*self.changes, *other.changes), (*self.files, *other.files))


def effects_of(outcome: object) -> Effects:
    """What the error that ended a task says was changed, or a result, whose `files` are the paths that were.

    Nothing where it says nothing of it.
    """
    found, files = getattr(outcome, "effects", None), getattr(outcome, "files", ())
    if isinstance(found, Effects):
        return found
    return Effects(files=files if isinstance(files, tuple) else ())  # anybody's result may have other `files`


def tell_effects(error: E, changes: Iterable[Change] = (), files: Iterable[str] = ()) -> E:
    """The error, which from now on says that these were changed before what it says already."""
    vars(error)["effects"] = Effects(tuple(changes), files) + effects_of(error)
    return error


@contextmanager
def having_changed(changes: Iterable[Change] = (), files: Iterable[str] = ()) -> Iterator[None]:
    """After these changes: whatever error comes out of the block, the order to stop included, carries them."""
    try:
        yield
    except BaseException as error:
        tell_effects(error, changes, files)
        raise
