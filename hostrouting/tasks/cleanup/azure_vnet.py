"""CleanStaleAzureVnet: which rules, neighbours and routes of azure-vnet are stale.

Here: what azure-vnet leaves on a node, and the decision. Not here: reading the host, recording and deleting (`task`).

How it works. azure-vnet adds three kinds of rules for a pod, each with exactly one set of options (`_SHAPES`), in the
chain PREROUTING of the table nat, and a permanent neighbour and routes. ebtables prints the same rule in several ways:
it omits a target that is the default, and may print a protocol as a number, a host address with its mask, and a MAC
address without leading zeros. A rule that is then not exactly of one shape (one option more or less, a negation, a
network instead of an address) is not a pod rule, and is kept.

An entry contains the pod's address, and usually its MAC address. It is stale if another CNI manages the address now and
nothing has that MAC address: no device of the host, no device at the other end of a veth, and no device that a bridge
has learned, such as a virtual machine in a pod. If the other end of a veth cannot be read, it could have any MAC
address, and so could what is behind a tap. As long as a bridge of azure-vnet has such a port, no MAC address is known
to be dead. In tunnel mode, the rule that answers ARP has one virtual MAC address for all pods: the MAC address is then
that of the other entries for the same address. An entry is also kept if its address belongs to the host itself, is
protected by the operator, or is given by the state file to a device that exists.

The rules apply to frames that any bridge forwards. A rule for one device does nothing while that device is not in a
bridge: it is inert, and is kept. A rule without a device is inert only on a host without bridges.

Azure's network monitor adds the rules of every pod in azure-vnet's state file again, dead or not. So pods of that file
whose device is gone are reported. The file is only read: it belongs to another program.
"""

from __future__ import annotations

import base64
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from ipaddress import ip_address, ip_interface
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import attrs

from hostrouting.config.settings import HostRoutingConfig, needs_config
from hostrouting.finding import Finding, Severity
from hostrouting.host.conflists import files_in_force, objects_in, read_conflists
from hostrouting.kernel.neighbours import EthernetLink, PeerMac, UnknownPeer, canonical_mac
from hostrouting.model.prefix import IP, Prefix, as_ip
from hostrouting.model.route import TABLE_MAIN, Route, protocol_name
from hostrouting.routes.uplink import bare_leg
from hostrouting.tasks.cleanup.plan import CleanupEntry, CleanupFacts, CleanupPlan, Fate
from hostrouting.tasks.cleanup.saved_rules import SavedRule, read_saved
from hostrouting.tasks.cleanup.task import Cleanup

if TYPE_CHECKING:
    from hostrouting.config.azure_vnet import AzureVnetCleanupConfig
    from hostrouting.model.snapshot import Snapshot

STATE_FILE = "/var/run/azure-vnet.json"
_CONFLISTS = "/etc/cni/net.d"
_MONITORS = ("azure-cnms", "networkmonitor")
"""The names of Azure's network monitor, as processes."""


@attrs.frozen
class CleanStaleAzureVnet(Cleanup):
    """Delete what azure-vnet left behind for pods that another CNI manages now; see Cleanup for the steps."""

    name: ClassVar[str] = "clean-stale-azure-vnet"
    cni: ClassVar[str] = "azure-vnet"
    config: HostRoutingConfig = attrs.field(validator=needs_config)

    @property
    def is_wanted(self) -> bool:
        """Whether the configuration has the section."""
        return self.config.azure_vnet_cleanup is not None

    @property
    def is_dry_run(self) -> bool:
        """See Cleanup."""
        return self._settings.dry_run

    @property
    def _settings(self) -> AzureVnetCleanupConfig:
        settings = self.config.azure_vnet_cleanup
        if settings is None:
            raise ValueError("azureVnetCleanup is not in the configuration")
        return settings

    def judge(self, facts: CleanupFacts) -> CleanupPlan:
        """What is stale, what is kept and why."""
        settings = self._settings
        text, found = facts.read(STATE_FILE), list(_of_the_node(facts))
        endpoints: tuple[Endpoint, ...] = ()
        try:
            endpoints = () if text is None else read_state(text)
        except StateFileUnreadable as error:
            sentence = f"azure-vnet's state file {STATE_FILE} cannot be read: {error}"
            remedy = "wait for azure-vnet to write it, or remove it if azure-vnet is gone"
            found.append(Finding("azure-vnet", "error", sentence, STATE_FILE, remedy))
        judge = _Judge(settings, facts, endpoints)
        entries = (*judge.rules(), *judge.neighbours(), *judge.routes())
        if gone := list(judge.listed()):
            found.append(_listed(gone, facts))
        return CleanupPlan(entries=entries, findings=tuple(found))


