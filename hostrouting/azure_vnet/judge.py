"""Which rules, neighbours and routes of azure-vnet are stale: from facts about a node to entries,
each with its fate.

An entry is what azure-vnet adds for a pod: a rule of ebtables, a neighbour or a route. It has the
pod's address, and a rule or a neighbour also the MAC address. An entry is stale if another CNI
manages the address now, and nobody has the MAC address any more (it is dead).

A MAC address is alive if a device of the host has it, or the other end of a veth, or if a bridge
has learned it behind a port that is not an uplink, such as that of a virtual machine. Behind an
opaque port, which is neither an uplink nor a veth whose other end can be read, such as a tap, there
may be any MAC address. So while azure-vnet's bridge has such a port, no MAC address is known to be
dead. All MAC addresses are compared in one spelling, lower case with all zeros: `pod_rule` gives it
to those of rules, and the link layer has no other.

A route is judged by the MAC addresses of the other entries for its address. In tunnel mode, the
rule that answers ARP has one virtual MAC address for all pods, so it is judged by the other
entries, too. A route by a pod's veth is not judged, because Linux deletes it with the veth.

`_Node` has the facts. `_fate_of_address` is the decision: it asks several questions in order, and
the first one with an answer decides.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from hostrouting.azure_vnet.rules import VIRTUAL_MAC, PodRule, pod_rule
from hostrouting.azure_vnet.state import STATE_FILE, Endpoint, read_state
from hostrouting.finding import Finding, Remedy
from hostrouting.model.prefix import IP, Prefix
from hostrouting.model.route import NextHop, Route, bare
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.azure_vnet.ebtables import BridgeRule
    from hostrouting.azure_vnet.neighbours import LinkLayerView, Neighbour
    from hostrouting.config.settings import AzureVnetCleanupConfig
    from hostrouting.model.snapshot import Snapshot

MOST_DELETIONS = 1000
"""A run deletes at most this many entries."""

Fate: TypeAlias = Literal["delete", "conflict", "keep"]
"""What to do with an entry. A conflict is kept, too: its pod is alive, but another CNI manages the
address.
"""


@attrs.frozen
class CleanupFacts:
    """What is known about a host, read in the order of the fields: so the entries of a new pod are
    never known without its MAC address or its port. A port that has come after the view has no
    other end in it, so it counts as opaque.
    """

    rules: tuple[BridgeRule, ...] | None
    """None if the host has no ebtables that could be asked."""
    view: LinkLayerView
    snapshot: Snapshot
    state: str | None = None
    """The text of azure-vnet's state file; None if there is none."""
    active_file: str = ""
    """The path of a CNI configuration that names azure-vnet; empty if none does."""


@attrs.frozen
class CleanupEntry:
    """A rule, neighbour or route that looks like azure-vnet's, with its fate and the reason."""

    kind: Literal["rule", "neighbour", "route"]
    spec: str
    """The rule as ebtables prints it, or the neighbour or the route as ip does."""
    ip: IP
    """The address of the pod."""
    fate: Fate
    reason: str
    thing: BridgeRule | Neighbour | Route = attrs.field(repr=False)

    def __str__(self) -> str:
        return f"{self.fate} {self.kind} {self.spec}    # {self.reason}"

    def to_mapping(self) -> dict[str, str]:
        """The entry as plain values."""
        return {"kind": self.kind, "spec": self.spec, "fate": self.fate, "reason": self.reason}


_UNREADABLE_STATE = Finding(
    "azure-vnet",
    "error",
    f"azure-vnet's state file {STATE_FILE} is truncated, or has a shape that is unknown",
    STATE_FILE,
    Remedy("wait until azure-vnet has written it; if azure-vnet is gone, remove the file"),
)
_NO_EBTABLES = Finding(
    "requirement",
    "error",
    "ebtables is not installed, or its modules are not loaded, so its rules cannot be listed",
    "ebtables",
    Remedy("install it, or load its modules"),
)
_DRY_RUN = Finding(
    "azure-vnet", "note", "dryRun is true: nothing is deleted", "azureVnetCleanup.dryRun"
)


