"""Which devices are expected: those that the configuration names, or those of the default route.

Of default routes with one rank, Linux uses any: their devices are in doubt. So is a tunnel's default route, and with it
the first one of a network card, which the tunnel's hides. Doubt belongs to devices: what leaves by others is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.model.prefix import Prefix
from hostrouting.routes.uplink import leads_out

if TYPE_CHECKING:
    from hostrouting.fib.engine import Fib
    from hostrouting.model.route import Route
    from hostrouting.model.snapshot import Link

_RA = 9
_LIKE_ETHERNET = {"vxlan", "geneve", "gretap", "ip6gretap", "tun"}
"""Kinds of tunnels that can look like Ethernet."""
_HARDWARE = {1, 32, 772}
"""Link types that are not tunnels': Ethernet, InfiniBand and loopback."""


class Default(NamedTuple):
    """One default route for plain packets: 0/0, or its two halves as one route with the next hops of both."""

    route: Route
    is_suppressed: bool
    """Whether the rule that looks it up ignores it."""

    @property
    def rank(self) -> tuple[bool, int, int, int]:
        """Linux uses any of those that have the same."""
        return self.is_suppressed, self.route.table, self.route.prefix.length, self.route.metric


class Uplinks(NamedTuple):
    """Which devices are expected."""

    devs: frozenset[str]
    doubtful: frozenset[str]
    """Those of them of which it is not known whether they are meant."""
    card: str | None
    """The network card whose default route a tunnel's hides."""
    defaults: tuple[Default, ...]
    """The default routes that lead out of the host, in the order of the lookup."""


def is_tunnel(link: Link | None) -> bool:
    """Whether the packets of the device go to another device again; a modem (wwan) is hardware."""
    if link is None or link.kind in {"", "wwan"}:
        return False
    return link.type not in _HARDWARE or link.kind in _LIKE_ETHERNET


def find_uplinks(fib: Fib, named: frozenset[str]) -> Uplinks:
    """The expected devices of this host, if the configuration names these, and the doubt about them."""
    links = {link.name: link for link in fib.snapshot.links}

    def useful(devs: Iterable[str]) -> frozenset[str]:
        return frozenset(dev for dev in devs if leads_out(links.get(dev)))

    def has_tunnel(devs: Iterable[str]) -> bool:
        return any(is_tunnel(links.get(dev)) for dev in devs)

    every = [default for default in _defaults_of(fib) if useful(default.route.devs)]
    # Halves count only where there is no 0/0: beside it, they are a capture.
    defaults = [default for default in every if not default.route.prefix.length] or every
    used = next((default for default in defaults if not default.is_suppressed), None)
    devs = named or useful(used.route.devs if used else ())
    cards = [default.route.devs for default in defaults if not has_tunnel(default.route.devs)]
    hidden = useful(cards[0]) if cards and has_tunnel(devs) else frozenset()
    doubtful = frozenset[str]()
    if used and not named:
        equals = useful(dev for default in defaults if default.rank == used.rank for dev in default.route.devs)
        # Several routers advertise themselves, each on its own device.
        if equals != devs or (fib.family == 6 and used.route.protocol == _RA and len(devs) > 1):
            doubtful = equals
        if hidden or (has_tunnel(devs) and any(links[dev].kind != "ppp" for dev in devs)):
            doubtful |= devs | hidden
    card = next(iter(hidden)) if len(hidden) == 1 else None
    return Uplinks(devs | doubtful, doubtful, card, tuple(defaults))


def _defaults_of(fib: Fib) -> Iterator[Default]:
    """All default routes for plain packets, in the order of the lookup."""
    every = Prefix(fib.family, 0, 0)
    for step in fib.steps():
        if step.table is None or step.rule.dst is not None or not step.is_for_plain(0):
            continue
        limit = -1 if step.rule.suppress_prefixlength is None else step.rule.suppress_prefixlength
        halves = [step.table.routes[half][0] for half in every.halves() if half in step.table.routes]
        if [route.type for route in halves] == ["unicast", "unicast"]:
            yield Default(halves[0]._replace(legs=(*halves[0].legs, *halves[1].legs)), limit >= 1)
        for route in step.table.routes.get(every, ()):
            if route.type == "unicast":
                yield Default(route, limit >= 0)