def _of_the_node(facts: CleanupFacts) -> Iterator[Finding]:
    """Findings about the node that do not depend on what is stale."""
    active = active_file(facts)
    if active:
        sentence = f"{active} says that azure-vnet manages this node's pods"
        yield Finding("azure-vnet", "error", sentence, active, "remove it if another CNI manages them")
    bridges = [link.name for link in facts.view.links if link.kind == "bridge"]
    if facts.rules is None and bridges:
        sentence = "ebtables is not installed, or its modules are not loaded, so rules cannot be looked for"
        severity: Severity = "error" if any(map(_is_own_bridge, bridges)) else "warning"
        yield Finding("program", severity, sentence, "ebtables", "install it, or load its modules")
    if facts.rules is not None and (unread := facts.rules.unreadable):
        count = f"{len(unread)} line{'s' * (len(unread) > 1)} of ebtables-save"
        sentence = f"{count} cannot be understood, and will be kept: {unread[0]!a}"
        yield Finding("azure-vnet", "note", sentence, "ebtables", facts={"lines": list(unread)})


def _listed(gone: list[str], facts: CleanupFacts) -> Finding:
    """A finding about listed pods whose rules Azure's network monitor adds again."""
    processes = ((facts.read(f"/proc/{name}/comm") or "").strip() for name in facts.names("/proc") if name.isdigit())
    monitor = next((name for name in processes if name in _MONITORS), "")
    who = f"{monitor}, which runs here, adds" if monitor else "Azure's network monitor, if it runs, adds"
    sentence = f"{STATE_FILE} still lists pods that are gone ({_named(gone)}); {who} their rules again every 10 s"
    return Finding("azure-vnet", "warning", sentence, STATE_FILE, "stop the monitor before the clean-up")


# The rules that azure-vnet adds for a pod.

_ADDRESS, _MAC, _DEVICE = "IP", "MAC", "UPLINK"
_SHAPES = {
    option: dict(read_saved(f"*nat\n-A PREROUTING {text}").rules[0].options)
    for option, text in {
        "--arp-ip-dst": "-p ARP --arp-op Request --arp-ip-dst IP -j arpreply --arpreply-mac MAC --arpreply-target DROP",
        "--ip-dst": "-p IPv4 -i UPLINK --ip-dst IP -j dnat --to-dst MAC --dnat-target ACCEPT",
        "--ip6-dst": "-p IPv6 -i UPLINK --ip6-dst IP -j dnat --to-dst MAC --dnat-target ACCEPT",
    }.items()
}
"""Each option of a pod rule with its value, keyed by the option that holds the pod's address."""

_DEFAULTS = {"arpreply": ("--arpreply-target", "DROP"), "dnat": ("--dnat-target", "ACCEPT")}
"""Keyed by target: the option that ebtables omits, and the default that it then has."""
_NUMBERS = {"-p": {0x0806: "ARP", 0x0800: "IPv4", 0x86DD: "IPv6"}, "--arp-op": {1: "Request"}}
_MAC_TEXT = re.compile(r"[0-9A-Fa-f]{1,2}(?::[0-9A-Fa-f]{1,2}){5}")
_VIRTUAL_MAC = "12:34:56:78:9a:bc"
"""The MAC address in the rules that answer ARP in tunnel mode, for every pod."""


@attrs.frozen
class PodRule:
    """A rule that is exactly one of the three that azure-vnet adds for a pod."""

    line: str
    ip: IP
    mac: str
    uplink: str | None = None
    """The device that frames arrive on; None in a rule that answers ARP, which matches any device."""


class NotAPodRule(ValueError):  # noqa: N818  reads as what is wrong
    """A rule is not exactly one of the three; the message names the difference."""


