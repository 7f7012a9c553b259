"""Which devices are expected: those that the configuration names, or those of the default route.

Theory of operation. A plain packet for which there is no other route leaves by the first default
route that the lookup finds. So the default routes are listed in the order of the lookup. A default
route counts if it leads out of the host: not by InfiniBand, and by a dummy only if there is no
other. The devices of the first one are expected. This may be wrong in three ways, which put devices
in doubt (they may not be the intended ones):

- An equal default route leads through another device, or several routers advertise themselves.
  tests/hosts: two-cards-with-one-metric, networkd-ra-by-two-nexthops.
- The default route is a tunnel's. If a card has a default route, too, the tunnel's hides it: it is
  found first, so Linux does not use the card's. Then both are in doubt. A provider's line or a tap
  is right if it is the only way out. tests/hosts: wg-quick-full-tunnel; pppoe,
  open-vswitch-netdev and slirp-tap-and-docker have only one.
- A rule leads only root's packets to the default route, and those of others to another one.
  tests/hosts: second-card-for-root.

The first two are decided in `routes.default_route`, because static routes need to know them, too.
Doubt belongs to devices: what leaves through others is not in doubt.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from hostrouting.check.devices import Devices
from hostrouting.fib.engine import Fib, Table, suppresses
from hostrouting.model.link_kinds import leads_out
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route, devs_of
from hostrouting.model.snapshot import Link
from hostrouting.routes.default_route import (
    devs_hidden_by_a_tunnel,
    doubtful_devs,
    has_tunnel,
    with_next_hops,
)


class Uplinks(NamedTuple):
    """The devices that are expected, and why."""

    devs: frozenset[str]
    defaults: tuple[Route, ...] = ()
    """The default routes that count, in the order of the lookup, with the next hops that count."""
    card_below_tunnel: str | None = None
    """The card by which an expected tunnel sends its own packets."""
    hidden_card: str | None = None
    """This card, if the tunnel has a default route itself, which hides the card's."""
    doubtful: frozenset[str] = frozenset()
    """The expected devices that may not be the intended ones: several of which any may be meant, or
    a tunnel alone.
    """
    is_card_unknown: bool = False
    """Whether nothing shows which card is the uplink, because a tunnel or a dummy has the only
    default route.
    """


def find_uplinks(fib: Fib, devices: Devices, configured: frozenset[str]) -> Uplinks:
    """Find the devices through which packets should leave the host, and the doubt about them. If
    the configuration names devices (`configured`), these are expected, and nothing is in doubt.
    Otherwise the devices of the first default route are expected. If these may not be the intended
    ones, all that may be meant are expected and in doubt.
    """
    links = devices.links
    all_defaults = list(_default_routes(fib))
    devs_that_count = _devs_that_count(all_defaults, links)
    defaults = _routes_that_count(all_defaults, devs_that_count, links)
    devs = configured
    doubtful: frozenset[str] = frozenset()
    if defaults and not configured:
        devs = frozenset(defaults[0].devs)
        doubtful = doubtful_devs(defaults, fib.snapshot)
        default_devs = devs_of(defaults)
        # If the first default route is only for root, packets of other users take another one, and
        # nobody knows which is meant.
        if len(default_devs) > 1 and _may_be_for_some_users(fib, defaults[0]):
            doubtful |= default_devs
    # If a tunnel is expected, it sends its own packets by a device of the first default route
    # without a tunnel.
    below_tunnel = devs_hidden_by_a_tunnel(devs, defaults, links)
    card_below_tunnel = _card_below_tunnel(below_tunnel, devs, devices)
    hidden_card = None
    # A tunnel hides the default route of the card only if it has a default route itself, and so is
    # among `devs_that_count`. A tunnel that the configuration names may have none.
    if has_tunnel(devs & devs_that_count, links):
        hidden_card = card_below_tunnel
    expected = devs | doubtful
    is_card_unknown = not configured and _is_card_unknown(expected, doubtful, devices)
    return Uplinks(expected, defaults, card_below_tunnel, hidden_card, doubtful, is_card_unknown)


def _is_card_unknown(expected: frozenset[str], doubtful: frozenset[str], devices: Devices) -> bool:
    """Whether nothing shows which card is the uplink: no card is expected, but a dummy or a device
    in doubt, such as a tunnel. A tunnel that is not in doubt is itself the uplink.
    """
    if any(map(devices.may_be_card, expected)):
        return False
    links = devices.links
    has_dummy = any(links[dev].kind == "dummy" for dev in expected & links.keys())
    return bool(doubtful) or has_dummy


