"""Which rules, neighbours and routes of azure-vnet are stale: from facts about a host to entries, each with its fate.

azure-vnet adds up to three rules for a pod in chain PREROUTING of table nat, each with exactly one set of options
(`_POD_RULES`), and a permanent neighbour and routes. A rule with one option more or less, a negation, or a network
instead of an address is not a pod's, and is not looked at.

An entry contains the pod's address, and usually its MAC address. The entry is stale if another CNI manages the address
now and the MAC address is dead. A MAC address is alive if a device of the host has it, or the other end of a veth, or a
device that a bridge has learned, such as a virtual machine in a pod. Behind a tap, or a port whose other end cannot be
read, any MAC address may be alive: while azure-vnet's bridge has such a port, no MAC address is known to be dead. In
tunnel mode, the rule that answers ARP has one virtual MAC address for all pods, so it is judged by the other entries
for its address. A rule that matches no uplink in a bridge is not deleted.
"""

from __future__ import annotations

import base64
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import attrs

from hostrouting.finding import Finding
from hostrouting.model.prefix import IP, Prefix, as_ip
from hostrouting.model.route import TABLE_MAIN, NextHop, Route
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.routes.uplink import bare_hop
from hostrouting.text import spoken

if TYPE_CHECKING:
    from hostrouting.config.settings import AzureVnetCleanupConfig
    from hostrouting.kernel.ebtables import BridgeRule
    from hostrouting.kernel.neighbours import LinkLayerView, Neighbour

STATE_FILE = "/var/run/azure-vnet.json"
CONFLISTS = "/etc/cni/net.d"
MOST = 1000
"""One run deletes at most this many entries."""

Fate: TypeAlias = Literal["delete", "conflict", "keep"]
"""A conflict belongs to a live pod whose address another CNI manages."""


@attrs.frozen
class CleanupFacts:
    """What is known about a host."""

    rules: tuple[BridgeRule, ...] | None
    """None if the host has no ebtables that could be asked."""
    view: LinkLayerView
    snapshot: Snapshot
    state: str | None = None
    """The text of azure-vnet's state file; None if there is none."""
    conflists: Mapping[str, str] = attrs.field(factory=dict)
    """The texts of the CNI configurations, by name."""


@attrs.frozen
class CleanupEntry:
    """A rule, neighbour or route that looks like azure-vnet's, with its fate and the reason."""

    kind: Literal["rule", "neighbour", "route"]
    spec: str
    """The thing itself: a rule as ebtables prints it, a neighbour or a route as ip prints it."""
    fate: Fate
    reason: str
    thing: BridgeRule | Neighbour | Route = attrs.field(eq=False, repr=False)

    def __str__(self) -> str:
        return f"{self.kind} {self.spec}    # {self.reason}"

    def to_mapping(self) -> dict[str, str]:
        """The entry as plain values."""
        return {"kind": self.kind, "spec": self.spec, "fate": self.fate, "reason": self.reason}


def judge(facts: CleanupFacts, config: AzureVnetCleanupConfig) -> tuple[tuple[CleanupEntry, ...], tuple[Finding, ...]]:
    """Each entry, in the order of deletion, and the findings. If one is an error, nothing may be deleted."""
    pods: tuple[Endpoint, ...] = ()
    findings: list[Finding] = []
    if name := active_file(facts.conflists):
        path = f"{CONFLISTS}/{name}"
        sentence = f"{path} says that azure-vnet manages this node's pods"
        remedy = "remove the file if another CNI manages the pods"
        findings.append(Finding("azure-vnet", "error", sentence, path, remedy))
    try:
        pods = read_state("{}" if facts.state is None else facts.state)
    except ValueError as error:
        sentence = f"azure-vnet's state file {STATE_FILE} cannot be read: {error}"
        remedy = "wait until azure-vnet has written it; if azure-vnet is gone, remove the file"
        findings.append(Finding("azure-vnet", "error", sentence, STATE_FILE, remedy))
    host = _Judge(facts, config, pods)
    entries = (*host.rules(), *host.neighbours(), *host.routes())
    if facts.rules is None and host.own_bridges:
        sentence = "ebtables is not installed, or its modules are not loaded, so its rules cannot be listed"
        findings.append(Finding("requirement", "error", sentence, "ebtables", "install it, or load its modules"))
    if gone := [f"{pod.name} ({', '.join(map(str, pod.ips))})" for pod in pods if host.is_gone(pod)]:
        sentence = f"{STATE_FILE} still lists pods that are gone: {spoken(gone)}"
        remedy = "stop Azure's network monitor (azure-cnms), if it runs: it adds their rules again every 10 s"
        findings.append(Finding("azure-vnet", "warning", sentence, STATE_FILE, remedy))
    if (count := sum(entry.fate == "delete" for entry in entries)) > MOST:
        sentence = f"{count:,} entries are stale, and one run deletes at most {MOST:,}"
        remedy = "name only some of the networks in azureVnetCleanup.managed, and clean up in several runs"
        findings.append(Finding("azure-vnet", "error", sentence, "azureVnetCleanup.managed", remedy))
    if config.dry_run:
        findings.append(Finding("azure-vnet", "note", "dryRun is true: nothing is deleted", "azureVnetCleanup.dryRun"))
    return entries, tuple(findings)


