"""A host's routing at one moment, and the narrow door through which its routes are indexed.

Here: the snapshot as a value, and what changes it into another. Not here: how one is taken (backends) or
what follows from it (fib).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, Self, runtime_checkable

import attrs

from hostrouting.model.amended import Amendment, RouteKey
from hostrouting.model.link import Address, Link
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule

__all__ = ["RouteKey", "Snapshot", "Sort", "Sorted", "route_keys"]


@runtime_checkable
class _Keyed(Protocol):
    """A sequence of routes that knows where each belongs without making the routes.

    `keys()` goes through the same routes in the same order as the sequence itself. A backend that decodes
    lazily offers it, so that 100,000 routes can be indexed when only a handful is ever looked at.
    """

    def keys(self) -> Iterable[RouteKey]: ...


def route_keys(routes: Sequence[Route]) -> Iterable[RouteKey]:
    """Where each of the routes belongs, in their order: the only way in which all of them are ever read."""
    if isinstance(routes, _Keyed):
        return routes.keys()
    return (
        (prefix.family, route.table, prefix.network, prefix.length, route.protocol)
        for route in routes
        for prefix in (route.prefix,)
    )


class Sort(NamedTuple):
    """Routes that say the same but for their destination: one of them, where they stand, and where they lead to."""

    like: Route
    places: Sequence[int]
    prefixes: Sequence[tuple[int, int]]
    """The length and the network of each."""


@runtime_checkable
class Sorted(Protocol):
    """A sequence of routes that knows which of them are of one sort without making the routes.

    Not every route is of one, and two sorts may say the same.
    """

    def sorts(self, protocol: int) -> Sequence[Sort]:
        """The sorts of the routes of this protocol."""
        ...

    def part(self, places: Iterable[int]) -> Sequence[Route]:
        """The routes at these places only."""
        ...


def _frozen_sequence(routes: Iterable[Route]) -> Sequence[Route]:
    # Lists would let a snapshot change behind its index; a lazy sequence promises not to.
    return routes if isinstance(routes, tuple | _Keyed) else tuple(routes)


@attrs.frozen(kw_only=True)
class Snapshot:
    """Links, addresses, rules and routes of one host at one moment.

    Rules and routes are in the kernel's order: where two are otherwise equal, the first one wins.
    """

    links: tuple[Link, ...] = ()
    addresses: tuple[Address, ...] = ()
    rules: tuple[Rule, ...] = ()
    routes: Sequence[Route] = attrs.field(default=(), converter=_frozen_sequence)

    def link(self, name: str) -> Link | None:
        """The device of this name, if there is one."""
        return next((link for link in self.links if link.name == name), None)

    def amended(self, *, about: Iterable[Route]) -> Amendment:
        """Its routes, to be changed one after the other; `about` are those that are going to be looked for."""
        return Amendment(self.routes, route_keys, about=about)

    def with_routes(self, added: Iterable[Route] = (), *, without: Iterable[Route] = ()) -> Self:
        """The same host after routes were taken away, the first of several equal ones, and others came last."""
        gone = tuple(without)
        amendment = self.amended(about=gone)
        for route in gone:
            amendment.change(route, None)
        for route in added:
            amendment.put(route)
        return attrs.evolve(self, routes=amendment.routes())

    def with_replaced(self, old: Route, new: Route) -> Self:
        """The same host with one route in the place of another, as the kernel's REPLACE leaves it."""
        amendment = self.amended(about=[old])
        amendment.change(old, new)
        return attrs.evolve(self, routes=amendment.routes())

    def to_json(self, *, indent: int | None = None) -> str:
        """All of it as text that `from_json` reads; what has its default value is left out."""
        from hostrouting.model.wire import snapshot_to_json  # noqa: PLC0415  json is loaded when it is wanted

        return snapshot_to_json(self, indent=indent)

    @classmethod
    def from_json(cls, text: str) -> "Snapshot":
        """Read what `to_json` wrote; anything else is a SnapshotError that names the place."""
        from hostrouting.model.wire import snapshot_from_json  # noqa: PLC0415  json is loaded when it is wanted

        return snapshot_from_json(text)
