"""The files that a configuration puts on a host, each with its path, its text and its mode.

`files_of` says which files these are. `apply` writes what differs from them, `plan` and `status`
show what differs, and removal is the same for a configuration that asks for nothing. What is no
longer wanted is found on the host by its path, so a new path is added to `on_disk.owned_paths`,
too. `install.write` says in which order it goes: most of it before anything is written here.
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

_EXECUTABLE = 0o755
UNIT_OF_STEP = {
    HostLayout.routes_step: HostLayout.routes_unit,
    HostLayout.check_step: HostLayout.check_unit,
    HostLayout.probe_step: HostLayout.probe_unit,
}
"""The steps of hostrouting, each with the unit that runs it at boot."""

WRITER = f"hostrouting {__version__}"
"""What config.json says about who wrote the files."""


class Step(NamedTuple):
    """A step of the gate: a script in gate.d."""

    name: str
    text: str
    is_required: bool
    """Whether a gated unit starts only if the step succeeds. In gate.sh, a step is `required` or
    `wanted`.
    """

    @property
    def file(self) -> File:
        """The script."""
        return File(HostLayout.step_path(self.name), self.text, _EXECUTABLE)


def files_of(config: HostRoutingConfig) -> tuple[File, ...]:
    """The files and links of this configuration, in the order in which they are written; none if it
    asks for nothing.

    A run can be killed between any two of them. The configuration comes first, so that the next run
    can read it; from then on it names this release, although the rest may be of another. Then comes
    each script before what runs it: the steps, the gate, the units; the drop-ins come last.

    Only a wanted step comes after the gate. If it came before, the old gate.sh, which does not name
    it, would take it for another program's step, and its failure would refuse a start. A gate.sh
    that names it as wanted lets a unit start without it.
    """
    if asks_for_nothing(config):
        return ()
    from hostrouting.boot import scripts  # noqa: PLC0415  a check of the host renders no script

    gated = gated_units(config)
    steps = list(steps_of(config))
    required = [step for step in steps if step.is_required]
    wanted = [step for step in steps if not step.is_required]
    files = [File(HostLayout.config_path, render_config(config))]
    files += [step.file for step in required]
    if gated:
        text = scripts.render_gate_script(
            required=[step.name for step in required], wanted=[step.name for step in wanted]
        )
        files.append(File(HostLayout.gate_path, text, _EXECUTABLE))
    files += [step.file for step in wanted]
    if config.guard.enabled:
        text = scripts.HEAD + scripts.asset("guard.sh")
        files.append(File(HostLayout.guard_path, text, _EXECUTABLE))
    for step in steps:
        files += _unit_files(UNIT_OF_STEP[step.name])
    if config.guard.enabled:
        files += _unit_files(HostLayout.guard_unit)
    if config.manage_foreign == "keep":
        files.append(File(HostLayout.networkd_path, units.NETWORKD_TEXT))
    for unit in gated:
        files.append(File(HostLayout.drop_in_path(unit), units.DROP_IN_TEXT))
    return tuple(files)


def _unit_files(unit: str) -> Iterator[File]:
    """The file of one of our units and, if it has a section [Install], the link that starts it at
    boot. The section says multi-user.target for each.
    """
    text = units.UNITS[unit]
    path = HostLayout.unit_path(unit)
    yield File(path, text)
    if "[Install]" in text:
        yield File(HostLayout.enabled_path(unit), target=path)


def asks_for_nothing(config: HostRoutingConfig) -> bool:
    """Whether the configuration asks for no file: it gates no unit, as any with a step does
    (`gated_units`), and keeps no foreign routes. A guard without a step is not a valid
    configuration.
    """
    return not gated_units(config) and config.manage_foreign != "keep"


def render_config(config: HostRoutingConfig) -> str:
    """The installed configuration, with the release that wrote it: an agent's document with the key
    hostRouting.
    """
    return json.dumps({"writtenBy": WRITER, "hostRouting": config.to_mapping()}, indent=2) + "\n"


def steps_of(config: HostRoutingConfig) -> Iterator[Step]:
    """The steps of the gate, in the order in which they run.

    The step for the routes is required only with a static route: the one for replies to probes
    alone holds no unit back.
    """
    from hostrouting.boot import scripts  # noqa: PLC0415  a check of the host renders no script

    check = config.route_overlap
    has_routes = bool(config.static_routes.routes)
    if has_routes or reply_routes(config):
        text = scripts.render_static_routes_script(config)
        yield Step(HostLayout.routes_step, text, is_required=has_routes)
    if check.cidrs:
        text = scripts.render_check_script(config)
        yield Step(HostLayout.check_step, text, is_required=check.is_strict)
    if config.probe_rewrite.enabled:
        text = scripts.render_probe_script(config)
        yield Step(HostLayout.probe_step, text, is_required=False)
