"""Configurations, and valid parts of one, as hypothesis draws them."""

from __future__ import annotations

from functools import cache, partial
from ipaddress import IPv6Address
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from hostrouting import config
from hostrouting.model.prefix import IP, Prefix, as_ipv4, ip_at, is_reserved, width_of

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_UNITS = ("kubelet.service", "systemd-nspawn@.service", "systemd-nspawn@kube1.service")
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

# IPv6 addresses, as numbers.
_LINK_LOCAL = st.integers(0xFE80 << 112, (0xFEC0 << 112) - 1)
_GLOBAL_UNICAST = st.integers(0x2000 << 112, (0x4000 << 112) - 1)


# Hypothesis checks a new strategy for longer than it draws from it, so each is made once.


@cache
def _prefixes(family: int) -> SearchStrategy[Prefix]:
    width = width_of(family)
    addresses = st.integers(0, (1 << width) - 1)
    return st.builds(partial(Prefix.around, family), addresses, st.integers(0, width))


@cache
def networks(family: int | None = None) -> SearchStrategy[config.Network]:
    """Any network of this family but the loopback one; without a family, of either one."""
    if family is None:
        return networks(4) | networks(6)
    ordinary = _prefixes(family).filter(lambda block: as_ipv4(block) is None)
    return ordinary.map(Prefix.to_network).filter(lambda network: not network.is_loopback)


@cache
def gateways(family: int = 4) -> SearchStrategy[IP]:
    """Addresses that are valid as a gateway; in IPv6 some are link-local, so a device is needed."""
    if family == 4:
        numbers = st.integers(1 << 24, (224 << 24) - 1).filter(lambda number: number >> 24 != 127)
    else:
        numbers = st.integers(1 << 48, (0xFF << 120) - 1) | _LINK_LOCAL
    return numbers.map(partial(ip_at, family))


@cache
def device_names() -> SearchStrategy[str]:
    return st.text(_LETTERS, min_size=1, max_size=15).filter(lambda name: name not in {".", ".."})


@cache
def static_routes() -> SearchStrategy[config.StaticRoute]:
    return _static_routes(4) | _static_routes(6)


def _static_routes(family: int) -> SearchStrategy[config.StaticRoute]:
    blocks = _prefixes(family).filter(lambda block: block.length and not is_reserved(block))
    metric = st.integers(0, 2**32 - 1)
    destinations = blocks.map(Prefix.to_network)
    dev = st.none() | device_names()
    by_default_gateway = st.builds(config.StaticRoute, destinations, st.none(), dev, metric)
    # A route to a single address could be to its own gateway, which is refused.
    several = blocks.filter(lambda block: not block.is_single).map(Prefix.to_network)
    given = (several, gateways(family), device_names(), metric)
    return by_default_gateway | st.builds(config.StaticRoute, *given)


# The sections.


def _pattern(name: str, end: str) -> str:
    return name[:14] + end


_STATIC_ROUTES = st.just(config.StaticRoutesConfig()) | st.builds(
    config.StaticRoutesConfig,
    enabled=st.just(value=True),
    routes=st.lists(
        static_routes(),
        max_size=4,
        unique_by=lambda route: (route.destination, route.metric or 1024),
    ),
)
_PATTERNS = st.builds(_pattern, device_names(), st.sampled_from(["", "*", "?"]))
_SELECTIONS = st.sampled_from(["fwmark 0x1/0xff", "not from fd00::/64"])
_SHORTEST_POD_NETWORK = {4: 8, 6: 32}
_POD_NETWORKS = networks().filter(
    lambda network: network.prefixlen >= _SHORTEST_POD_NETWORK[network.version]
)
_CLEANUPS = st.none() | st.builds(
    config.AzureVnetCleanupConfig,
    managed=st.lists(_POD_NETWORKS, min_size=1, max_size=3),
    protect=st.lists(networks(), max_size=2),
    uplinks=st.lists(device_names(), max_size=2),
    dry_run=st.booleans(),
)
_GATES = st.none() | st.builds(
    config.GateConfig, units=st.lists(st.sampled_from(_UNITS), min_size=1, unique=True)
)
_NETWORKS = st.lists(networks(), max_size=4)
_SERVICES = st.lists(networks(), max_size=2)
_DEVICES = st.lists(device_names(), max_size=3)
_ALLOWED = st.lists(_PATTERNS, max_size=3)
_INTENDED = st.lists(_SELECTIONS, max_size=2)
_PROBE_UPLINKS = st.lists(device_names().filter(lambda name: name != "lo"), max_size=3, unique=True)


@cache
@st.composite
def _route_overlaps(draw: st.DrawFn) -> config.RouteOverlapConfig:
    expected = tuple(draw(_NETWORKS))
    services = tuple(draw(_SERVICES))
    is_strict = draw(st.booleans()) and bool(expected or services)
    return config.RouteOverlapConfig(
        expected_cidrs=expected,
        mode="STRICT" if is_strict else "WARN",
        undecided="refuse" if is_strict and draw(st.booleans()) else "warn",
        expected_devs=tuple(draw(_DEVICES)),
        allowed_devs=tuple(draw(_ALLOWED)),
        service_cidrs=services,
        intended_rules=tuple(draw(_INTENDED)),
    )


@cache
@st.composite
def _probe_rewrites(draw: st.DrawFn) -> config.ProbeRewriteConfig:
    uplinks = draw(_PROBE_UPLINKS)
    can_have_route = len(uplinks) <= 1  # a route has one uplink
    return config.ProbeRewriteConfig(
        enabled=bool(uplinks),
        interfaces=tuple(uplinks),
        ensure_route=draw(st.booleans()) and can_have_route,
        link_local=IPv6Address(draw(_LINK_LOCAL)),
        global_address=IPv6Address(draw(_GLOBAL_UNICAST)),
    )


@cache
@st.composite
def configs(draw: st.DrawFn) -> config.HostRoutingConfig:
    without_guard = config.HostRoutingConfig(
        static_routes=draw(_STATIC_ROUTES),
        route_overlap=draw(_route_overlaps()),
        probe_rewrite=draw(_probe_rewrites()),
        azure_vnet_cleanup=draw(_CLEANUPS),
        gate=draw(_GATES),
        manage_foreign=draw(st.sampled_from(["leave", "keep"])),
    )
    is_guarded = draw(st.booleans()) and bool(without_guard.parts)
    return without_guard._replace(guard=config.GuardConfig(enabled=is_guarded))
