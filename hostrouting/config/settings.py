"""The configuration: every setting as a field of a frozen value, with its rules; and the rules
about several settings together (`faults_between_fields`).

Values from Python and from a file follow the same rules, and are refused with the same faults, all
at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from ipaddress import IPv4Network, IPv6Address, IPv6Network
from itertools import compress
from os import PathLike
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_args

from hostrouting.errors import ConfigError, Fault
from hostrouting.model.prefix import IP, LINK_LOCAL, Prefix, as_ip, as_ipv4, is_reserved
from hostrouting.model.route import DEFAULT_METRIC, TABLE_MAIN, RouteKey
from hostrouting.model.rule import SELECTORS
from hostrouting.reading import (
    fields_of,
    json_value,
    load,
    matches,
    must,
    parse,
    read,
    register,
    section,
    text_as,
)
from hostrouting.text import show

Network: TypeAlias = IPv4Network | IPv6Network
Mode: TypeAlias = Literal["WARN", "STRICT"]
"""What to do about an overlap: WARN logs it and passes; STRICT fails and keeps the gated unit from
starting.
"""

PassPart: TypeAlias = Literal["static_routes", "probe_rewrite", "route_overlap"]
"""A part of a pass (`upkeep.passes`), which has the name of its section of the configuration."""
PARTS: tuple[PassPart, ...] = get_args(PassPart)

MACHINES = "systemd-nspawn@.service"
"""The template of the units of machines, which are the containers of systemd-nspawn."""

_OUR_KEY = "hostRouting"
"""The key under which an agent's own file has the configuration, beside the agent's settings."""

_GLOBAL_UNICAST = IPv6Network("2000::/3")
# A table and not int(), which would also accept 08, and the digits of other alphabets.
_LENGTHS = {str(length): length for length in range(129)}
_WIDEST_PODS = {4: 8, 6: 32}
"""By family: the shortest prefix that `managed` may have. It protects against a mistyped length."""

_OUR_UNITS = (
    "static-routes.service",
    "check-route-overlap.service",
    "probe-rewrite.service",
    "hostrouting-guard.service",
)
"""As in `HostLayout`, which this module may not import."""
_EARLY = {
    # the devices; and the bus, by which systemd is reached
    "udev", "dbus", "dbus-broker", "messagebus",
    # what gives this host its addresses and its default route
    "NetworkManager", "NetworkManager-wait-online", "NetworkManager-dispatcher",
    "NetworkManager-initrd", "nm-cloud-setup",
    "networking", "network", "netplan-ovs-cleanup", "ifup@", "ifupdown-pre", "ifupdown-wait-online",
    "dhcpcd", "dhcpcd@", "dhclient", "dhclient@", "dhclient6@", "wpa_supplicant",
    "wpa_supplicant@", "wpa_supplicant-wired@", "wpa_supplicant-nl80211@", "iwd",
    "connman", "connman-wait-online", "wicked", "wickedd", "wickedd-nanny", "wickedd-auto4",
    "wickedd-dhcp4", "wickedd-dhcp6", "frr", "bird", "bird6",
    "openvswitch", "openvswitch-switch", "openvswitch-nonetwork", "ovs-vswitchd", "ovsdb-server",
    "ovs-configuration", "ovs-delete-transient-ports",
    # what comes before the network: the first boot of a cloud's image, InfiniBand, filters
    "cloud-init", "cloud-init-local", "cloud-init-main", "cloud-init-network",
    "cloud-init-hotplugd",
    "openibd", "rdma", "rdma-ndd", "rdma-load-modules@",
    "nftables", "nftables-flush", "iptables", "ip6tables", "firewalld", "ufw",
    "netfilter-persistent",
}  # fmt: skip
"""The services that the network or the gate itself needs, without ".service"; of a template, up to
the @. `_precedes_gate` knows those of systemd and netplan by the beginning of their names.
"""
# Services that start the containers of the whole host: to gate them would hold back too much.
_RUNTIMES = ("containerd.service", "crio.service", "snap.microk8s.daemon-containerd.service")


# The rules of single values.


# A network comes to `_network` as its text, also if a program gives an object of `ipaddress`.
for _kind in (IPv4Network, IPv6Network):
    register(_kind, text_as(str, "is not a string"))


def _network(text: str, *, needs_length: bool = True, masks_host_bits: bool = True) -> Network:
    """Read the text of a setting as a network. A fault raises a ValueError with two arguments: the
    broken rule and the remedy.

    With `masks_host_bits`, host bits (10.0.0.1/8) are set to zero; otherwise they are a fault. With
    `needs_length`, an address without a length is a fault; otherwise it is a network of its own.
    """
    host, slash, length = text.partition("/")
    try:
        address = as_ip(host)
        bits = _LENGTHS[length] if slash else address.max_prefixlen  # int() would accept 08
        # A length that is too long for the address is a ValueError, too.
        prefix = Prefix.around(address.version, int(address), bits)
    except (ValueError, KeyError):
        remedy = 'write an address, a slash and a length: "10.0.0.0/8"'
        raise ValueError("is not a network", remedy) from None
    network: Network = _require_unmapped(prefix.to_network())
    if needs_length and not slash:
        raise ValueError("has no prefix length", f'write "{prefix}" for that one address')
    if not masks_host_bits and prefix.ip != address:
        remedy = f'write "{prefix}", or "{Prefix.of(address)}" for that one address'
        raise ValueError("has host bits set", remedy)
    return network


def _require_unmapped(block: Any) -> Any:
    """Return this network or address. ValueError if it is IPv4 written as IPv6 (::ffff:10.0.0.0),
    because Linux would route IPv6 packets by it, and never IPv4 packets.
    """
    ipv4 = as_ipv4(Prefix.of(block))
    if ipv4 is not None:
        # The remedy has the form of the given block: an address has no length.
        text = ipv4.ip if isinstance(block, IPv6Address) else ipv4
        raise ValueError("is IPv4, written as IPv6", f'write "{text}"')
    return block


def _precedes_gate(unit: str) -> bool:
    """Whether the gate itself, or the network that it checks, needs this unit. Such a unit cannot
    be gated, because it and the gate would wait for each other. A template in _EARLY ("ifup@")
    means each of its instances, too.
    """
    name, at, _ = unit.removesuffix(".service").partition("@")
    # All of systemd's own services come early, except the machines (systemd-nspawn@). A service
    # netplan-wpa-… connects a card to its WLAN.
    is_early = name.startswith(("systemd-", "netplan-wpa-")) and name != "systemd-nspawn"
    return unit in _OUR_UNITS or is_early or f"{name}{at}" in _EARLY


def _is_not_reserved(block: Network | IP) -> bool:
    return not is_reserved(Prefix.of(block))


# In `Annotated`, rules follow the type. Each is a function that returns the value for the next
# rule, or raises ValueError. `must` makes a rule from a condition, which leaves the value as it is.

Masked: TypeAlias = Annotated[
    Network,
    _network,
    must(
        lambda network: not network.is_loopback,
        "is the loopback network, which never leaves a host",
    ),
]
Exact: TypeAlias = Annotated[Network, partial(_network, needs_length=False, masks_host_bits=False)]
Pods: TypeAlias = Annotated[
    Exact,
    must(
        lambda network: network.prefixlen >= _WIDEST_PODS[network.version],
        "is too wide for a network of pods",
    ),
]
Router: TypeAlias = Annotated[
    IP,
    _require_unmapped,
    must(
        lambda ip: ip in LINK_LOCAL or _is_not_reserved(ip),
        "lies in a reserved range, which has no routers",
    ),
]
is_configurable_dev = matches(r"(?!\.\.?$)[\w.-]{1,15}")
"""Whether a configuration can name this device. Linux allows nearly every character in a name."""
DeviceName: TypeAlias = Annotated[
    str,
    must(is_configurable_dev, "is not a device name: 1 to 15 letters, digits, '_', '.' and '-'"),
]
# Only * and ? have a meaning. Without its *, a pattern has at most 15 characters, like the names.
Pattern: TypeAlias = Annotated[
    str,
    must(
        matches(r"\*+|\**([\w.?-]\**){1,15}"),
        "is not a device pattern",
        'write one such as "cali*"',
    ),
    must(
        lambda pattern: pattern.strip("*?"),
        "allows every device, so no overlap would ever be found",
    ),
]


Unit: TypeAlias = Annotated[
    str,
    must(
        matches(r"[\w:.\\-][\w:.\\@-]*\.service"),
        "is not the name of a service",
        'write one such as "kubelet.service"',
    ),
    must(
        # The folder of its drop-ins has ".d" behind that, and Linux allows names of 255 characters.
        lambda unit: len(unit) <= 253,
        "is longer than 253 characters, so the folder of its drop-ins cannot be made",
    ),
    must(
        lambda unit: not _precedes_gate(unit),
        "is needed for the network, or by the gate itself, so this unit and the gate would "
        "wait for each other",
        "name the unit that needs the network, such as kubelet.service",
    ),
    must(
        lambda unit: unit not in _RUNTIMES,
        "starts the containers of the whole host",
        "name the unit that must wait, such as kubelet.service",
    ),
]
_SELECTOR = rf"({'|'.join(SELECTORS)}|attribute-\d+) [\w./:-]+"
Selection: TypeAlias = Annotated[
    str,
    must(
        matches(rf"(?!.*from all)(not )?{_SELECTOR}( {_SELECTOR})*"),
        "is not a list of selectors",
        'write it as "ip rule" does, but without "from all": "fwmark 0x1/0xff"',
    ),
]


# The settings. `faults_between_fields` is called when each single value of the section is right.


@section
class StaticRoute(NamedTuple):
    """A route that the host must have."""

    destination: Annotated[
        Network,
        partial(_network, masks_host_bits=False),
        must(
            lambda network: network.prefixlen,
            "is the default route",
            "list the networks that need a static route",
        ),
        must(_is_not_reserved, "lies in a reserved range, which cannot have a static route"),
    ]
    gateway: Router | None = None
    """None means the default gateway on the device, or no gateway if the destination lies in a
    network of the device.
    """
    dev: DeviceName | None = None
    """None means the device of the default route, of the destination's family."""
    metric: int = 0
    """The default is 0, with which Linux uses its own default: 0 for an IPv4 route, 1024 for an
    IPv6 route.
    """

    @property
    def key(self) -> RouteKey:
        """The fields by which the kernel will distinguish this route from others (`Route.key`)."""
        prefix = Prefix.of(self.destination)
        # The 0 is the tos: the route is for every packet.
        return RouteKey(TABLE_MAIN, prefix, 0, self.metric or DEFAULT_METRIC[prefix.family])

    def to_mapping(self) -> dict[str, Any]:
        """The JSON object, without what has its default value."""
        return dict(json_value(self))

    def __str__(self) -> str:
        words = [str(self.destination)]
        if self.gateway is not None:
            words.append(f"via {self.gateway}")
        if self.dev is not None:
            words.append(f"dev {self.dev}")
        if self.metric:
            words.append(f"metric {self.metric}")
        return " ".join(words)

    def faults_between_fields(self) -> Iterator[Fault]:
        """Yield a fault if the gateway is not of the destination's family, or if it is link-local
        and `dev` does not say on which link.
        """
        gateway = self.gateway
        if gateway is None:
            return
        if gateway.version != self.destination.version:
            rule = f"is IPv{gateway.version}, and the destination is not"
            yield Fault("gateway", show(gateway), rule)
        elif gateway in LINK_LOCAL and self.dev is None:
            rule = "is link-local, and every link can have this address"
            yield Fault("gateway", show(gateway), rule, "add dev: the device that the router is on")


