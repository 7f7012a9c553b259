"""Which devices are expected: those that the configuration names, or those of the default route.

Of equal default routes, Linux uses any: their devices are in doubt. So is a tunnel's default route,
and with it the first one of a network card, which the tunnel's hides. A provider's line or a tap is
not, if it is the only way out. Doubt belongs to devices: what leaves through others is not.
`routes.uplink` has the rule that says which of these devices are in doubt; here is found what the
rule is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.config.cni import devices_of
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import SCOPE_UNIVERSE
from hostrouting.routes.uplink import (
    are_only_taps,
    doubtful_devs,
    has_tunnel,
    is_card,
    is_line,
    leads_out,
)

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
    """The default routes that lead out of the host, in the order of the lookup; two halves are one.
    """


def find_uplinks(fib: Fib, links: Mapping[str, Link], named: frozenset[str]) -> Uplinks:
    """The expected devices of a host with these links, if the configuration names some, and the
    doubt about them.
    """
    listed = list(_defaults_of(fib))
    counting = _counting_devs([route for route, _ in listed], links)
    every = [(route, is_used) for route, is_used in listed if not counting.isdisjoint(route.devs)]
    # Halves count only where there is no 0/0: beside it, they are a capture.
    with_use = [(route, is_used) for route, is_used in every if not route.prefix.length] or every
    defaults = tuple(route for route, _ in with_use)
    usable = [route for route, is_used in with_use if is_used]
    used = usable[0] if usable else None
    devs = named or counting.intersection(used.devs if used else ())
    hidden = _first_card(defaults, links) & counting if has_tunnel(devs, links) else frozenset()
    doubtful = frozenset[str]()
    if used and not named:
        equal = fib.equals(used)
        rivals = counting.intersection(dev for route in equal for dev in route.devs)
        with_address = {
            address.dev
            for address in fib.snapshot.addresses
            if address.ip.version == fib.family and address.scope == SCOPE_UNIVERSE
        }
        is_way_out = is_line(devs, links) or (
            devs == counting and are_only_taps(devs, with_address, links)
        )
        doubtful = doubtful_devs(used, devs, rivals, hidden, links, is_line=is_way_out)
        if len(counting) > 1 and _may_pass_over_defaults(fib):
            doubtful |= counting.intersection(dev for route, _ in every for dev in route.devs)
    card = next(iter(hidden)) if len(hidden) == 1 else None
    return Uplinks(devs | doubtful, doubtful, card, defaults)


def _counting_devs(defaults: Iterable[Route], links: Mapping[str, Link]) -> frozenset[str]:
    """The devices whose default routes count.

    A dummy's counts where there is no other. k3s asks for one on a node without a router, because
    packets to services need a route before kube-proxy gives them another destination.
    """
    devs = {dev for route in defaults for dev in route.devs if dev in links}
    leading = {dev for dev in devs if leads_out(links[dev])}
    dummies = {dev for dev in devs if links[dev].kind == "dummy"}
    return frozenset(leading or dummies)


def _first_card(defaults: Iterable[Route], links: Mapping[str, Link]) -> frozenset[str]:
    """The devices of the first default route that no tunnel has."""
    for route in defaults:
        if not has_tunnel(route.devs, links):
            return frozenset(route.devs)
    return frozenset()


def may_be_card(link: Link | None, links: Mapping[str, Link]) -> bool:
    """Whether the device may lead to the network of the host.

    A CNI's device does not.
    """
    return link is not None and is_card(link, links) and not devices_of(link.name, link.kind)


def _may_pass_over_defaults(fib: Fib) -> bool:
    """Whether plain packets may take a rule that is not judged, and so miss a default route."""
    for step in fib.steps():
        is_unjudged = step.rule.action == "goto" or step.rule.suppress_ifgroup is not None
        is_about_all = step.rule.dst is None or step.rule.invert
        if is_unjudged and is_about_all and step.may_take_plain:
            return True
    return False


def _defaults_of(fib: Fib) -> Iterator[tuple[Route, bool]]:
    """All default routes for plain packets, in the order of the lookup, and whether the rule uses
    them.
    """
    every = Prefix(fib.family, 0, 0)
    for step in fib.steps():
        if step.table is None or step.rule.dst is not None or not step.is_for_plain(0):
            continue
        limit = -1 if step.rule.suppress_prefixlength is None else step.rule.suppress_prefixlength
        routes = [route for route in step.table.defaults.get(every, ()) if route.type == "unicast"]
        halves = [
            others[0] for prefix, others in sorted(step.table.defaults.items()) if prefix.length
        ]
        if [route.type for route in halves] == ["unicast", "unicast"]:
            routes.append(
                halves[0]._replace(next_hops=(*halves[0].next_hops, *halves[1].next_hops))
            )
        yield from ((route, route.prefix.length > limit) for route in routes)
