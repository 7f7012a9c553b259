"""The configuration: every setting as a field of a frozen value, with its rules; and the rules
about several.

Values from Python and from a file follow the same rules, and are refused with the same faults, all
at once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from ipaddress import IPv4Network, IPv6Address, IPv6Network
from os import PathLike
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from hostrouting.errors import ConfigError, Fault
from hostrouting.model.prefix import IP, LINK_LOCAL, Prefix, as_ip, as_ipv4, is_reserved
from hostrouting.model.route import DEFAULT_METRIC, TABLE_MAIN, RouteKey
from hostrouting.model.rule import SELECTORS
from hostrouting.reading import (
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
from hostrouting.reading.types import Rule, form_of, path_of
from hostrouting.text import nearest, show

Network: TypeAlias = IPv4Network | IPv6Network
Mode: TypeAlias = Literal["WARN", "STRICT"]
"""What to do about an overlap: WARN logs it and passes; STRICT fails and keeps the gated unit from
starting.
"""

MACHINES = "systemd-nspawn@.service"
"""The template of the units of machines, which are the containers of systemd-nspawn."""

_OUR_KEY = "hostRouting"
"""Where an agent's own file has the configuration, beside the settings of the agent."""

_GLOBAL_UNICAST = IPv6Network("2000::/3")
# int() would also read 08, and the digits of other alphabets.
_LENGTHS = {str(length): length for length in range(256)}
_WIDEST_PODS = {4: 8, 6: 32}
"""By family: the shortest prefix of a network of pods."""

_OUR_UNITS = (
    "static-routes.service",
    "check-route-overlap.service",
    "probe-rewrite.service",
    "hostrouting-guard.service",
)
"""As in `HostLayout`, which this module may not import."""
_EARLY = (
    # systemd's own: networkd, resolved, udevd, journald, …; and the bus by which they are reached
    "systemd-", "udev.", "dbus", "messagebus.",
    # what gives this host its addresses and its default route
    "NetworkManager", "networking.", "network.", "netplan", "ifup", "dhcpcd", "dhclient",
    "wpa_supplicant", "iwd.", "connman", "wicked", "frr.", "bird.", "bird6.",
    "openvswitch", "ovs-", "ovsdb-",
    # what comes before the network: the first boot of a cloud's image, InfiniBand, filters
    "cloud-init", "openibd.", "rdma-",
    "nftables", "iptables", "ip6tables", "firewalld.", "ufw.", "netfilter-persistent.",
)  # fmt: skip
"""How the names of units begin that the network, or the gate itself, needs."""
_LOGINS = ("ssh.", "ssh@", "sshd.", "sshd@", "dropbear", "getty@", "serial-getty@")
"""How the names of units begin through which an operator logs in."""
_RUNTIMES = ("containerd.service", "crio.service", "snap.microk8s.daemon-containerd.service")
_LONGEST_SCRIPT = 100_000
"""In bytes: Linux takes no argument of a program that is longer than 131,071."""
_GATE_ANOTHER = "name the unit that must wait, such as kubelet.service"


# The rules of single values.


# A network comes to `_network` as its text, also if a program gives an object of `ipaddress`.
for _kind in (IPv4Network, IPv6Network):
    register(_kind, text_as(str, "is not a string"))


def _network(text: str, *, needs_length: bool = True, masks_host_bits: bool = True) -> Network:
    """The network that the text means. Its host bits are masked, or refused if not. Without a
    length, it is one address, or refused if it needs one.
    """
    host, slash, length = text.partition("/")
    try:
        address = as_ip(host)
        bits = _LENGTHS[length] if slash else address.max_prefixlen
    except (ValueError, KeyError):
        remedy = 'write an address, a slash and a length: "10.0.0.0/8"'
        raise ValueError("is not a network", remedy) from None
    if bits > address.max_prefixlen:
        raise ValueError("has too long a prefix", f"the length is at most {address.max_prefixlen}")
    prefix = Prefix.around(address.version, int(address), bits)
    _require_no_ipv4(prefix.to_network())
    if needs_length and not slash:
        raise ValueError("has no prefix length", f'write "{prefix}" for that one address')
    if not masks_host_bits and prefix.ip != address:
        remedy = f'write "{prefix}", or "{Prefix.of(address)}" for that one address'
        raise ValueError("has host bits set", remedy)
    return prefix.to_network()


