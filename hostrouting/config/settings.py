"""The configuration as frozen values, which are always valid; and the rules about several values.

Here: the whole of it, and the sections staticRoutes, routeOverlap, gate and guard. Not here: the other sections
(`probe_rewrite`, `azure_vnet`), the rule for each single value (`values`), and what is done with any of it.

Each argument of a constructor is the typed value or its JSON form. Values from Python and values from a file are
checked by the same readers and refused with the same messages.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.config import values
from hostrouting.config.cni import DEFAULT_ALLOWED_DEVS
from hostrouting.config.json import InvalidValue, Keys, Section, Spot, items, list_of, parse, printable, read, text_of
from hostrouting.config.probe_rewrite import PROBE_REWRITE, ProbeRewriteConfig
from hostrouting.config.values import Address, Network  # noqa: TC001  attrs.resolve_types looks them up here
from hostrouting.model.prefix import LINK_LOCAL
from hostrouting.model.route import DEFAULT_METRIC
from hostrouting.model.rule import SELECTORS

if TYPE_CHECKING:
    from typing_extensions import Self

    from hostrouting.config.azure_vnet import AzureVnetCleanupConfig

MACHINES = "systemd-nspawn@.service"
"""The template of the machines that systemd-nspawn runs."""

_LONGEST = 255 - len("00.d")  # of a file name, for the folder of its drop-ins
_ALPHANUMERIC = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_UNIT_LETTERS = frozenset(f"{_ALPHANUMERIC}:_.\\-@")
_REMEDY = f'write the name of a service, such as "kubelet.service" or "{MACHINES}"'

# Units that cannot wait for the gate; of the early ones, how their names begin.
_OWN = ("static-routes.service", "check-route-overlap.service", "probe-rewrite.service", "hostrouting-guard.service")
_EARLY = (
    "systemd-",
    "dbus",
    "NetworkManager",
    "networking.",
    "network.",
    "netplan",
    "ifup",
    "dhcpcd",
    "dhclient",
    "wpa_supplicant",
    "cloud-init",
    "openibd.",
    "nftables",
)


@attrs.frozen(init=False, repr=False)
class GateConfig(Section):
    """The units that wait for the gate."""

    units: tuple[str, ...]
    """Sorted. A template (`NAME@.service`) means each of its instances."""

    def __init__(self, units: Iterable[str] = (MACHINES,)) -> None:
        self._keys.fill(self, locals())


def _unit(raw: object, at: Spot) -> str:
    text = text_of(raw, at, _REMEDY)
    name, is_service = text.removesuffix(".service"), text.endswith(".service")
    if not is_service or name[:1] in {"", "@"} or not set(name) <= _UNIT_LETTERS or len(text) > _LONGEST:
        rule = "is not the name of a service" if is_service else "does not end with .service"
        why = "" if is_service else ", and only a service runs a command before it starts"
        raise at.faulty(raw, f"{rule}{why}", _REMEDY)
    if text in _OWN:
        raise at.faulty(raw, "is one of hostrouting's own units: each would wait for the other", "remove it")
    if text.partition("@")[0] != "systemd-nspawn" and text.startswith(_EARLY):
        rule = "is needed for the network, and the gate waits for the network: each would wait for the other"
        raise at.faulty(raw, rule, "name the unit that needs the network, such as kubelet.service")
    return text


_units = list_of(_unit, empty=("the list is empty, and the gate needs a unit that waits for it", _REMEDY))
GATE = GateConfig._keys = Keys({"units": lambda raw, at: tuple(sorted(_units(raw, at)))})
"""The keys of the section."""


_SECTION = "hostRouting"
_LONGEST_REASON = 200
_DEFAULTS = "..."
# Of a selector's value: numbers, addresses, and names of devices and protocols.
_RULE_LETTERS = frozenset(f"{_ALPHANUMERIC}_.-/:")


@attrs.frozen(init=False, repr=False)
class StaticRoute(Section):
    """One route that the host must have."""

    destination: Network
    gateway: Address | None
    """None means the default gateway on the device."""
    dev: str | None
    """None means the device of the default route, of the destination's family."""
    metric: int
    """The default is 0, with which Linux uses its own default: 0 for an IPv4 route, 1024 for an IPv6 route."""

    def __init__(
        self, destination: Network | str, gateway: Address | str | None = None, dev: str | None = None, metric: int = 0
    ) -> None:
        gateway, dev = "" if gateway is None else gateway, "" if dev is None else dev
        self._keys.fill(self, locals())

    @classmethod
    def _of(cls, read: Mapping[str, Any]) -> Self:
        """A route from values that were just checked: to check them again takes a fifth of the time of a large file."""
        made = cls.__new__(cls)
        made.__attrs_init__(**{"gateway": None, "dev": None, **read})
        return made


