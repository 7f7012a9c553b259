"""A sandbox: the kernel of the present network namespace, and files below a directory. No change leaves them."""

from __future__ import annotations

import os

from hostrouting.host.files import LocalFiles
from hostrouting.host.image import ImageFiles

_MACHINE = "/proc/1/ns/net"


def require_own_namespace() -> None:
    """Raise ValueError if this thread is in the network namespace of this machine."""
    try:
        is_machines = os.path.samefile("/proc/thread-self/ns/net", _MACHINE)
    except OSError:
        return  # some containers hide it from their processes
    if is_machines:
        raise ValueError("this is the host's own network; enter another one: ip netns exec sandbox …")


class SandboxFiles(ImageFiles):
    """The files below a directory; its /proc is the kernel's."""

    def __init__(self, root: str) -> None:
        """Raise ValueError if the directory does not exist or is this host's own root."""
        if not os.path.isdir(root) or os.path.samefile(root, "/"):
            raise ValueError(f"root: {root!r} is not a directory below /; create one, for example with mktemp -d")
        super().__init__(root)
        self._kernel = f"{root.rstrip('/')}/proc/"

    def read(self, path: str) -> str | None:
        """See Files."""
        if not path.startswith(self._kernel):
            return super().read(path)
        # /proc/self shows the network of the process; this thread may be in another one.
        return LocalFiles().read("/proc/" + path.removeprefix(self._kernel).replace("self/", "thread-self/", 1))
