"""The link layer in memory: devices and neighbours in lists, and the faults that a test injects.

Here: what Linux does with neighbours that are added and deleted. Not here: the effect on frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.errors import BackendError
from hostrouting.kernel.neighbours import EthernetLink, LinkLayerView, Neighbour, no_device, require_permanent
from hostrouting.testing.kernel.faults import Faulty

if TYPE_CHECKING:
    from collections.abc import Iterable


class MemoryLinkLayer(Faulty[BackendError]):
    """The link layer in two lists; `str()` prints them, neighbours as `ip neigh` does."""

    def __init__(self, links: Iterable[EthernetLink] = (), neighbours: Iterable[Neighbour] = ()) -> None:
        """Begin with these devices and neighbours."""
        super().__init__()
        self.links = list(links)
        """For a test to change, as another process would."""
        self.neighbours = list(neighbours)
        """For a test to change; those of a device are deleted with it."""
        self.learned: list[tuple[str, str]] = []
        """The MAC addresses that bridges have learned, each with its port; for a test to change."""
        self.writes: list[str] = []
        """The changes, in order: "delete 10.1.0.5 dev azure0 …", "add …"."""

    def remove_link(self, name: str) -> None:
        """Do what `ip link del` does."""
        self.links = [link for link in self.links if link.name != name]
        self.neighbours = [neighbour for neighbour in self.neighbours if neighbour.dev != name]

    def look(self) -> LinkLayerView:
        """See LinkLayer."""
        self.meet().strike()
        return LinkLayerView(
            sorted(self.links, key=lambda link: link.index),
            sorted(self.neighbours, key=lambda neighbour: (neighbour.dev, neighbour.ip.version, int(neighbour.ip))),
            tuple(sorted(self.learned)),
        )

    def delete_neighbour(self, neighbour: Neighbour) -> bool:
        """See LinkLayer."""
        fault = self.meet()
        if not fault.done:
            fault.strike()
        holder = self._holder(neighbour)
        if holder == neighbour:
            self.neighbours.remove(neighbour)
            self.writes.append(f"delete {neighbour}")
        fault.strike()
        return holder in {None, neighbour}

    def add_neighbour(self, neighbour: Neighbour) -> bool:
        """See LinkLayer."""
        require_permanent(neighbour)
        fault = self.meet()
        if not fault.done:
            fault.strike()
        if not any(link.name == neighbour.dev for link in self.links):
            raise no_device(neighbour)
        holder = self._holder(neighbour)
        if holder is None:
            self.neighbours.append(neighbour)
            self.writes.append(f"add {neighbour}")
        fault.strike()
        return holder in {None, neighbour}

    def _holder(self, neighbour: Neighbour) -> Neighbour | None:
        """The entry for its address on its device."""
        return next(
            (known for known in self.neighbours if (known.ip, known.dev) == (neighbour.ip, neighbour.dev)), None
        )

    def __str__(self) -> str:
        return "".join(f"{thing}\n" for thing in (*self.links, *self.neighbours))