# The rules that azure-vnet adds for a pod.

_VIRTUAL_MAC = "12:34:56:78:9a:bc"
"""The MAC address in the rules that answer ARP in tunnel mode, for every pod."""
_NO_MAC = ("", "00:00:00:00:00:00")
_IPV4 = r"(?P<ip>[0-9.]+)(?:/32|/255\.255\.255\.255)?"
_IPV6 = r"(?P<ip>[0-9A-Fa-f]*:[0-9A-Fa-f:.]+)(?:/128|/ffff(?::ffff){7})?"
_MAC = r"(?P<mac>[0-9A-Fa-f]{1,2}(?::[0-9A-Fa-f]{1,2}){5})"
_ARP = rf"--arp-op Request --arpreply-mac {_MAC} (?:--arpreply-target DROP )?-j arpreply"
_DNAT = rf"--to-dst {_MAC} -i (?P<uplink>\S+) -j dnat"
_POD_RULES = (
    re.compile(rf"--arp-ip-dst {_IPV4} {_ARP} -p (?:ARP|0x0?806)"),
    re.compile(rf"(?:--dnat-target ACCEPT )?--ip-dst {_IPV4} {_DNAT} -p (?:IPv4|0x0?800)"),
    re.compile(rf"(?:--dnat-target ACCEPT )?--ip6-dst {_IPV6} {_DNAT} -p (?:IPv6|0x86[Dd][Dd])"),
)
"""The options of a pod rule, sorted, in every spelling that ebtables prints.

A default target may be missing; a protocol may be a number; an address may have a mask; a MAC address may lack zeros.
"""


class PodRule(NamedTuple):
    """A rule that azure-vnet adds for a pod. The uplink is where frames arrive; a rule for ARP has none."""

    ip: IP
    mac: str
    uplink: str | None


def pod_rule(text: str) -> PodRule | None:
    """The rule with this text as a pod rule; None for any other rule."""
    chain, *options = re.split(r" +(?=-)", text)
    match = next(filter(None, (shape.fullmatch(" ".join(sorted(options))) for shape in _POD_RULES)), None)
    if match is None or chain != "PREROUTING":
        return None
    mac = ":".join(byte.zfill(2) for byte in match["mac"].lower().split(":"))
    is_of_one_device = mac not in _NO_MAC and not int(mac[:2], 16) & 1
    with suppress(ValueError):  # not an address
        return PodRule(as_ip(match["ip"]), mac, match.groupdict().get("uplink")) if is_of_one_device else None
    return None


# The decision: what is stale.

_BRIDGE = re.compile(r"azure\d+", re.ASCII)
"""azure-vnet names its bridge azure0, or azure followed by the index of the uplink."""
_UPLINKS = ("", "bond", "team", "vlan", "macvlan")
"""The kinds of port that are connected to the node's network: hardware, and devices on top of hardware."""
_ENDS = ("dummy", "ifb")
"""The kinds of device that have nothing behind them."""
_PROTOCOLS = (0, 2, 3, 4)
"""The protocols that azure-vnet's routes may have: unspec, kernel, boot, static. There is no number for azure-vnet."""


