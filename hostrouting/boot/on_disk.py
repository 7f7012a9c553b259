"""The files of hostrouting, as they are on a host.

`files` says which ones a configuration asks for. Nothing is changed here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from hostrouting.boot import units
from hostrouting.boot.files import WRITER, files_of
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError, HostError
from hostrouting.host.files import leftover
from hostrouting.host.fileset import SHARED, File, WantedFile, is_masked, is_ours
from hostrouting.host.interpreter import USUAL
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from hostrouting.host.base import Files
    from hostrouting.host.host import Host

_WRITTEN_FIRST = (HostLayout.program_path, HostLayout.python_path, HostLayout.config_path)
"""They are also removed last."""


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


def files_on(host: Host, config: HostRoutingConfig) -> tuple[WantedFile, ...]:
    """The files of this configuration, as this host is to have them. A config.json that says the
    same in another layout stays as it is. An image gets only the sources of the program.
    """
    interpreter = host.interpreter
    compiles = interpreter if host.backend is not None else None
    written = _written_text(host.files, config)
    wanted: list[WantedFile] = []
    for file in files_of(config, compiles, python=interpreter.find() or USUAL):
        if written and file.path == HostLayout.config_path:
            wanted.append(File(file.path, written))
        else:
            wanted.append(file)
    return tuple(wanted)


def _written_text(files: Files, config: HostRoutingConfig) -> str:
    """The text of config.json, if this release has written it and it says this configuration;
    otherwise empty.
    """
    if writer_of(files) != WRITER:
        return ""
    text = files.read(HostLayout.config_path) or ""
    with suppress(ConfigError):
        if HostRoutingConfig.from_json(text, required=True) == config:
            return text
    return ""


def owned_paths(files: Files) -> tuple[str, ...]:
    """Every path of ours that this host has, in the order of removal. Before a path comes the
    temporary file that is left beside it if its writer was killed (`leftover`).

    1. the drop-ins, and the links and files of our units,
    2. the settings of networkd, and the scripts of an earlier release,
    3. the file that opens the gate: a gate that is installed later would be open. An administrator
       writes it, so it does not prove that we are installed, and is not listed alone,
    4. the program and its interpreter, and config.json, which says that the others are ours.
    """
    paths: list[str] = []
    for unit in units_with_drop_ins(files):
        paths += _paths_at(files, HostLayout.drop_in_path(unit))
    for unit in units.UNITS:
        paths += _paths_of_unit(files, unit)
    for path in (HostLayout.networkd_path, *HostLayout.former_paths):
        paths += _paths_at(files, path)
    last: list[str] = []
    for path in _WRITTEN_FIRST:
        last += _paths_at(files, path)
    if (paths or last) and files.look(HostLayout.opening_path):
        paths.append(HostLayout.opening_path)
    return (*paths, *last)


def proof_of_installation(files: Files) -> tuple[str, ...]:
    """The paths that only a run leaves which has also written config.json: not the program, which
    is written before, nor what is left of either if their writer was killed, nor the opening, which
    an administrator writes.
    """
    no_proof = {HostLayout.opening_path, *_WRITTEN_FIRST, *map(leftover, _WRITTEN_FIRST)}
    return tuple(path for path in owned_paths(files) if path not in no_proof)


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
    if entry.kind == "link" and path.startswith(SHARED):
        is_leftover_of_ours = entry.target in map(HostLayout.unit_path, units.UNITS)
    else:
        is_empty = entry.kind == "file" and files.read(temporary) == ""
        is_leftover_of_ours = is_empty or is_ours(files, temporary)
    if is_leftover_of_ours:
        yield temporary


def units_with_drop_ins(files: Files) -> list[str]:
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
        for unit in units_with_drop_ins(files):
            with suppress(HostError):
                if is_ours(files, HostLayout.drop_in_path(unit)):
                    gated.append(unit)
    return tuple(gated)