# The default routes.


def _default_routes(fib: Fib) -> Iterator[Route]:
    """Yield the default routes for plain packets, in the order of the lookup. Routes and rules that
    refuse packets are ignored, because they do not change which device is meant.
    """
    all_addresses = Prefix(fib.family, 0, 0)
    for applied in fib.applied:
        # A rule with a `to`, or a `not to`, is not about all packets, even if its table has a
        # default route.
        if applied.table is None or applied.to is not None:
            continue
        # Without a `to`, a rule selects plain packets to all addresses, or to none, so it is enough
        # to try one address.
        if not applied.selects_plain(all_addresses.first):
            continue
        for route in _defaults_in(applied.table, all_addresses):
            if not suppresses(applied.rule, route):
                yield route


def _defaults_in(table: Table, all_addresses: Prefix) -> Iterator[Route]:
    """Yield the default routes of a table, in the order in which Linux uses them. Two routes to the
    halves of all addresses, as VPNs add them, count as one default route, with the prefix of the
    first half and the next hops of both.
    """
    halves = [route for half in all_addresses.halves() for route in table.routes_to(half)[:1]]
    if len(halves) == 2 and all(route.type == "unicast" for route in halves):
        first, second = halves
        next_hops = first.next_hops + second.next_hops
        yield first._replace(next_hops=tuple(dict.fromkeys(next_hops)))
    for route in table.routes_to(all_addresses):
        if route.type == "unicast":
            yield route


def _may_be_for_some_users(fib: Fib, default: Route) -> bool:
    """Whether this default route may be only for some users: the first rule that leads plain
    packets to its table has a uidrange. Plain packets are root's, so other users may have another
    default route.
    """
    for applied in fib.applied:
        # `_default_routes` has found the route by a rule without a `to`. Such a rule selects plain
        # packets to all addresses, or to none, so it is enough to try one address, such as 0.
        is_for_all = applied.rule.dst is None and applied.selects_plain(0)
        if applied.rule.table == default.table and is_for_all:
            return "uidrange" in dict(applied.conditions)
    return False


def _devs_that_count(defaults: Iterable[Route], links: Mapping[str, Link]) -> frozenset[str]:
    """The devices whose default routes count: those that lead out of the host, or else dummies.

    k3s asks for a default route by a dummy on a node without a router, because packets to services
    need some route before kube-proxy gives them another destination.
    """
    devs = devs_of(defaults) & links.keys()
    ways_out = {dev for dev in devs if leads_out(links[dev])}
    dummies = {dev for dev in devs if links[dev].kind == "dummy"}
    return frozenset(ways_out or dummies)


def _routes_that_count(
    defaults: Iterable[Route], devs_that_count: frozenset[str], links: Mapping[str, Link]
) -> tuple[Route, ...]:
    """Return the default routes from which the expected devices are taken, with only those next
    hops that lead through `devs_that_count`. A default route is whole (/0), or is made of two
    halves (/1), as `_defaults_in` says.

    Whole default routes are taken. So are halves by a tunnel, because OpenVPN adds such routes
    (`redirect-gateway def1`). Halves by a card are taken only if no card has a whole default route.
    If a card has a whole one, the halves probably lead packets the wrong way, and the check has to
    find that.

    tests/hosts: bgp-halves-before-a-vpn (its only whole default route is a tunnel's).
    """
    usable = with_next_hops(defaults, lambda hop: hop.dev in devs_that_count)
    whole = [route for route in usable if route.prefix.length == 0]
    if all(has_tunnel(route.devs, links) for route in whole):  # no card has a whole one
        return tuple(usable)
    counted = [route for route in usable if route in whole or has_tunnel(route.devs, links)]
    return tuple(counted)


def _card_below_tunnel(
    below_tunnel: frozenset[str], expected: frozenset[str], devices: Devices
) -> str | None:
    """Return the card by which an expected tunnel sends its own packets, or None if that is
    unclear. The card has to be the only device of the first default route without a tunnel
    (`below_tunnel`).

    If another card is expected instead, such as eth0 beside wg0, the tunnel may use the expected
    card, so this is unclear: the default route may be that of a card for a network of its own.

    tests/hosts: rail-beside-a-named-full-tunnel, rail-beside-a-named-tunnel.
    """
    if len(below_tunnel) != 1:
        return None
    [card] = below_tunnel
    if card not in expected and any(devices.may_be_card(dev) for dev in expected):
        return None
    return card
