"""A host's routing at one moment.

Here: the snapshot as a value, and what changes it into another (`amended` has how). Not here: how one is taken
(backends), how its routes are indexed (`door`), or what follows from it (fib).
"""

from collections.abc import Iterable, Sequence
from typing import Self

import attrs

from hostrouting.model.amended import Amendment
from hostrouting.model.door import is_keyed
from hostrouting.model.link import Address, Link
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule

__all__ = ["Snapshot"]


def _frozen_sequence(routes: Iterable[Route]) -> Sequence[Route]:
    # Lists would let a snapshot change behind its index; a lazy sequence promises not to.
    kept = isinstance(routes, tuple) or is_keyed(routes)
    return routes if kept and isinstance(routes, Sequence) else tuple(routes)


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
        return Amendment(self.routes, about=about)

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
