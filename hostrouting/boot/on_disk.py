"""Finds the files of hostrouting that are on a host. `files` has those that are wanted there."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hostrouting.boot.units import UNITS
from hostrouting.errors import HostError
from hostrouting.host.files import temporary_path
from hostrouting.host.layout import HostLayout
from hostrouting.host.ours import existing_paths, is_ours

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hostrouting.host.base import Files

_WRITTEN_FIRST = (HostLayout.program_path, HostLayout.python_path, HostLayout.config_path)
"""The files that are written first, and removed last."""
_UNIT_OF_LINK = {HostLayout.enabled_path(unit): HostLayout.unit_path(unit) for unit in UNITS}
"""By the path of the link that starts a unit of ours at boot: the path of the unit."""


def owned_paths(files: Files) -> tuple[str, ...]:
    """The paths of all files of ours on this host, in the order in which a removal deletes them.

    1. the temporary files that a killed writer has left (`temporary_path`). Their owner does not
       matter, because the next writer would remove them, too,
    2. the drop-ins, and the links and files of our units,
    3. the settings of networkd,
    4. the file that opens the gate, because it would also open a gate that is installed later, and
       the guard's note about another program. If these are our only files, they are not listed: an
       administrator may open the gate before an installation,
    5. the program, the link to its interpreter, and config.json.
    """
    written_later = _written_later(files)
    paths = existing_paths(files, map(temporary_path, (*written_later, *_WRITTEN_FIRST)))
    paths += _ours_among(files, written_later)
    last = _ours_among(files, _WRITTEN_FIRST)
    if paths or last:
        paths += existing_paths(files, HostLayout.of_this_boot)  # 4., both under /run
    return (*paths, *last)


def proof_of_installation(files: Files) -> list[str]:
    """The paths of our files on this host that a run writes only after config.json. If there are
    any, config.json was there, and it is an error if it is missing. Other files prove nothing: a
    run that was killed may have left the program or a temporary file, and an administrator may have
    written the file that opens the gate.
    """
    return _ours_among(files, _written_later(files))


def _written_later(files: Files) -> list[str]:
    """The paths that a run writes only after config.json: our units, their links, the settings of
    networkd, and our drop-in of each unit that has a drop-in. A file of ours at one of these paths
    proves that config.json was there.
    """
    paths = [HostLayout.drop_in_path(unit) for unit in units_with_drop_ins(files)]
    for link_path, unit_path in _UNIT_OF_LINK.items():
        paths += [link_path, unit_path]
    return [*paths, HostLayout.networkd_path]


def _ours_among(files: Files, paths: Iterable[str]) -> list[str]:
    """Return the paths at which there is a file or link of ours."""
    return [path for path in existing_paths(files, paths) if _is_our_file_or_link(files, path)]


def _is_our_file_or_link(files: Files, path: str) -> bool:
    """Whether hostrouting wrote what is at this path. For most paths, `is_ours` decides. A link
    that starts our unit at boot is ours if it leads to the path of the unit, unless another
    program's file is there.
    """
    unit_path = _UNIT_OF_LINK.get(path)
    if unit_path is None:
        return is_ours(files, path)
    entry = files.look(path)
    if entry is None or entry.target != unit_path:
        return False
    return files.look(unit_path) is None or is_ours(files, unit_path)


def units_with_drop_ins(files: Files) -> list[str]:
    """The units that have drop-ins on this host, whoever wrote them."""
    names = files.names(HostLayout.unit_directory)
    return [name.removesuffix(".d") for name in names if name.endswith(".d")]


def gated_on_disk(files: Files) -> tuple[str, ...]:
    """The units that have our drop-in, by which the gate runs before each of their starts. A
    drop-in that cannot be read is left out, so that `status` can still show the others.
    """
    gated: list[str] = []
    for unit in units_with_drop_ins(files):
        with suppress(HostError):
            if is_ours(files, HostLayout.drop_in_path(unit)):
                gated.append(unit)
    return tuple(gated)
