"""The files of ours that a host has, whatever its configuration.

`files` says which ones a configuration asks for. Nothing is changed here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress

from hostrouting.boot import units
from hostrouting.boot.files import UNIT_OF
from hostrouting.errors import HostError
from hostrouting.host.files import Files, leftover
from hostrouting.host.fileset import File, is_masked, is_ours
from hostrouting.host.layout import HostLayout

_REQUIRED = re.compile(r"(?m)^required=\((.*?)\)")
"""The line of gate.sh with the steps that have to succeed, as `scripts.render_gate_script` writes
it: `required=(10-static-routes 20-check-route-overlap) wanted=()`.
"""


def writer_of(files: Files) -> str:
    """The release that wrote config.json; empty if it does not say."""
    try:
        return str(json.loads(files.read(HostLayout.config_path) or "")["writtenBy"])
    except (ValueError, KeyError, TypeError):
        return ""


def owned_paths(files: Files) -> tuple[str, ...]:
    """Every path of ours that this host has, in the order of removal.

    1. what a writer that was killed has left,
    2. the drop-ins, and the links and files of our units,
    3. the steps that gate.sh does not require, and the settings of networkd,
    4. each script after what runs it: the guard's, gate.sh, the steps that it requires,
    5. the file that opens the gate, which would open the next one,
    6. config.json, which says that the others are ours.
    """
    drop_ins = [HostLayout.drop_in_path(unit) for unit in _units_with_drop_ins(files)]
    optional = optional_step_paths(files)
    required = [path for path in map(HostLayout.step_path, UNIT_OF) if path not in optional]
    scripts = [
        *optional,
        HostLayout.networkd_path,
        HostLayout.guard_path,
        HostLayout.gate_path,
        *required,
    ]
    config_path = HostLayout.config_path
    written = [*drop_ins, *scripts, config_path]
    for unit in units.UNITS:
        written += [HostLayout.unit_path(unit), HostLayout.enabled_path(unit)]

    paths = [path for path in map(leftover, written) if _is_left_by_us(files, path)]
    paths += [path for path in drop_ins if is_ours(files, path)]
    for unit in units.UNITS:
        paths += _paths_of_unit(files, unit)
    paths += [path for path in scripts if is_ours(files, path)]
    has_config = files.look(config_path) is not None
    if (paths or has_config) and files.look(HostLayout.opening_path):
        paths.append(HostLayout.opening_path)
    if has_config:
        paths.append(config_path)
    return tuple(paths)


def _is_left_by_us(files: Files, path: str) -> bool:
    """Whether a writer of ours that was killed has left this temporary file: our text, an empty
    file, or a link to a unit of ours.
    """
    entry = files.look(path)
    if entry is None:
        return False
    if entry.kind == "link":
        return entry.target in map(HostLayout.unit_path, units.UNITS)
    return is_ours(files, path) or (entry.kind == "file" and files.read(path) == "")


def _units_with_drop_ins(files: Files) -> list[str]:
    """The units that have drop-ins on this host, whoever wrote them."""
    names = files.names(HostLayout.unit_directory)
    return [name.removesuffix(".d") for name in names if name.endswith(".d")]


def _paths_of_unit(files: Files, unit: str) -> Iterator[str]:
    """The link that starts a unit of ours at boot, and the unit's file.

    If the file is missing, or if the administrator has masked it, only the link is ours. If it is
    another program's, so is the link.
    """
    path = HostLayout.unit_path(unit)
    link = HostLayout.enabled_path(unit)
    has_ours = is_ours(files, path)
    is_foreign = files.look(path) is not None and not has_ours and not is_masked(files, path)
    if is_foreign:
        return
    has_link = not File(link, target=path).differs(files)
    if has_link:
        yield link
    if has_ours:
        yield path


def gated_on_disk(files: Files) -> tuple[str, ...]:
    """The units that have a drop-in of ours. One that cannot be read is not counted: who asks wants
    to say what is known although something is broken.
    """
    gated: list[str] = []
    with suppress(HostError):
        for unit in _units_with_drop_ins(files):
            with suppress(HostError):
                if is_ours(files, HostLayout.drop_in_path(unit)):
                    gated.append(unit)
    return tuple(gated)


def text_at(files: Files, path: str) -> str:
    """The text of a file; empty if there is none, or something else, which `read` would follow or
    refuse.
    """
    entry = files.look(path)
    if entry is None or entry.kind != "file":
        return ""
    return files.read(path) or ""


def optional_step_paths(files: Files) -> tuple[str, ...]:
    """The steps of ours that need not succeed for the installed gate.sh, by their paths. Empty if
    gate.sh does not say which.
    """
    line = _REQUIRED.search(text_at(files, HostLayout.gate_path))
    if line is None:
        return ()
    required = line[1].split()
    return tuple(HostLayout.step_path(step) for step in UNIT_OF if step not in required)