@section
class StaticRoutesConfig(NamedTuple):
    """The static routes, and the switch that enables them."""

    enabled: bool = False
    routes: tuple[StaticRoute, ...] = ()

    def faults_between_fields(self) -> Iterator[Fault]:
        """Yield a fault for each route with the same key as an earlier route, because Linux would
        refuse it. Yield a fault, too, if there are routes but they are not enabled.
        """
        index_by_key: dict[RouteKey, int] = {}
        for index, route in enumerate(self.routes):
            first_index = index_by_key.setdefault(route.key, index)
            if first_index != index:
                rule = f"has the destination and the metric of routes[{first_index}]"
                remedy = "remove one of the two, or give them different metrics"
                yield Fault(f"routes[{index}]", show(str(route.destination)), rule, remedy)
        if self.routes and not self.enabled:
            yield Fault("enabled", "", "there are routes", 'set "enabled": true')


@section
class RouteOverlapConfig(NamedTuple):
    """The CIDRs that must leave through the expected devices, and what to do if one does not."""

    expected_cidrs: tuple[Masked, ...] = ()
    """In the given order, with host bits masked."""
    mode: Mode = "WARN"
    undecided: Literal["warn", "refuse"] = "warn"
    """What STRICT does about a verdict that is UNDECIDED."""
    expected_devs: tuple[DeviceName, ...] = ()
    """If empty, the devices of the default route: for each CIDR, that of its family."""
    allowed_devs: tuple[Pattern, ...] = ()
    """Patterns (`*`, `?`) for devices that may carry part of an expected CIDR, beside those of
    known CNIs.
    """
    service_cidrs: tuple[Masked, ...] = ()
    """The networks of services: expected like `expected_cidrs`, and no address of the host may lie
    in them.
    """
    intended_rules: tuple[Selection, ...] = ()
    """The rules that may send some packets elsewhere: their selectors as `ip rule` prints them,
    without "from all".
    """

    def faults_between_fields(self) -> Iterator[Fault]:
        """Yield a fault if the mode STRICT has nothing to check, or if `undecided` is "refuse" in
        the mode WARN, which refuses nothing.
        """
        if self.is_strict and not self.cidrs:
            rule = "STRICT, but no CIDRs are given, so nothing is checked"
            yield Fault("mode", "", rule, "add expectedCidrs or serviceCidrs")
        if self.undecided == "refuse" and not self.is_strict:
            rule = '"refuse", but the mode is WARN, in which nothing is refused'
            yield Fault("undecided", "", rule, 'set "mode": "STRICT"')

    @property
    def cidrs(self) -> tuple[Network, ...]:
        """All networks that must leave through the expected devices."""
        return tuple(dict.fromkeys((*self.expected_cidrs, *self.service_cidrs)))

    @property
    def is_strict(self) -> bool:
        """Whether no gated unit starts while an address of these CIDRs escapes: while packets to it
        do not leave through an expected device.
        """
        return self.mode == "STRICT"

    @property
    def effect(self) -> str:
        """What these settings mean for the start of a gated unit, as a phrase for an operator. An
        address escapes if packets to it do not leave through an expected device.
        """
        if not self.is_strict:
            return "gated units start even while an address escapes"
        # The verdict UNDECIDED means that an address may escape.
        doubt = " or may escape" if self.undecided == "refuse" else ""
        return f"the gate refuses every start while an address escapes{doubt}"

    def refuses(self, verdict: str) -> bool:
        """Whether a check with this verdict ("ok", "undecided" or a worse one) makes a run fail and
        keeps gated units from starting. In the mode WARN, no verdict does.
        """
        if verdict == "undecided":
            return self.undecided == "refuse"  # a configuration has that only in the mode STRICT
        return self.is_strict and verdict != "ok"


