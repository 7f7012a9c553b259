"""The fake kernel's devices and their addresses, as they change; and the error with which it refuses something.

Here: their state. Not here: how it affects the routes (`ipv4`, `ipv6`).
"""

import errno
import os
from collections.abc import Iterator
from functools import cached_property

import attrs

from hostrouting.model.prefix import IP, IPV4, Prefix
from hostrouting.model.snapshot import Address, Link

LOOPBACK = "lo"


class Refused(Exception):  # noqa: N818  as the kernel would say it
    """An error inside the fake kernel: a change turns it into an Outcome, every other method into a BackendError."""

    def __init__(self, number: int, words: str = "", *, problem: str = "") -> None:
        """Store the errno, and the kernel's text if it has one; `problem` is a fault found without the kernel."""
        self.number = number
        self.words = words
        self.problem = problem
        super().__init__(number, words)


@attrs.define(eq=False)
class Holding:
    """An address of a device."""

    address: Address
    # Another address of the same network was added first, and its routes are shared.
    secondary: bool = False

    @property
    def ip(self) -> IP:
        """The address itself."""
        return self.address.ip

    @property
    def length(self) -> int:
        """The length of the address's network."""
        return self.address.length

    @cached_property
    def network(self) -> Prefix:
        """The network of the address: its peer's network if it has a peer."""
        return self.address.network


@attrs.define(eq=False)
class Device:
    """A device; `plugged` is whether it has a carrier while it is up."""

    link: Link
    plugged: bool = True
    # In the kernel's order: IPv4 keeps primary ones before secondary ones.
    ipv4: list[Holding] = attrs.Factory(list)
    ipv6: list[Holding] = attrs.Factory(list)
    # Being deleted: no secondary address is promoted.
    leaving: bool = False

    @property
    def name(self) -> str:
        """The name of the device."""
        return self.link.name

    @property
    def up(self) -> bool:
        """Whether the device is administratively up."""
        return self.link.up

    @property
    def carrier(self) -> bool:
        """Whether the device is up and has a carrier."""
        return self.link.up and self.plugged

    @property
    def loopback(self) -> bool:
        """Whether the device is lo."""
        return self.name == LOOPBACK

    def shown(self) -> Link:
        """The device as a snapshot shows it."""
        return attrs.evolve(self.link, carrier=self.carrier)


class Devices:
    """The devices of the host, by name."""

    def __init__(self) -> None:
        """Start like a new network namespace: with lo, which is down."""
        self._by_name: dict[str, Device] = {}
        self._index = 0
        self.add(Link(name=LOOPBACK, index=1, type=772, up=False))

    def __iter__(self) -> Iterator[Device]:
        return iter(self._by_name.values())

    def find(self, name: str | None) -> Device | None:
        """The device with this name; None if it does not exist."""
        return self._by_name.get(name or "")

    def get(self, name: str) -> Device:
        """The device with this name; ENODEV if it does not exist."""
        device = self._by_name.get(name)
        if device is None:
            raise Refused(errno.ENODEV, os.strerror(errno.ENODEV), problem=f"device {name} does not exist")
        return device

    def add(self, link: Link) -> Device:
        """Add a device, which is down; its index is the next free one unless the Link has one."""
        if link.name in self._by_name:
            raise Refused(errno.EEXIST)
        self._index = max(self._index, link.index) if link.index else self._index + 1
        device = Device(attrs.evolve(link, index=link.index or self._index, up=False), plugged=link.carrier)
        self._by_name[link.name] = device
        return device

    def remove(self, name: str) -> None:
        """Remove the device."""
        del self._by_name[name]

    def ignores_linkdown(self, name: str | None, family: int) -> bool:
        """Whether routes of this family by this device are skipped while it has no carrier."""
        device = self.find(name)
        if device is None:
            return False
        link = device.link
        return link.ignore_routes_with_linkdown if family == IPV4 else link.ipv6_ignore_routes_with_linkdown