@attrs.frozen(init=False, repr=False)
class StaticRoutesConfig(Section):
    """The static routes, and the switch that enables them."""

    enabled: bool
    routes: tuple[StaticRoute, ...]

    def __init__(
        self,
        enabled: bool = False,  # noqa: FBT001, FBT002  the order is that of the JSON
        routes: Iterable[StaticRoute | Mapping[str, object]] = (),
    ) -> None:
        self._keys.fill(self, locals())


@attrs.frozen(init=False, repr=False)
class IntendedRule(Section):
    """A policy rule that sends some packets elsewhere on purpose, and why."""

    rule: str
    """The selectors as `ip rule` prints them, such as "fwmark 0x1/0xff"; without priority, "from all" and action."""
    reason: str

    def __init__(self, rule: str, reason: str) -> None:
        self._keys.fill(self, locals())


@attrs.frozen(init=False, repr=False)
class RouteOverlapConfig(Section):
    """The CIDRs that must leave by the expected devices, and what to do if one does not."""

    expected_cidrs: tuple[Network, ...]
    """In the given order, with host bits masked and without duplicates."""
    mode: values.Mode
    expected_devs: tuple[str, ...]
    """If empty, the devices of the default route, for the CIDRs of each family its own."""
    allowed_devs: tuple[str, ...]
    """Patterns (`*`, `?`) for devices that may carry part of an expected CIDR."""
    pod_cidrs: tuple[Network, ...]
    """The addresses of pods: what these send is checked, too."""
    pod_devs: tuple[str, ...]
    """Patterns for the devices that packets of pods arrive on; if empty, those of `allowed_devs`."""
    intended_rules: tuple[IntendedRule, ...]
    """The rules that may send some packets elsewhere without leaving the verdict undecided."""

    def __init__(
        self,
        expected_cidrs: Iterable[Network | str] = (),
        mode: values.Mode | str = "",
        expected_devs: Iterable[str] = (),
        allowed_devs: Iterable[str] = DEFAULT_ALLOWED_DEVS,
        *,
        pod_cidrs: Iterable[Network | str] = (),
        pod_devs: Iterable[str] = (),
        intended_rules: Iterable[IntendedRule | Mapping[str, object]] = (),
    ) -> None:
        self._keys.fill(self, locals())


@attrs.frozen(init=False, repr=False)
class GuardConfig(Section):
    """Whether a service runs the steps of the gate again whenever something changes."""

    enabled: bool

    def __init__(self, *, enabled: bool = False) -> None:
        self._keys.fill(self, locals())


