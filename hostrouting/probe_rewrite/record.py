"""The record of the rewrite's tables and routes that may be in the kernel, including those of earlier configurations.

The task and the boot script write it to a file under /run before they change the kernel. A reboot clears the kernel's
state and the file. Here: the value, and its text. Not here: reading and writing the file.
"""

from __future__ import annotations

from contextlib import suppress
from ipaddress import IPv6Address
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["NotedRoute", "Record"]


@attrs.frozen
class NotedRoute:
    """A route to the global address that was added to the kernel, or was about to be."""

    address: IPv6Address
    dev: str
    protocol: int

    def __str__(self) -> str:
        return f"route {self.address} dev {self.dev} protocol {self.protocol}"

    @classmethod
    def parse(cls, line: str) -> Self:
        """The route in this line. Raises ValueError for any other line."""
        match line.split():
            case ["route", address, "dev", dev, "protocol", protocol]:
                return cls(IPv6Address(address), dev, int(protocol))
        raise ValueError(f"{line!r} is not a line of a route")


@attrs.frozen
class Record:
    """The names of the tables, and the routes."""

    tables: tuple[str, ...] = ()
    routes: tuple[NotedRoute, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """The record in this text; other lines are ignored."""
        tables, routes = [], []
        for line in text.splitlines():
            match line.split():
                case ["table", name]:
                    tables.append(name)
                case ["route", *_]:
                    with suppress(ValueError):
                        routes.append(NotedRoute.parse(line))
        return cls(tuple(tables), tuple(routes))

    def __add__(self, other: Record) -> Record:
        """Both records together, without repetitions."""
        tables, routes = (*self.tables, *other.tables), (*self.routes, *other.routes)
        return Record(tuple(dict.fromkeys(tables)), tuple(dict.fromkeys(routes)))

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in (*(f"table {name}" for name in self.tables), *self.routes))
