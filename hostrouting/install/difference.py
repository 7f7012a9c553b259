"""What differs between a host and a configuration: files, what systemd has not read yet, and
whether the guard runs. Nothing is changed here.
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
    removes += [path for path in owned_paths(files) if path not in kept]
    return FileChanges(tuple(file for file in wanted if file.differs(files)), removes)


def needs_reload(
    manager: Manager | None, config: HostRoutingConfig, former: HostRoutingConfig | None
) -> bool:
    """Whether systemd may have loaded a file of ours that has changed or gone since.

    `former` is what is installed. If it could not be read (None), nothing says whose drop-in has
    gone.
    """
    if manager is None:
        return False
    if former is None:
        return True
    gated = {*gated_units(config), *gated_units(former)}
    names = [unit.replace("@.", "@*.") for unit in sorted(gated)]
    shown = manager.show(("NeedDaemonReload",), *UNITS, *names)
    return any(properties["NeedDaemonReload"] == "yes" for properties in shown)


def find_guard_changes(
    manager: Manager | None, config: HostRoutingConfig, changes: FileChanges
) -> tuple[Operation, ...]:
    """What the guard needs: a start, a stop, or, if its files are new, to be started again."""
    guard = HostLayout.guard_unit
    if manager is None:
        return ()
    runs = is_active(manager, guard)
    if runs and not config.guard.enabled:
        return (Operation("stop", guard, "it is no longer wanted"),)
    if runs and {HostLayout.guard_path, HostLayout.unit_path(guard)} & {*changes.writes}:
        return (Operation("restart", guard, "its files are new"),)
    if config.guard.enabled and not runs:
        return (Operation("start", guard, "it is not running"),)
    return ()