def pod_rule(rule: SavedRule) -> PodRule:
    """The rule as a pod rule; raises NotAPodRule, with the reason, if it is not one."""
    if rule.table != "nat":
        raise NotAPodRule(f"it is in the table {rule.table}, not in nat")
    if rule.chain != "PREROUTING":
        raise NotAPodRule(f"it is in the chain {rule.chain}, not in PREROUTING")
    found = dict(rule.options)
    if len(found) < len(rule.options):
        raise NotAPodRule("it has the same option more than once")
    shape = next((_SHAPES[option] for option in found if option in _SHAPES), None)
    if shape is None:
        raise NotAPodRule("it does not match on an address")
    option, value = _DEFAULTS.get(found.get("-j", ""), ("", ""))
    if option:
        found.setdefault(option, value)
    read: dict[str, str] = {}
    for option, wanted in shape.items():
        if option not in found:
            raise NotAPodRule(f"it has no {option}")
        read[wanted] = _value(option, found[option], wanted)
    for option in found:
        if option not in shape:
            raise NotAPodRule(f"it also has {option}")
    return PodRule(rule.line, ip_address(read[_ADDRESS]), read[_MAC], read.get(_DEVICE))


def _value(option: str, value: str, wanted: str) -> str:
    """The value in its canonical spelling; raises NotAPodRule if it is not the one that the shape requires."""
    if value.startswith("!"):
        raise NotAPodRule(f"it has a negation: {option} {value}")
    if wanted == _ADDRESS:
        return str(_host(option, value))
    if wanted == _MAC:
        mac = canonical_mac(value) if _MAC_TEXT.fullmatch(value) else ""
        if not mac or int(mac[:2], 16) & 1:
            raise NotAPodRule(f"{option} {value} is not the MAC address of a single device")
        return mac
    if wanted == _DEVICE:
        return value
    if _name_of(option, value).lower() != wanted.lower():
        raise NotAPodRule(f"it has {option} {value}, not {wanted}")
    return wanted


def _host(option: str, value: str) -> IP:
    # Python does not parse an IPv6 mask in the form of an address.
    address, slash, mask = value.partition("/")
    try:
        if slash and ":" in mask:
            mask = str(128 if int(ip_address(mask)) == 2**128 - 1 else 0)
        found = ip_interface(f"{address}{slash}{mask}")
        ip = as_ip(ip_address(address))
    except ValueError:
        raise NotAPodRule(f"{option} {value} is not an address") from None
    if found.network.prefixlen != ip.max_prefixlen:
        raise NotAPodRule(f"{option} {value} is a network, not a single address")
    if ip.version != (6 if option == "--ip6-dst" else 4):
        raise NotAPodRule(f"{option} {value} is an address of the other IP version")
    return ip


def _name_of(option: str, value: str) -> str:
    """The name of a number, if it has one; otherwise the value as it is."""
    names = _NUMBERS.get(option, {})
    try:
        return names.get(int(value, 16 if option == "-p" else 10), value)
    except ValueError:
        return value


# The decision: what is stale.

_NO_MAC = {"", "00:00:00:00:00:00"}
_DEFAULT_ROUTES = (Prefix.parse("0.0.0.0/0"), Prefix.parse("::/0"))
_BRIDGE = re.compile(r"azure\d+", re.ASCII)
"""azure-vnet names its bridge azure0, or azure followed by the index of the uplink."""
_POD_DEVICE = "azv"
"""The prefix of the names of azure-vnet's veths, at the host's end."""
_UPLINKS = ("", "bond", "team", "vlan", "macvlan")
"""The kinds of port that are connected to the node's network: hardware, and devices on top of hardware."""
_ENDS = ("dummy", "ifb")
"""The kinds of device that have nothing behind them."""
_PROTOCOLS = (0, 2, 3, 4)
"""The protocols that azure-vnet's routes may have: unspec, kernel, boot, static. There is no number for azure-vnet."""

_Judged: TypeAlias = tuple[Fate, str]
"""What happens to an entry, and why."""


