"""The files of ours that a host has, wanted or not, and what else lies where they are.

`files` says which ones a configuration wants. Nothing is changed here.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterator
from contextlib import suppress

from hostrouting.boot import units
from hostrouting.boot.files import UNIT_OF
from hostrouting.boot.unit_names import UNIT_PATH, drop_in_folders, loaded_pattern
from hostrouting.errors import HostError
from hostrouting.finding import Finding, Remedy
from hostrouting.host.files import Files, leftover
from hostrouting.host.fileset import File, is_masked, is_ours
from hostrouting.host.layout import HostLayout

_REQUIRED = re.compile(r"(?m)^required=\((.*?)\)")
"""The line of gate.sh with the steps that have to succeed."""


def writer_of(files: Files) -> str:
    """The release that wrote config.json; empty if it does not say."""
    try:
        return str(json.loads(files.read(HostLayout.config_path) or "")["writtenBy"])
    except (ValueError, KeyError, TypeError):
        return ""


def owned_paths(files: Files) -> tuple[str, ...]:
    """Every path of ours that this host has, in the order of removal: what a writer that was killed
    has left, drop-ins, units, the steps that gate.sh does not require, then each script after what
    runs it, and config.json last.
    """
    drop_ins = [HostLayout.drop_in_path(unit) for unit in _units_with_drop_ins(files)]
    unit_paths = [HostLayout.unit_path(unit) for unit in units.UNITS]
    links = [HostLayout.enabled_path(unit) for unit in units.UNITS]
    early = wanted_step_paths(files)
    steps = [HostLayout.step_path(step) for step in UNIT_OF]
    late = [path for path in steps if path not in early]
    others = [*early, HostLayout.networkd_path, HostLayout.guard_path, HostLayout.gate_path, *late]
    config_path = HostLayout.config_path
    written = (*drop_ins, *unit_paths, *links, *others, config_path)
    paths = [path for path in map(leftover, written) if _is_left_by_us(files, path)]
    paths += [path for path in drop_ins if is_ours(files, path)]
    for unit in units.UNITS:
        paths += _owned_unit(files, unit)
    paths += [path for path in others if is_ours(files, path)]
    has_config = files.look(config_path) is not None
    if (paths or has_config) and files.look(HostLayout.opening_path):
        paths.append(HostLayout.opening_path)  # it would open the next gate
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


def _owned_unit(files: Files, unit: str) -> Iterator[str]:
    """The link that starts a unit of ours at boot, and the unit. Neither if another program's unit
    has the name; if the administrator has masked it, the mask stays.
    """
    path, link = HostLayout.unit_path(unit), HostLayout.enabled_path(unit)
    has_ours = is_ours(files, path)
    if files.look(path) is not None and not has_ours and not is_masked(files, path):
        return
    if not File(link, target=path).differs(files):
        yield link
    if has_ours:
        yield path


def gated_on_disk(files: Files) -> tuple[str, ...]:
    """The units that have a drop-in of ours. One that cannot be read is not counted."""
    gated: list[str] = []
    with suppress(HostError):
        for unit in _units_with_drop_ins(files):
            with suppress(HostError):
                if is_ours(files, HostLayout.drop_in_path(unit)):
                    gated.append(unit)
    return tuple(gated)


def text_at(files: Files, path: str) -> str:
    """The text of a file; empty if there is none, or something else."""
    entry = files.look(path)
    if entry is None or entry.kind != "file":
        return ""
    return files.read(path) or ""


def required_steps(files: Files) -> tuple[str, ...] | None:
    """The names of the steps that the installed gate.sh requires; None if that cannot be said."""
    line = _REQUIRED.search(text_at(files, HostLayout.gate_path))
    if line is None:
        return None
    return tuple(line[1].split())


def wanted_step_paths(files: Files) -> tuple[str, ...]:
    """The paths of the steps of ours that the installed gate.sh does not require."""
    required = required_steps(files)
    if required is None:
        return ()
    return tuple(HostLayout.step_path(step) for step in UNIT_OF if step not in required)


def drop_ins_of(files: Files, unit: str) -> tuple[str, ...]:
    """The drop-ins that systemd will read for this unit, in its order."""
    by_name: dict[str, str] = {}
    for folder in drop_in_folders(unit):
        for name in files.names(folder):
            if name.endswith(".conf"):
                by_name.setdefault(name, f"{folder}/{name}")
    return tuple(path for _, path in sorted(by_name.items()))


def instances_with_drop_ins(files: Files, template: str) -> tuple[str, ...]:
    """The instances of a template that have drop-ins of their own."""
    instances: list[str] = []
    for folder in UNIT_PATH:
        names = fnmatch.filter(files.names(folder), f"{loaded_pattern(template)}.d")
        instances += [name.removesuffix(".d") for name in names]
    return tuple(dict.fromkeys(name for name in instances if name != template))


def open_folders(files: Files) -> Iterator[Finding]:
    """Folders of ours in which others than root can replace what root runs; gate.sh then runs no
    step.
    """
    for folder in (HostLayout.config_directory, HostLayout.gate_directory):
        entry = files.look(folder)
        if entry is not None and entry.is_open_to_others:
            sentence = f"users other than root can write to {folder}, and root runs what is there"
            remedy = Remedy(command=f"chown root {folder} && chmod 755 {folder}")
            yield Finding("file", "error", sentence, folder, remedy)


def foreign_steps(files: Files) -> tuple[str, ...]:
    """The scripts in gate.d that are not ours; they also hold gated units back."""
    folder = HostLayout.gate_directory
    ours = {f"{step}.sh" for step in UNIT_OF}
    foreign: list[str] = []
    for name in files.names(folder):
        is_step = name.endswith(".sh") and not name.startswith(".")  # as *.sh in bash
        if is_step and name not in ours:
            foreign.append(f"{folder}/{name}")
    return tuple(foreign)


def why_not_run(files: Files, step: str) -> tuple[str, Remedy | None]:
    """Why gate.sh does not run this step, and the remedy; empty if it does."""
    entry = files.look(step)
    if entry is None:
        return "", None
    if entry.kind == "link":
        return f"{step} is a link", Remedy("put a copy of the file in its place")
    if entry.kind != "file":
        return f"{step} is not a file", Remedy("move it away")
    repair = Remedy(command=f"chown root {step} && chmod 644 {step}")
    if not entry.is_trusted:
        return f"{step} does not belong to root", repair
    if entry.is_open_to_others:
        return f"users other than root can write to {step}", repair
    return "", None
