"""The edge to the operating system: files, the lock and the service manager. Tasks decide; this carries it out.

files       write files atomically, and only if they differ
image       the same below a root directory; links of the image are resolved inside it
programs    find a program of the host, and run it with a timeout
manager     systemd: reload, start, stop, and why a unit failed
rights      what this process may do
service     what a service tells the manager that started it, and its lines in the journal; only the guard imports it
"""

from hostrouting.host.files import Files, LocalFiles, Lock
from hostrouting.host.image import ImageFiles
from hostrouting.host.systemd import Manager, SystemdManager, UnitState
from hostrouting.kernel.programs import BOOT_PATH, Rights, find_program, own_program, own_rights, version_of

__all__ = [
    "BOOT_PATH",
    "Files",
    "ImageFiles",
    "LocalFiles",
    "Lock",
    "Manager",
    "Rights",
    "SystemdManager",
    "UnitState",
    "find_program",
    "own_program",
    "own_rights",
    "version_of",
]
