"""Flaws of a host, which are found whether anything escapes or not: in its networks of services,
default routes and rules.

No unit is held back for a flaw, so none is an error. A missing rule changes the verdict, to
UNDECIDED (`find_missing_rules`).

Linux begins with three rules, for the tables local, main and default; other programs may delete
them. Without the first, a host does not answer on its own addresses; without the second its routes
are not used. Of two network cards with a default route each, the one with the lower metric is used,
and often the other was meant. A kernel without IPv6 has no rules at all for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostrouting.fib.engine import NOT_JUDGED
from hostrouting.finding import Finding, Remedy
from hostrouting.model.prefix import IP, IPV6, Prefix
from hostrouting.model.route import TABLE_LOCAL, TABLE_MAIN, devs_of
from hostrouting.model.rule import default_rules, rule_command
from hostrouting.routes.uplink import TO_HAVE_IPV6
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.check.judge import Judge
    from hostrouting.fib.engine import Fib
    from hostrouting.model.rule import Rule


_NO_IPV6 = Finding(
    "missing-rule",
    "warning",
    "Linux has no IPv6 rules, as after a boot with ipv6.disable=1",
    "IPv6",
    TO_HAVE_IPV6,
)
_NAME_SERVER = "a name server"


def find_flaws(judge: Judge) -> tuple[Finding, ...]:
    """The flaws of one family that leave the verdict as it is, the worst first."""
    return (
        *_hosts_in_service_networks(judge),
        *_competing_defaults(judge),
    )


def _hosts_in_service_networks(judge: Judge) -> Iterator[Finding]:
    """Addresses of the host, gateways and name servers inside a network of services: packets to
    them may go to a service instead.
    """
    if not judge.services:
        return
    for ip, what in _known_addresses(judge).items():
        for block in judge.services:
            if ip in block:
                yield _host_inside(ip, what, block)


def _host_inside(ip: IP, what: str, block: Prefix) -> Finding:
    sentence = (
        f"{ip}, {what}, lies in the service network {block}, so packets to it may go to a service"
    )
    other = "name server, unless it is the cluster's own" if what == _NAME_SERVER else "address"
    words = f"give the cluster another service network, or the host another {other}"
    return Finding("service-network-holds-host", "warning", sentence, str(ip), Remedy(words))


def _known_addresses(judge: Judge) -> dict[IP, str]:
    """The addresses that this host needs, with what each is."""
    devices = judge.devices
    # Own addresses follow below. kube-proxy and a DNS cache have the addresses of services on dummy
    # devices; Kubespray has nodes ask the name server of the cluster.
    own = {address.ip for address in devices.addresses}
    name_servers = set(judge.fib.snapshot.name_servers) - own
    known = dict.fromkeys(sorted(name_servers, key=int), _NAME_SERVER)
    for route in judge.fib.routes:
        for hop in route.next_hops:
            if hop.gateway is not None:
                known[hop.gateway] = "a gateway"
    for address in devices.addresses:
        if address.dev not in devices.dummies:
            known[address.ip] = f"the address of {address.dev}"
    return known


def _competing_defaults(judge: Judge) -> Iterator[Finding]:
    """Default routes of several network cards, if no device is named or in doubt."""
    uplinks = judge.uplinks
    if judge.configured_devs or uplinks.doubtful:
        return
    others = devs_of(uplinks.defaults) - uplinks.devs
    cards = sorted(dev for dev in others if judge.devices.may_be_card(dev))
    if cards:
        used = spoken(sorted(uplinks.devs))
        sentence = f"Linux prefers the default route of {used} to that of {spoken(cards)}"
        facts = {"candidates": [*cards, *sorted(uplinks.devs)]}
        yield Finding("default-routes", "warning", sentence, spoken(cards), facts=facts)


# Missing rules.


def find_missing_rules(judge: Judge) -> Iterator[Finding]:
    """The rules of Linux that somebody has deleted: the verdict is UNDECIDED."""
    fib = judge.fib
    to_local, to_main, *_ = default_rules(fib.family)
    if fib.family == IPV6 and fib.snapshot.lacks(IPV6):
        yield _NO_IPV6
    in_main = [route for route in fib.snapshot.routes if route.table == TABLE_MAIN]
    has_routes = any(route.prefix.family == fib.family for route in in_main)
    if has_routes and not _looks_up_main(fib, to_main):
        sentence = "no rule looks up table main for all packets, so its routes are not used"
        yield _missing(to_main, sentence, "main")
    if fib.rules[:1] == (to_local,):
        return
    lost = spoken(_addresses_sent_elsewhere(judge))
    if lost:
        sentence = f"this host does not answer on {lost}: no rule looks up table local first"
        missing = _missing(to_local, sentence, lost)
        # Linux adds no rule twice, and uses those of one priority in turn.
        if to_local in fib.rules:
            remedy = Remedy("give the rules before it a priority above 0")
            missing = missing._replace(remedy=remedy)
        yield missing


def _looks_up_main(fib: Fib, usual: Rule) -> bool:
    """Whether a rule looks up table main for all packets, whatever its priority."""
    # `Fib.rules` has this one also where IPv6 has lost it.
    return any(rule._replace(priority=usual.priority) == usual for rule in fib.snapshot.rules)


def _missing(rule: Rule, sentence: str, target: str) -> Finding:
    remedy = Remedy(command=rule_command("add", rule))
    return Finding("missing-rule", "warning", sentence, target, remedy)


def _addresses_sent_elsewhere(judge: Judge) -> list[str]:
    """The addresses in table local, except those of lo, to which the rules do not lead."""
    fib = judge.fib
    local = {route.prefix for route in fib.snapshot.routes if route.table == TABLE_LOCAL}
    lost: dict[str, None] = {}
    for address in judge.devices.addresses:
        if address.dev == "lo" or Prefix.of(address.ip) not in local:
            continue
        if fib.lookup(address.ip).kind not in {"local", NOT_JUDGED}:
            lost[str(address.ip)] = None
    return list(lost)
