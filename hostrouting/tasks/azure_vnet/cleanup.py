"""Decides which of a host's rules, neighbours and routes are left over from azure-vnet: from facts to a plan.

Here: values in, values out: the plan, with conversion to plain values and back; the decision; and what the files of a
host say, which are the CNI configuration (is azure-vnet still active?) and azure-vnet's list of pods. Not here: reading
the host, and deleting (`task`), and the JSON document around a plan (`cli`).

How it works. The entries that azure-vnet adds for a pod contain the pod's address, and usually its MAC address. An
entry is stale if another CNI manages the address now and no device has that MAC address: neither a device of the host,
nor a device at the other end of a veth. If the other end of a veth cannot be read, it could have any MAC address. The
same is true of any other port that is not an uplink, such as a tap device with a virtual machine behind it. So as long
as a bridge of azure-vnet has such a port, no MAC address is known to be dead. An entry is also kept if its address
belongs to the host itself, is protected by the operator, or is given by the state file to a device that exists. The
plan gives the reason for each entry that it keeps or deletes.

The rules apply only to frames that a bridge forwards. So a rule for a device that is not in a bridge does nothing: it
is inert, and is kept.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import attrs

from hostrouting.host.conflists import files_in_force, objects_in, read_conflists
from hostrouting.kernel.neighbours import EthernetLink, LinkLayerView, PeerMac, UnknownPeer
from hostrouting.model import TABLE_MAIN, Prefix, Snapshot, as_ip, protocol_name
from hostrouting.routes.uplink import bare_leg
from hostrouting.tasks.azure_vnet.saved_rules import NotAPodRule, PodRule, SavedRules, pod_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from typing_extensions import Self

    from hostrouting.config import AzureVnetCleanupConfig
    from hostrouting.kernel.neighbours import Neighbour
    from hostrouting.model import IP, Route

__all__ = [
    "CleanupPlan",
    "Deletion",
    "Endpoint",
    "Facts",
    "Kept",
    "Kind",
    "StateFileUnreadable",
    "active_file",
    "azure_bridges",
    "plan_cleanup",
    "read_state",
]


# The plan: what would be deleted and kept, as a value and as plain values.

Kind: TypeAlias = Literal["rule", "neighbour", "route"]


@attrs.frozen
class Kept:
    """A rule, neighbour or route that looks like azure-vnet's but is kept, with the reason."""

    kind: Kind
    spec: str
    """The thing itself: a rule as ebtables-save prints it, a neighbour or a route as ip prints it."""
    reason: str

    def __str__(self) -> str:
        return f"{self.kind} {self.spec}    # {self.reason}"

    def to_mapping(self) -> dict[str, str]:
        """The entry as plain values."""
        return {"kind": self.kind, "spec": self.spec, "reason": self.reason}


@attrs.frozen
class Deletion(Kept):
    """A stale rule, neighbour or route, with the reason."""

    thing: str | Neighbour | Route | None = attrs.field(default=None, eq=False, repr=False)
    """The value that is passed to the edge that deletes it: the line of a rule, the neighbour or the route.

    None in a plan that was read from a file: the values are then found by reading the host again.
    """

    @property
    def key(self) -> tuple[Kind, str]:
        """Two deletions in two plans are the same if they have the same key."""
        return self.kind, self.spec


