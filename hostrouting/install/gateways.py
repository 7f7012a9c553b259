"""Gateways that do not answer: a route is in force, and its packets are lost all the same.

Linux asks for the link-layer address of a gateway when it has a packet for it, and keeps that it
got no answer. That list is read here, and nothing is sent. Not judged: a gateway to which nothing
was sent lately, and one of IPv6, whose list is not a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hostrouting.finding import Finding, Remedy
from hostrouting.model.prefix import IPV4
from hostrouting.text import agreeing, grouped, spoken

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.base import Files
    from hostrouting.model.route import Route
    from hostrouting.model.snapshot import Snapshot

_NEIGHBOURS = "/proc/net/arp"
_UNKNOWN = "0x0"
"""The flags of a neighbour that has not answered."""


def find_silent_gateways(
    config: HostRoutingConfig, files: Files, snapshot: Snapshot
) -> Iterator[Finding]:
    """The gateways of configured routes that are in force, where Linux has asked in vain."""
    keys = {route.key for route in config.static_routes.routes}
    if not keys:
        return
    silent = _silent_neighbours(files)
    routes = [route for route in snapshot.routes if route.key in keys]
    for (gateway, dev), prefixes in grouped(_gateways_of(routes)).items():
        if (gateway, dev) not in silent:
            continue
        needs = agreeing("needs", len(prefixes))
        sentence = (
            f"{spoken(prefixes)} {needs} the gateway {gateway}, which does not answer on {dev}"
        )
        words = "look at that router, or correct the configuration"
        defaults = [f"[{route}]" for route in snapshot.default_routes(IPV4)]
        if defaults:
            words += f": the default route is {spoken(defaults)}"
        remedy = Remedy(words)
        yield Finding("route-waits", "warning", sentence, gateway, remedy, can_retry=True)


def _gateways_of(routes: Iterable[Route]) -> Iterator[tuple[tuple[str, str], str]]:
    """Each gateway of a route with its device, and then the destination."""
    for route in routes:
        for hop in route.next_hops:
            if hop.gateway is not None and hop.dev is not None:
                yield (str(hop.gateway), hop.dev), str(route.prefix)


def _silent_neighbours(files: Files) -> set[tuple[str, str]]:
    """The address and the device of each neighbour that has not answered."""
    silent: set[tuple[str, str]] = set()
    for line in (files.read(_NEIGHBOURS) or "").splitlines()[1:]:
        address, _type, flags, _link_address, _mask, dev = line.split()
        if flags == _UNKNOWN:
            silent.add((address, dev))
    return silent
