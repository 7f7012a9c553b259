"""A host without its kernel: files, systemd, paths, and the effects of a task. Tasks decide what to
do with them.
"""

from hostrouting.host.base import Files
from hostrouting.host.files import Entry, LocalFiles
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.host.systemd import Manager, SystemdManager

__all__ = ["Host", "HostLayout", "Files", "LocalFiles", "Entry", "Manager", "SystemdManager"]
