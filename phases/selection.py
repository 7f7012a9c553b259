"""Which tasks of a tree a run leaves out, from the names in only= and skip=. Nothing here runs anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from phases.errors import UnknownTask
from phases.tasks import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from phases.tasks import AnyTask

__all__ = ["Selection"]


@attrs.frozen
class Selection:
    """Which tasks to run and which to leave out.

    A name means every task with that name and everything inside it; `network/routes` means the task `routes` directly
    inside a task `network`. The tasks named by `only` run, and so do the groups around them. `skip` overrides `only`.
    """

    only: tuple[tuple[str, ...], ...]
    skip: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, root: AnyTask, *, only: Iterable[str] | str = (), skip: Iterable[str] | str = ()) -> Selection:
        """The selection for these names; raises UnknownTask for a name that is not in the tree."""
        paths = [path for path, _ in walk(root)]
        return cls(_known_names("only", only, paths), _known_names("skip", skip, paths))

    def leaves_out(self, task: AnyTask, above: tuple[str, ...]) -> str:
        """Why the task below these names is left out; empty if it runs."""
        path = (*above, task.name)
        if any(_ends_with(path, name) for name in self.skip):
            return "left out by skip"
        if not self.only or any(_ends_with(path[:length], name) for name in self.only for length in _lengths(path)):
            return ""
        if any(_ends_with(inner, name) for inner, _ in walk(task, above=above) for name in self.only):
            return ""
        return "left out by only"


def _lengths(path: Sequence[str]) -> range:
    return range(1, len(path) + 1)


def _ends_with(path: tuple[str, ...], name: tuple[str, ...]) -> bool:
    return path[-len(name) :] == name


def _known_names(
    option: str, given: Iterable[str] | str, paths: Sequence[tuple[str, ...]]
) -> tuple[tuple[str, ...], ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not any(_ends_with(path, tuple(name.split("/"))) for path in paths):
            known = ("/".join(path) for path in paths) if "/" in name else (path[-1] for path in paths)
            raise UnknownTask(name, option, tuple(dict.fromkeys(known)))
    return tuple(tuple(name.split("/")) for name in names)
