"""Files of ours on a host, made to be what they should: the one place that writes, links and removes them.

Here: sets of files, what changed, and what an earlier one says. Not here: their text (`render`), and when and in what
order they are wanted (`tasks`).
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING

import attrs

from hostrouting.config import HostRoutingConfig
from hostrouting.errors import ConfigError, FileError
from hostrouting.layout import HostLayout
from hostrouting.render import (
    DEFAULT_WAIT,
    parse_protocol_name,
    parse_static_routes_script,
    render_check_drop_in,
    render_check_script,
    render_check_unit,
    render_preset,
    render_protocol_name,
    render_routes_drop_in,
    render_routes_unit,
    render_static_routes_script,
)

if TYPE_CHECKING:
    from hostrouting.config import StaticRoutesConfig
    from hostrouting.system import Files

__all__ = [
    "FileSet",
    "Installation",
    "check_installation",
    "former_protocols",
    "installed_routes",
    "routes_installation",
]

_SCRIPT = 0o755
_WAIT_AT_BOOT = 60  # seconds at most: its unit has 20 besides, and the machine's own start has 90
_OURS = "Written by hostrouting"


@attrs.frozen
class _File:
    path: str
    text: str
    mode: int = 0o644
    marks: tuple[str, ...] = ()
    """A text that has none of these is somebody else's; without any, whatever is there is ours."""

    def is_foreign(self, files: Files) -> bool:
        """Whether somebody else's file is in the place, which may be one that masks ours."""
        text = files.read(self.path) if self.marks else None
        return text is not None and not any(mark in text for mark in self.marks)

    def is_masked(self, files: Files) -> bool:
        """Whether somebody has it masked: by a link to /dev/null, or with an empty file."""
        return bool(self.marks) and files.read(self.path) == ""

    def require_unmasked(self, files: Files) -> None:
        """FileError where it is masked."""
        if self.is_masked(files):
            name = self.path.rpartition("/")[2]
            remedy = f"systemctl unmask {name}" if name.endswith(".service") else "remove it"
            raise FileError(f"{self.path} is empty: somebody masked what belongs there; {remedy}", path=self.path)

    def write(self, files: Files) -> bool:
        """See Files.write; what is masked stays so, and is a FileError."""
        self.require_unmasked(files)
        return files.write(self.path, self.text, mode=self.mode)


