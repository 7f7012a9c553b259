"""Devices that an argument names: they have to exist on the host, whose devices are known from a snapshot.

Here: the faults, with the devices that were probably meant. Not here: the arguments (`cli`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.errors import ConfigError, Fault
from hostrouting.nearest import nearest
from hostrouting.phrases import spoken

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hostrouting.model import Snapshot

__all__ = ["HOST_OF_A_SNAPSHOT", "require_devices"]

HOST_OF_A_SNAPSHOT = "the host of this snapshot"
_SHOWN = 20  # devices that a message names; the others are counted


def require_devices(named: Iterable[tuple[str, str]], snapshot: Snapshot, *, host: str) -> None:
    """Raise ConfigError if a device does not exist. Each is given with the argument that names it.

    `host` is the host in words.
    """
    names = [link.name for link in snapshot.links]
    there = spoken(names, most=_SHOWN) or "none"
    faults = [
        Fault(
            argument,
            repr(dev),
            f"is not a device of {host}",
            f"did you mean {near}? The devices are {there}"
            if (near := nearest(dev, names))
            else f"the devices are {there}",
        )
        for argument, dev in named
        if dev not in names
    ]
    if faults:
        raise ConfigError(faults, "the command line" if len(faults) > 1 else None)
