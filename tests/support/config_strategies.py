"""Hypothesis strategies for configurations: valid ones, nearly valid ones, and any JSON.

configs()        any HostRoutingConfig
routes()         any StaticRoute
probe_rewrites() any ProbeRewriteConfig
cleanups()       any AzureVnetCleanupConfig
json_values()    any JSON value, some with keys and values of a configuration
near_texts()     text that looks like an address or a network, but often is not valid
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import strategies as st

from hostrouting.config.settings import (
    AzureVnetCleanupConfig,
    GateConfig,
    GuardConfig,
    HostRoutingConfig,
    IntendedRule,
    ProbeRewriteConfig,
    RouteOverlapConfig,
    StaticRoute,
    StaticRoutesConfig,
)
from hostrouting.config.values import Mode, Upkeep
from hostrouting.model.prefix import is_reserved

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from hostrouting.config.values import Address, Network

_UNITS = ("containerd.service", "kubelet.service", "systemd-nspawn@.service", "systemd-nspawn@kube1.service")
DEVICE_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

KEYS = (
    *("hostRouting", "staticRoutes", "routeOverlap", "enabled", "routes"),
    *("destination", "gateway", "dev", "metric", "expectedCidrs", "mode", "expectedDevs", "allowedDevs"),
    *("probeRewrite", "interfaces", "linkLocal", "globalAddress", "ensureRoute"),
    *("azureVnetCleanup", "managed", "protect", "uplinks", "dryRun"),
)
"""Every key of a configuration."""


def networks(family: int | None = None) -> SearchStrategy[Network]:
    """Any network of this family; without one, of either family."""
    four: SearchStrategy[Network] = st.builds(lambda at, bits: IPv4Network((at, bits), strict=False), *_bits(32))
    six: SearchStrategy[Network] = st.builds(lambda at, bits: IPv6Network((at, bits), strict=False), *_bits(128))
    return {4: four, 6: six, None: four | six}[family]


def _bits(width: int) -> tuple[SearchStrategy[int], SearchStrategy[int]]:
    return st.integers(0, 2**width - 1), st.integers(0, width)


def destinations(family: int | None = None) -> SearchStrategy[Network]:
    """Networks that are valid as the destination of a static route."""
    return networks(family).filter(
        lambda network: (
            network.prefixlen > 0 and not is_reserved(network.version, int(network[0]), int(network.broadcast_address))
        )
    )


def gateways(family: int = 4) -> SearchStrategy[Address]:
    """Addresses that are valid as a gateway; in IPv6 not only link-local ones, so a device is needed."""
    if family == 4:
        four = st.builds(IPv4Address, st.integers(1 << 24, (224 << 24) - 1))
        return four.filter(lambda address: not address.is_loopback)
    beyond_ipv4 = st.builds(IPv6Address, st.integers(1 << 48, (0xFF << 120) - 1))
    return beyond_ipv4 | st.builds(IPv6Address, st.integers(0xFE80 << 112, (0xFEC0 << 112) - 1))


def device_names() -> SearchStrategy[str]:
    """Names of network devices."""
    return st.text(DEVICE_LETTERS, min_size=1, max_size=15).filter(lambda name: name not in {".", ".."})


def routes() -> SearchStrategy[StaticRoute]:
    """Any static route."""
    return st.sampled_from([4, 6]).flatmap(_routes_of)


def _routes_of(family: int) -> SearchStrategy[StaticRoute]:
    single = {4: 32, 6: 128}[family]
    to = destinations(family).filter(
        lambda network: network.prefixlen < single
    )  # a gateway with a route to itself is refused
    metric = st.integers(0, 2**32 - 1)
    automatic = st.builds(StaticRoute, to, dev=st.none() | device_names(), metric=metric)
    return automatic | st.builds(StaticRoute, to, gateways(family), device_names(), metric)


def configs() -> SearchStrategy[HostRoutingConfig]:
    """Any configuration."""
    some_routes = st.lists(routes(), max_size=4, unique_by=lambda route: (route.destination, route.metric or 1024))
    static_routes = st.builds(StaticRoutesConfig, enabled=st.just(value=True), routes=some_routes)
    globs = st.builds(lambda name, star: name[:14] + star, device_names(), st.sampled_from(["", "*", "?"]))
    # Devices of pods are only valid together with their CIDRs.
    pods: SearchStrategy[dict[str, Any]] = st.just({}) | st.fixed_dictionaries(
        {"pod_cidrs": st.lists(networks(), min_size=1, max_size=3), "service_cidrs": st.lists(networks(), max_size=2)}
    )
    reasons = st.text(st.characters(min_codepoint=33, max_codepoint=0x17F), min_size=1).filter(str.isprintable)
    intended = st.builds(IntendedRule, st.sampled_from(["fwmark 0x1/0xff", "not from fd00::/64"]), reasons)
    route_overlap = st.builds(
        lambda pods, **given: RouteOverlapConfig(**given, **pods),
        pods,
        expected_cidrs=st.lists(networks(), max_size=4),
        mode=st.sampled_from(Mode),
        expected_devs=st.lists(device_names(), max_size=3),
        allowed_devs=st.lists(globs, max_size=3),
        intended_rules=st.lists(intended, max_size=2),
    )
    guards = st.builds(GuardConfig, enabled=st.booleans())
    whole = st.builds(
        HostRoutingConfig,
        static_routes=st.just(StaticRoutesConfig()) | static_routes,
        route_overlap=route_overlap,
        probe_rewrite=st.just(ProbeRewriteConfig()) | probe_rewrites(),
        azure_vnet_cleanup=st.none() | cleanups(),
        gate=st.none() | st.builds(GateConfig, st.lists(st.sampled_from(_UNITS), min_size=1, unique=True)),
        manage_foreign=st.sampled_from(Upkeep),
    )
    # A guard needs something to guard.
    guarded = st.builds(
        lambda config, guard: attrs.evolve(config, guard=guard) if config.route_overlap.expected_cidrs else config,
        whole,
        guards,
    )
    return whole | guarded


def cleanups() -> SearchStrategy[AzureVnetCleanupConfig]:
    """Any configuration of the clean-up after azure-vnet."""
    pods = networks().filter(lambda network: network.prefixlen >= {4: 8, 6: 32}[network.version])
    return st.builds(
        AzureVnetCleanupConfig,
        st.lists(pods, min_size=1, max_size=3),
        protect=st.lists(networks(), max_size=2),
        uplinks=st.lists(device_names(), max_size=2),
        dry_run=st.booleans(),
    )


def probe_rewrites() -> SearchStrategy[ProbeRewriteConfig]:
    """Any configuration of the probe rewrite, enabled or not."""
    one, several = (
        st.lists(device_names().filter(lambda name: name != "lo"), min_size=1, max_size=most, unique=True)
        for most in (1, 3)
    )

    def made(**switches: SearchStrategy[Any]) -> SearchStrategy[ProbeRewriteConfig]:
        return st.builds(
            ProbeRewriteConfig,
            link_local=st.integers(0xFE80 << 112, (0xFEC0 << 112) - 1).map(IPv6Address),
            global_address=st.integers(0x2000 << 112, (0x4000 << 112) - 1).map(IPv6Address),
            **switches,
        )

    enabled = st.just(value=True)
    return (
        made(ensure_route=st.booleans())
        | made(enabled=enabled, interfaces=one, ensure_route=st.booleans())
        | made(enabled=enabled, interfaces=several, ensure_route=st.just(value=False))
    )


def near_texts() -> SearchStrategy[str]:
    """Text made from the parts of networks, from valid to nonsense."""
    octet = st.integers(0, 300).map(str) | st.sampled_from(["", "00", "010", "0x1", "1 ", "\u0661"])
    length = st.integers(0, 40).map("/{}".format) | st.sampled_from(["", "/", "/08", "/255.0.0.0", "/-1", "/8\n"])
    dotted = st.lists(octet, min_size=3, max_size=5).map(".".join)
    return (
        st.builds("{}{}".format, dotted, length)
        | networks().map(str)
        | st.sampled_from(["::/0", "fe80::1", "::ffff:10.0.0.1/104", " 10.0.0.0/8", "10.0.0.0:80", "10/8"])
    )


def scalars() -> SearchStrategy[Any]:
    """JSON values that are not lists or objects, including values that occur in configurations."""
    return (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(st.characters(), max_size=20)  # includes lone surrogates, which JSON can express
        | st.sampled_from(["", "WARN", "strict", "eth0", "eth0;reboot", "\u017ftrict", "\x1b[2J"])
        | near_texts()
    )


def json_values() -> SearchStrategy[Any]:
    """Any JSON value; many are nearly a valid configuration."""
    key = st.sampled_from(KEYS) | st.text(max_size=5)
    anything = st.recursive(
        scalars(), lambda parts: st.lists(parts, max_size=4) | st.dictionaries(key, parts, max_size=5), max_leaves=12
    )
    return anything | near_configs(anything)


def near_routes(anything: SearchStrategy[Any]) -> SearchStrategy[dict[str, Any]]:
    """The JSON of a route, in which each value may be replaced by any other."""
    return st.fixed_dictionaries(
        {"destination": near_texts() | anything},
        optional={
            "gateway": st.sampled_from(["", "10.0.0.1"]) | near_texts() | anything,
            "dev": st.sampled_from(["", "eth0"]) | anything,
            "metric": st.integers(-1, 2) | anything,
        },
    )


def near_configs(anything: SearchStrategy[Any]) -> SearchStrategy[dict[str, Any]]:
    """The JSON of a configuration, in which each value may be replaced by any other."""
    static_routes = st.fixed_dictionaries(
        {}, optional={"enabled": st.booleans() | anything, "routes": st.lists(near_routes(anything), max_size=3)}
    )
    route_overlap = st.fixed_dictionaries(
        {},
        optional={
            "expectedCidrs": st.lists(near_texts(), max_size=3) | anything,
            "mode": scalars() | anything,
            "expectedDevs": st.lists(scalars(), max_size=2) | anything,
            "allowedDevs": st.lists(scalars(), max_size=2) | anything,
        },
    )
    probe_rewrite = st.fixed_dictionaries(
        {},
        optional={
            "enabled": st.booleans() | anything,
            "interfaces": st.lists(st.sampled_from(["eth0", "eth1", "lo"]) | scalars(), max_size=3) | anything,
            "linkLocal": st.sampled_from(["fe80::1", "fe80::1%eth0", "fec0::1"]) | anything,
            "globalAddress": st.sampled_from(["2001:db8::1", "fd00::1", "ff02::1"]) | anything,
            "ensureRoute": st.booleans() | anything,
        },
    )
    cleanup = st.fixed_dictionaries(
        {
            "managed": st.lists(near_texts() | st.sampled_from(["fd00::/48", "fd00::1/48", "::/0"]), max_size=3)
            | anything
        },
        optional={
            "protect": st.lists(near_texts(), max_size=2) | anything,
            "uplinks": st.lists(scalars(), max_size=2) | anything,
            "dryRun": st.booleans() | anything,
        },
    )
    config = st.fixed_dictionaries(
        {},
        optional={
            "staticRoutes": static_routes | anything,
            "routeOverlap": route_overlap | anything,
            "probeRewrite": probe_rewrite | anything,
            "azureVnetCleanup": cleanup | anything,
        },
    )
    return config | config.map(lambda part: {"hostRouting": part, "agent": {"name": "node-1"}})
