"""Which devices are expected: those that the configuration names, or those of the default route.

Theory of operation. The default routes for plain packets are listed in the order of the lookup. The
first of them says which devices are expected. Then each way in which that may be wrong is asked
for, and gives the devices that are in doubt:

- An equal default route leads through another device, or several routers advertise themselves.
- The default route is a tunnel's. If it hides that of a network card, both are in doubt. A
  provider's line or a tap is not, if it is the only way out.
- A rule that is not judged may pass over the default route.

The first two are the same for the routes of a configuration, so `routes.uplink` has them
(`doubtful_by_equal_routes`, `doubtful_by_a_tunnel`). Doubt belongs to devices: what leaves through
others is not in doubt.

Whose default routes count at all, `devs_that_count` says: InfiniBand's do not. A device that is
never to be expected is left out there; then only the configuration can name it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from hostrouting.check.devices import Devices
from hostrouting.fib.engine import Fib, Table, effect_of
from hostrouting.fib.not_judged import unjudged_rules
from hostrouting.model.link_kinds import leads_out
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route, devs_of
from hostrouting.model.snapshot import Link
from hostrouting.routes.uplink import (
    devs_hidden_by_a_tunnel,
    doubtful_by_a_tunnel,
    doubtful_by_equal_routes,
    has_tunnel,
)

_NONE: frozenset[str] = frozenset()


class Uplinks(NamedTuple):
    """Which devices are expected."""

    devs: frozenset[str]
    defaults: tuple[Route, ...] = ()
    """The default routes that lead out of the host, in the order of the lookup; two halves are one.
    """
    card_below_tunnel: str | None = None
    """The network card by which an expected tunnel sends its own packets."""
    is_card_hidden: bool = False
    """Whether the tunnel has a default route itself, which hides that of the card below."""
    doubtful: frozenset[str] = _NONE
    """The expected devices that may not be the intended ones: several that compete, or a tunnel
    alone.
    """
    is_card_unknown: bool = False
    """Whether nothing says which network card is the uplink: a tunnel or a dummy has the only
    default route.
    """


class Leading(NamedTuple):
    """The default routes of a host that lead out of it."""

    devs: frozenset[str]
    """The devices whose default routes count."""
    routes: tuple[Route, ...]
    """In the order of the lookup, without two halves beside a default route: they are a capture."""


def find_uplinks(fib: Fib, devices: Devices, configured: frozenset[str]) -> Uplinks:
    """The expected devices of a host, and the doubt about them.

    The devices that the configuration names come first, and are not in doubt.
    """
    links = devices.links
    leading = find_leading(fib, links)
    if not leading.routes:
        return Uplinks(configured)
    devs = configured or leading.devs & set(leading.routes[0].devs)
    devs_below = leading.devs & devs_hidden_by_a_tunnel(devs, leading.routes, links)
    card = _card_below_tunnel(devs_below, devs, devices)
    is_card_hidden = has_tunnel(leading.devs & devs, links)
    if configured:
        return Uplinks(devs, leading.routes, card, is_card_hidden)
    doubtful = _doubtful_devs(fib, leading, devs, devs_below, devices)
    devs |= doubtful
    is_card_unknown = not devs_below and _have_no_card(devs, doubtful, devices)
    return Uplinks(devs, leading.routes, card, is_card_hidden, doubtful, is_card_unknown)


def _card_below_tunnel(
    devs_below: frozenset[str], devs: frozenset[str], devices: Devices
) -> str | None:
    """The device of the first default route that is not a tunnel's, if it is one device.

    Where cards are expected beside the tunnel, it must be one of them: the configuration names
    eth0 and wg0, and a rail may have the better default route.

    Field states: rail-beside-a-named-full-tunnel, rail-beside-a-named-tunnel.
    """
    if len(devs_below) != 1:
        return None
    [card] = devs_below
    if card not in devs and any(devices.may_be_card(dev) for dev in devs):
        return None
    return card


def find_leading(fib: Fib, links: Mapping[str, Link]) -> Leading:
    """The default routes of a host that count."""
    routes = list(find_defaults(fib))
    devs = devs_that_count(routes, links)
    counting = [route for route in routes if not devs.isdisjoint(route.devs)]
    # Beside a default route, two halves are a capture: OpenVPN's `redirect-gateway def1`.
    whole = [route for route in counting if route.prefix.length == 0]
    return Leading(devs, tuple(whole or counting))


def find_defaults(fib: Fib) -> Iterator[Route]:
    """The default routes that Linux uses for plain packets, in the order of the lookup."""
    every = Prefix(fib.family, 0, 0)
    for applied in fib.rules_for(0):
        # A rule for some destinations is not about all packets, even if its table has a default.
        # The others select the first address (0) as they select every one.
        if applied.table is None or applied.rule.dst is not None or not applied.selects_plain(0):
            continue
        for route in _defaults_in(applied.table, every):
            if effect_of(applied.rule, route) != "suppressed":
                yield route


def _defaults_in(table: Table, every: Prefix) -> Iterator[Route]:
    """The default routes of a table. Routes to both halves of all addresses are one of them, which
    has the prefix of the lower half, so that it can be told from the others.
    """
    for route in table.routes_to(every):
        if route.type == "unicast":
            yield route
    lower, upper = map(table.routes_to, every.halves())
    if lower and upper and lower[0].type == upper[0].type == "unicast":
        yield lower[0]._replace(next_hops=(*lower[0].next_hops, *upper[0].next_hops))


def devs_that_count(defaults: Iterable[Route], links: Mapping[str, Link]) -> frozenset[str]:
    """The devices whose default routes count.

    A dummy's counts where there is no other. k3s asks for one on a node without a router, because
    packets to services need a route before kube-proxy gives them another destination.
    """
    devs = devs_of(defaults) & links.keys()
    ways_out = {dev for dev in devs if leads_out(links[dev])}
    dummies = {dev for dev in devs if links[dev].kind == "dummy"}
    return frozenset(ways_out or dummies)


def _have_no_card(devs: frozenset[str], doubtful: frozenset[str], devices: Devices) -> bool:
    """Whether these devices are a tunnel or a dummy, and not a card.

    OpenVPN may have replaced the card's default route, and k3s asks for a dummy's. A tunnel that is
    not in doubt, such as a provider's line (ppp), is the uplink.
    """
    if any(devices.may_be_card(dev) for dev in devs):
        return False
    return any(devices.is_dummy(dev) or dev in doubtful for dev in devs)


def _doubtful_devs(
    fib: Fib, leading: Leading, devs: frozenset[str], devs_below: frozenset[str], devices: Devices
) -> frozenset[str]:
    """The devices of equal default routes, of a tunnel's and the one that it hides, and of all that
    a rule may pass over. `devs` are those of the first default route.

    A tunnel's is right if it is the only way out: a provider's line, or taps and nothing else.

    Field states: two-cards-with-one-metric, networkd-ra-by-two-nexthops, wg-quick-full-tunnel;
    pppoe, slirp-tap and open-vswitch-netdev are right.
    """
    by_equal_routes = doubtful_by_equal_routes(leading.routes, leading.devs)
    are_only_taps = devs == leading.devs and devices.are_taps_without_a_card(devs)
    by_a_tunnel = doubtful_by_a_tunnel(devs, devs_below, devices.links, are_only_taps=are_only_taps)
    return by_equal_routes | by_a_tunnel | _devs_that_may_be_passed_over(fib, leading)


def _devs_that_may_be_passed_over(fib: Fib, leading: Leading) -> frozenset[str]:
    """The devices of all default routes, if there are several and plain packets may take a rule
    that is not judged: they may miss the first default route then, and take another one.
    """
    devs = leading.devs & devs_of(leading.routes)
    if len(devs) == 1:
        return _NONE
    if any(rule.dst is None or rule.invert for rule in unjudged_rules(fib)):
        return devs
    return _NONE