@section
class ProbeRewriteConfig(NamedTuple):
    """The rewrite of the load balancer's probes over IPv6, and the switch that enables it."""

    enabled: bool = False
    interfaces: tuple[
        Annotated[
            DeviceName,
            must(lambda name: name != "lo", "is the loopback device, where no probe arrives"),
        ],
        ...,
    ] = ()
    link_local: Annotated[
        IPv6Address, must(lambda ip: ip in LINK_LOCAL, f"is not in {LINK_LOCAL}")
    ] = IPv6Address("fe80::1234:5678:9abc")
    """The source address of the probes; the default is that of Azure's load balancer."""
    global_address: Annotated[
        IPv6Address, must(lambda ip: ip in _GLOBAL_UNICAST, f"is not in {_GLOBAL_UNICAST}")
    ] = IPv6Address("2603:1062:0:1:fe80:1234:5678:9abc")
    """The source address after the rewrite; the default is one that Azure reserves for this."""
    ensure_route: bool = True
    """Whether to add a route to the global address, so that replies leave through the uplink."""

    def faults_between_fields(self) -> Iterator[Fault]:
        """Yield a fault if there are interfaces but the rewrite is not enabled, or if it is enabled
        without an interface. With `ensure_route`, several interfaces are a fault, because the route
        can lead through only one of them.
        """
        enabled, interfaces = self.enabled, self.interfaces
        if interfaces and not enabled:
            yield Fault("enabled", "", "there are interfaces", 'set "enabled": true')
        if enabled and not interfaces:
            rule = "no interface is given but enabled=true"
            yield Fault("interfaces", "", rule, "name the uplink of the probes")
        if enabled and self.ensure_route and len(interfaces) > 1:
            rule = f"true requires exactly one interface, but {len(interfaces)} are given"
            yield Fault("ensureRoute", "", rule, "set it to false and add the route yourself")


