"""The other edge: files, the lock, and the service manager. What a task decides is done here, and nothing is decided.

files       written whole or not at all, and only when they differ
image       the same below a root, whose links do not lead out of it
programs    a program of the host is looked for, or run with a time-out
manager     systemd: reload, start, stop, and why a unit failed
"""

from hostrouting.system.files import Files, LocalFiles, Lock
from hostrouting.system.image import ImageFiles
from hostrouting.system.manager import Manager, SystemdManager, UnitState
from hostrouting.system.programs import BOOT_PATH, find_program

__all__ = [
    "BOOT_PATH",
    "Files",
    "ImageFiles",
    "LocalFiles",
    "Lock",
    "Manager",
    "SystemdManager",
    "UnitState",
    "find_program",
]
