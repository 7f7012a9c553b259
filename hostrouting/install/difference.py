"""What differs between a host and a configuration: files, and what systemd has read and runs. No
function here changes anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

from hostrouting.boot.files import wanted_files
from hostrouting.boot.on_disk import owned_paths
from hostrouting.boot.units import UNITS
from hostrouting.config.settings import MACHINES, gated_units
from hostrouting.gate.unit_names import instance_pattern
from hostrouting.host.fileset import FileChanges
from hostrouting.host.layout import HostLayout
from hostrouting.host.operation import Operation
from hostrouting.host.ours import existing_paths

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host
    from hostrouting.host.systemd import Manager


_UNIT_FOLDERS = (HostLayout.unit_directory, "/run/systemd/system")
_LINK_FOLDERS = (f"{MACHINES}.requires", f"{MACHINES}.wants", "multi-user.target.requires")
_ORIGINAL_UNITS = (HostLayout.routes_unit, HostLayout.check_unit)
ORIGINAL_LINKS = tuple(map("/".join, product(_UNIT_FOLDERS, _LINK_FOLDERS, _ORIGINAL_UNITS)))
"""The links by which, on a host with the Go original (docs/original.md), running machines depend on
its units. Our units have the names of these.
"""


def find_file_changes(host: Host, config: HostRoutingConfig) -> FileChanges:
    """Return what a run has to change in the files of the host to install this configuration: the
    files to write, and the paths to remove. A configuration that wants no files is a removal: it
    takes away all files of ours, but not the links of the program that ours replaces.
    """
    files = host.files
    wanted = wanted_files(host, config)
    kept = {file.path for file in wanted}
    removed: list[str] = []
    if wanted:
        # Only a removal or a boot takes these away: the file by which an administrator opens the
        # gate, and the guard's note that another program undoes its repairs.
        kept.update(HostLayout.of_this_boot)
        # The program that ours replaces, which was written in Go, has left these links from
        # machines to its units. Ours have the same names, so machines would depend on them.
        removed += existing_paths(files, ORIGINAL_LINKS)
    removed += [path for path in owned_paths(files) if path not in kept]
    written = tuple(file for file in wanted if file.differs(files))
    return FileChanges(written, tuple(removed))


def find_systemd_changes(
    manager: Manager | None,
    config: HostRoutingConfig,
    former: HostRoutingConfig | None,
    changes: FileChanges,
) -> Iterator[Operation]:
    """Yield what systemd has to do in a run, in the order of the run: stop the guard, reload, start
    or restart the guard. The reload is for files that an earlier run has changed and systemd has
    not read, perhaps because that run was killed. It does not depend on what this run changes:
    after its own changes, a run always reloads.

    `former` is what is installed, or None if it could not be read. Then nobody knows which units
    were gated, and systemd reloads in any case.
    """
    if manager is None:  # an image, or a host without systemd
        return
    guard_operations = _guard_operations(manager, config, changes)
    if not config.guard.enabled:
        yield from guard_operations  # a stop, before any file changes
    if former is None or needs_reload(manager, config, former):
        yield Operation("reload", "systemd", "its files may have changed")
    if config.guard.enabled:
        yield from guard_operations  # a start or restart, after all files


def _guard_operations(
    manager: Manager, config: HostRoutingConfig, changes: FileChanges
) -> Iterator[Operation]:
    """Yield the start, restart or stop that is needed, if any, of the guard: the service that
    repairs the routing for as long as the host runs. Only a new program or unit needs a restart,
    because the guard reads config.json before each pass.
    """
    guard = HostLayout.guard_unit
    [properties] = manager.show(("ActiveState",), guard)
    runs = properties["ActiveState"] == "active"
    files_of_guard = {HostLayout.program_path, HostLayout.unit_path(guard)}
    if not config.guard.enabled:
        if runs:
            yield Operation("stop", guard, "it is no longer wanted")
    elif not runs:
        yield Operation("start", guard, "it does not run")
    elif not files_of_guard.isdisjoint(changes.written_paths):
        yield Operation("restart", guard, "its files are new")


def needs_reload(manager: Manager, config: HostRoutingConfig, former: HostRoutingConfig) -> bool:
    """Return whether systemd has to read its files again: one of our units, or the drop-in of a
    unit that one of the configurations gates, has changed or gone since systemd last read it.

    A unit with drop-ins that systemd cannot load (it is masked, or has a wrong setting) does not
    count, because systemd claims even after a reload that this unit needs one.
    """
    gated = {*gated_units(config), *gated_units(former)}
    names = ("NeedDaemonReload", "LoadState", "DropInPaths")
    # systemd does not load a template, so look at its instances, by a pattern like a@*.service.
    for properties in manager.show(names, *UNITS, *map(instance_pattern, gated)):
        is_exempt = (
            properties["LoadState"] in {"masked", "bad-setting"} and properties["DropInPaths"]
        )
        if properties["NeedDaemonReload"] == "yes" and not is_exempt:
            return True
    return False