class _Judge:
    """Decides for each rule, neighbour and route of one host whether it is stale."""

    def __init__(self, facts: CleanupFacts, config: AzureVnetCleanupConfig, pods: Iterable[Endpoint]) -> None:
        self._facts, self._config, links, view = facts, config, facts.snapshot.links, facts.view
        self._links, self._peers = {link.name: link for link in links}, view.peers
        self._bridges = {link.name for link in links if link.kind == "bridge"}
        self.own_bridges = [name for name in self._bridges if _BRIDGE.fullmatch(name)]
        self._ports = {link.name: link for link in links if link.master in self._bridges}
        self._uplinks = {*config.uplinks, *(port.name for port in self._ports.values() if port.kind in _UPLINKS)}
        own_ports = (port for port in self._ports.values() if port.master in self.own_bridges)
        self._behind = [port for port in own_ports if port.name not in config.uplinks]
        # The host's own devices come last, so that they are named: they are easier to check.
        self._alive = {mac: f"a device behind {dev}" for mac, dev in view.learned if dev not in self._uplinks}
        self._alive |= {mac: f"a pod behind {dev}" for dev, mac in view.peers.items()}
        self._alive |= {mac: f"the device {dev}" for dev, mac in view.macs.items()}
        hops = (hop for route in facts.snapshot.routes if not route.prefix.length for hop in route.next_hops)
        self._local = {hop.gateway: "a default gateway" for hop in hops if hop.gateway is not None}
        self._local |= {own.ip: f"an address of this host, on {own.dev}" for own in facts.snapshot.addresses}
        self._listed = {ip: pod for pod in pods if pod.device in self._links for ip in pod.ips}
        self._rules = [(rule, pod) for rule in facts.rules or () if (pod := pod_rule(rule.text)) is not None]
        known = [(pod.ip, pod.mac) for _, pod in self._rules if pod.mac != _VIRTUAL_MAC]
        own_neighbours = [entry for entry in view.neighbours if entry.dev in self.own_bridges]
        self._neighbours = [entry for entry in own_neighbours if entry.mac not in _NO_MAC]
        self._known: dict[IP, list[str]] = defaultdict(list)
        for ip, mac in (*known, *((entry.ip, entry.mac) for entry in self._neighbours)):
            self._known[ip] = [*dict.fromkeys([*self._known[ip], mac])]

    def rules(self) -> Iterator[CleanupEntry]:
        """Each rule that azure-vnet adds for a pod."""
        for rule, pod in self._rules:
            yield CleanupEntry("rule", rule.text, *self._rule(pod), rule)

    def neighbours(self) -> Iterator[CleanupEntry]:
        """Each permanent neighbour on a bridge of azure-vnet that no other program maintains."""
        for entry in self._neighbours:
            if entry.permanent:
                yield CleanupEntry("neighbour", str(entry), *self._fate(entry.ip, [entry.mac], self._behind), entry)

    def routes(self) -> Iterator[CleanupEntry]:
        """Each route that azure-vnet adds for a pod, through its bridge or the pod's veth."""
        for route in (route for route in self._facts.snapshot.routes if route.table == TABLE_MAIN):
            plain, ip = _as_pod_route(route), route.prefix.ip
            if plain is not None and plain.devs[0] in self.own_bridges:
                yield CleanupEntry("route", str(plain), *self._fate(ip, self._known.get(ip, []), self._behind), route)
            elif plain is not None and plain.devs[0].startswith("azv"):
                veth = Link(name=plain.devs[0], index=0, kind="veth")  # if it appeared after the devices were read
                veth = self._links.get(veth.name, veth)
                macs = [self._peers[veth.name]] if veth.name in self._peers else []
                yield CleanupEntry("route", str(plain), *self._fate(ip, macs, [veth]), route)

    def is_gone(self, pod: Endpoint) -> bool:
        """Whether a pod of the state file has no device any more, and another CNI manages all of its addresses."""
        has_device = not pod.device or pod.device in self._links or pod.mac in self._alive
        return bool(pod.ips) and not has_device and not any(map(self._why_kept, pod.ips))

    def _rule(self, rule: PodRule) -> tuple[Fate, str]:
        if not self._bridges or (rule.uplink is not None and rule.uplink not in self._uplinks):
            return "keep", "it matches no bridged uplink"
        macs = self._known.get(rule.ip, []) if rule.mac == _VIRTUAL_MAC else [rule.mac]
        return self._fate(rule.ip, macs, self._behind)

    def _fate(self, ip: IP, macs: list[str], ports: list[Link]) -> tuple[Fate, str]:
        """The fate of an entry for a pod's address; the pod has one of these MAC addresses, and one of these ports."""
        if kept := self._why_kept(ip):
            return "keep", kept
        for mac in macs:
            if mac in self._alive:
                holder = f"azure-vnet's MAC address {mac} belongs to {self._alive[mac]}"
                return "conflict", f"another CNI manages {ip}, but {holder}"
        if pod := self._listed.get(ip):
            return "keep", f"azure-vnet's state file gives {ip} to {pod.name}, and its device {pod.device} exists"
        if hidden := [port.name for port in ports if self._may_hide_macs(port)]:
            return "keep", f"its pod may be alive: the MAC addresses behind {spoken(hidden)} cannot be read"
        if macs:
            return "delete", f"another CNI manages {ip}, and no device has the MAC address {' or '.join(macs)}"
        if pods := [port.name for port in ports if port.name in self._peers]:
            return "keep", f"its pod may be alive: its MAC address is unknown, and pods are behind {spoken(pods)}"
        return "delete", f"another CNI manages {ip}, and no pod is known to use it"

    def _why_kept(self, ip: IP) -> str:
        """Why entries of every kind for this address are kept; empty if they may be deleted."""
        if not any(ip in network for network in self._config.managed):
            return f"{ip} is not in a managed network (azureVnetCleanup.managed)"
        if ip in self._local:
            return f"{ip} is {self._local[ip]}"
        is_protected = any(ip in network for network in self._config.protect)
        return f"{ip} is protected (azureVnetCleanup.protect)" if is_protected else ""

    def _may_hide_macs(self, link: Link) -> bool:
        """Whether MAC addresses that cannot be read may exist behind this device."""
        return link.name not in self._peers if link.kind == "veth" else link.kind not in (*_UPLINKS, *_ENDS)