class _Judge:
    """Decides for each rule, neighbour and route of one host whether it is stale."""

    def __init__(self, config: AzureVnetCleanupConfig, facts: CleanupFacts, endpoints: tuple[Endpoint, ...]) -> None:
        self._config, self._facts, self._listed = config, facts, endpoints
        links = facts.view.links
        self._links = {link.name: link for link in links}
        self._bridges = [link.name for link in links if link.kind == "bridge"]
        self._own = [name for name in self._bridges if _is_own_bridge(name)]
        self._ports = {link.name: link for link in links if link.master in self._bridges}
        uplinks = (port.name for port in self._ports.values() if port.kind in _UPLINKS)
        self._uplinks = {*uplinks, *config.uplinks}
        behind = [port for port in self._ports.values() if port.master in self._own]
        self._unknown = [port.name for port in behind if _is_unknown(port) and port.name not in config.uplinks]
        self._pods = Counter(port.master or "" for port in behind if isinstance(port.peer, PeerMac))
        self._alive = dict(self._macs())
        self._local = dict(_own_addresses(facts.snapshot))
        self._endpoints: dict[IP, list[Endpoint]] = defaultdict(list)
        for endpoint in endpoints:
            for ip in endpoint.ips:
                self._endpoints[ip].append(endpoint)
        rules = () if facts.rules is None else facts.rules.rules
        self._rules = [(rule, _as_pod_rule(rule)) for rule in rules]
        self._known: dict[IP, list[str]] = defaultdict(list)
        for _, found in self._rules:
            if isinstance(found, PodRule) and found.mac != _VIRTUAL_MAC:
                self._known[found.ip].append(found.mac)
        for neighbour in facts.view.neighbours:
            if neighbour.mac not in _NO_MAC:
                self._known[neighbour.ip].append(neighbour.mac)

    def rules(self) -> Iterator[CleanupEntry]:
        """Each rule that contains a managed address, or that azure-vnet added for a pod."""
        for rule, found in self._rules:
            if isinstance(found, PodRule):
                yield CleanupEntry("rule", found.line, *self._pod_rule(found), found.line)
            elif rule.address is not None and self._is_managed(rule.address):
                spec = rule.line if rule.table == "nat" else f"-t {rule.table} {rule.line}"
                yield CleanupEntry(
                    "rule", spec, "keep", f"not a rule that azure-vnet adds for a pod: {found}", rule.line
                )

    def neighbours(self) -> Iterator[CleanupEntry]:
        """Each permanent neighbour on a bridge of azure-vnet."""
        for neighbour in self._facts.view.neighbours:
            if neighbour.dev not in self._own or neighbour.state != "permanent" or neighbour.mac in _NO_MAC:
                continue
            fate, reason = self._pod(neighbour.ip, (neighbour.mac,))
            if neighbour.externally_learned and fate == "delete":
                fate, reason = "keep", "another program added it and maintains it (extern_learn)"
            yield CleanupEntry("neighbour", str(neighbour), fate, reason, neighbour)

    def routes(self) -> Iterator[CleanupEntry]:
        """Each route to a single managed address by one of azure-vnet's bridges or veths."""
        for route in self._facts.snapshot.routes.only(table=TABLE_MAIN):
            if not _is_pod_route(route):
                continue
            [dev] = route.devs
            if dev in self._own:
                fate, reason = self._pod(route.prefix.ip, self._known[route.prefix.ip], by=dev)
            elif dev.startswith(_POD_DEVICE):
                fate, reason = self._behind(route.prefix.ip, dev)
            else:
                continue
            if fate == "delete" and (kept := _why_kept(route)):
                fate, reason = "keep", kept
            yield CleanupEntry(
                "route", str(attrs.evolve(route, legs=tuple(map(bare_leg, route.legs)))), fate, reason, route
            )

    def listed(self) -> Iterator[str]:
        """Each pod in the state file whose device does not exist, and whose addresses another CNI manages."""
        for endpoint in self._listed:
            if not endpoint.device or endpoint.device in self._links or not endpoint.ips:
                continue
            if not any(map(self._why_own, endpoint.ips)) and endpoint.mac not in self._alive:
                name = endpoint.name if endpoint.name.isprintable() else ascii(endpoint.name)
                yield f"{name} ({', '.join(map(str, endpoint.ips))})"

    def _pod_rule(self, rule: PodRule) -> _Judged:
        if not self._is_managed(rule.ip):
            return "keep", _foreign(rule.ip)
        if rule.uplink is None and not self._bridges:
            return "inert", "this host has no bridge, so this rule matches no frame"
        if rule.uplink is not None and rule.uplink not in self._uplinks:
            if rule.uplink in self._ports:
                return "keep", f"{rule.uplink} is not an uplink: it is a port for a pod"
            return "inert", f"{rule.uplink} is not a port of a bridge, so this rule matches no frame"
        return self._pod(rule.ip, self._known[rule.ip] if rule.mac == _VIRTUAL_MAC else (rule.mac,))

    def _pod(self, ip: IP, macs: Iterable[str], *, by: str = "") -> _Judged:
        """The fate of an entry for this address: whether a pod with one of these MAC addresses may be alive."""
        macs = tuple(dict.fromkeys(macs))
        if kept := self._why_own(ip):
            return "keep", kept
        for mac in macs:
            if mac in self._alive:
                sentence = f"{ip} is managed by another CNI, but its MAC address {mac} belongs to {self._alive[mac]}"
                return "conflict", sentence
        if kept := self._in_state_file(ip):
            return "keep", kept
        unknown = "it is not known whether its pod is alive"
        if self._unknown:
            return "keep", f"{unknown}: the MAC addresses behind {_named(self._unknown)} cannot be read"
        if macs:
            return "delete", f"{ip} is managed by another CNI, and no device has the MAC address {' or '.join(macs)}"
        behind = [by] if by else self._own
        if any(self._pods[bridge] for bridge in behind):
            return "keep", f"{unknown}: its MAC address is not known, and there are pods behind {_named(behind)}"
        return "delete", f"{ip} is managed by another CNI, and no pod is known to use it"

    def _behind(self, ip: IP, dev: str) -> _Judged:
        """The fate of a route for this address: whether a pod is at the other end of one of azure-vnet's veths."""
        if kept := self._why_own(ip):
            return "keep", kept
        link = self._links.get(dev)
        if link is not None and isinstance(link.peer, PeerMac):
            return "conflict", f"{ip} is managed by another CNI, but there is a pod behind {dev}"
        if kept := self._in_state_file(ip):
            return "keep", kept
        if link is None or _is_unknown(link):
            return "keep", f"it is not known whether its pod is alive: what is behind {dev} cannot be read"
        return "delete", f"{ip} is managed by another CNI, and there is no pod behind {dev}"

    def _why_own(self, ip: IP) -> str:
        """Why entries of every kind for this address are kept; empty if they may be deleted."""
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
                return f"azure-vnet's state file gives {ip} to {endpoint.name}, whose device {endpoint.device} exists"
        return ""

    def _is_managed(self, ip: IP) -> bool:
        return any(ip in network for network in self._config.managed if network.version == ip.version)

    def _macs(self) -> Iterator[tuple[str, str]]:
        """Each MAC address in use, with its owner.

        The host's own devices come last, so that they win if an address occurs twice: they are easier to check.
        """
        view = self._facts.view
        yield from (
            (mac, f"a device behind {dev}") for mac, dev in view.learned if not {mac, dev} & {*_NO_MAC, *self._uplinks}
        )
        yield from (
            (link.peer.mac, f"a pod behind {link.name}") for link in view.links if isinstance(link.peer, PeerMac)
        )
        yield from ((link.mac, f"the device {link.name}") for link in view.links if link.mac not in _NO_MAC)