@attrs.frozen(kw_only=True)
class CleanupPlan:
    """What would be deleted, in that order, and what is kept, each with its reason."""

    deletions: tuple[Deletion, ...] = ()
    kept: tuple[Kept, ...] = ()
    conflicts: tuple[Kept, ...] = ()
    """Entries with a managed address whose pod is alive: two CNIs may be using one address."""
    inert: tuple[Kept, ...] = ()
    """Rules that match no frame."""
    unreadable: tuple[str, ...] = ()
    """Lines of ebtables-save that could not be parsed; they are not changed."""
    bridges: tuple[str, ...] = ()
    uplinks: tuple[str, ...] = ()
    hindrances: tuple[str, ...] = ()
    """The reasons why nothing can be deleted, each a sentence; empty if the deletions can be made."""
    notes: tuple[str, ...] = ()
    """Further facts for the operator, each a sentence."""
    host: str = ""
    """The name of the host, for the reader."""
    boot: str = ""
    """The kernel's boot id: no other host has the same one, and this host gets a new one at each boot."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be deleted."""
        return not self.deletions

    def within(self, shown: CleanupPlan) -> Self:
        """The plan without the deletions that are not in `shown`; a deletion that `shown` has once is made once."""
        left = Counter(deletion.key for deletion in shown.deletions)
        found = []
        for deletion in self.deletions:
            if left[deletion.key]:
                left[deletion.key] -= 1
                found.append(deletion)
        return attrs.evolve(self, deletions=tuple(found))

    def beyond(self, shown: CleanupPlan) -> tuple[Deletion, ...]:
        """The deletions that are not in `shown`, which `within` leaves out."""
        agreed = Counter(deletion.key for deletion in self.within(shown).deletions)
        left = []
        for deletion in self.deletions:
            if agreed[deletion.key]:
                agreed[deletion.key] -= 1
            else:
                left.append(deletion)
        return tuple(left)

    def to_mapping(self) -> dict[str, Any]:
        """The plan as plain values; `from_mapping` is the inverse."""
        return {
            "host": self.host,
            "boot": self.boot,
            **{name: list(getattr(self, name)) for name in _TEXTS[:2]},
            **{name: [thing.to_mapping() for thing in getattr(self, name)] for name in _THINGS},
            "unreadable": len(self.unreadable),
            "unreadableLines": list(self.unreadable),
            **{name: list(getattr(self, name)) for name in _TEXTS[2:]},
        }

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Self:
        """The plan in these values; other keys are ignored. Raises ValueError that names what is missing or wrong."""
        parts: dict[str, Any] = {name: tuple(_things(values, name, kind)) for name, kind in _THINGS.items()}
        parts |= {name: tuple(_texts(values, name)) for name in _TEXTS}
        lines = tuple(_texts(values, "unreadableLines"))
        return cls(**parts, unreadable=lines, host=_text(values, "host"), boot=_text(values, "boot"))

    def __str__(self) -> str:
        lines = [f"delete {deletion}" for deletion in self.deletions] or ["nothing to delete"]
        lines += [f"conflict {conflict}" for conflict in self.conflicts]
        lines += [f"inert {thing}" for thing in self.inert]
        lines += [f"keep {kept}" for kept in self.kept]
        lines += [f"unreadable {text!a}" for text in self.unreadable]
        return "\n".join([*lines, *self.hindrances, *self.notes])


_THINGS: dict[str, type[Kept]] = {"deletions": Deletion, "kept": Kept, "conflicts": Kept, "inert": Kept}
_TEXTS = ("bridges", "uplinks", "hindrances", "notes")


def _things(values: Mapping[str, object], name: str, kind: type[Kept]) -> Iterator[Kept]:
    for at, value in enumerate(_list(values, name)):
        path = f"{name}[{at}]"
        if not isinstance(value, dict):
            raise ValueError(f"{path} is not an object")  # noqa: TRY004  the fault is in the text of a file
        found: dict[str, Any] = {key: _text(value, key, path=path) for key in ("kind", "spec", "reason")}
        if found["kind"] not in get_args(Kind):
            raise ValueError(f"{path}.kind is {found['kind'][:40]!a}, not one of {', '.join(get_args(Kind))}")
        yield kind(**found)


def _texts(values: Mapping[str, object], name: str) -> Iterator[str]:
    for at, value in enumerate(_list(values, name)):
        if not isinstance(value, str):
            raise ValueError(f"{name}[{at}] is not a string")  # noqa: TRY004  as above
        yield value


def _list(values: Mapping[str, object], name: str) -> list[object]:
    found = values.get(name)
    if not isinstance(found, list):
        raise ValueError(f"{name} {'is not a list' if name in values else 'is missing'}")  # noqa: TRY004  as above
    return found


