"""Flaws of a host, whatever is expected of it: in its rules, default routes, service networks and
node addresses.

Linux begins with three rules, for the tables local, main and default; other programs may delete
them. Without the first, a host does not answer on its own addresses; without the second its routes
are not used. Of two network cards with a default route each, the one with the lower metric is used,
and often the other was meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.fib.engine import NOT_JUDGED
from hostrouting.finding import Finding
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import TABLE_LOCAL, TABLE_MAIN
from hostrouting.model.rule import default_rules, rule_command
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.check.judge import Judge


def find_flaws(judge: Judge) -> tuple[Finding, ...]:
    """The flaws of one family, the worst first."""
    flaws: list[Finding] = []
    flaws += _inside_services(judge)
    flaws += _missing_main(judge)
    flaws += _competing_defaults(judge)
    flaws += _several_node_ips(judge)
    return tuple(flaws)


def undelivered(judge: Judge) -> Iterator[Finding]:
    """Own addresses to which packets are sent away."""
    fib, usual = judge.fib, default_rules(judge.fib.family)[0]
    if fib.rules[:1] == (usual,):
        return
    local = {route.prefix for route in fib.snapshot.routes if route.table == TABLE_LOCAL}
    own = dict.fromkeys(address.ip for address in judge.addresses if address.dev != "lo")
    lost = [
        str(ip)
        for ip in own
        if Prefix.of(ip) in local and fib.lookup(ip).kind not in {"local", NOT_JUDGED}
    ]
    if lost:
        held = f"address{'es' * (len(lost) > 1)} {spoken(lost)}"
        sentence = f"this host does not answer on its {held}: no rule looks up table local first"
        yield Finding(
            "missing-rule",
            "error",
            sentence,
            spoken(lost),
            f"as root: {rule_command('add', usual)}",
        )


def _missing_main(judge: Judge) -> Iterator[Finding]:
    fib, usual = judge.fib, default_rules(judge.fib.family)[1]
    is_used = any(route.table == TABLE_MAIN for route in fib.snapshot.routes)
    if is_used and usual not in [rule._replace(priority=usual.priority) for rule in fib.rules]:
        sentence = "no rule looks up table main for all packets, so its routes are not used"
        yield Finding(
            "missing-rule", "warning", sentence, "main", f"as root: {rule_command('add', usual)}"
        )


def _inside_services(judge: Judge) -> Iterator[Finding]:
    """Addresses of the host, gateways and name servers inside a service network: packets may go to
    a service instead.

    Inside a network of pods that is right where pods share the host's network, so it is a note
    there.
    """
    # kube-proxy and a DNS cache have the addresses of services on dummy devices.
    snapshot, dummies = (
        judge.fib.snapshot,
        {link.name for link in judge.links.values() if link.kind == "dummy"},
    )
    gateways = (hop.gateway for route in judge.fib.routes for hop in route.next_hops if hop.gateway)
    addresses = [address for address in snapshot.addresses if address.dev not in dummies]
    holders = dict.fromkeys(snapshot.name_servers, "a name server") | dict.fromkeys(
        gateways, "a gateway"
    )
    holders |= {address.ip: f"the address of {address.dev}" for address in addresses}
    for ip, what in holders.items():
        for services in (cidr for cidr in judge.services if ip in cidr):
            sentence = (
                f"{ip}, {what}, lies in the service network {services}, so its packets may go to "
                "a service"
            )
            remedy = "give the cluster another service network, or the host another address"
            yield Finding("service-network-holds-host", "error", sentence, str(ip), remedy)
    for address in (address for address in addresses if address.dev in judge.uplinks.devs):
        for pods in (cidr for cidr in judge.pods if address.ip in cidr):
            sentence = (
                f"{address.ip}, the address of {address.dev}, lies in the network of pods {pods}"
            )
            remedy = "this is right where pods share the host's network; else give pods another one"
            yield Finding("service-network-holds-host", "note", sentence, str(address.ip), remedy)


def _competing_defaults(judge: Judge) -> Iterator[Finding]:
    """Default routes of several network cards, if no device is named or in doubt."""
    uplinks = judge.uplinks
    if judge.named or uplinks.doubtful:
        return
    others = {dev for default in uplinks.defaults for dev in default.devs} - uplinks.devs
    if cards := sorted(dev for dev in others if judge.is_card(dev)):
        verb, used = "has" if len(cards) == 1 else "have", spoken(sorted(uplinks.devs))
        sentence = f"{spoken(cards)} also {verb} a default route, but Linux prefers that of {used}"
        remedy = f"if {spoken(cards, last='or')} is intended, name it in routeOverlap.expectedDevs"
        yield Finding("default-routes", "warning", sentence, spoken(cards), remedy)


def _several_node_ips(judge: Judge) -> Iterator[Finding]:
    """Expected devices from which this host sends with different addresses: none of these is the
    node IP.
    """
    if judge.node_ip is not None or not judge.node_sources:
        return
    addresses = [str(source) for _, source in judge.node_sources]
    devs = dict.fromkeys(dev for dev, _ in judge.node_sources)
    ways = [f"{source} through {dev}" for dev, source in judge.node_sources]
    sentence = (
        f"the node IP of IPv{judge.fib.family} is not known: this host sends from {spoken(ways)}"
    )
    remedy = "if kubelet runs here, choose its --node-ip"
    facts = {"family": judge.fib.family, "addresses": addresses}
    yield Finding("node-ip", "note", sentence, spoken([*devs]), remedy, facts)
