"""The files of ours, as they are on a host.

`files` says which ones a configuration asks for. Nothing is changed here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from contextlib import suppress

from hostrouting.boot import units
from hostrouting.boot.files import UNIT_OF_STEP, WRITER, files_of
from hostrouting.boot.unit_names import template_of
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError, HostError
from hostrouting.host.files import Files, leftover
from hostrouting.host.fileset import File, is_masked, is_ours
from hostrouting.host.layout import HostLayout

_STEPS = re.compile(r"(?m)^required=\((.*?)\)(?: wanted=\((.*?)\))?")
"""The line of gate.sh with the steps that have to succeed, and those that only should, as
`scripts.render_gate_script` writes it: `required=(10-static-routes) wanted=(30-probe-rewrite)`.
"""


def writer_of(files: Files) -> str:
    """The release that wrote config.json; empty if it does not say, or cannot be read. A link is
    followed, as where the configuration is read.
    """
    try:
        writer = json.loads(files.read(HostLayout.config_path) or "")["writtenBy"]
    except (HostError, KeyError, RecursionError, TypeError, ValueError):
        return ""
    if not isinstance(writer, str):
        return ""
    return writer


def files_on(files: Files, config: HostRoutingConfig) -> tuple[File, ...]:
    """The files of this configuration, as `files_of` has them. But a config.json that says the same
    in another layout stays as it is.
    """
    wanted = files_of(config)
    if not wanted or not _is_written(files, config):
        return wanted
    written, *others = wanted
    text = files.read(written.path) or ""
    return (written._replace(text=text), *others)


def _is_written(files: Files, config: HostRoutingConfig) -> bool:
    """Whether this release has written config.json, and the file says this configuration now."""
    if writer_of(files) != WRITER:
        return False
    text = files.read(HostLayout.config_path) or ""
    with suppress(ConfigError):
        return HostRoutingConfig.from_json(text, required=True) == config
    return False


def owned_paths(files: Files) -> tuple[str, ...]:
    """Every path of ours that this host has, in the order of removal. Before a path comes the
    temporary file that is left beside it if its writer was killed (`leftover`).

    1. the drop-ins, and the links and files of our units,
    2. the steps that gate.sh does not require (it passes over them if they are missing), and the
       settings of networkd,
    3. each script after what runs it: the guard's, gate.sh, the steps that it requires,
    4. the file that opens the gate: a gate that is installed later would be open. An administrator
       writes it, so it does not prove that we are installed, and is not listed alone,
    5. config.json, which says that the others are ours.
    """
    optional = optional_step_paths(files)
    required = [path for path in map(HostLayout.step_path, UNIT_OF_STEP) if path not in optional]
    scripts = (HostLayout.guard_path, HostLayout.gate_path, *required)

    paths: list[str] = []
    for unit in _units_with_drop_ins(files):
        paths += _paths_at(files, HostLayout.drop_in_path(unit))
    for unit in units.UNITS:
        paths += _paths_of_unit(files, unit)
    for path in (*optional, HostLayout.networkd_path, *scripts):
        paths += _paths_at(files, path)
    config = list(_paths_at(files, HostLayout.config_path))
    if (paths or config) and files.look(HostLayout.opening_path):
        paths.append(HostLayout.opening_path)
    return (*paths, *config)


def _paths_at(files: Files, path: str) -> Iterator[str]:
    """The temporary file of this file, and the file, each if it is there and ours."""
    yield from _leftover_of(files, path)
    if is_ours(files, path):
        yield path


def _leftover_of(files: Files, path: str) -> Iterator[str]:
    """The temporary file of this path, if it is there and ours. It is ours if it is empty, has our
    text, or is a link to a unit of ours.
    """
    temporary = leftover(path)
    entry = files.look(temporary)
    if entry is None:
        return
    if entry.kind == "link":
        is_leftover_of_ours = entry.target in map(HostLayout.unit_path, units.UNITS)
    else:
        is_empty = entry.kind == "file" and files.read(temporary) == ""
        is_leftover_of_ours = is_empty or is_ours(files, temporary)
    if is_leftover_of_ours:
        yield temporary


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
    yield from _leftover_of(files, link)
    is_missing = files.look(path) is None
    if is_missing or is_ours(files, path) or is_masked(files, path):
        entry = files.look(link)
        if entry is not None and entry.target == path:
            yield link
    yield from _paths_at(files, path)


def gated_on_disk(files: Files) -> tuple[str, ...]:
    """The units that have a drop-in of ours. A drop-in that cannot be read is left out, because a
    page says what is known although something is broken.
    """
    gated: list[str] = []
    with suppress(HostError):
        for unit in _units_with_drop_ins(files):
            with suppress(HostError):
                if is_ours(files, HostLayout.drop_in_path(unit)):
                    gated.append(unit)
    return tuple(gated)


def masked_instances(files: Files, units: Collection[str]) -> tuple[str, ...]:
    """The instances of these templates that the administrator has masked: systemd loads none of
    them, so it does not list them. Without the folder of units, none is counted.
    """
    masked: list[str] = []
    with suppress(HostError):
        for name in files.names(HostLayout.unit_directory):
            template = template_of(name)
            is_gated = template != name and template in units
            if is_gated and is_masked(files, HostLayout.unit_path(name)):
                masked.append(name)
    return tuple(masked)


def text_at(files: Files, path: str) -> str:
    """The text of a file; empty if there is none, or something else, which `read` would follow or
    refuse.
    """
    entry = files.look(path)
    if entry is None or entry.kind != "file":
        return ""
    return files.read(path) or ""


def optional_step_paths(files: Files) -> tuple[str, ...]:
    """The paths of our steps that may fail: the installed gate.sh starts a unit all the same. Empty
    if gate.sh does not say which steps have to succeed.
    """
    steps = steps_of_gate(files)
    if steps is None:
        return ()
    required, _ = steps
    return tuple(HostLayout.step_path(step) for step in UNIT_OF_STEP if step not in required)


def steps_of_gate(files: Files) -> tuple[list[str], list[str]] | None:
    """The steps that have to succeed for the installed gate.sh, and those whose failure is only
    logged; None if it does not say which.
    """
    line = _STEPS.search(text_at(files, HostLayout.gate_path))
    if line is None:
        return None
    required, wanted = line.groups(default="")
    return required.split(), wanted.split()
