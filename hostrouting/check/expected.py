"""Which devices are expected: those that the configuration names, or those of the default route.

Theory of operation. The default routes for plain packets are listed in the order of the lookup. The
first that Linux uses says which devices are expected. Then each way in which that may be wrong is
asked for, and gives the devices that are in doubt:

- An equal default route leads through another device, or several routers advertise themselves.
- The default route is a tunnel's. If it hides that of a network card, both are in doubt. A
  provider's line or a tap is not, if it is the only way out.
- A rule that is not judged may pass over the default route.

The first two are the same for the routes of a configuration, so `routes.uplink` has them
(`doubtful_devs`). Doubt belongs to devices: what leaves through others is not in doubt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from hostrouting.model.prefix import Prefix
from hostrouting.routes.uplink import doubtful_devs, has_tunnel, is_line, leads_out

if TYPE_CHECKING:
    from hostrouting.check.devices import Devices
    from hostrouting.fib.engine import Fib, Step, Table
    from hostrouting.model.route import Route
    from hostrouting.model.snapshot import Link

_NONE: frozenset[str] = frozenset()


class Uplinks(NamedTuple):
    """Which devices are expected."""

    devs: frozenset[str]
    doubtful: frozenset[str]
    """Those that may not be the intended ones."""
    hidden_nic: str | None
    """The network card whose default route a tunnel's hides."""
    defaults: tuple[Route, ...]
    """The default routes that lead out of the host, in the order of the lookup; two halves are one.
    """


class Default(NamedTuple):
    """A default route for plain packets."""

    route: Route
    is_used: bool
    """Whether the rule uses it: with `suppress_prefixlength 0` it does not."""


def find_uplinks(fib: Fib, devices: Devices, configured: frozenset[str]) -> Uplinks:
    """The expected devices of a host, and the doubt about them.

    The devices that the configuration names come first, and are not in doubt.
    """
    every = list(find_defaults(fib))
    counting = counting_devs(every, devices.links)
    leading = [default for default in every if not counting.isdisjoint(default.route.devs)]
    defaults = _without_captures(leading)
    routes = tuple(default.route for default in defaults)
    used = next((default.route for default in defaults if default.is_used), None)
    devs = configured
    if not devs and used is not None:
        devs = counting & set(used.devs)
    hidden = _NONE
    if has_tunnel(devs, devices.links):
        hidden = counting & _first_nic_devs(routes, devices.links)
    doubtful = _NONE
    if used is not None and not configured:
        rivals = counting & {dev for route in fib.equals(used) for dev in route.devs}
        is_way_out = _may_be_the_only_way_out(devs, counting, devices)
        doubtful = doubtful_devs(used, devs, rivals, hidden, devices.links, is_line=is_way_out)
        if len(counting) > 1 and _may_pass_over_defaults(fib):
            doubtful |= counting & {dev for default in leading for dev in default.route.devs}
    hidden_nic = None
    if len(hidden) == 1:
        [hidden_nic] = hidden
    return Uplinks(devs | doubtful, doubtful, hidden_nic, routes)


def find_defaults(fib: Fib) -> Iterator[Default]:
    """All default routes for plain packets, in the order of the lookup."""
    for step in fib.steps():
        # A rule for some destinations is not about all packets, even if its table has a default.
        if step.table is None or step.rule.dst is not None or not step.is_for_plain(0):
            continue
        for route in _defaults_in(step.table, Prefix(fib.family, 0, 0)):
            yield Default(route, is_used=not _is_suppressed(step, route))


def _defaults_in(table: Table, every: Prefix) -> Iterator[Route]:
    """The default routes of a table; routes to both halves of all addresses are one of them."""
    for route in table.defaults.get(every, ()):
        if route.type == "unicast":
            yield route
    lower, upper = (table.defaults.get(half, ()) for half in every.halves())
    if lower and upper and lower[0].type == upper[0].type == "unicast":
        yield lower[0]._replace(next_hops=(*lower[0].next_hops, *upper[0].next_hops))


def _is_suppressed(step: Step, route: Route) -> bool:
    limit = step.rule.suppress_prefixlength
    return limit is not None and route.prefix.length <= limit


def counting_devs(defaults: Iterable[Default], links: Mapping[str, Link]) -> frozenset[str]:
    """The devices whose default routes count.

    A dummy's counts where there is no other. k3s asks for one on a node without a router, because
    packets to services need a route before kube-proxy gives them another destination.
    """
    devs = {dev for default in defaults for dev in default.route.devs if dev in links}
    leading = {dev for dev in devs if leads_out(links[dev])}
    dummies = {dev for dev in devs if links[dev].kind == "dummy"}
    return frozenset(leading or dummies)


def _without_captures(defaults: list[Default]) -> list[Default]:
    """The default routes without two halves, unless there is nothing else.

    Beside a default route, two halves are a capture: OpenVPN's `redirect-gateway def1`.
    """
    whole = [default for default in defaults if default.route.prefix.length == 0]
    return whole or defaults


def _first_nic_devs(routes: Iterable[Route], links: Mapping[str, Link]) -> frozenset[str]:
    """The devices of the first default route that is not a tunnel's."""
    for route in routes:
        if not has_tunnel(route.devs, links):
            return frozenset(route.devs)
    return _NONE


# One function for each reason why a default route may be right or wrong after all.


def _may_be_the_only_way_out(
    devs: frozenset[str], counting: frozenset[str], devices: Devices
) -> bool:
    """Whether a tunnel's default route is right: a provider's line, or taps and nothing else.

    Field states: pppoe, openfortivpn; slirp-tap, open-vswitch-netdev.
    """
    if is_line(devs, devices.links):
        return True
    return devs == counting and devices.are_only_taps(devs)


def _may_pass_over_defaults(fib: Fib) -> bool:
    """Whether plain packets may take a rule that is not judged, and so miss a default route.

    Field state: goto-over-another-default.
    """
    for step in fib.steps():
        is_unjudged = step.rule.action == "goto" or step.rule.suppress_ifgroup is not None
        is_about_all = step.rule.dst is None or step.rule.invert
        if is_unjudged and is_about_all and step.may_take_plain:
            return True
    return False
