"""What this process may do on the host: whether it is root, and whether it may change the network.

Here: asking the kernel. Not here: what follows from the answer (`tasks`, `preflight`). A test passes a function that
returns other `Rights`.
"""

from __future__ import annotations

import os

import attrs

from hostrouting.errors import NotPermitted

__all__ = ["Rights", "own_rights", "read_rights"]

_STATUS = "/proc/self/status"
_CAP_NET_ADMIN = 1 << 12


@attrs.frozen
class Rights:
    """The rights of one process."""

    is_root: bool = True
    changes_network: bool = True
    """Whether it has the capability CAP_NET_ADMIN. A process in a user namespace can have it and still be refused."""

    def require_network(self) -> None:
        """Raise NotPermitted, with the remedy, if routes and rules cannot be changed."""
        if self.changes_network:
            return
        if self.is_root:
            told = "this process is root without the capability CAP_NET_ADMIN, so it may not change routes or rules"
            raise NotPermitted(f"{told}; add this capability to its container or service")
        raise NotPermitted("this process may not change routes or rules; run it as root")


def own_rights() -> Rights:
    """The rights of this process."""
    try:
        with open(_STATUS, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        text = ""
    return read_rights(text, user=os.geteuid())


def read_rights(status: str, *, user: int) -> Rights:
    """The rights of a process of this user; `status` is the text of /proc/PID/status.

    If the text does not have the capabilities, the process counts as having them all: the kernel decides later.
    """
    masks = [line.removeprefix("CapEff:").strip() for line in status.splitlines() if line.startswith("CapEff:")]
    try:
        held = int(masks[0], 16)
    except (IndexError, ValueError):
        held = _CAP_NET_ADMIN
    return Rights(is_root=user == 0, changes_network=bool(held & _CAP_NET_ADMIN))
