"""The other edge: files, the lock, and the service manager. What a task decides is done here, and nothing is decided.

files       written whole or not at all, and only when they differ
manager     systemd: reload, start, stop, and why a unit failed
"""

from hostrouting.system.files import Files, LocalFiles, Lock
from hostrouting.system.manager import Manager, SystemdManager, UnitState

__all__ = ["Files", "LocalFiles", "Lock", "Manager", "SystemdManager", "UnitState"]