def _text(values: Mapping[str, object], name: str, *, path: str = "") -> str:
    found, key = values.get(name), f"{path}.{name}" if path else name
    if not isinstance(found, str):
        raise ValueError(f"{key} {'is not a string' if name in values else 'is missing'}")  # noqa: TRY004  as above
    return found


# The decision: what is stale.

_NO_MAC = {"", "00:00:00:00:00:00"}
_DEFAULTS = (Prefix.parse("0.0.0.0/0"), Prefix.parse("::/0"))
_POD_DEVICE = "azv"
"""The prefix of the names of azure-vnet's veths, at the host's end."""
_UPLINKS = ("", "bond", "team", "vlan", "macvlan")
"""The kinds of port that are connected to the node's network: hardware, and devices on top of hardware."""
_ENDS = ("dummy", "ifb")
"""The kinds of device that have nothing behind them."""
_PROTOCOLS = (0, 2, 3, 4)
"""The protocols that azure-vnet's routes may have: unspec, kernel, boot, static. There is no number for azure-vnet."""


@attrs.frozen(kw_only=True)
class Facts:
    """The facts about a host that a clean-up depends on."""

    rules: SavedRules = attrs.field(factory=SavedRules)
    view: LinkLayerView = attrs.field(factory=LinkLayerView)
    snapshot: Snapshot = attrs.field(factory=Snapshot)
    endpoints: tuple[Endpoint, ...] = ()
    """The pods in the state file."""


def azure_bridges(config: AzureVnetCleanupConfig, links: Iterable[EthernetLink]) -> tuple[str, ...]:
    """The names of azure-vnet's bridges."""
    pattern = re.compile(config.bridge_pattern, re.ASCII)
    return tuple(link.name for link in links if link.kind == "bridge" and pattern.fullmatch(link.name))


