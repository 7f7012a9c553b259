"""Which of a host's rules, neighbours and routes are what azure-vnet left behind: from facts to a plan.

Theory of operation. What azure-vnet makes for a pod names the pod's address, and mostly its MAC address. It is stale
when the address is managed by another CNI now, and no device has that MAC address: neither one of the host, nor one at
the other end of a veth. A veth whose other end cannot be asked might have any MAC address; so might what is behind any
other port that is not an uplink, such as the virtual machine behind a tap device. So as long as a bridge of azure-vnet
has such a port, no MAC address is known to be dead. Everything else that speaks for a pod keeps what it has:
an address of the host's own, one that the operator protects, one that the state file gives to a device that is there.
What keeps and what deletes is said for each thing, in a sentence.

Rules work only on frames that a bridge forwards, so those for a device that is not in a bridge do nothing: they are
inert, and stay.

Here: values in, values out. Not here: reading the host, and deleting (`tasks.azure_cleanup`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

from hostrouting.azure_vnet.plan import CleanupPlan, Deletion, Kept
from hostrouting.azure_vnet.saved_rules import NotAPodRule, PodRule, SavedRules, pod_rule
from hostrouting.model import TABLE_MAIN, Prefix, Snapshot, protocol_name
from hostrouting.neighbours import EthernetLink, LinkLayerView, PeerMac, UnknownPeer
from hostrouting.uplink import bare_leg

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hostrouting.azure_vnet.state_file import Endpoint
    from hostrouting.config import AzureVnetCleanupConfig
    from hostrouting.model import IP, Route

__all__ = ["Facts", "azure_bridges", "plan_cleanup"]

_NO_MAC = {"", "00:00:00:00:00:00"}
_DEFAULTS = (Prefix.parse("0.0.0.0/0"), Prefix.parse("::/0"))
_POD_DEVICE = "azv"
"""How the names of the host's ends of azure-vnet's veths begin."""
_UPLINKS = ("", "bond", "team", "vlan", "macvlan")
"""The kinds of port that lead to the network of the node: hardware, and what is made of hardware."""
_ENDS = ("dummy", "ifb")
"""The kinds of device that have nothing behind them."""
_PROTOCOLS = (0, 2, 3, 4)
"""What a route of azure-vnet may have as its protocol: unspec, kernel, boot or static, as it has none of its own."""


@attrs.frozen(kw_only=True)
class Facts:
    """What a host has, as far as a clean-up has to know it."""

    rules: SavedRules = attrs.field(factory=SavedRules)
    view: LinkLayerView = attrs.field(factory=LinkLayerView)
    snapshot: Snapshot = attrs.field(factory=Snapshot)
    endpoints: tuple[Endpoint, ...] = ()
    """The pods in the state file."""


def azure_bridges(config: AzureVnetCleanupConfig, links: Iterable[EthernetLink]) -> tuple[str, ...]:
    """The names of azure-vnet's bridges."""
    pattern = re.compile(config.bridge_pattern, re.ASCII)
    return tuple(it.name for it in links if it.kind == "bridge" and pattern.fullmatch(it.name))


def plan_cleanup(config: AzureVnetCleanupConfig, facts: Facts) -> CleanupPlan:
    """What is stale on the host; the same facts always make the same plan."""
    judge = _Judge(config, facts)
    found = [
        *(judge.rules() if config.what.ebtables else ()),
        *(judge.neighbours() if config.what.neigh else ()),
        *(judge.routes() if config.what.routes else ()),
    ]

    def those(fate: _Fate) -> tuple[Kept, ...]:
        return tuple(Kept(it.kind, it.spec, it.reason) for found_fate, it in found if found_fate == fate)

    return CleanupPlan(
        deletions=tuple(it for fate, it in found if fate == "delete"),
        kept=those("keep"),
        conflicts=those("conflict"),
        inert=those("inert"),
        unreadable=facts.rules.unreadable if config.what.ebtables else (),
        bridges=judge.bridges,
        uplinks=judge.uplinks,
    )


_Fate: TypeAlias = Literal["delete", "keep", "conflict", "inert"]
_Judged: TypeAlias = tuple[_Fate, Deletion]


