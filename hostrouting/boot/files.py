"""The files that a configuration puts on a host, each with its path, its text and its mode.

Only `files_of` says which files these are. `apply` writes what differs from them, `plan` and
`status` show what differs, and removal is the same for a configuration that asks for nothing.
`writer_of`, `owned_paths`, `foreign_steps` and `why_not_run` read a host: they say who wrote its
files, which ones it has, ours or not, wanted or not, and which steps the gate does not run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from hostrouting.boot import scripts, units
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.errors import HostError
from hostrouting.finding import Finding, Remedy
from hostrouting.host.files import Files, leftover
from hostrouting.host.fileset import File, is_ours
from hostrouting.host.layout import HostLayout
from hostrouting.release import __version__
from hostrouting.routes.plan import reply_routes

_SCRIPT = 0o755
_UNIT_OF = {
    HostLayout.routes_step: HostLayout.routes_unit,
    HostLayout.check_step: HostLayout.check_unit,
    HostLayout.probe_step: HostLayout.probe_unit,
}

WRITER = f"hostrouting {__version__}"
"""What config.json says about who wrote the files."""


def files_of(config: HostRoutingConfig) -> tuple[File, ...]:
    """The files and links of this configuration, in the order in which they are written; none if it
    asks for nothing.

    The configuration comes first, so that after a run was killed, the next run can read it; then
    each script before what runs it: the steps, the gate, the units; the drop-ins come last.
    """
    if is_nothing(config):
        return ()
    gated = gated_units(config)
    steps = dict(steps_of(config))
    services = [_UNIT_OF[step] for step in steps]
    files = [File(HostLayout.config_path, render_config(config))]
    for step, (text, _) in steps.items():
        files.append(File(HostLayout.step_path(step), text, _SCRIPT))
    if gated:
        required = [step for step, (_, is_required) in steps.items() if is_required]
        wanted = [step for step in steps if step not in required]
        gate = scripts.render_gate_script(required, wanted)
        files.append(File(HostLayout.gate_path, gate, _SCRIPT))
    if config.guard.enabled:
        files.append(File(HostLayout.guard_path, scripts.HEAD + scripts.asset("guard.sh"), _SCRIPT))
        services.append(HostLayout.guard_unit)
    for unit in services:
        text = units.UNITS[unit]
        path = HostLayout.unit_path(unit)
        files.append(File(path, text))
        if "[Install]" in text:
            files.append(File(HostLayout.enabled_path(unit), target=path))
    if config.manage_foreign == "keep":
        files.append(File(HostLayout.networkd_path, units.NETWORKD))
    drop_ins = [File(HostLayout.drop_in_path(unit), units.DROP_IN) for unit in gated]
    return (*files, *drop_ins)


def is_nothing(config: HostRoutingConfig) -> bool:
    """Whether the configuration asks for no file: it gates no unit, so it has no step, and keeps no
    foreign routes.
    """
    return not gated_units(config) and config.manage_foreign != "keep"


def render_config(config: HostRoutingConfig) -> str:
    """The installed configuration, with the release that wrote it: an agent's document with the key
    hostRouting.
    """
    return json.dumps({"writtenBy": WRITER, "hostRouting": config.to_mapping()}, indent=2) + "\n"


def writer_of(files: Files) -> str:
    """The release that wrote config.json; empty if it does not say."""
    try:
        return str(json.loads(files.read(HostLayout.config_path) or "")["writtenBy"])
    except (ValueError, KeyError, TypeError):
        return ""


def steps_of(config: HostRoutingConfig) -> Iterator[tuple[str, tuple[str, bool]]]:
    """The steps of the gate: the name and text of each, and whether a gated unit may start only if
    it succeeds.

    If the route for replies to probes is the only route, it holds nothing back.
    """
    check = config.route_overlap
    is_required = bool(config.static_routes.routes)
    if is_required or reply_routes(config):
        yield HostLayout.routes_step, (scripts.render_static_routes_script(config), is_required)
    if check.cidrs:
        yield HostLayout.check_step, (scripts.render_check_script(config), check.mode == "STRICT")
    if config.probe_rewrite.enabled:
        yield HostLayout.probe_step, (scripts.render_probe_script(config), False)


def owned_paths(files: Files) -> tuple[str, ...]:
    """Every path of ours that this host has, in the order of removal: what a writer that was killed
    has left, drop-ins, units, each script after what runs it, and config.json last.
    """
    drop_ins = [HostLayout.drop_in_path(unit) for unit in _units_with_drop_ins(files)]
    unit_paths = [HostLayout.unit_path(unit) for unit in units.UNITS]
    steps = [HostLayout.step_path(step) for step in _UNIT_OF]
    others = [HostLayout.networkd_path, HostLayout.guard_path, HostLayout.gate_path, *steps]
    config_path = HostLayout.config_path
    written = (*drop_ins, *unit_paths, *others, config_path)
    paths = [path for path in map(leftover, written) if is_ours(files, path)]
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


def _units_with_drop_ins(files: Files) -> list[str]:
    """The units that have drop-ins on this host, whoever wrote them."""
    names = files.names(HostLayout.unit_directory)
    return [name.removesuffix(".d") for name in names if name.endswith(".d")]


def _owned_unit(files: Files, unit: str) -> Iterator[str]:
    """The link that starts a unit of ours at boot, and the unit; neither if another program's unit
    has the name.
    """
    path, link = HostLayout.unit_path(unit), HostLayout.enabled_path(unit)
    is_there = files.look(path) is not None
    if is_there and not is_ours(files, path):
        return
    if not File(link, target=path).differs(files):
        yield link
    if is_there:
        yield path


def gated_on_disk(files: Files) -> tuple[str, ...]:
    """The units that have a drop-in of ours; none if the folder cannot be read."""
    try:
        candidates = _units_with_drop_ins(files)
        return tuple(unit for unit in candidates if is_ours(files, HostLayout.drop_in_path(unit)))
    except HostError:
        return ()


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
    ours = {f"{step}.sh" for step in _UNIT_OF}
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
