"""The files that a configuration puts on a host, each with its path, its content and its mode.

`wanted_files` says which files these are. `apply` writes what differs from them, and `plan` and
`status` show it. A removal is an `apply` of a configuration that asks for nothing. Files that are
not wanted any more are found on the host by their paths: a new path also has to be added to
`on_disk.owned_paths`. `install.write` has the order of removals: most come before the writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import attrs

from hostrouting.boot import units
from hostrouting.boot.program import Program
from hostrouting.config.settings import HostRoutingConfig, PassPart, gated_units
from hostrouting.errors import ConfigError
from hostrouting.host.fileset import File
from hostrouting.host.interpreter import USUAL_PATH
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from hostrouting.host.base import Files
    from hostrouting.host.host import Host

UNIT_OF_PART: dict[PassPart, str] = {
    "static_routes": HostLayout.routes_unit,
    "route_overlap": HostLayout.check_unit,
    "probe_rewrite": HostLayout.probe_unit,
}
"""By part of a pass: the unit that makes it at boot."""


@attrs.frozen
class ConfigFile(File):
    """config.json. A file that means the same, in another layout, is not replaced."""

    def has_content(self, files: Files) -> bool:
        """Whether the file on the host means the same configuration, even in another layout. A file
        that cannot be read as a configuration does not.
        """
        text = files.read(self.path) or ""
        with suppress(ConfigError):
            return HostRoutingConfig.from_json(text) == HostRoutingConfig.from_json(self.text)
        return False


def wanted_files(host: Host, config: HostRoutingConfig) -> tuple[File, ...]:
    """The files and links that this configuration puts on this host, in the order in which a run
    writes them; none if it asks for nothing. The host's interpreter compiles the program in
    advance. An image gets only the sources, because its interpreter cannot be run here. If no
    interpreter is found, the link to it leads to the usual path, where one can be installed.

    A run can be killed between two files, so each comes before those that need it: the program
    before config.json, which an older program might not understand, and both before the units that
    run the program. The drop-ins, which gate units, come last.
    """
    if config.asks_for_nothing:
        return ()
    gated = gated_units(config)
    files: list[File] = []
    # Without a gated unit, the configuration has no service or guard that would run the program.
    if gated:
        interpreter = host.interpreter
        files.append(Program(interpreter=None if host.is_image else interpreter))
        files.append(File(HostLayout.python_path, target=interpreter.find() or USUAL_PATH))
    files.append(ConfigFile(HostLayout.config_path, render_config(config)))
    for part in config.parts:
        files += _unit_files(UNIT_OF_PART[part])
    if config.guard.enabled:
        files += _unit_files(HostLayout.guard_unit)
    if config.manage_foreign == "keep":  # networkd is told to keep routes that it did not make
        files.append(File(HostLayout.networkd_path, units.NETWORKD_TEXT))
    for unit in gated:
        files.append(File(HostLayout.drop_in_path(unit), units.DROP_IN_TEXT))
    return tuple(files)


def _unit_files(unit: str) -> Iterator[File]:
    """Yield the file of one of our units and, if the unit has a section [Install], the link by
    which systemd starts it at boot.
    """
    text = units.UNITS[unit]
    path = HostLayout.unit_path(unit)
    yield File(path, text)
    if "[Install]" in text:  # all of ours name multi-user.target, in whose folder the link lies
        yield File(HostLayout.enabled_path(unit), target=path)


def render_config(config: HostRoutingConfig) -> str:
    """The text of config.json. The configuration is under the key hostRouting, as in the document
    of an agent that has other sections, too, so that the same reader reads both.
    """
    return json.dumps({"hostRouting": config.to_mapping()}, indent=2) + "\n"