class _Judge:
    """What is known of one host, and what follows for each thing on it."""

    def __init__(self, config: AzureVnetCleanupConfig, facts: Facts) -> None:
        self._config, self._facts = config, facts
        links = facts.view.links
        self.bridges = azure_bridges(config, links)
        ports = [it for it in links if it.master in self.bridges]
        own = [it.name for it in ports if it.kind in _UPLINKS]
        self.uplinks = tuple(dict.fromkeys([*own, *config.uplinks]))
        self._ports = {it.name for it in ports}
        self._links = {it.name: it for it in links}
        self._unknown = [it.name for it in ports if _is_unknown(it) and it.name not in config.uplinks]
        self._pods = Counter(it.master for it in ports if isinstance(it.peer, PeerMac))
        self._alive = dict(_macs(links))
        self._local = dict(_own_addresses(facts.snapshot))
        self._endpoints: dict[IP, list[Endpoint]] = defaultdict(list)
        for endpoint in facts.endpoints:
            for ip in endpoint.ips:
                self._endpoints[ip].append(endpoint)
        self._rules = [(rule, _as_pod_rule(rule)) for rule in facts.rules.rules]

    def rules(self) -> Iterator[_Judged]:
        """Each rule that names a managed address, or is one of a pod."""
        for rule, found in self._rules:
            if isinstance(found, PodRule):
                fate, reason = self._pod_rule(found)
                yield fate, Deletion("rule", found.line, reason, found.line)
            elif rule.address is not None and self._is_managed(rule.address):
                spec = rule.line if rule.table == "nat" else f"-t {rule.table} {rule.line}"
                yield "keep", Deletion("rule", spec, f"not a rule of azure-vnet for a pod: {found}", rule.line)

    def neighbours(self) -> Iterator[_Judged]:
        """Each permanent neighbour on a bridge of azure-vnet."""
        for it in self._facts.view.neighbours:
            if it.dev not in self.bridges or it.state != "permanent" or it.mac in _NO_MAC:
                continue
            fate, reason = self._pod(it.ip, (it.mac,))
            if it.externally_learned and fate == "delete":
                fate, reason = "keep", "another program has learned it and keeps it (extern_learn)"
            yield fate, Deletion("neighbour", str(it), reason, it)

    def routes(self) -> Iterator[_Judged]:
        """Each route to one managed address by a bridge of azure-vnet, or by a veth of its."""
        known: dict[IP, list[str]] = defaultdict(list)
        for _, found in self._rules:
            if isinstance(found, PodRule):
                known[found.ip].append(found.mac)
        for it in self._facts.view.neighbours:
            if it.mac not in _NO_MAC:
                known[it.ip].append(it.mac)
        for route in self._facts.snapshot.routes.only(table=TABLE_MAIN):
            if not _is_pod_route(route):
                continue
            [dev] = route.devs
            spec = str(attrs.evolve(route, legs=tuple(map(bare_leg, route.legs))))
            ip = route.prefix.ip
            if dev in self.bridges:
                fate, reason = self._pod(ip, known.get(ip, ()), by=dev)
            elif dev.startswith(_POD_DEVICE):
                fate, reason = self._behind(ip, dev)
            else:
                continue
            if fate == "delete" and (kept := _why_kept(route)):
                fate, reason = "keep", kept
            yield fate, Deletion("route", spec, reason, route)

    def _pod_rule(self, rule: PodRule) -> tuple[_Fate, str]:
        if not self._is_managed(rule.ip):
            return "keep", _foreign(rule.ip)
        if not self.uplinks:
            return "inert", "no uplink is a port of a bridge of azure-vnet, so no frame meets this rule"
        if rule.uplink is not None and rule.uplink not in self.uplinks:
            if rule.uplink in self._ports:
                return "keep", f"{rule.uplink} is not an uplink: it is a port for a pod"
            told = f"{rule.uplink} is not a port of a bridge of azure-vnet, so no frame meets this rule"
            return "inert", told
        return self._pod(rule.ip, (rule.mac,))

    def _pod(self, ip: IP, macs: Iterable[str], *, by: str = "") -> tuple[_Fate, str]:
        """Whether a pod of this address, with one of these MAC addresses, may be alive."""
        kept = self._own(ip)
        if kept:
            return "keep", kept
        macs = tuple(dict.fromkeys(macs))
        for mac in macs:
            if mac in self._alive:
                return "conflict", f"{ip} is managed by another CNI, and its MAC address {mac} is {self._alive[mac]}"
        kept = self._in_state_file(ip)
        if kept:
            return "keep", kept
        if self._unknown and self._config.require_dead_mac:
            told = f"which MAC addresses are behind {_named(self._unknown)} cannot be found out"
            return "keep", f"whether its pod is alive is not known: {told}"
        if macs:
            return "delete", f"{ip} is managed by another CNI, and no device has the MAC address {' or '.join(macs)}"
        if self._pods[by] and self._config.require_dead_mac:
            told = f"nothing says which MAC address it leads to, and there are pods behind {by}"
            return "keep", f"whether its pod is alive is not known: {told}"
        return "delete", f"{ip} is managed by another CNI, and no pod behind {by} is known to have it"

    def _behind(self, ip: IP, dev: str) -> tuple[_Fate, str]:
        """Whether a pod of this address is alive at the other end of a veth of azure-vnet."""
        kept = self._own(ip)
        if kept:
            return "keep", kept
        link = self._links.get(dev)
        if link is not None and isinstance(link.peer, PeerMac):
            return "conflict", f"{ip} is managed by another CNI, and {dev} leads to a pod that is there"
        kept = self._in_state_file(ip)
        if kept:
            return "keep", kept
        if link is None or (_is_unknown(link) and self._config.require_dead_mac):
            return "keep", f"whether its pod is alive is not known: what is behind {dev} cannot be found out"
        return "delete", f"{ip} is managed by another CNI, and there is no pod behind {dev}"

    def _own(self, ip: IP) -> str:
        """Why nothing about this address is deleted, whatever names it; empty where it may be."""
        if not self._is_managed(ip):
            return _foreign(ip)
        if ip in self._local:
            return f"{ip} is {self._local[ip]}"
        if any(ip in network for network in self._config.protect if network.version == ip.version):
            return f"{ip} is protected (azureVnetCleanup.protect)"
        return ""

    def _in_state_file(self, ip: IP) -> str:
        for endpoint in self._endpoints.get(ip, ()):
            if endpoint.device in self._links:
                return f"azure-vnet's state file gives {ip} to {endpoint.name}, whose device {endpoint.device} is there"
        return ""

    def _is_managed(self, ip: IP) -> bool:
        return any(ip in network for network in self._config.managed if network.version == ip.version)