def plan_cleanup(config: AzureVnetCleanupConfig, facts: Facts) -> CleanupPlan:
    """The plan for this host; the same facts always give the same plan."""
    judge = _Judge(config, facts)
    found = [
        *(judge.rules() if config.what.ebtables else ()),
        *(judge.neighbours() if config.what.neigh else ()),
        *(judge.routes() if config.what.routes else ()),
    ]

    def those(fate: _Fate) -> tuple[Kept, ...]:
        return tuple(
            Kept(deletion.kind, deletion.spec, deletion.reason) for found_fate, deletion in found if found_fate == fate
        )

    return CleanupPlan(
        deletions=tuple(deletion for fate, deletion in found if fate == "delete"),
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
    """Decides for each rule, neighbour and route of one host whether it is stale."""

    def __init__(self, config: AzureVnetCleanupConfig, facts: Facts) -> None:
        self._config, self._facts = config, facts
        links = facts.view.links
        self.bridges = azure_bridges(config, links)
        ports = [link for link in links if link.master in self.bridges]
        own = [port.name for port in ports if port.kind in _UPLINKS]
        self.uplinks = tuple(dict.fromkeys([*own, *config.uplinks]))
        self._ports = {port.name for port in ports}
        self._links = {link.name: link for link in links}
        self._unknown = [port.name for port in ports if _is_unknown(port) and port.name not in config.uplinks]
        self._pods = Counter(port.master for port in ports if isinstance(port.peer, PeerMac))
        self._alive = dict(_macs(links))
        self._local = dict(_own_addresses(facts.snapshot))
        self._endpoints: dict[IP, list[Endpoint]] = defaultdict(list)
        for endpoint in facts.endpoints:
            for ip in endpoint.ips:
                self._endpoints[ip].append(endpoint)
        self._rules = [(rule, _as_pod_rule(rule)) for rule in facts.rules.rules]

    def rules(self) -> Iterator[_Judged]:
        """Each rule that contains a managed address, or that azure-vnet added for a pod."""
        for rule, found in self._rules:
            if isinstance(found, PodRule):
                fate, reason = self._pod_rule(found)
                yield fate, Deletion("rule", found.line, reason, found.line)
            elif rule.address is not None and self._is_managed(rule.address):
                spec = rule.line if rule.table == "nat" else f"-t {rule.table} {rule.line}"
                yield "keep", Deletion("rule", spec, f"not a rule that azure-vnet adds for a pod: {found}", rule.line)

    def neighbours(self) -> Iterator[_Judged]:
        """Each permanent neighbour on a bridge of azure-vnet."""
        for neighbour in self._facts.view.neighbours:
            if neighbour.dev not in self.bridges or neighbour.state != "permanent" or neighbour.mac in _NO_MAC:
                continue
            fate, reason = self._pod(neighbour.ip, (neighbour.mac,))
            if neighbour.externally_learned and fate == "delete":
                fate, reason = "keep", "another program added it and maintains it (extern_learn)"
            yield fate, Deletion("neighbour", str(neighbour), reason, neighbour)

    def routes(self) -> Iterator[_Judged]:
        """Each route to a single managed address by one of azure-vnet's bridges or veths."""
        known: dict[IP, list[str]] = defaultdict(list)
        for _, found in self._rules:
            if isinstance(found, PodRule):
                known[found.ip].append(found.mac)
        for neighbour in self._facts.view.neighbours:
            if neighbour.mac not in _NO_MAC:
                known[neighbour.ip].append(neighbour.mac)
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
            return "inert", "no bridge of azure-vnet has an uplink as a port, so this rule matches no frame"
        if rule.uplink is not None and rule.uplink not in self.uplinks:
            if rule.uplink in self._ports:
                return "keep", f"{rule.uplink} is not an uplink: it is a port for a pod"
            told = f"{rule.uplink} is not a port of a bridge of azure-vnet, so this rule matches no frame"
            return "inert", told
        return self._pod(rule.ip, (rule.mac,))

    def _pod(self, ip: IP, macs: Iterable[str], *, by: str = "") -> tuple[_Fate, str]:
        """Whether a pod with this address and one of these MAC addresses may be alive: the fate, and the reason."""
        kept = self._own(ip)
        if kept:
            return "keep", kept
        macs = tuple(dict.fromkeys(macs))
        for mac in macs:
            if mac in self._alive:
                return (
                    "conflict",
                    f"{ip} is managed by another CNI, but its MAC address {mac} belongs to {self._alive[mac]}",
                )
        kept = self._in_state_file(ip)
        if kept:
            return "keep", kept
        if self._unknown and self._config.require_dead_mac:
            told = f"the MAC addresses behind {_named(self._unknown)} cannot be read"
            return "keep", f"it is not known whether its pod is alive: {told}"
        if macs:
            return "delete", f"{ip} is managed by another CNI, and no device has the MAC address {' or '.join(macs)}"
        if self._pods[by] and self._config.require_dead_mac:
            told = f"its MAC address is not known, and there are pods behind {by}"
            return "keep", f"it is not known whether its pod is alive: {told}"
        return "delete", f"{ip} is managed by another CNI, and no pod behind {by} is known to use it"

    def _behind(self, ip: IP, dev: str) -> tuple[_Fate, str]:
        """Whether a pod with this address is alive at the other end of one of azure-vnet's veths: fate and reason."""
        kept = self._own(ip)
        if kept:
            return "keep", kept
        link = self._links.get(dev)
        if link is not None and isinstance(link.peer, PeerMac):
            return "conflict", f"{ip} is managed by another CNI, but there is a pod behind {dev}"
        kept = self._in_state_file(ip)
        if kept:
            return "keep", kept
        if link is None or (_is_unknown(link) and self._config.require_dead_mac):
            return "keep", f"it is not known whether its pod is alive: what is behind {dev} cannot be read"
        return "delete", f"{ip} is managed by another CNI, and there is no pod behind {dev}"

    def _own(self, ip: IP) -> str:
        """Why every entry for this address is kept, of whatever kind; empty if entries may be deleted."""
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
    """Whether there may be devices behind this one whose MAC addresses cannot be read."""
    if link.kind == "veth":
        return isinstance(link.peer, UnknownPeer)
    return link.kind not in (*_UPLINKS, *_ENDS)


def _macs(links: Iterable[EthernetLink]) -> Iterator[tuple[str, str]]:
    """Each MAC address in use, with its owner.

    The host's own devices come last, so that they win if an address occurs twice: they are easier to check.
    """
    links = tuple(links)
    for link in links:
        if isinstance(link.peer, PeerMac):
            yield link.peer.mac, f"a pod behind {link.name}"
    for link in links:
        if link.mac not in _NO_MAC:
            yield link.mac, f"the device {link.name}"


def _own_addresses(snapshot: Snapshot) -> Iterator[tuple[IP, str]]:
    for route in snapshot.routes.only(prefixes=_DEFAULTS):
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
    """Whether it is a route to a single address, in the form that azure-vnet adds."""
    if route.prefix.length != route.prefix.ip.max_prefixlen or len(route.legs) != 1 or len(route.devs) != 1:
        return False
    leg = route.legs[0]
    plain = route.type == "unicast" and not route.tos and route.nexthop_id is None
    return plain and leg.gateway is None and not leg.onlink and leg.weight == 1


# Whether azure-vnet still manages the pods, according to the node's CNI configuration.

_PLUGIN = "azure-vnet"


def active_file(names: Iterable[str], read: Callable[[str], str | None]) -> str | None:
    """The name of the file that makes azure-vnet active, or None if it is not active. `read` returns a file's text.

    A file before the runtime's that names azure-vnet counts, too, although no runtime can use it: refusing is safe.
    """
    folder = read_conflists(names, read)
    used = files_in_force(folder)
    for name, document in folder.items():
        if _has_plugin(document):
            return name
        if name in used[:1]:
            return name if any(_has_plugin(folder[other]) for other in used) else None
    return None


def _has_plugin(document: Any) -> bool:
    """Whether it contains azure-vnet as a plugin, at any depth."""
    return any(nested.get("type") == _PLUGIN for _, nested in objects_in(document))


# azure-vnet's own list of pods, from its state file. The file is never written.


@attrs.frozen
class Endpoint:
    """A pod in azure-vnet's state file."""

    name: str
    device: str
    """The veth at the host's end."""
    ips: tuple[IP, ...] = ()


class StateFileUnreadable(ValueError):  # noqa: N818  reads as what is wrong
    """The text is not a state file of azure-vnet, or is truncated; the message says where."""


def read_state(text: str) -> tuple[Endpoint, ...]:
    """Every endpoint in the text, in order. Raises StateFileUnreadable."""
    import json  # noqa: PLC0415  only where there is a state file

    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StateFileUnreadable(f"it is not JSON, or is truncated: {error}") from error
    return tuple(_endpoints(document))


def _endpoints(document: object) -> Iterator[Endpoint]:
    network = _object(_object(document, "").get("Network"), "Network")
    interfaces = _object(network.get("ExternalInterfaces"), "ExternalInterfaces")
    for interface in interfaces.values():
        networks = _object(_object(interface, "ExternalInterfaces").get("Networks"), "Networks")
        for one in networks.values():
            endpoints = _object(_object(one, "Networks").get("Endpoints"), "Endpoints")
            for name, endpoint in endpoints.items():
                yield _endpoint(name, _object(endpoint, "Endpoints"))


def _endpoint(name: str, known: dict[str, Any]) -> Endpoint:
    device = known.get("HostIfName") or ""
    addresses = known.get("IPAddresses") or []
    if not isinstance(device, str) or not isinstance(addresses, list):
        raise StateFileUnreadable(
            f"the endpoint {name!a} does not have HostIfName and IPAddresses in the form that azure-vnet writes"
        )
    try:
        ips = tuple(as_ip(str(_object(address, "IPAddresses").get("IP"))) for address in addresses)
    except ValueError as error:
        raise StateFileUnreadable(f"the endpoint {name!a} has an invalid address: {error}") from error
    return Endpoint(name, device, ips)


def _object(value: object, what: str) -> dict[str, Any]:
    """A part of the document that must be an object; azure-vnet writes null for an empty one."""
    if value is None and what:
        return {}
    if not isinstance(value, dict):
        raise StateFileUnreadable(f"{what or 'the document'} is not a JSON object")
    return value