@attrs.frozen
class FileSet:
    """Files and links that come and go together; `obsolete` are those that have to be gone in any case."""

    files: tuple[_File, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    obsolete: tuple[str, ...] = ()

    def foreign(self, files: Files) -> tuple[str, ...]:
        """The paths where somebody else's files are."""
        return tuple(it.path for it in self.files if it.is_foreign(files))

    def differences(self, files: Files) -> tuple[str, ...]:
        """The paths that `install` would change; reads, and changes nothing."""
        stale = [it.path for it in self.files if not files.holds(it.path, it.text, mode=it.mode)]
        missing = [path for path, target in self.links if not files.leads(path, target)]
        return (*stale, *missing, *(path for path in self.obsolete if files.is_there(path)))

    def require_installable(self, files: Files) -> None:
        """The FileError with which `install` would end, as far as it can be told before."""
        self.require_room(files)
        for it in self.files:
            it.require_unmasked(files)

    def require_room(self, files: Files) -> None:
        """FileError where somebody else's file stands in the place of one of these. What is masked has its place."""
        for it in self.files:
            if it.is_foreign(files) and not it.is_masked(files):
                text = f"{it.path} is not ours, and stands where a file of ours belongs: move it away, or rename it"
                raise FileError(text, path=it.path)

    def install(self, files: Files) -> tuple[str, ...]:
        """Write what differs, in order; the paths that did. Nothing is, where a file is not ours: that is a FileError.

        At one that is masked, or cannot be written, it ends with a FileError; those before it are there.
        """
        self.require_room(files)
        changed = [it.path for it in self.files if it.write(files)]
        changed += [path for path, target in self.links if files.link(path, target)]
        return (*changed, *(path for path in self.obsolete if files.remove(path)))

    def present(self, files: Files) -> tuple[str, ...]:
        """The paths that `remove` would remove."""
        return tuple(path for path in self._paths(files) if files.is_there(path))

    def remove(self, files: Files) -> tuple[str, ...]:
        """Remove all that is ours, in order; the paths that were there."""
        return tuple(path for path in self._paths(files) if files.remove(path))

    def _paths(self, files: Files) -> tuple[str, ...]:
        foreign = self.foreign(files)
        own = tuple(it.path for it in self.files if it.path not in foreign)
        # What leads to somebody else's unit is theirs too.
        return own if foreign else (*own, *(path for path, _ in self.links), *self.obsolete)


@attrs.frozen
class Installation:
    """What one task needs on a host: a gate, which shuts as soon as the manager has read it, and what opens it."""

    unit: str
    """The unit that machines wait for."""
    gate: FileSet
    """First the drop-in by which machines wait for the unit: alone it shuts the gate, and without it there is none."""
    program: FileSet
    """What the unit runs: while it is missing, the gate stays shut."""
    note: str
    """The path of the note that the manager is not done with what was written; see `tasks.boot`."""

    def differences(self, files: Files) -> tuple[str, ...]:
        """The paths that are not as they should be; reads, and changes nothing."""
        return (*self._note(files), *self.gate.differences(files), *self.program.differences(files))

    def present(self, files: Files) -> tuple[str, ...]:
        """The paths that are there."""
        return (*self._note(files), *self.gate.present(files), *self.program.present(files))

    def _note(self, files: Files) -> tuple[str, ...]:
        return (self.note,) if files.is_there(self.note) else ()


def routes_installation(config: HostRoutingConfig, layout: HostLayout, *, wait: float = DEFAULT_WAIT) -> Installation:
    """What brings the static routes back at every boot, and holds machines back until they are there."""
    seconds = min(math.ceil(wait), _WAIT_AT_BOOT)
    gate = FileSet(
        (
            _File(layout.routes_drop_in_path, render_routes_drop_in(layout), marks=(_OURS,)),
            _unit(layout.routes_unit_path, render_routes_unit(layout, wait=seconds), layout.routes_script),
            _File(layout.routes_preset_path, render_preset(layout)),
        ),
        links=((layout.routes_enabled_path, f"{layout.unit_directory}/{layout.routes_unit}"),),
        obsolete=layout.obsolete_paths(layout.routes_unit),
    )
    program = FileSet(
        (
            _File(layout.protocol_name_path, render_protocol_name(config.protocol)),
            _File(layout.routes_script_path, render_static_routes_script(config, wait=seconds), _SCRIPT),
        )
    )
    return Installation(layout.routes_unit, gate, program, layout.routes_pending_path)


def check_installation(config: HostRoutingConfig, layout: HostLayout, *, wait: float = DEFAULT_WAIT) -> Installation:
    """What checks for overlaps before every start of a machine."""
    seconds = min(math.ceil(wait), _WAIT_AT_BOOT)
    gate = FileSet(
        (
            _File(layout.check_drop_in_path, render_check_drop_in(config.route_overlap.mode, layout), marks=(_OURS,)),
            _unit(layout.check_unit_path, render_check_unit(layout, wait=seconds), layout.check_script),
            _File(layout.check_script_path, render_check_script(config, layout=layout, wait=seconds), _SCRIPT),
        ),
        obsolete=(
            *layout.obsolete_paths(layout.check_unit),
            layout.at(f"{layout.unit_directory}/multi-user.target.wants/{layout.check_unit}"),
        ),
    )
    # There is nothing that the check's script has to wait for: it belongs to the gate.
    return Installation(layout.check_unit, gate, FileSet(), layout.check_pending_path)


def _unit(path: str, text: str, script: str) -> _File:
    # By its script, or by what it says it is ordered before, the published original's unit is known.
    return _File(path, text, marks=(_OURS, f"ExecStart={script}", f"Before={HostLayout.machine_unit}"))


def installed_routes(files: Files, layout: HostLayout) -> StaticRoutesConfig | None:
    """The static routes that our script on the host brings back; None where there is none."""
    script = files.read(layout.routes_script_path)
    with suppress(ValueError):
        return None if script is None else parse_static_routes_script(script).config
    return None


def former_protocols(files: Files, layout: HostLayout, *, now: int) -> frozenset[int]:
    """The route protocol numbers besides `now` by which routes are ours: those that our files on the host name.

    There are some after the number was changed in the configuration. What is no text of ours names none, nor does one
    that names a number which nobody could configure, for that would make routes ours that are not.
    """
    found = set()
    if (script := files.read(layout.routes_script_path)) is not None:
        with suppress(ValueError):
            found.add(parse_static_routes_script(script).protocol)
    if (name := files.read(layout.protocol_name_path)) is not None:
        with suppress(ValueError):
            found.add(parse_protocol_name(name))
    return frozenset(it for it in found if it != now and _can_be_ours(it))


def _can_be_ours(protocol: int) -> bool:
    try:
        HostRoutingConfig(protocol=protocol)
    except ConfigError:
        return False
    return True
