"""Which devices are expected: those that the configuration names, or those of the default route.

Of equal default routes, Linux uses any: their devices are in doubt. So is a tunnel's default route, and with it
the first one of a network card, which the tunnel's hides (`routes.uplink`). Doubt belongs to devices: what leaves
through others is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.model.prefix import Prefix
from hostrouting.routes.uplink import devs_below, devs_out, doubtful_devs

if TYPE_CHECKING:
    from hostrouting.fib.engine import Fib
    from hostrouting.model.route import Route
    from hostrouting.model.snapshot import Link


class Uplinks(NamedTuple):
    """Which devices are expected."""

    devs: frozenset[str]
    doubtful: frozenset[str]
    """Those that may not be the intended ones."""
    card: str | None
    """The network card whose default route a tunnel's hides."""
    defaults: tuple[Route, ...]
    """The default routes that lead out of the host, in the order of the lookup; two halves are one."""


def find_uplinks(fib: Fib, links: Mapping[str, Link], named: frozenset[str]) -> Uplinks:
    """The expected devices of a host with these links, if the configuration names some, and the doubt about them."""
    every = [(route, is_used) for route, is_used in _defaults_of(fib) if devs_out([route], links)]
    # Halves count only where there is no 0/0: beside it, they are a capture.
    with_use = [(route, is_used) for route, is_used in every if not route.prefix.length] or every
    defaults = tuple(route for route, _ in with_use)
    usable = [route for route, is_used in with_use if is_used]
    devs = named or devs_out(usable[:1], links)
    below = devs_below(devs, defaults, links)
    doubtful = frozenset[str]()
    if usable and not named:
        doubtful = doubtful_devs(usable[0], defaults, links)
        gotos = (rule for rule in fib.rules if rule.action == "goto" or rule.suppress_ifgroup is not None)
        if any(rule.dst is None or rule.invert for rule in gotos):  # the lookup may not come to this default route
            doubtful |= devs_out([route for route, _ in every], links)
    card = next(iter(below)) if len(below) == 1 else None
    return Uplinks(devs | doubtful, doubtful, card, defaults)


def _defaults_of(fib: Fib) -> Iterator[tuple[Route, bool]]:
    """All default routes for plain packets, in the order of the lookup, and whether the rule uses them."""
    every = Prefix(fib.family, 0, 0)
    for step in fib.steps():
        if step.table is None or step.rule.dst is not None or not step.is_for_plain(0):
            continue
        limit = -1 if step.rule.suppress_prefixlength is None else step.rule.suppress_prefixlength
        routes = [route for route in step.table.defaults.get(every, ()) if route.type == "unicast"]
        halves = [others[0] for prefix, others in sorted(step.table.defaults.items()) if prefix.length]
        if [route.type for route in halves] == ["unicast", "unicast"]:
            routes.append(halves[0]._replace(next_hops=(*halves[0].next_hops, *halves[1].next_hops)))
        yield from ((route, route.prefix.length > limit) for route in routes)