def _as_pod_rule(rule: Any) -> PodRule | NotAPodRule:
    try:
        return pod_rule(rule)
    except NotAPodRule as why:
        return why


def _foreign(ip: IP) -> str:
    return f"{ip} is not in a managed network (azureVnetCleanup.managed)"


def _named(devices: list[str]) -> str:
    more = len(devices) - 3
    return ", ".join(devices[:3]) + (f" and {more} more" if more > 0 else "")


def _is_unknown(link: EthernetLink) -> bool:
    """Whether there may be devices behind it whose MAC addresses cannot be read."""
    if link.kind == "veth":
        return isinstance(link.peer, UnknownPeer)
    return link.kind not in (*_UPLINKS, *_ENDS)


def _macs(links: Iterable[EthernetLink]) -> Iterator[tuple[str, str]]:
    """Every MAC address that a device has, with which one; the host's own last, for they are the plainer answer."""
    links = tuple(links)
    for it in links:
        if isinstance(it.peer, PeerMac):
            yield it.peer.mac, f"that of a pod behind {it.name}"
    for it in links:
        if it.mac not in _NO_MAC:
            yield it.mac, f"that of {it.name}"


def _own_addresses(snapshot: Snapshot) -> Iterator[tuple[IP, str]]:
    for route in snapshot.routes.only(prefixes=_DEFAULTS):
        for leg in route.legs:
            if leg.gateway is not None:
                yield leg.gateway, "a default gateway"
    for it in snapshot.addresses:
        yield it.ip, f"an address of this host, on {it.dev}"


def _why_kept(route: Route) -> str:
    """Why a route to a pod that is gone stays all the same; empty where it does not."""
    if route.protocol not in _PROTOCOLS:
        return f"azure-vnet does not make routes with proto {protocol_name(route.protocol)}"
    return f"it could not be brought back with its {', '.join(route.unread)}" if route.unread else ""


def _is_pod_route(route: Route) -> bool:
    """Whether it leads to one address as azure-vnet's routes do."""
    if route.prefix.length != route.prefix.ip.max_prefixlen or len(route.legs) != 1 or len(route.devs) != 1:
        return False
    leg = route.legs[0]
    plain = route.type == "unicast" and not route.tos and route.nexthop_id is None
    return plain and leg.gateway is None and not leg.onlink and leg.weight == 1
