"""The configuration: every setting as a field of a frozen value, which is always valid; and the rules about several.

Each argument of a constructor is the typed value or its JSON form. Values from Python and from a file follow the same
rules (`config.values`), and are refused with the same faults, all at once.
"""

import os
from collections.abc import Iterator, Mapping
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Annotated, Any, Literal

from hostrouting.config import values as v
from hostrouting.config.values import MACHINES, Mode, Network
from hostrouting.errors import ConfigError, Fault
from hostrouting.model.prefix import LINK_LOCAL
from hostrouting.model.reader import Section, camel, must, name_of, parse, path_of, read, read_bytes
from hostrouting.model.route import DEFAULT_METRIC
from hostrouting.text import nearest, show

if TYPE_CHECKING:
    from typing_extensions import Self

_IN_AGENTS_FILE = "hostRouting"
_REMEDY = "write a JSON object, {} for no settings: with double quotes, without comments and trailing commas, in UTF-8"
_STEPS = ("static_routes", "route_overlap", "probe_rewrite")


class StaticRoute(Section):
    """One route that the host must have."""

    destination: v.Destination
    gateway: v.Router | None = None
    """None means the default gateway on the device."""
    dev: v.Device | None = None
    """None means the device of the default route, of the destination's family."""
    metric: int = 0
    """The default is 0, with which Linux uses its own default: 0 for an IPv4 route, 1024 for an IPv6 route."""

    def to_mapping(self) -> dict[str, Any]:
        """The JSON object with every key, as a repair in `hostrouting/check/3` has them."""
        return {"destination": "", "gateway": "", "dev": "", "metric": 0, **super().to_mapping()}

    @staticmethod
    def faults_between(values: Mapping[str, Any]) -> Iterator[Fault]:
        """The gateway fits the destination, and has a device if it is link-local."""
        destination, gateway = values["destination"], values["gateway"]
        if destination is None or gateway is None:
            return
        if gateway.version != destination.version:
            yield Fault("gateway", show(gateway), f"is IPv{gateway.version}, and the destination is not")
        elif gateway in LINK_LOCAL and values["dev"] is None:
            rule = "is link-local, and every link can have this address"
            yield Fault("gateway", show(gateway), rule, "add dev: the device that the router is on")


class StaticRoutesConfig(Section):
    """The static routes, and the switch that enables them."""

    enabled: bool = False
    routes: tuple[StaticRoute, ...] = ()

    @staticmethod
    def faults_between(values: Mapping[str, Any]) -> Iterator[Fault]:
        """Each route differs from the others for Linux, and all are enabled."""
        routes = values["routes"] or ()
        places: dict[tuple[Network, int], int] = {}
        for place, route in enumerate(routes):
            if route is None:
                continue
            key = route.destination, route.metric or DEFAULT_METRIC[route.destination.version]
            if (first := places.setdefault(key, place)) != place:
                rule = f"has the destination and the metric of routes[{first}]"
                remedy = "remove one of the two, or give them different metrics"
                yield Fault(f"routes[{place}]", show(str(route.destination)), rule, remedy)
        if routes and values["enabled"] is False:
            yield Fault("enabled", "", "routes were provided but enabled=false", "set enabled=true")


class IntendedRule(Section):
    """A policy rule that sends some packets elsewhere on purpose, and why."""

    rule: v.Selection
    """The selectors as `ip rule` prints them, such as "fwmark 0x1/0xff"; without priority, "from all" and action."""
    reason: v.Line


class RouteOverlapConfig(Section):
    """The CIDRs that must leave by the expected devices, and what to do if one does not."""

    expected_cidrs: tuple[v.Masked, ...] = ()
    """In the given order, with host bits masked."""
    mode: Mode = Mode.WARN
    expected_devs: tuple[v.Device, ...] = ()
    """If empty, the devices of the default route, for the CIDRs of each family its own."""
    allowed_devs: tuple[v.Pattern, ...] = ()
    """Patterns (`*`, `?`) for devices that may carry part of an expected CIDR, beside those of known CNIs."""
    service_cidrs: tuple[v.Masked, ...] = ()
    """The networks of services: expected like `expected_cidrs`, and no address of the host may lie in them."""
    pod_cidrs: tuple[v.Masked, ...] = ()
    """The addresses of pods: what these send is checked, too."""
    intended_rules: tuple[IntendedRule, ...] = ()
    """The rules that may send some packets elsewhere without leaving the verdict undecided."""

    @property
    def cidrs(self) -> tuple[Network, ...]:
        """All that must leave by the expected devices."""
        return tuple(dict.fromkeys((*self.expected_cidrs, *self.service_cidrs)))


class ProbeRewriteConfig(Section):
    """The rewrite of the load balancer's probes over IPv6, and the switch that enables it."""

    enabled: bool = False
    interfaces: tuple[v.Uplink, ...] = ()
    """The uplinks that probes arrive on."""
    link_local: v.ProbeSource = IPv6Address("fe80::1234:5678:9abc")
    """The source address of the probes; the default is that of Azure's load balancer."""
    global_address: v.Global = IPv6Address("2603:1062:0:1:fe80:1234:5678:9abc")
    """The source address after the rewrite; the default is one that Azure reserves for this."""
    ensure_route: bool = True
    """Whether to add a route to the global address, so that replies leave by the uplink."""

    @staticmethod
    def faults_between(values: Mapping[str, Any]) -> Iterator[Fault]:
        """What is enabled has an uplink, and a route has exactly one."""
        enabled, interfaces = values["enabled"], values["interfaces"]
        if interfaces and enabled is False:
            yield Fault("enabled", "", "interfaces were provided but enabled=false", "set enabled=true")
        if interfaces == () and enabled:
            yield Fault("interfaces", "", "no interface is given but enabled=true", "name the uplink of the probes")
        if enabled and values["ensure_route"] and interfaces and len({*interfaces}) > 1:
            rule = f"true requires exactly one interface, but {len({*interfaces})} are given"
            yield Fault("ensureRoute", "", rule, "set it to false and add the route yourself")


