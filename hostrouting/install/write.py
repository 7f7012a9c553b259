"""The order in which files are written and removed, and systemd is told.

A run that is killed anywhere leaves a host that the next run completes: config.json is written
first and removed last. Until systemd has read that a drop-in is gone, its unit still runs gate.sh,
so the gate is removed only after that.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hostrouting.boot.units import UNITS
from hostrouting.errors import HostError
from hostrouting.host.effects import Effects, having_changed
from hostrouting.host.layout import DROP_IN, HostLayout
from hostrouting.install.difference import find_file_changes, find_starts, needs_reload

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host

_LOADED = "/systemd/system/"  # the folder from which systemd loads units and drop-ins
_GRACE = 30.0  # seconds for the start of the guard


def write_files(host: Host, config: HostRoutingConfig, former: HostRoutingConfig) -> Effects:
    """Make the files of the host those of the configuration; the host has to be locked.

    `former` is what was installed. The first failure is raised, with the effects so far. Another
    call does the rest.
    """
    manager = host.running_manager
    changes = find_file_changes(host, config)
    starts = find_starts(manager, config, changes)
    units_and_drop_ins = [path for path in changes.removes if _LOADED in path]
    others = [path for path in changes.removes if _LOADED not in path]
    done: list[str] = []
    with having_changed(files=done):
        _stop_units(host, units_and_drop_ins)
        _remove(host, units_and_drop_ins, done)
        frees_units = HostLayout.gate_path in others or any(map(_is_drop_in, units_and_drop_ins))
        unread = [*done]
        if manager is not None and (frees_units or needs_reload(manager, config, former)):
            manager.reload()
            unread.clear()
        for file in changes.files:
            if file.write(host.files):
                done.append(file.path)
                unread.append(file.path)
        _remove(host, others, done)
        if HostLayout.config_path in changes.writes:
            _remove_markers(host)
        if manager is not None:
            if any(_LOADED in path for path in unread):
                manager.reload()
            for start in starts:
                manager.start(start.object, timeout=_GRACE)
    return Effects(files=done, operations=starts)


def _is_drop_in(path: str) -> bool:
    return path.endswith(f"/{DROP_IN}")


def _stop_units(host: Host, removed: list[str]) -> None:
    """Stop the units of ours whose files are removed."""
    manager = host.running_manager
    if manager is None:
        return
    for unit in UNITS:
        if HostLayout.unit_path(unit) in removed:
            manager.stop(unit)


def _remove(host: Host, paths: list[str], done: list[str]) -> None:
    """Remove these files and the folders that are then empty; `done` gets what was removed."""
    for path in paths:
        if _removed(host, path):
            done.append(path)
        folder = path.rpartition("/")[0]
        if folder.endswith(".d"):
            host.files.remove_empty(folder)
    host.files.remove_empty(HostLayout.config_directory)


def _removed(host: Host, path: str) -> bool:
    """Remove the file; whether it was there.

    A marker that cannot be removed stops nothing: only the routes decide, and the next boot removes
    it.
    """
    try:
        return host.files.remove(path)
    except HostError:
        if path not in HostLayout.markers:
            raise
        return False


def _remove_markers(host: Host) -> None:
    """Remove the verdict on another configuration; the check that follows writes a new one."""
    for path in HostLayout.markers:
        with suppress(HostError):  # as in _removed
            host.files.remove(path)