def _require_no_ipv4(block: Network | IP) -> None:
    """Raise ValueError if this is IPv4 written as IPv6: Linux routes no IPv4 packet by it."""
    plain = as_ipv4(Prefix.of(block))
    if plain is not None:
        text = plain.ip if isinstance(block, IPv6Address) else plain
        raise ValueError("is IPv4, written as IPv6", f'write "{text}"')


def _router(ip: IP) -> IP:
    _require_no_ipv4(ip)
    return ip


def _precedes_gate(unit: str) -> bool:
    """Whether the unit starts before the gate opens: it is one of ours, or the network needs it."""
    if unit in _OUR_UNITS:
        return True
    is_machine = unit.partition("@")[0] == "systemd-nspawn"  # named as systemd's own units are
    return unit.startswith(_EARLY) and not is_machine


def _is_not_reserved(block: Network | IP) -> bool:
    return not is_reserved(Prefix.of(block))


# In `Annotated`, the type is followed by the rules through which a value goes, in their order. Each
# returns the value for the next one. `must` makes one of a condition: the value stays as it is.

Masked: TypeAlias = Annotated[
    Network,
    Rule(_network),
    must(
        lambda network: not network.is_loopback,
        "is the loopback network, which never leaves a host",
    ),
]
Exact: TypeAlias = Annotated[
    Network, Rule(partial(_network, needs_length=False, masks_host_bits=False))
]
Pods: TypeAlias = Annotated[
    Exact,
    must(
        lambda network: network.prefixlen >= _WIDEST_PODS[network.version],
        "is too wide for a network of pods",
    ),
]
Router: TypeAlias = Annotated[
    IP,
    Rule(_router),
    must(
        lambda ip: ip in LINK_LOCAL or _is_not_reserved(ip),
        "lies in a reserved range, which has no routers",
    ),
]
is_configurable_dev = matches(r"(?!\.\.?$)[\w.-]{1,15}")
"""Whether a configuration can name this device: for Linux, a name can have almost any character."""
DeviceName: TypeAlias = Annotated[
    str,
    must(is_configurable_dev, "is not a device name: 1 to 15 letters, digits, '_', '.' and '-'"),
]
# Only * and ?. Without its *, a pattern has at most 15 characters, as the names that it allows.
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


def _is_script(value: object) -> bool:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        return False
    return len(value.encode(errors="replace")) <= _LONGEST_SCRIPT


Script: TypeAlias = Annotated[str, "a script"]
register(
    Script, must(_is_script, f"is not the text of a script of up to {_LONGEST_SCRIPT:,} bytes")
)
# At most 251 characters: the folder of the unit's drop-ins is named after it, with ".d" at the end,
# and no file name is longer than 255.
Unit: TypeAlias = Annotated[
    str,
    must(
        matches(r"[\w:.\\-][\w:.\\@-]{0,242}\.service"),
        "is not the name of a service",
        'write one such as "kubelet.service"',
    ),
    must(
        lambda unit: not _precedes_gate(unit),
        "is needed for the network, or by the gate itself, so this unit and the gate would "
        "wait for each other",
        "name the unit that needs the network, such as kubelet.service",
    ),
    must(
        lambda unit: not unit.startswith(_LOGINS),
        "is how an operator logs in to repair the host",
        _GATE_ANOTHER,
    ),
    must(
        lambda unit: unit not in _RUNTIMES,
        "starts the containers of the whole host",
        _GATE_ANOTHER,
    ),
]
_SELECTOR = rf"({'|'.join(SELECTORS)}|attribute-\d+) [\w./:-]+"
Selection: TypeAlias = Annotated[
    str,
    must(
        matches(rf"(not )?{_SELECTOR}( {_SELECTOR})*"),
        "is not a list of selectors",
        'write it as "ip rule" does: "fwmark 0x1/0xff"',
    ),
]