def _as_pod_route(route: Route) -> Route | None:
    """The route without the state of its next hop; None if azure-vnet would not give a pod such a route."""
    if not route.devs or route.protocol not in _PROTOCOLS:
        return None
    ip, next_hops = Prefix.of(route.prefix.ip), (NextHop(route.devs[0]),)
    plain = Route(ip, next_hops, metric=route.metric, scope=route.scope, protocol=route.protocol)
    return plain if route._replace(next_hops=tuple(map(bare_hop, route.next_hops))) == plain else None


_PLUGIN = re.compile(r'"type\\*"\s*:\s*\\*"azure-vnet\\*"')  # even in a document that is a string in another one


def active_file(conflists: Mapping[str, str]) -> str:
    """The name of the CNI configuration that makes azure-vnet active; empty if none does.

    A container runtime uses the first file, by name, that it can use. If this is Multus, which calls other plugins, the
    next file counts as well. Any file before that counts if azure-vnet is anywhere in it: refusing is safe.
    """
    for name, text in sorted(conflists.items()):
        if _PLUGIN.search(text):
            return name
        try:
            document = json.loads(text)
            types = [plugin["type"] for plugin in document.get("plugins", [document])]
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
            continue  # no container runtime can use it
        if types and not {"multus", "multus-shim"} & {*types}:
            break
    return ""


class Endpoint(NamedTuple):
    """A pod in azure-vnet's state file; the device is its veth at the host's end."""

    name: str
    device: str
    ips: tuple[IP, ...]
    mac: str


def read_state(text: str) -> tuple[Endpoint, ...]:
    """Every pod in the text of a state file, in order. Raises ValueError for any other text."""
    try:
        return tuple(
            Endpoint(
                name if name.isprintable() else ascii(name),
                str(pod.get("HostIfName") or ""),
                tuple(as_ip(address["IP"]) for address in pod.get("IPAddresses") or ()),
                base64.b64decode(pod.get("MacAddress") or "").hex(":"),
            )
            for uplink in ((json.loads(text).get("Network") or {}).get("ExternalInterfaces") or {}).values()
            for network in (uplink.get("Networks") or {}).values()  # azure-vnet writes null for an empty object
            for name, pod in (network.get("Endpoints") or {}).items()
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError("it is truncated, or was not written by azure-vnet") from error