def judge(
    facts: CleanupFacts, config: AzureVnetCleanupConfig
) -> tuple[tuple[CleanupEntry, ...], tuple[Finding, ...]]:
    """Decide what a clean-up deletes. Return the entries, each with its fate, and findings about
    the whole clean-up. If a finding is an error, nothing may be deleted, whatever the fates are.

    The entries are in the order of deletion. Rules come first, because ebtables deletes all of them
    or none, and the clean-up stops if it deletes none.
    """
    pods = read_state(facts.state)  # None if the text cannot be read, which is an error below
    node = _Node(facts, config, pods or ())
    entries = (
        *_judge_rules(node),
        *_judge_neighbours(node),
        *_judge_routes(node, facts.snapshot),
    )

    findings: list[Finding] = []
    if facts.active_file:  # azure-vnet is in use, and may add again what is deleted
        findings.append(_finding_active(facts.active_file))
    if pods is None:
        findings.append(_UNREADABLE_STATE)
    # Only a node with a bridge of azure-vnet is expected to have its rules.
    if facts.rules is None and node.bridges:
        findings.append(_NO_EBTABLES)
    stale = [entry for entry in entries if entry.fate == "delete"]
    stale_ips = {entry.ip for entry in stale if entry.kind == "rule"}
    # The state file can list a pod that is gone: its rules are stale, but may be added again.
    still_listed = [pod.name for pod in pods or () if not stale_ips.isdisjoint(pod.ips)]
    if still_listed:
        findings.append(_finding_still_listed(still_listed))
    if len(stale) > MOST_DELETIONS:
        findings.append(_finding_too_many(len(stale)))
    if config.dry_run:
        findings.append(_DRY_RUN)
    return entries, tuple(findings)


def _finding_active(path: str) -> Finding:
    """Make the error for a CNI configuration, the file `path`, that still has azure-vnet as a
    plugin. Because of this error, no rule or route of azure-vnet is deleted.
    """
    return Finding(
        "azure-vnet",
        "error",
        f"{path} names azure-vnet, which may manage this node's pods",
        path,
        Remedy("remove the file if another CNI manages the pods"),
    )


def _finding_still_listed(pods: Sequence[str]) -> Finding:
    """A warning that the state file still names these pods, although rules of theirs are stale. In
    older clusters, the program azure-cnms adds the rules of all pods in this file again every 10 s.
    """
    sentence = (
        f"{STATE_FILE} still lists {spoken(pods, most=3)}, whose rules are stale: "
        "azure-cnms, if it runs, adds them again from there"
    )
    remedy = Remedy("delete azure-cnms before the rules; the file goes with the next boot")
    return Finding("azure-vnet", "warning", sentence, STATE_FILE, remedy)


def _finding_too_many(count: int) -> Finding:
    """The error if more entries are stale than one run deletes: nothing is deleted then."""
    sentence = f"{count:,} entries are stale, and one run deletes at most {MOST_DELETIONS:,}"
    remedy = Remedy(
        "name only some of the networks in azureVnetCleanup.managed, and clean up in several runs"
    )
    return Finding("azure-vnet", "error", sentence, "azureVnetCleanup.managed", remedy)


# The facts.

_BRIDGE = re.compile(r"azure\d+", re.ASCII)
"""azure-vnet names its bridge azure0, or azure followed by the index of the uplink."""
_UPLINK_KINDS = ("", "bond", "team", "vlan", "macvlan")
"""The kinds of port that are connected to the node's network: hardware, and devices on top of
hardware.
"""
_NO_MAC = ("", "00:00:00:00:00:00")