# The settings. In `faults_between`, a value with a fault of its own is None.


@section
class StaticRoute(NamedTuple):
    """One route that the host must have."""

    destination: Annotated[
        Network,
        Rule(partial(_network, masks_host_bits=False)),
        must(
            lambda network: network.prefixlen,
            "is the default route",
            "list the networks that need a static route",
        ),
        must(_is_not_reserved, "lies in a reserved range, which cannot have a static route"),
    ]
    gateway: Router | None = None
    """None means the default gateway on the device."""
    dev: DeviceName | None = None
    """None means the device of the default route, of the destination's family."""
    metric: int = 0
    """The default is 0, with which Linux uses its own default: 0 for an IPv4 route, 1024 for an
    IPv6 route.
    """

    @property
    def key(self) -> RouteKey:
        """The key by which the kernel will distinguish the route, as in `Route.key`."""
        prefix = Prefix.of(self.destination)
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

    def faults_between(self: Any) -> Iterator[Fault]:
        """A gateway of the other family, or a link-local one without a device."""
        gateway = self.gateway
        if self.destination is None or gateway is None:
            return
        if gateway.version != self.destination.version:
            yield Fault(
                "gateway", show(gateway), f"is IPv{gateway.version}, and the destination is not"
            )
        elif gateway in LINK_LOCAL and self.dev is None:
            rule = "is link-local, and every link can have this address"
            yield Fault("gateway", show(gateway), rule, "add dev: the device that the router is on")


@section
class StaticRoutesConfig(NamedTuple):
    """The static routes, and the switch that enables them."""

    enabled: bool = False
    routes: tuple[StaticRoute, ...] = ()

    def faults_between(self: Any) -> Iterator[Fault]:
        """Routes that are the same one for Linux, and routes that are not enabled."""
        routes = self.routes or ()
        places: dict[RouteKey, int] = {}
        for place, route in enumerate(routes):
            if route is None:
                continue
            first = places.setdefault(route.key, place)
            if first != place:
                rule = f"has the destination and the metric of routes[{first}]"
                remedy = "remove one of the two, or give them different metrics"
                yield Fault(f"routes[{place}]", show(str(route.destination)), rule, remedy)
        if routes and self.enabled is False:
            yield Fault("enabled", "", "there are routes", 'set "enabled": true')


@section
class RouteOverlapConfig(NamedTuple):
    """The CIDRs that must leave through the expected devices, and what to do if one does not."""

    expected_cidrs: tuple[Masked, ...] = ()
    """In the given order, with host bits masked."""
    mode: Mode = "WARN"
    expected_devs: tuple[DeviceName, ...] = ()
    """If empty, the devices of the default route, for the CIDRs of each family its own."""
    allowed_devs: tuple[Pattern, ...] = ()
    """Patterns (`*`, `?`) for devices that may carry part of an expected CIDR, beside those of
    known CNIs.
    """
    service_cidrs: tuple[Masked, ...] = ()
    """The networks of services: expected like `expected_cidrs`, and no address of the host may lie
    in them.
    """
    pod_cidrs: tuple[Masked, ...] = ()
    """The addresses of pods: what these send is checked, too."""
    intended_rules: tuple[Selection, ...] = ()
    """The rules that may send some packets elsewhere: their selectors as `ip rule` prints them,
    without "from all".
    """

    def faults_between(self: Any) -> Iterator[Fault]:
        """A mode that would protect nothing."""
        if self.mode == "STRICT" and self.expected_cidrs == () == self.service_cidrs:
            rule = "STRICT, but no CIDRs are given, so nothing is checked"
            yield Fault("mode", "", rule, "add expectedCidrs or serviceCidrs")

    @property
    def cidrs(self) -> tuple[Network, ...]:
        """All that must leave through the expected devices."""
        return tuple(dict.fromkeys((*self.expected_cidrs, *self.service_cidrs)))

    @property
    def is_strict(self) -> bool:
        """Whether no gated unit starts while an address of these CIDRs escapes."""
        return self.mode == "STRICT"


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

    def faults_between(self: Any) -> Iterator[Fault]:
        """Interfaces without the rewrite, a rewrite without interfaces, or a route with several."""
        enabled, interfaces = self.enabled, self.interfaces
        if interfaces and enabled is False:
            yield Fault("enabled", "", "there are interfaces", 'set "enabled": true')
        if interfaces == () and enabled:
            yield Fault(
                "interfaces",
                "",
                "no interface is given but enabled=true",
                "name the uplink of the probes",
            )
        if enabled and self.ensure_route and interfaces and len(interfaces) > 1:
            rule = f"true requires exactly one interface, but {len(interfaces)} are given"
            yield Fault("ensureRoute", "", rule, "set it to false and add the route yourself")


