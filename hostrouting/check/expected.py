"""Which devices are expected: those that the configuration names, or those of the default route.

Of equal default routes, Linux uses any: their devices are in doubt. So is a tunnel's default route, and with it
the first one of a network card, which the tunnel's hides. Doubt belongs to devices: what leaves through others is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
_HARDWARE = {1, 32}
"""Link types that are not tunnels': Ethernet and InfiniBand. The loopback device has no kind."""


class Uplinks(NamedTuple):
    """Which devices are expected."""

    devs: frozenset[str]
    doubtful: frozenset[str]
    """Those that may not be the intended ones."""
    card: str | None
    """The network card whose default route a tunnel's hides."""
    defaults: tuple[Route, ...]
    """The default routes that lead out of the host, in the order of the lookup; two halves are one."""


def is_tunnel(link: Link | None) -> bool:
    """Whether the packets of the device go to another device again; a modem (wwan) is hardware."""
    if link is None or link.kind in {"", "wwan"}:
        return False
    return link.type not in _HARDWARE or link.kind in _LIKE_ETHERNET


def find_uplinks(fib: Fib, links: Mapping[str, Link], named: frozenset[str]) -> Uplinks:
    """The expected devices of a host with these links, if the configuration names some, and the doubt about them."""

    def useful(devs: Iterable[str]) -> frozenset[str]:
        return frozenset(dev for dev in devs if leads_out(links.get(dev)))

    def has_tunnel(devs: Iterable[str]) -> bool:
        return any(is_tunnel(links.get(dev)) for dev in devs)

    every = [(route, is_used) for route, is_used in _defaults_of(fib) if useful(route.devs)]
    # Halves count only where there is no 0/0: beside it, they are a capture.
    defaults = [(route, is_used) for route, is_used in every if not route.prefix.length] or every
    usable = [route for route, is_used in defaults if is_used]
    devs = named or useful(usable[0].devs if usable else ())
    cards = [route.devs for route, _ in defaults if not has_tunnel(route.devs)]
    hidden = useful(cards[0]) if cards and has_tunnel(devs) else frozenset()
    doubtful = frozenset[str]()
    if usable and not named:
        used = usable[0]
        rivals = useful(dev for route in fib.equals(used) for dev in route.devs)
        # Several routers advertise themselves, each on its own device.
        if rivals != devs or (used.protocol == _RA and len(devs) > 1):
            doubtful = rivals
        if hidden or (has_tunnel(devs) and any(links[dev].kind != "ppp" for dev in devs)):
            doubtful |= devs | hidden
        gotos = (rule for rule in fib.rules if rule.action == "goto" or rule.suppress_ifgroup is not None)
        if any(rule.dst is None or rule.invert for rule in gotos):  # the lookup may not come to this default route
            doubtful |= useful(dev for route, _ in every for dev in route.devs)
    card = next(iter(hidden)) if len(hidden) == 1 else None
    return Uplinks(devs | doubtful, doubtful, card, tuple(route for route, _ in defaults))


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