class _Node:
    """What is known about a node, as the decision about each entry asks for it; worked out once."""

    def __init__(
        self, facts: CleanupFacts, config: AzureVnetCleanupConfig, pods: Iterable[Endpoint]
    ) -> None:
        links = facts.snapshot.links_by_name
        self.config = config
        all_bridges = {link.name for link in links.values() if link.kind == "bridge"}
        # The bridges of azure-vnet.
        self.bridges = {name for name in all_bridges if _BRIDGE.fullmatch(name)}
        all_ports = [link for link in links.values() if link.master in all_bridges]
        # The ports of bridges through which frames come in from the node's network. All bridges of
        # the host count, because Linux applies the ebtables rules to each of them.
        self.uplinks = {port.name for port in all_ports if port.kind in _UPLINK_KINDS}
        self.uplinks.update(config.uplinks)
        ports = [port for port in all_ports if port.master in self.bridges]
        # The other ports of azure-vnet's bridges: each can have a pod of azure-vnet behind it.
        self.pod_ports = [port.name for port in ports if port.name not in self.uplinks]
        # The pod ports whose other end cannot be read: any MAC address may be behind them.
        self.opaque_ports = [port for port in self.pod_ports if port not in facts.view.peers]
        # Each MAC address that is in use, with the device that has it, in words. A pod with such a
        # MAC address is alive.
        self.holder_of_mac = _holder_of_each_mac(facts.view, self.uplinks)
        # The addresses that no pod can have, each with the reason in words.
        self.reserved = _reserved_addresses(facts.snapshot)
        # By address, the pods of the state file. A pod whose device is gone does not count.
        self.pods: dict[IP, Endpoint] = {}
        for pod in pods:
            if pod.device in links:
                self.pods |= dict.fromkeys(pod.ips, pod)
        # Of the ebtables rules, those that azure-vnet has added for pods.
        self.rules = [rule for rule in map(pod_rule, facts.rules or ()) if rule is not None]
        # The neighbours on azure-vnet's bridges that have a MAC address.
        self.neighbours = [
            neighbour
            for neighbour in facts.view.neighbours
            if neighbour.dev in self.bridges and neighbour.mac not in _NO_MAC
        ]
        # The MAC addresses that azure-vnet's entries give to each address.
        self.macs_of_ip = _macs_of_each_ip(self.rules, self.neighbours)


def _holder_of_each_mac(view: LinkLayerView, uplinks: Collection[str]) -> dict[str, str]:
    """Return each MAC address that is in use, with the device that has it, in words. If several
    devices have it, a device of the host itself is named, because an operator can check this one
    most easily.
    """
    # Each loop replaces what an earlier one has found.
    holder_of_mac: dict[str, str] = {}
    for mac, dev in view.learned:
        if dev not in uplinks:  # behind an uplink are other hosts
            holder_of_mac[mac] = f"a device behind {dev}"
    for dev, mac in view.peers.items():
        holder_of_mac[mac] = f"a pod behind {dev}"
    for dev, mac in view.macs.items():
        holder_of_mac[mac] = f"the device {dev}"
    return holder_of_mac


def _reserved_addresses(snapshot: Snapshot) -> dict[IP, str]:
    """The addresses that no pod can have, each with the reason in words: the default gateways, and
    the addresses of this host.
    """
    reserved: dict[IP, str] = {}
    for route in snapshot.routes:
        if route.prefix.length:  # not a default route: its gateway may be a pod
            continue
        for hop in route.next_hops:
            if hop.gateway is not None:
                reserved[hop.gateway] = "a default gateway"
    for address in snapshot.addresses:
        reserved[address.ip] = f"an address of this host, on {address.dev}"
    return reserved


def _macs_of_each_ip(
    rules: Iterable[PodRule], neighbours: Iterable[Neighbour]
) -> dict[IP, list[str]]:
    """By IP address, the MAC addresses that rules and neighbours give to it, each once. The virtual
    MAC address of some rules is left out, because it belongs to no pod.
    """
    pairs = [(rule.ip, rule.mac) for rule in rules if rule.mac != VIRTUAL_MAC]
    pairs += [(neighbour.ip, neighbour.mac) for neighbour in neighbours]
    macs_of_ip: dict[IP, list[str]] = {}
    for ip, mac in dict.fromkeys(pairs):
        macs_of_ip.setdefault(ip, []).append(mac)
    return macs_of_ip


# The decision: what is stale.

_PROTOCOLS = (0, 2, 3, 4)
"""The protocols that azure-vnet's routes may have: unspec, kernel, boot, static. It has no protocol
of its own, and its source code uses that of the kernel, too. Routes to a single address that Linux
itself adds are still safe: they have a source address, or are to an address of this host.
"""


def _judge_rules(node: _Node) -> Iterator[CleanupEntry]:
    """Judge each rule that azure-vnet adds for a pod."""
    for rule, ip, mac, uplink in node.rules:
        macs = [mac]
        if mac == VIRTUAL_MAC:  # all pods share it: use those of the pod's other entries
            macs = node.macs_of_ip.get(ip, [])
        fate, reason = _fate_of_address(node, ip, macs)
        # A rule for IP packets names an uplink, but a rule for ARP does not (None). A rule with an
        # uplink matches only packets that come in by this device while it is the port of a bridge.
        # If the device is not such a port, the rule does nothing, and can stay.
        if uplink is not None and uplink not in node.uplinks:
            fate, reason = "keep", "it matches no bridged uplink"
        yield CleanupEntry("rule", rule.text, ip, fate, reason, rule)