@section
class AzureVnetCleanupConfig(NamedTuple):
    """Which state of azure-vnet is stale, and what the cleanup may change."""

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
class GateStep(NamedTuple):
    """A step of the gate that an agent brings: a script that every start of a gated unit runs."""

    name: Annotated[
        str, must(matches(r"[a-z0-9][a-z0-9-]{0,62}"), "is not of the letters a-z, digits and -")
    ]
    script: Script
    """For `bash -p -c`, with the name of the unit as $1 and the seconds that are left as $2. The
    unit does not start if the script fails.
    """
    when: Literal["before", "after"] = "after"
    """Whether the script runs before the routes are set, or after the check."""


@section
class GateConfig(NamedTuple):
    """The units that wait for the gate, and what else they wait for."""

    units: Annotated[tuple[Unit, ...], must(bool, "is empty: no unit would wait for the gate")]
    """A template (`NAME@.service`) means each of its instances."""
    steps: tuple[GateStep, ...] = ()
    """In the order in which they run."""

    def faults_between(self: Any) -> Iterator[Fault]:
        """Two steps with one name: a message could mean either."""
        names: set[str] = set()
        for place, step in enumerate(self.steps or ()):
            if step is not None and step.name in names:
                yield Fault(f"steps[{place}].name", step.name, "is the name of another step, too")
            if step is not None:
                names.add(step.name)


