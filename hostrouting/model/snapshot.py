"""A host's routing at one moment.

Here: the snapshot as a value, and the functions that return a changed one. Not here: how it is taken (backends), its
JSON form (`snapshot_json`), or how the kernel uses it (fib).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from hostrouting.model.link import Address, Link
from hostrouting.model.route import Route
from hostrouting.model.route_table import RouteEdits, RouteTable
from hostrouting.model.rule import Rule

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Snapshot"]


_NO_ROUTES = RouteTable.of(())


def _as_table(routes: Iterable[Route]) -> RouteTable:  # mypy infers the field's type only from a function
    return RouteTable.of(routes)


@attrs.frozen(kw_only=True)
class Snapshot:
    """Links, addresses, rules and routes of one host at one moment.

    Rules and routes are in the kernel's order: of two that are otherwise equal, the first wins.
    """

    links: tuple[Link, ...] = ()
    addresses: tuple[Address, ...] = ()
    rules: tuple[Rule, ...] = ()
    routes: RouteTable = attrs.field(default=_NO_ROUTES, converter=_as_table)
    # Whether this host forwards IPv6 packets (`net.ipv6.conf.all.forwarding`); None if that is not known.
    ipv6_forwarding: bool | None = None
    # A device with the settings that a new one gets (`net.ipv4.conf.default`); None if they are not known.
    default_link: Link | None = None

    def link(self, name: str) -> Link | None:
        """The device with this name; None if there is none."""
        return next((link for link in self.links if link.name == name), None)

    def with_routes(self, added: Iterable[Route] = (), *, without: Iterable[Route] = ()) -> "Self":
        """The same host without some routes (of equal ones, without the first) and with others added at the end."""
        gone = tuple(without)
        edits = RouteEdits(self.routes, about=gone)
        for route in gone:
            edits.change(route, None)
        for route in added:
            edits.put(route)
        return attrs.evolve(self, routes=edits.table())

    def with_replaced(self, old: Route, new: Route) -> "Self":
        """The same host with one route in place of another, as after the kernel's REPLACE."""
        edits = RouteEdits(self.routes, about=[old])
        edits.change(old, new)
        return attrs.evolve(self, routes=edits.table())

    def to_json(self, *, indent: int | None = None) -> str:
        """The snapshot as JSON for `from_json`; fields with their default value are left out."""
        from hostrouting.model.snapshot_json import to_json  # noqa: PLC0415  json is imported on first use

        return to_json(self, indent=indent)

    @classmethod
    def from_json(cls, text: str) -> "Self":
        """Read the output of `to_json`; anything else raises a SnapshotError that names the path."""
        from hostrouting.model.snapshot_json import from_json  # noqa: PLC0415  json is imported on first use

        return from_json(cls, text)
