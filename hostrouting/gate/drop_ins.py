"""The drop-ins on a host, and the files of units, as systemd reads them: where it looks, and which
of them count, in which order.

Not judged: the folders of a unit's aliases, those for all units whose names begin alike
(`a-.service.d`), those of portable services, which run in an image without the gate, and those of
generators, which write no drop-ins that we know of; the file of an instance (`a@x.service` instead
of `a@.service`) before it is loaded; a line outside of `[Service]`, or continued in the next.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from hostrouting.errors import HostError
from hostrouting.gate.unit_names import instance_pattern, template_of
from hostrouting.host.layout import DROP_IN

if TYPE_CHECKING:
    from hostrouting.host.base import Files

_UNIT_FOLDERS = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",  # another folder only where /usr was never merged
)
"""Where systemd looks for the files of units, in its order."""
CONDITION = r"^\s*ExecCondition\s*="
"""How the line of a condition begins, for Python and for sed; systemd allows these spaces."""
RESET = rf"{CONDITION}\s*$"
"""An empty value resets the list, so no ExecCondition= of an earlier file is left."""


def drop_ins_of(files: Files, unit: str) -> list[str]:
    """The drop-ins that systemd will read for this unit, sorted by name, as it reads them. Of two
    with the same name it reads only the one in the first folder. A hidden file, which it does not
    read, comes before ours, where it does not matter.
    """
    by_name: dict[str, str] = {}
    for folder in _folders_of(unit):
        for name in files.names(folder):
            if name.endswith(".conf"):
                by_name.setdefault(name, f"{folder}/{name}")
    return [by_name[name] for name in sorted(by_name)]


def _folders_of(unit: str) -> list[str]:
    """The folders of the drop-ins of a unit, in the order in which systemd looks: for each parent,
    that of the instance before that of its template (`unit_file_find_dropin_paths` in its source).
    """
    unit_type = unit.rpartition(".")[2]
    names = dict.fromkeys((unit, template_of(unit)))
    folders = [f"{parent}/{name}.d" for parent in _UNIT_FOLDERS for name in names]
    folders += [f"{parent}/{unit_type}.d" for parent in _UNIT_FOLDERS]  # for all units of this type
    return folders


def instances_with_drop_ins(files: Files, template: str) -> tuple[str, ...]:
    """The instances of a template that have drop-ins of their own."""
    instances: list[str] = []
    for folder in _UNIT_FOLDERS:
        names = fnmatch.filter(files.names(folder), f"{instance_pattern(template)}.d")
        instances += [name.removesuffix(".d") for name in names]
    return tuple(dict.fromkeys(name for name in instances if name != template))


def resets_after_ours(files: Files, drop_ins: Iterable[str]) -> Iterator[str]:
    """Those of these drop-ins that take the gate's ExecCondition= away: they have an empty one, and
    come after ours: systemd reads them by name, from whichever folder. Not judged: a condition that
    comes after the empty one.
    """
    for path in drop_ins:
        name = path.rpartition("/")[2]
        if name <= DROP_IN:  # it is read before ours, or in its place, which `unit_gates` judges
            continue
        # What root cannot read, systemd cannot read either. Another user may miss one until systemd
        # has read it: then systemd says that it does not run the gate.
        with suppress(HostError):
            if re.search(RESET, files.read(path) or "", re.MULTILINE):
                yield path
