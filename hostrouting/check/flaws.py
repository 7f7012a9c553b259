"""Flaws: findings about the networks of services and the default routes of a host that do not
change the verdict. No unit is held back for a flaw, so none is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.finding import Finding, Remedy
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import devs_of
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.check.judge import Judge
    from hostrouting.model.prefix import IP


def find_flaws(judge: Judge) -> Iterator[Finding]:
    """Yield the flaws of one family, the worst first: warnings that do not change the verdict."""
    yield from _hosts_in_service_networks(judge)
    yield from _competing_defaults(judge)


def _hosts_in_service_networks(judge: Judge) -> Iterator[Finding]:
    """Yield a warning for each address of the host, and each gateway, that lies inside a network of
    services: packets to it may go to a service instead.
    """
    if not judge.services:
        return
    for ip, role in _known_addresses(judge).items():
        for block in judge.services:
            if ip in block:
                sentence = (
                    f"{ip}, {role}, lies in the service network {block}, so packets to it may go "
                    "to a service"
                )
                remedy = Remedy(
                    "give the cluster another service network, or the host another address"
                )
                yield Finding("service-network-holds-host", "warning", sentence, str(ip), remedy)


def _known_addresses(judge: Judge) -> dict[IP, str]:
    """The addresses of this host and of its gateways, each with its role in words."""
    known: dict[IP, str] = {}
    for route in judge.fib.routes:
        for hop in route.next_hops:
            if hop.gateway is not None:
                known[hop.gateway] = "a gateway"
    for address in judge.devices.addresses:
        # None if the device was added after the devices were read, and before the addresses were.
        link = judge.devices.links.get(address.dev)
        # kube-proxy and a DNS cache have the addresses of services on dummy devices.
        if link and link.kind != "dummy":
            known[address.ip] = f"the address of {address.dev}"
    return known


def _competing_defaults(judge: Judge) -> Iterator[Finding]:
    """Yield a warning if a card that is not expected has a default route, too. There is none if the
    configuration names the devices, or if they are in doubt, because that doubt says more.

    A card does not count if a rule selects by its address: somebody has set it up beside the first
    one, with a table of its own.
    """
    uplinks = judge.uplinks
    if judge.configured_devs or uplinks.doubtful:
        return
    others = devs_of(uplinks.defaults) - uplinks.devs
    sources = {rule.src for rule in judge.fib.rules}
    for address in judge.devices.addresses:
        if Prefix.of(address.ip) in sources:
            others -= {address.dev}
    cards = sorted(dev for dev in others if judge.devices.may_be_card(dev))
    if cards:
        used = sorted(uplinks.devs)
        sentence = f"Linux prefers the default route of {spoken(used)} to that of {spoken(cards)}"
        yield Finding(
            "default-routes",
            "warning",
            sentence,
            spoken(cards),
            Remedy(
                "name the intended devices in routeOverlap.expectedDevs, or with --dev NAME of "
                "check and repair"
            ),
            {"candidates": [*used, *cards]},
        )
