"""A host's routing at one moment.

Here: the snapshot as a value, and what changes it into another. Not here: how one is taken (backends), its form as JSON
(`snapshot_json`), or what follows from it (fib).
"""

from collections.abc import Iterable
from typing import Self

import attrs

from hostrouting.model.link import Address, Link
from hostrouting.model.route import Route
from hostrouting.model.route_table import RouteEdits, RouteTable
from hostrouting.model.rule import Rule

__all__ = ["Snapshot"]


_NO_ROUTES = RouteTable.of(())


def _as_table(routes: Iterable[Route]) -> RouteTable:  # mypy reads the field's type off a function only
    return RouteTable.of(routes)


@attrs.frozen(kw_only=True)
class Snapshot:
    """Links, addresses, rules and routes of one host at one moment.

    Rules and routes are in the kernel's order: where two are otherwise equal, the first one wins.
    """

    links: tuple[Link, ...] = ()
    addresses: tuple[Address, ...] = ()
    rules: tuple[Rule, ...] = ()
    routes: RouteTable = attrs.field(default=_NO_ROUTES, converter=_as_table)

    def link(self, name: str) -> Link | None:
        """The device of this name, if there is one."""
        return next((link for link in self.links if link.name == name), None)

    def with_routes(self, added: Iterable[Route] = (), *, without: Iterable[Route] = ()) -> Self:
        """The same host after routes were taken away, the first of several equal ones, and others came last."""
        gone = tuple(without)
        edits = RouteEdits(self.routes, about=gone)
        for route in gone:
            edits.change(route, None)
        for route in added:
            edits.put(route)
        return attrs.evolve(self, routes=edits.table())

    def with_replaced(self, old: Route, new: Route) -> Self:
        """The same host with one route in the place of another, as the kernel's REPLACE leaves it."""
        edits = RouteEdits(self.routes, about=[old])
        edits.change(old, new)
        return attrs.evolve(self, routes=edits.table())

    def to_json(self, *, indent: int | None = None) -> str:
        """All of it as text that `from_json` reads; what has its default value is left out."""
        from hostrouting.model.snapshot_json import to_json  # noqa: PLC0415  json is loaded when it is wanted

        return to_json(self, indent=indent)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote; anything else is a SnapshotError that names the place."""
        from hostrouting.model.snapshot_json import from_json  # noqa: PLC0415  json is loaded when it is wanted

        return from_json(cls, text)
