"""Which snapshots there are, and what the node of each is called.

Here: from directories, patterns and files to a list of files with names. Not here: reading a file (`saved_snapshot`).
"""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING

import attrs

from hostrouting.door import listed
from hostrouting.errors import ConfigError, Fault
from hostrouting.reading import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["Source", "find_snapshots"]

_SUFFIX = ".json"


@attrs.frozen
class Source:
    """One snapshot: the name of its node, and the file."""

    name: str
    path: str


def find_snapshots(paths: Iterable[str | os.PathLike[str]]) -> tuple[Source, ...]:
    """The snapshots at these paths, each once, in order.

    A path is a file, a directory, which stands for the *.json files in it, or a pattern such as "nodes/*.json", in
    which ** matches any number of directories. A node is called like its file, without .json; if several files have
    one name, with as much of their paths as tells them apart.

    Raises ConfigError, which lists every path without a snapshot.
    """
    named = [os.fspath(it) for it in listed(paths, "find_snapshots: paths")]
    found: dict[str, str] = {}
    faults: list[Fault] = []
    for path in named:
        try:
            found |= {os.path.abspath(it): it for it in _files_at(path) if os.path.abspath(it) not in found}
        except _Unusable as error:
            faults.append(Fault("snapshots", repr(path), error.rule, error.remedy))
    if not named:
        faults.append(Fault("snapshots", "", "no path is given", "name a directory, a pattern or files"))
    if faults:
        raise ConfigError(faults)
    return tuple(map(Source, _names(tuple(found)), found.values()))


class _Unusable(Exception):  # noqa: N818  reads as what is wrong
    """A path stands for no snapshot: `rule` says why, and `remedy` what to do."""

    def __init__(self, rule: str, remedy: str) -> None:
        self.rule, self.remedy = rule, remedy
        super().__init__(rule)


def _files_at(path: str) -> list[str]:
    """The files that a path stands for."""
    if path == STANDARD_INPUT:
        raise _Unusable("is standard input, which is one snapshot", "check it with --snapshot -")
    if os.path.isdir(path):
        if found := _files_in(path):
            return found
        raise _Unusable(f"has no {_SUFFIX} file", "save the snapshot of each node there: hostrouting snapshot > FILE")
    if os.path.lexists(path):
        return [path]
    if not glob.has_magic(path):
        raise _Unusable("does not exist", "check the path")
    matches = sorted(glob.glob(path, recursive=True))
    if found := [file for it in matches for file in (_files_in(it) if os.path.isdir(it) else [it])]:
        return found
    raise _Unusable("matches no file", "check the pattern, and that the shell gets it in quotes")


def _files_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                it.path for it in entries if it.name.endswith(_SUFFIX) and not it.name.startswith(".") and it.is_file()
            )
    except OSError as error:
        raise _Unusable(f"cannot be read: {error.strerror}", "check the path and the permissions") from error


def _names(paths: Sequence[str]) -> Iterator[str]:
    """A name for each of these different absolute paths, so that no two are equal."""
    parts = {path: path.removesuffix(_SUFFIX).split(os.sep) for path in paths}
    names: dict[str, str] = {}
    depth, left = 1, list(paths)
    while left:
        alike: dict[str, list[str]] = {}
        for path in left:
            alike.setdefault("/".join(parts[path][-depth:]), []).append(path)
        names |= {its[0]: name for name, its in alike.items() if len(its) == 1}
        # Files with one path but for the suffix keep all of it.
        longest = {path: path for path in left if depth >= len(parts[path])}
        names |= {path: path for path in longest if path not in names}
        left = [path for path in left if path not in names]
        depth += 1
    return map(names.__getitem__, paths)