@attrs.frozen(init=False, repr=False)
class HostRoutingConfig(Section):
    """The whole configuration; without arguments it asks for nothing.

    `from_json(to_json(x)) == x`: the text contains every setting, including the defaults.
    """

    static_routes: StaticRoutesConfig
    route_overlap: RouteOverlapConfig
    probe_rewrite: ProbeRewriteConfig
    azure_vnet_cleanup: AzureVnetCleanupConfig | None
    """None if the section is missing: then nothing is cleaned up."""
    guard: GuardConfig
    gate: GateConfig | None
    """None if the section is missing: then machines wait for the gate if it has a step."""
    manage_foreign: values.Upkeep
    """Whether systemd-networkd is told to keep routes and rules that it does not know."""
    nested_in: str = attrs.field(default="", eq=False, repr=False)
    """The key of the document whose value this was: `hostRouting` in an agent's larger file, or empty."""

    def __init__(
        self,
        static_routes: StaticRoutesConfig | Mapping[str, object] | None = None,
        route_overlap: RouteOverlapConfig | Mapping[str, object] | None = None,
        probe_rewrite: ProbeRewriteConfig | Mapping[str, object] | None = None,
        azure_vnet_cleanup: AzureVnetCleanupConfig | Mapping[str, object] | None = None,
        *,
        guard: GuardConfig | Mapping[str, object] | None = None,
        gate: GateConfig | Mapping[str, object] | None = None,
        manage_foreign: values.Upkeep | str = values.Upkeep.LEAVE,
        nested_in: str = "",
    ) -> None:
        self._keys.fill(self, locals(), nested_in=nested_in)

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str | None = None) -> Self:
        """The configuration in a JSON text: the whole text, or the value of its key `hostRouting`.

        If that key is present, all keys next to it are ignored. Raises a ConfigError with all faults at once, which
        names the `source` of the text.
        """
        return cls._from_document(parse(text, source=source), source)

    @classmethod
    def from_mapping(cls, document: Mapping[str, object]) -> Self:
        """The configuration in parsed JSON."""
        return cls._from_document(document)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The configuration in a file; a ConfigError names the file as its `source`."""
        path = os.fspath(path)
        source = printable(path)
        return cls.from_json(read(path), source=source)

    def path(self, *keys: str) -> str:
        """The path of these keys in the document, for a fault that is found later."""
        spot = Spot()
        for key in filter(None, (self.nested_in, *keys)):
            spot = spot.below(key)
        return spot.path

    def replaced(self, section: str, other: HostRoutingConfig) -> Self:
        """The same, with one section (the name of its attribute) of the other; a guard with nothing to guard goes."""
        change: dict[str, Any] = {section: getattr(other, section), "nested_in": other.nested_in}
        bare = attrs.evolve(self, guard=GuardConfig(), **change)
        return attrs.evolve(bare, guard=self.guard) if _has_step(bare) else bare

    def to_json(self, *, indent: int | None = 2) -> str:
        """The JSON text of the whole configuration."""
        import json  # noqa: PLC0415  only a program that writes a configuration needs it

        return json.dumps(self.to_mapping(), indent=indent)

    @classmethod
    def _from_document(cls, document: object, source: str | None = None) -> Self:
        at = Spot()
        also: tuple[str, ...] = (_SECTION,)
        if isinstance(document, Mapping) and "snapshot/" in str(document.get("schema")):
            at.note_absence("this is a snapshot and not a configuration", "name it with --snapshot")
            at.raise_faults(source)
        if isinstance(document, Mapping) and _SECTION in document:
            repeated = _SECTION in getattr(document, "repeated", ())
            document, at, also = document[_SECTION], at.below(_SECTION), ()
            if repeated:
                at.note_repeated()
        elif isinstance(document, Mapping) and _HOST_ROUTING.is_foreign(document, also=also):
            keys = ", ".join(_HOST_ROUTING.attributes)
            at.note_absence(
                f"has none of the keys {keys}",
                f"in an agent's larger file, put them in an object under the key {_SECTION}",
            )
            at.raise_faults(source)
        with contextlib.suppress(InvalidValue):
            found = _HOST_ROUTING.read(document, at, also=also)
        at.raise_faults(source)
        return cls(**found, nested_in=at.path)


def gated_units(config: HostRoutingConfig) -> tuple[str, ...]:
    """The units that wait for the gate: those of the section, or machines if there is anything to wait for."""
    if config.gate is not None:
        return config.gate.units
    return (MACHINES,) if _has_step(config) else ()


def _has_step(config: HostRoutingConfig) -> bool:
    static, check = config.static_routes, config.route_overlap
    return bool(static.routes or check.expected_cidrs or config.probe_rewrite.enabled)


def needs_config(instance: object, _attribute: object, value: Any) -> None:
    """An attrs validator: raises TypeError, with the remedy, for anything other than a HostRoutingConfig."""
    if not isinstance(value, HostRoutingConfig):
        made, given = type(instance).__name__, type(value).__name__
        raise TypeError(f"{made} takes a HostRoutingConfig, not a {given}; see HostRoutingConfig.from_mapping and load")


def _routes(raw: object, at: Spot) -> tuple[StaticRoute | None, ...]:
    """The routes. A faulty one becomes None; duplicates are still found."""
    routes: list[StaticRoute | None] = []
    holders: dict[tuple[Network, int], Spot] = {}
    for item, spot in items(raw, at):
        route, key = _route_and_key(item, spot)
        routes.append(route)
        holder = holders.setdefault(key, spot) if key else spot
        if key and holder is not spot:
            destination, metric = key
            spot.note_absence(
                f"{destination} with metric {metric} is already given in {holder.path}",
                "remove one of the two, or give them different metrics",
            )
    return tuple(routes)


def _route_and_key(item: object, spot: Spot) -> tuple[StaticRoute | None, tuple[Network, int] | None]:
    if isinstance(item, StaticRoute):
        return item, _key(item.destination, item.metric)
    before = len(spot.faults)
    try:
        found = _ROUTE.read(item, spot)
    except InvalidValue:
        return None, None
    key = _key(found["destination"], found["metric"]) if {"destination", "metric"} <= found.keys() else None
    return (StaticRoute._of(found) if len(spot.faults) == before else None), key


def _key(destination: Network, metric: int) -> tuple[Network, int]:
    """What distinguishes the route in the kernel."""
    return destination, metric or DEFAULT_METRIC[destination.version]


def _gateway_fits(found: dict[str, Any], at: Spot) -> None:
    """Check a gateway: the destination's family, not the destination itself, and a device if it is link-local."""
    destination, gateway = found.get("destination"), found.get("gateway")
    if destination is None or gateway is None:
        return
    spot, given, needed = at.below("gateway"), gateway.version, destination.version
    if given != needed:
        remedy = f"write an IPv{needed} address, or leave it out for the default gateway"
        spot.note(gateway, f"is IPv{given}, but the destination is IPv{needed}", remedy)
    elif destination.prefixlen == destination.max_prefixlen and destination.network_address == gateway:
        remedy = "write another gateway, or leave it out for the default gateway"
        spot.note(gateway, "is the destination itself", remedy)
    elif gateway in LINK_LOCAL and found.get("dev") is None:
        rule = "is link-local, and every link can have this address"
        spot.note(gateway, rule, "add dev: the device that the router is on")


