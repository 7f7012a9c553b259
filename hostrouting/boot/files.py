"""The files that a configuration puts on a host, each with its path, its text and its mode.

Only `files_of` says which files these are. `apply` writes what differs from them, `plan` and
`status` show what differs, and removal is the same for a configuration that asks for nothing.
`on_disk` reads what a host has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from hostrouting.boot import units
from hostrouting.config.settings import HostRoutingConfig, gated_units
from hostrouting.host.fileset import File
from hostrouting.host.layout import HostLayout
from hostrouting.release import __version__
from hostrouting.routes.plan import reply_routes

_SCRIPT = 0o755
UNIT_OF = {
    HostLayout.routes_step: HostLayout.routes_unit,
    HostLayout.check_step: HostLayout.check_unit,
    HostLayout.probe_step: HostLayout.probe_unit,
}
"""The steps of ours, each with the unit that runs it at boot."""

WRITER = f"hostrouting {__version__}"
"""What config.json says about who wrote the files."""


class Step(NamedTuple):
    """A step of the gate: a script in gate.d."""

    name: str
    text: str
    is_required: bool
    """Whether a gated unit starts only if the step succeeds; if not, it is `wanted`."""

    @property
    def file(self) -> File:
        """The script."""
        return File(HostLayout.step_path(self.name), self.text, _SCRIPT)


def files_of(config: HostRoutingConfig) -> tuple[File, ...]:
    """The files and links of this configuration, in the order in which they are written; none if it
    asks for nothing.

    A run can be killed between any two of them. The configuration comes first, so that the next run
    can read it; then each script before what runs it: the steps, the gate, the units; the drop-ins
    come last. But a step that is not required comes after the gate: until gate.sh names the step,
    its failure would refuse a start, and gate.sh lets a unit start if the step is missing.
    """
    if is_nothing(config):
        return ()
    from hostrouting.boot import scripts  # noqa: PLC0415  a check of the host renders none

    gated = gated_units(config)
    steps = [*steps_of(config)]
    required = [step for step in steps if step.is_required]
    optional = [step for step in steps if not step.is_required]
    files = [File(HostLayout.config_path, render_config(config))]
    files += [step.file for step in required]
    if gated:
        text = scripts.render_gate_script(
            [step.name for step in required], [step.name for step in optional]
        )
        files.append(File(HostLayout.gate_path, text, _SCRIPT))
    files += [step.file for step in optional]
    if config.guard.enabled:
        text = scripts.HEAD + scripts.asset("guard.sh")
        files.append(File(HostLayout.guard_path, text, _SCRIPT))
    for step in steps:
        files += _unit_files(UNIT_OF[step.name])
    if config.guard.enabled:
        files += _unit_files(HostLayout.guard_unit)
    if config.manage_foreign == "keep":
        files.append(File(HostLayout.networkd_path, units.NETWORKD))
    for unit in gated:
        files.append(File(HostLayout.drop_in_path(unit), units.DROP_IN))
    return tuple(files)


def _unit_files(unit: str) -> Iterator[File]:
    """The file of a unit of ours, and the link that starts the unit at boot."""
    text = units.UNITS[unit]
    path = HostLayout.unit_path(unit)
    yield File(path, text)
    if "[Install]" in text:
        yield File(HostLayout.enabled_path(unit), target=path)


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


def steps_of(config: HostRoutingConfig) -> Iterator[Step]:
    """The steps of the gate, in the order in which they run.

    If the route for replies to probes is the only route, it holds nothing back.
    """
    from hostrouting.boot import scripts  # noqa: PLC0415  a check of the host renders none

    check = config.route_overlap
    has_routes = bool(config.static_routes.routes)
    if has_routes or reply_routes(config):
        text = scripts.render_static_routes_script(config)
        yield Step(HostLayout.routes_step, text, has_routes)
    if check.cidrs:
        text = scripts.render_check_script(config)
        yield Step(HostLayout.check_step, text, check.is_strict)
    if config.probe_rewrite.enabled:
        yield Step(HostLayout.probe_step, scripts.render_probe_script(config), is_required=False)
