"""What the kernel of this boot may have of the rewrite: tables and routes, also of earlier configurations.

It is written before the kernel is changed, by the task and by the boot script, to a file under /run: at the next boot
both are gone, what the kernel had and the file. Here: the value, and its text. Not here: reading and writing the file.
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
    """A route to the global address that was put into the kernel, or was about to be."""

    address: IPv6Address
    dev: str
    protocol: int

    def __str__(self) -> str:
        return f"route {self.address} dev {self.dev} protocol {self.protocol}"

    @classmethod
    def parse(cls, line: str) -> Self:
        """The route that a line says; any other line is a ValueError."""
        match line.split():
            case ["route", address, "dev", dev, "protocol", protocol]:
                return cls(IPv6Address(address), dev, int(protocol))
        raise ValueError(f"{line!r} does not note a route")


@attrs.frozen
class Record:
    """The tables by their names, and the routes."""

    tables: tuple[str, ...] = ()
    routes: tuple[NotedRoute, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """What the text says; a line that says nothing of the kind is left out."""
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
        """Both, each thing once."""
        tables, routes = (*self.tables, *other.tables), (*self.routes, *other.routes)
        return Record(tuple(dict.fromkeys(tables)), tuple(dict.fromkeys(routes)))

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in (*(f"table {name}" for name in self.tables), *self.routes))