def _routes_only_when_enabled(found: dict[str, Any], at: Spot) -> None:
    if found.get("routes") and found.get("enabled") is False:
        rule = "routes were provided but enabled=false"
        at.below("enabled").note_absence(rule, "set enabled=true to apply static routes")


def _devices_only_of_pods(found: dict[str, Any], at: Spot) -> None:
    if found.get("pod_devs") and found.get("pod_cidrs") == ():
        rule = "devices of pods were given, but no podCidrs, so nothing that pods send is checked"
        at.below("podDevs").note_absence(rule, "add podCidrs: the addresses of the pods")


def _something_to_guard(found: dict[str, Any], at: Spot) -> None:
    guard, routes, check, rewrite = (
        found.get(key) for key in ("guard", "static_routes", "route_overlap", "probe_rewrite")
    )
    if guard is None or routes is None or check is None or rewrite is None or not guard.enabled:
        return  # the same if one of them has a fault
    if not (routes.routes or check.expected_cidrs or rewrite.enabled):
        rule = "the guard has nothing to guard: there are no routes, no expected CIDRs and no probe rewrite"
        what = "staticRoutes, routeOverlap or probeRewrite"
        remedy = f"add {what}: a file is the whole configuration"
        at.below("guard").note_absence(rule, remedy)


def _azure_vnet_cleanup(raw: object, at: Spot) -> object:
    from hostrouting.config import azure_vnet  # noqa: PLC0415  few hosts have this section

    return azure_vnet.AZURE_VNET_CLEANUP.reader(azure_vnet.AzureVnetCleanupConfig)(raw, at)


_SELECTORS = [selector.word for selector in SELECTORS if selector.worded]


