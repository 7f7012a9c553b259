"""What differs between a host and a configuration: files, what systemd has not read yet, and what
has to be started. Nothing is changed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.boot.files import files_of, owned_paths
from hostrouting.boot.unit_states import is_active
from hostrouting.boot.units import UNITS
from hostrouting.config.settings import gated_units
from hostrouting.host.effects import Operation
from hostrouting.host.fileset import FileChanges
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host
    from hostrouting.host.systemd import Manager


def find_file_changes(host: Host, config: HostRoutingConfig) -> FileChanges:
    """The files that have to be written, and the paths that have to be removed."""
    files = host.files
    wanted = files_of(config)
    kept = {file.path for file in wanted}
    removes: list[str] = []
    if wanted:
        kept.add(HostLayout.opening_path)
        # The Go original makes running machines depend on its units by these links.
        removes += [link for link in HostLayout.original_links if files.look(link)]
    if config.route_overlap.cidrs:
        kept.update(HostLayout.markers)  # the check writes them
    removes += [path for path in owned_paths(files) if path not in kept]
    return FileChanges(tuple(file for file in wanted if file.differs(files)), removes)


def needs_reload(manager: Manager | None, *configs: HostRoutingConfig) -> bool:
    """Whether a file of these configurations has changed or gone since systemd last read it."""
    if manager is None:
        return False
    gated = {unit for config in configs for unit in gated_units(config)}
    names = [unit.replace("@.", "@*.") for unit in sorted(gated)]
    shown = manager.show(("NeedDaemonReload",), *UNITS, *names)
    return any(properties["NeedDaemonReload"] == "yes" for properties in shown)


def find_starts(
    manager: Manager | None, config: HostRoutingConfig, changes: FileChanges
) -> tuple[Operation, ...]:
    """The start of the guard, if its files are new or it does not run."""
    guard = HostLayout.guard_unit
    if manager is None or not config.guard.enabled:
        return ()
    if {HostLayout.guard_path, HostLayout.unit_path(guard)} & {*changes.writes}:
        return (Operation("start", guard, "its files are new"),)
    if not is_active(manager, guard):
        return (Operation("start", guard, "it is not running"),)
    return ()