@section
class HostRoutingConfig(NamedTuple):
    """The whole configuration; without arguments it asks for nothing. `from_mapping(x.to_mapping())
    == x`.
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

    def faults_between(self: Any) -> Iterator[Fault]:
        """A guard that has nothing to guard."""
        is_known = None not in (self.static_routes, self.route_overlap, self.probe_rewrite)
        if self.guard and self.guard.enabled and is_known and not self.has_work:
            rule = "there is nothing to guard: no routes, no expected CIDRs and no probe rewrite"
            yield Fault("guard", "", rule, "add staticRoutes, routeOverlap or probeRewrite")

    @classmethod
    def load(cls, path: str | PathLike[str], *, required: bool = False) -> "HostRoutingConfig":
        """The configuration in a file or pipe; `-` is standard input. A ConfigError names the file
        as its `source`.
        """
        return load(path, partial(cls.from_json, required=required))

    @classmethod
    def from_json(cls, text: str | bytes, *, required: bool = False) -> "HostRoutingConfig":
        """The configuration in a JSON text: the whole text, or the value of its key `hostRouting`.

        If that key is present, all keys beside it are ignored. A larger document without any key of
        hostrouting configures nothing. If a configuration is `required`, such a document is a
        fault, and so is a section of hostrouting beside `hostRouting`. Raises a ConfigError with
        all faults at once.
        """
        document: object = text  # not every author checks types
        if not isinstance(document, str | bytes):
            raise TypeError(
                f"text must be JSON, as str or bytes, not a {type(document).__name__}; "
                "from_mapping takes parsed JSON, and load reads a file"
            )
        return cls.from_mapping(parse(text), required=required)

    @classmethod
    def from_mapping(
        cls, mapping: Mapping[str, object], *, required: bool = False
    ) -> "HostRoutingConfig":
        """The configuration in parsed JSON, as from its text."""
        document: Any = mapping  # JSON can be anything
        if not isinstance(required, bool):
            raise TypeError(f"required is {required!r:.80}; it must be True or False")
        ours = tuple(form_of(cls).readers)
        if not isinstance(document, Mapping):
            return read(cls, document)  # a HostRoutingConfig is returned, all else is a fault
        keys = [key for key, value in document.items() if value is not None]
        if required and _OUR_KEY in document and _OUR_KEY not in keys:
            rule = "is not a configuration"
            remedy = "write {} to ask for nothing, which removes all of hostrouting"
            raise ConfigError([Fault(_OUR_KEY, "null", rule, remedy)])
        if _OUR_KEY in keys:
            if required:
                _require_none_beside(document, ours)
            return read(cls, document[_OUR_KEY], key=_OUR_KEY)
        if not set(ours).isdisjoint(keys):
            return read(cls, document)
        _require_none_misspelt(keys, [*ours, _OUR_KEY])
        if keys and required:
            rule = f"has none of the keys {', '.join(ours)}"
            remedy = f"in an agent's larger file, put them in an object under the key {_OUR_KEY}"
            raise ConfigError([Fault("", "", rule, remedy)])
        return cls()

    def to_mapping(self) -> dict[str, Any]:
        """The JSON object, without what has its default value."""
        return dict(json_value(self))

    @property
    def has_work(self) -> bool:
        """Whether there is anything to wait for, or to guard."""
        return bool(
            self.static_routes.routes or self.route_overlap.cidrs or self.probe_rewrite.enabled
        )

    def replaced(self, section: str, other: "HostRoutingConfig") -> "HostRoutingConfig":
        """The same configuration with one section (the name of its attribute) of the other one. A
        guard that would have nothing left to guard is turned off.
        """
        # First without a guard: one that has nothing to guard would be refused.
        changed = self._replace(guard=GuardConfig(), **{section: getattr(other, section)})
        if not changed.has_work:
            return changed
        return changed._replace(guard=self.guard)


_AGENTS_MAY_HAVE = {"gate": GateConfig, "guard": GuardConfig}
"""The keys that an agent may also use for something else, and our sections with these names."""


def _require_none_beside(document: Mapping[str, object], ours: Sequence[str]) -> None:
    """Raise ConfigError if settings of ours are beside `hostRouting`, where nobody reads them."""
    rule = f"is beside {_OUR_KEY}, where it would be ignored"
    remedy = f"move it into {_OUR_KEY}"
    faults: list[Fault] = []
    for key, value in document.items():
        if key in ours and value is not None and not _is_agents(key, value):
            faults.append(Fault(key, "", rule, remedy))
    if faults:
        raise ConfigError(faults)


def _is_agents(key: str, value: object) -> bool:
    """Whether a value with the name of a section of ours has nothing of that section."""
    if key not in _AGENTS_MAY_HAVE:
        return False
    ours = form_of(_AGENTS_MAY_HAVE[key]).readers
    return not isinstance(value, Mapping) or set(value).isdisjoint(ours)


def _require_none_misspelt(keys: Iterable[object], known: Sequence[str]) -> None:
    """Raise ConfigError if a key is nearly one of the known keys."""
    faults: list[Fault] = []
    for key in keys:
        word = nearest(str(key), known)
        if word:
            faults.append(Fault(path_of(key), "", "unknown key", f"did you mean {word}?"))
    if faults:
        raise ConfigError(faults)


def gated_units(config: HostRoutingConfig) -> tuple[str, ...]:
    """The units that wait for the gate: those of the section, or machines if there is anything to
    wait for.
    """
    if config.gate is not None:
        return tuple(sorted(set(config.gate.units)))
    if config.has_work:
        return (MACHINES,)
    return ()