def _selection(raw: object, at: Spot) -> str:
    """The selectors of a rule in the order of `ip rule`."""
    remedy = 'write the selectors as "ip rule" prints them, such as "fwmark 0x1/0xff" or "uidrange 1000-1999"'
    words = text_of(raw, at, remedy).split()
    inverted, words = words[:1] == ["not"], words[words[:1] == ["not"] :]
    words = words[2:] if words[:2] == ["from", "all"] else words
    names = words[::2]
    if unknown := next((name for name in names if name not in _SELECTORS), None):
        raise at.faulty(raw, f"has {unknown!a}, which is not one of the selectors {', '.join(_SELECTORS)}", remedy)
    if not words or len(words) % 2 or len(set(names)) < len(names):
        raise at.faulty(raw, "is not a list of selectors, each once and with its value", remedy)
    if not set("".join(words)) <= _RULE_LETTERS:
        raise at.faulty(raw, "has characters that no selector has", remedy)
    pairs = sorted(zip(names, words[1::2], strict=True), key=lambda pair: _SELECTORS.index(pair[0]))
    return " ".join([*(["not"] if inverted else []), *(word for pair in pairs for word in pair)])


def _reason(raw: object, at: Spot) -> str:
    remedy = f"write in one line of up to {_LONGEST_REASON} characters why packets are routed differently on purpose"
    text = text_of(raw, at, remedy).strip()
    if not text or len(text) > _LONGEST_REASON or not text.isprintable():
        raise at.faulty(raw, "is not a reason in one line", remedy)
    return text


_ROUTE = StaticRoute._keys = Keys(
    {"destination": values.destination, "gateway": values.gateway, "dev": values.dev, "metric": values.metric},
    required={"destination": 'write the destination network, such as "10.0.0.0/8" or "fd00::/8"'},
    absent={"metric": 0},
    together=_gateway_fits,
)
_STATIC_ROUTES = StaticRoutesConfig._keys = Keys(
    {"enabled": values.switch, "routes": _routes}, absent={"enabled": False}, together=_routes_only_when_enabled
)
_INTENDED_RULE = IntendedRule._keys = Keys(
    {"rule": _selection, "reason": _reason},
    required={
        "rule": 'write the selectors of the rule, such as "fwmark 0x1/0xff"',
        "reason": "write why it is intended",
    },
)


def _patterns(raw: object, at: Spot) -> tuple[str, ...]:
    """Patterns for devices, with the default ones of `allowed_devs` in place of the entry `_DEFAULTS`."""
    patterns = ((DEFAULT_ALLOWED_DEVS if glob == _DEFAULTS else (glob,)) for glob in values.globs(raw, at))
    return tuple(dict.fromkeys(dev for devs in patterns for dev in devs))


_ROUTE_OVERLAP = RouteOverlapConfig._keys = Keys(
    {
        "expected_cidrs": values.cidrs,
        "mode": values.mode,
        "expected_devs": values.devs,
        "allowed_devs": _patterns,
        "pod_cidrs": values.cidrs,
        "pod_devs": _patterns,
        "intended_rules": list_of(_INTENDED_RULE.reader(IntendedRule)),
    },
    absent={"pod_cidrs": ()},
    together=_devices_only_of_pods,
)
_GUARD = GuardConfig._keys = Keys({"enabled": values.switch})
_HOST_ROUTING = HostRoutingConfig._keys = Keys(
    {
        "static_routes": _STATIC_ROUTES.reader(StaticRoutesConfig),
        "route_overlap": _ROUTE_OVERLAP.reader(RouteOverlapConfig),
        "probe_rewrite": PROBE_REWRITE.reader(ProbeRewriteConfig),
        "azure_vnet_cleanup": _azure_vnet_cleanup,
        "guard": _GUARD.reader(GuardConfig),
        "gate": GATE.reader(GateConfig),
        "manage_foreign": values.one_of(values.Upkeep, "an allowed value"),
    },
    absent={
        "static_routes": StaticRoutesConfig(),
        "route_overlap": RouteOverlapConfig(),
        "probe_rewrite": ProbeRewriteConfig(),
        "guard": GuardConfig(),
        "gate": None,
        "azure_vnet_cleanup": None,
        "manage_foreign": values.Upkeep.LEAVE,
    },
    together=_something_to_guard,
)