def _is_own_bridge(name: str) -> bool:
    return bool(_BRIDGE.fullmatch(name))


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
    """Whether MAC addresses behind this device may exist that cannot be read."""
    if link.kind == "veth":
        return isinstance(link.peer, UnknownPeer)
    return link.kind not in (*_UPLINKS, *_ENDS)


def _own_addresses(snapshot: Snapshot) -> Iterator[tuple[IP, str]]:
    for route in snapshot.routes.only(prefixes=_DEFAULT_ROUTES):
        for leg in route.legs:
            if leg.gateway is not None:
                yield leg.gateway, "a default gateway"
    for address in snapshot.addresses:
        yield address.ip, f"an address of this host, on {address.dev}"


def _why_kept(route: Route) -> str:
    """Why a route to a dead pod is kept; empty if it is deleted."""
    if route.protocol not in _PROTOCOLS:
        return f"azure-vnet does not add routes with proto {protocol_name(route.protocol)}"
    return f"undo could not restore its {', '.join(route.unread)}" if route.unread else ""


def _is_pod_route(route: Route) -> bool:
    """Whether the route leads to a single address, in the form that azure-vnet adds."""
    if route.prefix.length != route.prefix.ip.max_prefixlen or len(route.legs) != 1 or len(route.devs) != 1:
        return False
    leg = route.legs[0]
    plain = route.type == "unicast" and not route.tos and route.nexthop_id is None
    return plain and leg.gateway is None and not leg.onlink and leg.weight == 1


