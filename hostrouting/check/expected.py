"""Which devices are expected: those that the configuration names, or those of the default route.

Theory of operation. A plain packet that no other route takes leaves by the first default route that
the lookup finds. So the default routes are listed in the order of the lookup. Only those count that
lead out of the host (`devs_that_count`): InfiniBand's do not. The devices of the first one are
expected. This may be wrong in three ways, each of which puts devices in doubt:

- An equal default route leads through another device, or several routers advertise themselves.
  Field states: two-cards-with-one-metric, networkd-ra-by-two-nexthops.
- The default route is a tunnel's. If it hides that of a network card, both are in doubt. A
  provider's line or a tap is right if it is the only way out. Field states: wg-quick-full-tunnel;
  pppoe, slirp-tap and open-vswitch-netdev are right.
- A rule that is not judged may pass over the default route.

The first two are the same for the routes of a configuration, so `routes.default_route` has them.
Doubt belongs to devices: what leaves through others is not in doubt.

A device that must never be expected is left out in `devs_that_count`; then only the configuration
can name it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from hostrouting.check.devices import Devices
from hostrouting.fib.engine import Fib, Table, effect_of
from hostrouting.fib.not_judged import unjudged_rules
from hostrouting.model.link_kinds import leads_out
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route, devs_of
from hostrouting.model.snapshot import Link
from hostrouting.routes.default_route import (
    are_taps_without_a_card,
    devs_hidden_by_a_tunnel,
    doubtful_by_a_tunnel,
    doubtful_by_equal_routes,
    has_tunnel,
)
from hostrouting.text import spoken


class Uplinks(NamedTuple):
    """Which devices are expected."""

    devs: frozenset[str]
    defaults: tuple[Route, ...] = ()
    """The default routes that count, in the order of the lookup; each with all its next hops, also
    those that do not count.
    """
    card_below_tunnel: str | None = None
    """The network card by which an expected tunnel sends its own packets."""
    hidden_card: str | None = None
    """The same card, if the tunnel has a default route itself, which hides that of the card."""
    doubtful: frozenset[str] = frozenset()
    """The expected devices that may not be the intended ones: several that compete, or a tunnel
    alone.
    """
    is_card_unknown: bool = False
    """Whether nothing says which network card is the uplink: a tunnel or a dummy has the only
    default route.
    """


def find_uplinks(fib: Fib, devices: Devices, configured: frozenset[str]) -> Uplinks:
    """The expected devices of a host, and the doubt about them."""
    default_routes = list(_default_routes(fib))
    counting = devs_that_count(default_routes, devices.links)
    defaults = _routes_that_count(default_routes, counting, devices.links)
    trimmed: list[Route] = []  # with only the next hops through devices that count
    for route in defaults:
        hops = tuple(hop for hop in route.next_hops if hop.dev in counting)
        trimmed.append(route._replace(next_hops=hops))
    devs = configured
    if trimmed and not configured:
        devs = frozenset(trimmed[0].devs)
    devs_below = devs_hidden_by_a_tunnel(devs, trimmed, devices.links)
    card = _card_below_tunnel(devs_below, devs, devices)
    hidden_card = None
    if has_tunnel(devs & counting, devices.links):  # a named tunnel may have no default route
        hidden_card = card
    uplinks = Uplinks(devs, defaults, card, hidden_card)
    if configured or not trimmed:
        return uplinks

    doubtful = _doubtful_devs(devs, devs_below, trimmed, fib, devices)
    expected = devs | doubtful  # each may be the intended one
    is_card_unknown = _is_only_tunnel_or_dummy(expected, doubtful, devices)
    return uplinks._replace(devs=expected, doubtful=doubtful, is_card_unknown=is_card_unknown)


def choice_between(devs: Iterable[str]) -> str:
    """The devices to choose from, in this order, as a phrase. If there is only one, the other
    choice is a card without a default route.
    """
    named = [*devs]
    if len(named) == 1:
        named.append("a network card")
    return spoken(named, last="or")


def _doubtful_devs(
    devs: frozenset[str],
    devs_below: frozenset[str],
    defaults: Sequence[Route],
    fib: Fib,
    devices: Devices,
) -> frozenset[str]:
    """The devices of the first default route, and those that may be meant instead. Of the default
    routes, only the next hops through devices that count are given.
    """
    with_address = [dev for dev in devices.devs_with_address if not devices.cni_rows(dev)]
    are_only_taps = devs == devs_of(defaults) and are_taps_without_a_card(
        devs, with_address, devices.links
    )
    by_a_tunnel = doubtful_by_a_tunnel(devs, devs_below, devices.links, are_only_taps=are_only_taps)
    by_equal_routes = doubtful_by_equal_routes(defaults)
    return by_a_tunnel | by_equal_routes | _devs_that_compete_by_rules(fib, defaults)


# The default routes.


def _default_routes(fib: Fib) -> Iterator[Route]:
    """The default routes for plain packets, in the order of the lookup. Routes and rules that
    refuse packets are passed over: the device that was meant is expected all the same.
    """
    every = Prefix(fib.family, 0, 0)
    for applied in fib.rules_for(every.first):
        # A rule with a `to`, or a `not to`, is not about all packets, even if its table has a
        # default route. One without it selects plain packets to every address, or to none.
        if applied.table is None or applied.rule.dst is not None:
            continue
        if not applied.selects_plain(every.first):
            continue
        for route in _defaults_in(applied.table, every):
            if effect_of(applied.rule, route) != "suppressed":
                yield route


def _defaults_in(table: Table, every: Prefix) -> Iterator[Route]:
    """The default routes of a table, in the order in which Linux uses them. Routes that together
    are for all addresses (`_INSTEAD_OF_DEFAULT`) make one, with the prefix of the first and the
    next hops of all.
    """
    for prefixes in _INSTEAD_OF_DEFAULT[every.family]:
        routes = [route for prefix in prefixes for route in table.routes_to(prefix)[:1]]
        if len(routes) == len(prefixes) and all(route.type == "unicast" for route in routes):
            hops = dict.fromkeys(hop for route in routes for hop in route.next_hops)
            yield routes[0]._replace(next_hops=tuple(hops))
    for route in table.routes_to(every):
        if route.type == "unicast":
            yield route


_INSTEAD_OF_DEFAULT = {
    4: [[Prefix.parse("0.0.0.0/1"), Prefix.parse("128.0.0.0/1")]],
    6: [
        [Prefix.parse("::/1"), Prefix.parse("8000::/1")],
        [Prefix.parse(f"{first}/2") for first in ("::", "4000::", "8000::", "c000::")],
        [Prefix.parse(text) for text in ("::/3", "2000::/4", "3000::/4", "fc00::/7")],
    ],
}
"""By family: prefixes that programs use in place of /0, to leave the default route as it is; those
of IPv6 are OpenVPN's before 2.4, gluetun's, and OpenVPN's for what is in use.
"""


def devs_that_count(defaults: Iterable[Route], links: Mapping[str, Link]) -> frozenset[str]:
    """The devices whose default routes count: those that lead out of the host.

    A dummy's counts where there is no other. k3s asks for one on a node without a router, because
    packets to services need a route before kube-proxy gives them another destination.
    """
    devs = devs_of(defaults) & links.keys()
    ways_out = {dev for dev in devs if leads_out(links[dev])}
    dummies = {dev for dev in devs if links[dev].kind == "dummy"}
    return frozenset(ways_out or dummies)


def _routes_that_count(
    defaults: Iterable[Route], counting: frozenset[str], links: Mapping[str, Link]
) -> tuple[Route, ...]:
    """The default routes with a next hop through one of these devices.

    Beside one of length 0, in whichever table, two halves are a capture, unless they are a
    tunnel's: OpenVPN adds them to hide the default route (`redirect-gateway def1`), which it
    replaces otherwise.
    """
    through_these = [route for route in defaults if not counting.isdisjoint(route.devs)]
    hiding = [
        route
        for route in through_these
        if route.prefix.length == 0 or has_tunnel(route.devs, links)
    ]
    return tuple(hiding or through_these)


# The tunnel, and the card below it.


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


def _is_only_tunnel_or_dummy(
    expected: frozenset[str], doubtful: frozenset[str], devices: Devices
) -> bool:
    """Whether the expected devices are a tunnel in doubt or a dummy, and not a card.

    OpenVPN may have replaced the card's default route, and k3s asks for a dummy's. A tunnel that is
    not in doubt, such as a provider's line (ppp), is the uplink.
    """
    if any(devices.may_be_card(dev) for dev in expected):
        return False
    return not expected.isdisjoint(devices.dummies | doubtful)


# Rules by which devices compete.


def _devs_that_compete_by_rules(fib: Fib, defaults: Sequence[Route]) -> frozenset[str]:
    """The devices of all default routes, if there are several and the first one is not for all that
    this host sends. Plain packets may pass over it, because a rule is not judged; or a rule leads
    only root there (`uidrange 0-0`), and other users elsewhere.

    Field states: goto-over-another-default, second-card-for-root.
    """
    devs = devs_of(defaults)
    if len(devs) < 2:
        return frozenset()
    for applied in fib.rules_for(0):
        has_first = applied.rule.table == defaults[0].table and applied.selects_plain(0)
        if has_first and "uidrange" in dict(applied.selections.inside.met):
            return devs
        if has_first:
            break
    for rule in unjudged_rules(fib):
        if rule.dst is None or rule.invert:
            return devs
    return frozenset()
