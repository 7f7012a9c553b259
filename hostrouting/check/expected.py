"""Which devices are expected: those that the configuration names, or those of the default route.

Of default routes with one rank, Linux uses any: their devices are in doubt. So is a tunnel's default route, and with it
the first one of a network card, which the tunnel's hides. Doubt belongs to devices: what leaves by others is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.routes.uplink import leads_out

if TYPE_CHECKING:
    from hostrouting.fib.engine import Fib
    from hostrouting.model.route import Route
    from hostrouting.model.snapshot import Link

ETHERNET, RA = 1, 9
_LIKE_ETHERNET = {"vxlan", "geneve", "gretap", "ip6gretap", "tun"}
"""Kinds of tunnels that can look like Ethernet."""
_MODEMS = {"wwan"}
"""Kinds of network cards that do not look like one."""
_HARDWARE = {ETHERNET, 32, 772}
"""Link types that are not tunnels': Ethernet, InfiniBand and loopback."""


class Default(NamedTuple):
    """One default route: 0/0, or its two halves as one."""

    devs: tuple[str, ...]
    route: Route
    is_suppressed: bool
    """Whether the rule that looks it up ignores it."""

    @property
    def rank(self) -> tuple[bool, int, int, int]:
        """Linux uses any of those that have the same."""
        return self.is_suppressed, self.route.table, self.route.prefix.length, self.route.metric


class Uplinks(NamedTuple):
    """Which devices are expected."""

    devs: frozenset[str] = frozenset()
    doubtful: frozenset[str] = frozenset()
    """Those of them of which it is not known whether they are meant."""
    card: str | None = None
    """The network card whose default route a tunnel's hides."""
    default: Default | None = None
    """The default route that was used."""


def is_tunnel(link: Link | None) -> bool:
    """Whether the device has a kind, and its packets go to another device again."""
    if link is None or link.kind in {"", *_MODEMS}:
        return False
    return link.type not in _HARDWARE or link.kind in _LIKE_ETHERNET


def find_uplinks(fib: Fib, named: frozenset[str]) -> Uplinks:
    """The expected devices of this host, if the configuration names these, and the doubt about them."""
    links = {link.name: link for link in fib.snapshot.links}

    def useful(devs: Iterable[str]) -> frozenset[str]:
        return frozenset(dev for dev in devs if leads_out(links.get(dev)))

    def has_tunnel(devs: Iterable[str]) -> bool:
        return any(is_tunnel(links.get(dev)) for dev in devs)

    # Halves count only where there is no 0/0: beside it, they are a capture.
    every = [default for default in defaults_of(fib) if useful(default.devs)]
    defaults = [default for default in every if not default.route.prefix.length] or every
    cards = [default for default in defaults if not has_tunnel(default.devs)]
    if named:
        behind = cards[0].devs if cards and has_tunnel(named) else ()
        return Uplinks(named, card=behind[0] if len(behind) == 1 else None)
    used = next((default for default in defaults if not default.is_suppressed), None)
    if used is None:
        return Uplinks()
    devs, hidden = useful(used.devs), frozenset[str]()
    of_equals = useful(dev for default in defaults if default.rank == used.rank for dev in default.devs)
    doubtful = of_equals if of_equals != devs else frozenset()
    if fib.family == 6 and used.route.protocol == RA and len(devs) > 1:
        doubtful |= devs  # several routers advertise themselves, each on its own device
    if has_tunnel(devs):
        hidden = useful(next((default.devs for default in cards if default is not used), ()))
        if hidden or any(links[dev].kind != "ppp" for dev in devs):
            doubtful |= devs | hidden
    card = next(iter(hidden)) if len(hidden) == 1 else None
    return Uplinks(devs | doubtful, doubtful, card, used)


def defaults_of(fib: Fib) -> Iterator[Default]:
    """All default routes for plain packets, in the order of the lookup."""
    for step in fib.steps():
        rule, table = step.rule, step.table
        if table is None or rule.dst is not None or not step.is_for_plain(0):
            continue
        limit = -1 if rule.suppress_prefixlength is None else rule.suppress_prefixlength
        halves = [routes[0] for half in (0, 1) if (routes := table.at(1, half << fib.width - 1))]
        if len(halves) == 2 and all(route.type == "unicast" for route in halves):
            devs = tuple(dict.fromkeys(dev for route in halves for dev in route.devs))
            yield Default(devs, halves[0], is_suppressed=limit >= 1)
        every = (route for route in table.at(0, 0) if route.type == "unicast")
        yield from (Default(route.devs, route, is_suppressed=limit >= 0) for route in every)
