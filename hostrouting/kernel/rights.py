"""What the rights of this process allow."""

import os
from contextlib import suppress
from typing import NamedTuple

from hostrouting.errors import BackendError

_STATUS = "/proc/self/status"
_CAP_NET_ADMIN = 1 << 12


class Rights(NamedTuple):
    """The rights of one process."""

    is_root: bool = True
    changes_network: bool = True
    """Whether the process has the capability CAP_NET_ADMIN.

    In a user namespace, the kernel may still refuse.
    """

    def require_network(self) -> None:
        """Raise BackendError (not-permitted) if routes and rules cannot be changed."""
        if self.changes_network:
            return
        sentence = "this process may not change routes or rules"
        remedy = "run it as root; root in a container or service needs the capability CAP_NET_ADMIN"
        raise BackendError(f"{sentence}; {remedy}", kind="not-permitted")


def own_rights() -> Rights:
    """The rights of this process."""
    changes_network = bool(_capabilities() & _CAP_NET_ADMIN)
    return Rights(is_root=os.geteuid() == 0, changes_network=changes_network)


def _capabilities() -> int:
    """The mask of the effective capabilities of this process.

    If /proc does not show them, the process is assumed to have CAP_NET_ADMIN, and the kernel
    decides later.
    """
    with suppress(OSError, ValueError), open(_STATUS, encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("CapEff:"):
                return int(line.split()[1], 16)
    return _CAP_NET_ADMIN