# Whether azure-vnet still manages the pods, according to the node's CNI configuration.

_PLUGIN = "azure-vnet"


def active_file(facts: CleanupFacts) -> str:
    """The path of the file that makes azure-vnet active; empty if it is not active.

    A file before the runtime's that names azure-vnet counts, too, although no runtime can use it: refusing is safe.
    """
    folder = read_conflists(facts.names(_CONFLISTS), lambda name: facts.read(f"{_CONFLISTS}/{name}"))
    used = files_in_force(folder)
    for name, document in folder.items():
        if _has_plugin(document) or (name in used[:1] and any(_has_plugin(folder[other]) for other in used)):
            return f"{_CONFLISTS}/{name}"
        if name in used[:1]:
            return ""
    return ""


def _has_plugin(document: Any) -> bool:
    """Whether the value contains azure-vnet as a plugin, at any depth."""
    return any(nested.get("type") == _PLUGIN for nested in objects_in(document))


# azure-vnet's own list of pods: its state file.


@attrs.frozen
class Endpoint:
    """A pod in azure-vnet's state file."""

    name: str
    device: str
    """The veth at the host's end."""
    ips: tuple[IP, ...] = ()
    mac: str = ""


class StateFileUnreadable(ValueError):  # noqa: N818  reads as what is wrong
    """The text is not a state file of azure-vnet, or is truncated; the message says where."""


def read_state(text: str) -> tuple[Endpoint, ...]:
    """Every endpoint in the text, in order. Raises StateFileUnreadable."""
    return tuple(
        _endpoint(name, _object(endpoint, "Endpoints"))
        for endpoints in _endpoints(_parsed(text))
        for name, endpoint in endpoints.items()
    )


def _parsed(text: str) -> object:
    import json  # noqa: PLC0415  only where there is a state file

    if "\ufffd" in text:
        raise StateFileUnreadable("it is not UTF-8")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StateFileUnreadable(f"it is not JSON, or is truncated: {error}") from error


def _endpoints(document: object) -> Iterator[dict[str, Any]]:
    """The endpoints by name, for each interface and network."""
    network = _object(_object(document, "").get("Network"), "Network")
    for found in _object(network.get("ExternalInterfaces"), "ExternalInterfaces").values():
        for one in _object(_object(found, "ExternalInterfaces").get("Networks"), "Networks").values():
            yield _object(_object(one, "Networks").get("Endpoints"), "Endpoints")


def _endpoint(name: str, known: dict[str, Any]) -> Endpoint:
    device = known.get("HostIfName") or ""
    addresses = known.get("IPAddresses") or []
    if not isinstance(device, str) or not isinstance(addresses, list):
        raise StateFileUnreadable(
            f"the endpoint {name!a} does not have HostIfName and IPAddresses in the form that azure-vnet writes"
        )
    try:
        ips = tuple(as_ip(str(_object(address, "IPAddresses").get("IP"))) for address in addresses)
        mac = base64.b64decode(str(known.get("MacAddress") or "")).hex(":")
    except ValueError as error:
        raise StateFileUnreadable(f"the endpoint {name!a} has an invalid address: {error}") from error
    return Endpoint(name, device, ips, mac)


def _object(value: object, what: str) -> dict[str, Any]:
    """A part of the document that must be an object; azure-vnet writes null for an empty one."""
    if value is None and what:
        return {}
    if not isinstance(value, dict):
        raise StateFileUnreadable(f"{what or 'the document'} is not a JSON object")
    return value
