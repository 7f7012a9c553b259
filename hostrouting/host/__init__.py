"""A host without its kernel: files, systemd, paths and what a task has changed. Tasks decide what is done with them."""

from hostrouting.host.files import Entry, Files, LocalFiles
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.host.systemd import Manager, SystemdManager
from hostrouting.kernel.programs import Rights

__all__ = ["Host", "HostLayout", "Files", "LocalFiles", "Entry", "Manager", "SystemdManager", "Rights"]