class AzureVnetCleanupConfig(Section):
    """Which state of azure-vnet is stale, and what the cleanup may change."""

    managed: Annotated[
        tuple[v.Pods, ...], must(bool, "is empty, so nothing would be deleted", "name the networks of pods")
    ]
    """The networks of the pods that another CNI manages now: nothing outside them is deleted."""
    protect: tuple[v.Exact, ...] = ()
    """Addresses and networks whose rules and entries are kept."""
    uplinks: tuple[v.Device, ...] = ()
    """Devices that count as uplinks, in addition to the bridge ports that are hardware or built on it."""
    dry_run: bool = True
    """Whether the task only reports; on the command line, --apply turns this off."""


class GuardConfig(Section):
    """Whether a service runs the steps of the gate again whenever something changes."""

    enabled: bool = False


class GateConfig(Section):
    """The units that wait for the gate."""

    units: Annotated[tuple[v.Unit, ...], must(bool, "is empty: no unit would wait for the gate")] = (MACHINES,)
    """A template (`NAME@.service`) means each of its instances."""


class HostRoutingConfig(Section):
    """The whole configuration; without arguments it asks for nothing.

    `from_json(to_json(x)) == x`.
    """

    static_routes: StaticRoutesConfig = StaticRoutesConfig()
    route_overlap: RouteOverlapConfig = RouteOverlapConfig()
    probe_rewrite: ProbeRewriteConfig = ProbeRewriteConfig()
    azure_vnet_cleanup: AzureVnetCleanupConfig | None = None
    """None if the section is missing: then nothing is cleaned up."""
    guard: GuardConfig = GuardConfig()
    gate: GateConfig | None = None
    """None if the section is missing: then machines wait for the gate if it has a step."""
    manage_foreign: Literal["leave", "keep"] = "leave"
    """Whether systemd-networkd is told to keep routes and rules that it does not know."""

    @staticmethod
    def faults_between(values: Mapping[str, Any]) -> Iterator[Fault]:
        """A guard has something to guard."""
        is_known = None not in (values[name] for name in _STEPS)
        if values["guard"] and values["guard"].enabled and is_known and not _has_step(values):
            rule = "there is nothing to guard: no routes, no expected CIDRs and no probe rewrite"
            yield Fault("guard", "", rule, "add staticRoutes, routeOverlap or probeRewrite")

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str = "", is_ours: bool = False) -> "Self":
        """The configuration in a JSON text: the whole text, or the value of its key `hostRouting`.

        If that key is present, all keys next to it are ignored. A document with none of our settings is an agent's, and
        configures nothing; if it `is_ours`, that is a fault. Raises a ConfigError with all faults at once, which names
        the `source` of the text.
        """
        try:
            return cls._of(parse(text, _REMEDY), is_ours=is_ours)
        except ConfigError as error:
            raise ConfigError(error.faults, source) from error

    @classmethod
    def from_mapping(cls, document: Mapping[str, object]) -> "Self":
        """The configuration in parsed JSON."""
        return cls._of(document)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, is_ours: bool = False) -> "Self":
        """The configuration in a file; a ConfigError names the file as its `source`."""
        path = os.fspath(path)
        return cls.from_json(read_bytes(path), source=name_of(path), is_ours=is_ours)

    @classmethod
    def _of(cls, document: Any, *, is_ours: bool = False) -> "Self":
        ours = [*map(camel, cls.__annotations__), _IN_AGENTS_FILE]
        keys = [key for key in document if document[key] is not None] if isinstance(document, Mapping) else ours[:1]
        if _IN_AGENTS_FILE in keys:
            return read(cls, document[_IN_AGENTS_FILE], key=_IN_AGENTS_FILE)
        if not {*keys}.isdisjoint(ours):
            return read(cls, document)
        near = ((key, nearest(str(key), ours)) for key in keys)
        faults = [Fault(path_of(key), "", "unknown key", f"did you mean {word}?") for key, word in near if word]
        if keys and is_ours and not faults:
            remedy = f"in an agent's larger file, put them in an object under the key {_IN_AGENTS_FILE}"
            faults = [Fault("", "", f"has none of the keys {', '.join(ours[:-1])}", remedy)]
        if faults:
            raise ConfigError(faults)
        return cls()

    def replaced(self, section: str, other: "HostRoutingConfig") -> "Self":
        """The same, with one section (the name of its attribute) of the other; a guard with nothing to guard goes."""
        change: dict[str, Any] = {section: getattr(other, section)}
        bare = self._replace(guard=GuardConfig(), **change)
        return bare._replace(guard=self.guard) if _has_step(vars(bare)) else bare

    def to_json(self, *, indent: int | None = 2) -> str:
        """The JSON text; what has its default value is left out."""
        import json  # noqa: PLC0415  only a program that writes a configuration needs it

        return json.dumps(self.to_mapping(), indent=indent)


def _has_step(sections: Mapping[str, Any]) -> bool:
    """Whether there is anything to wait for, or to guard."""
    routes, check, rewrite = (sections[name] for name in _STEPS)
    return bool(routes.routes or check.cidrs or rewrite.enabled)


def gated_units(config: HostRoutingConfig) -> tuple[str, ...]:
    """The units that wait for the gate: those of the section, or machines if there is anything to wait for."""
    if config.gate is not None:
        return tuple(sorted({*config.gate.units}))
    return (MACHINES,) if _has_step(vars(config)) else ()