@section
class AzureVnetCleanupConfig(NamedTuple):
    """What the clean-up after azure-vnet may delete."""

    managed: Annotated[
        tuple[Pods, ...],
        must(bool, "is empty, so nothing would be deleted", "name the pods' networks"),
    ]
    """The networks of the pods that another CNI manages now: nothing outside them is deleted."""
    protect: tuple[Exact, ...] = ()
    """Addresses and networks whose rules and entries are not deleted."""
    uplinks: tuple[DeviceName, ...] = ()
    """Devices that count as uplinks, in addition to the bridge ports that are hardware or built on
    it.
    """
    dry_run: bool = True
    """Whether the task only reports; on the command line, --apply turns this off."""


@section
class GuardConfig(NamedTuple):
    """Whether a service makes the routing right again whenever something changes it."""

    enabled: bool = False


@section
class GateConfig(NamedTuple):
    """The units that wait for the gate."""

    units: Annotated[tuple[Unit, ...], must(bool, "is empty: no unit would wait for the gate")]
    """A template (`NAME@.service`) means each of its instances."""


@section
class HostRoutingConfig(NamedTuple):
    """The whole configuration of hostrouting, section by section. Without arguments, it asks for
    nothing. `from_mapping(x.to_mapping()) == x`.
    """

    static_routes: StaticRoutesConfig = StaticRoutesConfig()
    route_overlap: RouteOverlapConfig = RouteOverlapConfig()
    probe_rewrite: ProbeRewriteConfig = ProbeRewriteConfig()
    azure_vnet_cleanup: AzureVnetCleanupConfig | None = None
    """None if the section is missing: then nothing is cleaned up."""
    guard: GuardConfig = GuardConfig()
    gate: GateConfig | None = None
    """None if the section is missing: then machines wait for the gate if it has anything to do."""
    manage_foreign: Literal["leave", "keep"] = "leave"
    """Whether systemd-networkd is told to keep routes and rules that it does not know."""

    def faults_between_fields(self) -> Iterator[Fault]:
        """Yield a fault if the guard, which makes the routing right again after each change, is
        enabled but has nothing to guard.
        """
        if self.guard.enabled and not self.parts:
            rule = "there is nothing to guard: no routes, no expected CIDRs and no probe rewrite"
            yield Fault("guard", "", rule, "add staticRoutes, routeOverlap or probeRewrite")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "HostRoutingConfig":
        """Read the configuration in a file or pipe; `-` is standard input. A ConfigError names the
        file as its `source`.
        """
        return load(path, cls.from_json)

    @classmethod
    def from_json(cls, text: str | bytes) -> "HostRoutingConfig":
        """Read the configuration in a JSON text, as `from_mapping` does."""
        return cls.from_mapping(parse(text))

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object]) -> "HostRoutingConfig":
        """Read the configuration from parsed JSON: the whole mapping is the configuration or, if it
        is an agent's own file, the value of its key `hostRouting`. Raises a ConfigError with all
        faults at once.
        """
        given: object = mapping  # JSON need not be an object, whatever the type of `mapping` says
        our_keys = fields_of(cls)
        if isinstance(given, Mapping) and _OUR_KEY in given:  # an agent's own file
            # Our settings belong under our key. Beside this key, a setting of ours is misplaced; a
            # name in _AGENTS_MAY_HAVE is a setting of the agent there.
            misplaced = [key for key in our_keys if key in given and key not in _AGENTS_MAY_HAVE]
            if misplaced:
                rule = f"is beside {_OUR_KEY}, where it would be ignored"
                remedy = f"move it into {_OUR_KEY}"
                raise ConfigError(Fault(key, "", rule, remedy) for key in misplaced)
            if _OUR_KEY in getattr(given, "repeated", ()):  # `parse` notes repeated keys
                raise ConfigError([Fault(_OUR_KEY, "", "given more than once")])
            return read(cls, given[_OUR_KEY], key=_OUR_KEY)
        try:
            return read(cls, mapping)
        except ConfigError as error:
            if (
                not isinstance(given, Mapping)
                or any(key in our_keys for key in given)
                # A key of ours was misspelt: only then a remedy is given, with the right key.
                or any(fault.remedy for fault in error.faults)
            ):
                raise
            # No key is ours, so this is probably an agent's own file, in which our key is missing.
            remedy = "an agent's own file has the configuration under this key"
            missing = Fault(_OUR_KEY, "", "missing", remedy)
            raise ConfigError([*error.faults, missing]) from error

    def to_mapping(self) -> dict[str, Any]:
        """The JSON object, without what has its default value."""
        return dict(json_value(self))

    @property
    def parts(self) -> tuple[PassPart, ...]:
        """The parts of the work on a host's routing that this configuration asks for, in the order
        of PARTS: set the static routes, load the probe rewrite, check for overlaps. The first part
        also sets the route for replies to probes, so this part can be needed without static routes.
        """
        probes = self.probe_rewrite
        has_reply_route = probes.enabled and probes.ensure_route
        has_work = (  # one entry for each of PARTS
            self.static_routes.routes or has_reply_route,
            probes.enabled,
            self.route_overlap.cidrs,
        )
        return tuple(compress(PARTS, has_work))

    @property
    def asks_for_nothing(self) -> bool:
        """Whether a host needs no files of hostrouting for this configuration: no unit
        waits for the gate, and systemd-networkd is not told to keep routes that it does not know.
        """
        # If there are `parts` (routes, CIDRs or a probe rewrite), a unit is gated: a section `gate`
        # must not be empty, and without one, machines are.
        return not gated_units(self) and self.manage_foreign != "keep"

    def replaced(self, names: Iterable[str], other: "HostRoutingConfig") -> "HostRoutingConfig":
        """A copy of this configuration in which the attributes `names` are those of `other`. The
        guard is turned off if it has nothing left to guard.
        """
        taken = {name: getattr(other, name) for name in names}
        guard = taken.pop("guard", self.guard)
        # The copy is first made without a guard, because `_replace` refuses a guard that has
        # nothing to guard.
        changed = self._replace(guard=GuardConfig(), **taken)
        if not changed.parts:
            return changed
        return changed._replace(guard=guard)


_AGENTS_MAY_HAVE = ("gate", "guard")
"""The keys of ours that an agent's own file may have beside `hostRouting`, with another meaning."""


def gated_units(config: HostRoutingConfig) -> tuple[str, ...]:
    """Return the units that start only after the gate has checked the routing: those of the section
    `gate`. Without this section, systemd-nspawn@.service is gated if there are static routes, CIDRs
    to check or a probe rewrite; otherwise no unit is.
    """
    if config.gate is not None:
        return tuple(sorted(set(config.gate.units)))
    if config.parts:
        return (MACHINES,)
    return ()