def _judge_neighbours(node: _Node) -> Iterator[CleanupEntry]:
    """Judge each permanent neighbour with a MAC address on a bridge of azure-vnet."""
    for neighbour in node.neighbours:
        fate, reason = _fate_of_address(node, neighbour.ip, [neighbour.mac])
        yield CleanupEntry("neighbour", str(neighbour), neighbour.ip, fate, reason, neighbour)


def _judge_routes(node: _Node, snapshot: Snapshot) -> Iterator[CleanupEntry]:
    """Judge each route that azure-vnet may have added for a pod through its bridge."""
    for route in snapshot.routes:
        pod_route = _as_pod_route(route, node.bridges)
        if pod_route is not None:
            ip = route.prefix.ip
            fate, reason = _fate_of_address(node, ip, node.macs_of_ip.get(ip, ()))
            yield CleanupEntry("route", str(pod_route), ip, fate, reason, pod_route)


def _as_pod_route(route: Route, bridges: set[str]) -> Route | None:
    """Return the route if azure-vnet may have added it for a pod, else None. Such a route is in
    table main, leads to one address by one of these bridges, and has no attribute besides metric,
    scope and protocol. `bare` leaves out the state of its next hop (dead, linkdown).
    """
    if route.protocol not in _PROTOCOLS or bridges.isdisjoint(route.devs):
        return None
    # The route as azure-vnet would have added it: if `route` has anything else, the two differ.
    pod_route = Route(
        Prefix.of(route.prefix.ip),
        (NextHop(route.devs[0]),),
        metric=route.metric,
        scope=route.scope,
        protocol=route.protocol,
    )
    return pod_route if bare(route) == pod_route else None


def _fate_of_address(node: _Node, ip: IP, macs: Sequence[str]) -> tuple[Fate, str]:
    """Decide the fate of an entry for a pod's address, and return it with the reason. `macs` are
    the MAC addresses that the pod may have; there are none if its MAC address is not known.
    """
    reason = _why_protected(node, ip)
    if reason:
        return "keep", reason
    # The operator says so: the address is in azureVnetCleanup.managed, or else it is kept above.
    managed = f"another CNI manages {ip}"
    # A device with the MAC address proves that the pod is alive, so look for one first.
    for mac in macs:
        if mac in node.holder_of_mac:
            holder = node.holder_of_mac[mac]
            return "conflict", f"{managed}, but azure-vnet's MAC address {mac} belongs to {holder}"
    reason = _why_perhaps_alive(node, ip, macs)
    if reason:
        return "keep", reason
    if macs:
        return "delete", f"{managed}, and no device has the MAC address {' or '.join(macs)}"
    return "delete", f"{managed}, and no pod is known to use it"


def _why_protected(node: _Node, ip: IP) -> str:
    """Why all entries for this address are kept, whatever their MAC addresses: no other CNI manages
    the address, no pod can have it, or the configuration protects it. Empty if they are not.
    """
    if not any(ip in network for network in node.config.managed):
        return f"{ip} is not in a managed network (azureVnetCleanup.managed)"
    if ip in node.reserved:
        return f"{ip} is {node.reserved[ip]}"
    if any(ip in network for network in node.config.protect):
        return f"{ip} is protected (azureVnetCleanup.protect)"
    return ""


def _why_perhaps_alive(node: _Node, ip: IP, macs: Sequence[str]) -> str:
    """Return why the pod may be alive although no device is known to have its MAC address; empty
    if it is dead. `macs` are the MAC addresses that azure-vnet's entries give to the pod.

    A known limit: a machine behind a pod, such as a virtual machine in it, seems dead when it has
    sent nothing for 300 s, because a bridge forgets a MAC address then.
    """
    pod = node.pods.get(ip)
    if pod is not None:
        return (
            f"azure-vnet's state file gives {ip} to {pod.name}, and its device {pod.device} exists"
        )
    # Behind an opaque port, no MAC address can be read, so the pod may be there. Behind the other
    # ports, all MAC addresses are known, and none of them is the pod's.
    ports = node.opaque_ports
    if not macs:  # no MAC address to look for: this pod may be behind any port
        ports = node.pod_ports
    if ports:
        return (
            f"its pod may be alive behind {spoken(ports)}, where its MAC address cannot be "
            "looked for"
        )
    return ""
