"""Hypothesis strategies, for property tests of code that uses hostrouting; they need hypothesis.

Of configurations, all of them valid::

    configs()           any HostRoutingConfig
    static_routes()     any StaticRoute; also networks(), destinations(), gateways(), device_names()
    probe_rewrites()    any ProbeRewriteConfig
    cleanups()          any AzureVnetCleanupConfig

Whatever renders a configuration into a file of another program can be tested with any configuration::

    @given(configs())
    def test_no_value_becomes_a_line(config): ...

Of hosts whose routes and rules often overlap. All prefixes are in one small block, so that they nest, halve and repeat
each other, and that a scan of every address is cheap: `blocks().flatmap(snapshots)`::

    blocks()            the block that contains all prefixes
    prefixes(block)     prefixes in the block
    legs(family)        next hops, in any state
    routes(block)       routes of every type, in several tables
    rules(block)        rules of every action, with any selector
    links()             devices
    snapshots(block)    hosts
"""

from __future__ import annotations

from functools import cache
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
from hostrouting.model.prefix import Prefix, as_ip, ip_at, is_reserved, width_of
from hostrouting.model.route import (
    OURS,
    PATHLESS,
    PREFERENCES,
    REFUSING,
    SCOPE_LINK,
    TABLE_LOCAL,
    TABLE_MAIN,
    NextHop,
    Route,
    RouteType,
)
from hostrouting.model.rule import Rule, RuleAction, default_rules
from hostrouting.model.snapshot import Address as LinkAddress
from hostrouting.model.snapshot import Link, Snapshot

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from hostrouting.config.values import Address, Network

_UNITS = ("containerd.service", "kubelet.service", "systemd-nspawn@.service", "systemd-nspawn@kube1.service")
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

# Configurations


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
    return st.text(_LETTERS, min_size=1, max_size=15).filter(lambda name: name not in {".", ".."})


def static_routes() -> SearchStrategy[StaticRoute]:
    """Any static route."""
    return st.sampled_from([4, 6]).flatmap(_static_routes_of)


def _static_routes_of(family: int) -> SearchStrategy[StaticRoute]:
    single = {4: 32, 6: 128}[family]
    to = destinations(family).filter(
        lambda network: network.prefixlen < single
    )  # a gateway with a route to itself is refused
    metric = st.integers(0, 2**32 - 1)
    automatic = st.builds(StaticRoute, to, dev=st.none() | device_names(), metric=metric)
    return automatic | st.builds(StaticRoute, to, gateways(family), device_names(), metric)


def configs() -> SearchStrategy[HostRoutingConfig]:
    """Any configuration."""
    some_routes = st.lists(
        static_routes(), max_size=4, unique_by=lambda route: (route.destination, route.metric or 1024)
    )
    section = st.builds(StaticRoutesConfig, enabled=st.just(value=True), routes=some_routes)
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
        static_routes=st.just(StaticRoutesConfig()) | section,
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


# Hosts

DEVICES = ("eth0", "eth1", "ib0", "wg0")
TABLES = (TABLE_MAIN, TABLE_LOCAL, 100)
OWN: list[RouteType] = ["local", "broadcast", "anycast"]


def blocks(family: int = 4, bits: int = 4) -> SearchStrategy[Prefix]:
    """The block that contains all prefixes: sixteen addresses, unless other `bits` are given."""
    base = as_ip("172.16.0.0" if family == 4 else "fd00:16::")
    return st.just(Prefix(family, int(base), width_of(family) - bits))


def prefixes(within: Prefix, *, wider: bool = False) -> SearchStrategy[Prefix]:
    """Prefixes in the block; if `wider`, also some that contain the block."""
    inside = st.builds(
        lambda number, length: Prefix.around(within.family, number, length),
        st.integers(within.first, within.last),
        st.integers(within.length, width_of(within.family)),
    )
    # Many are default routes, because Linux has special rules for choosing among default routes.
    lengths = st.just(0) | st.integers(0, within.length)
    around = lengths.map(lambda length: Prefix.around(within.family, within.first, length))
    return inside | around if wider else inside


def legs(family: int) -> SearchStrategy[NextHop]:
    """A next hop, in any state."""
    gateway = as_ip("10.0.0.1" if family == 4 else "fe80::1")
    seldom = st.sampled_from([False] * 9 + [True])
    return st.builds(
        lambda dev, hop, dead, linkdown: NextHop(dev, gateway=hop, dead=dead, linkdown=linkdown),
        st.sampled_from(DEVICES),
        st.sampled_from([None, gateway]),
        seldom,
        seldom,
    )


# Hypothesis validates each new strategy, which takes longer than a draw from it. So each is created once.
_YES = st.just(value=True)
_BOOLEANS = st.booleans()
_ONE_IN_SIX = st.integers(0, 5)
_ONE_IN_TEN = st.integers(0, 9)
_USUAL: list[RouteType] = ["unicast"] * 12
_TYPES = st.sampled_from([*_USUAL, *PATHLESS, *OWN, "multicast"])
_LOCAL_TYPES = st.sampled_from(OWN)
_TABLES = st.sampled_from(TABLES)
_METRICS = st.sampled_from([0, 0, 0, 100, 1024])
_TOS = st.sampled_from([0] * 7 + [0x10])
# IPv6 only: the sources, preference and end of a route.
_SOURCE_LENGTHS = st.sampled_from([None] * 7 + [0, 2, 4])
_PREFERENCES = st.sampled_from([*["medium"] * 4, *PREFERENCES])
_EXPIRES = st.sampled_from([None] * 5 + [-1, 600])
_SCOPES = st.sampled_from([0, SCOPE_LINK])
_PROTOCOLS = st.sampled_from([2, 3, 16, OURS])
_MOST: list[RuleAction] = ["to_table"] * 6
_ACTIONS = st.sampled_from([*_MOST, "goto", "nop", *sorted(REFUSING)])
_PRIORITIES = st.integers(1, 40000)
_GROUPS = st.sampled_from([0, 0, 7])
_SUPPRESSED_GROUPS = st.sampled_from([0, 7])
_ADDRESS_METRICS = st.sampled_from([0, 0, 100])
_MARKS = st.sampled_from([(1, 1), (0, 3), (2, 0xFF)])
_INCOMING = st.sampled_from(["lo", "eth0", "eth1", "ib0", "gone"])
_OTHERS: dict[str, list[str]] = {
    "tos": ["0x10"],
    "dscp": ["0x4", "0/0x38"],
    "oif": ["eth0", "eth1", "ib0", "wg0"],
    "uidrange": ["0-0", "1000-1999"],
    "ipproto": ["tcp", "udp"],
    "sport": ["1-1023"],
    "dport": ["53"],
}
"""The selectors that a Rule has as text, with some values."""
_OTHER_VALUES = {word: st.sampled_from(values) for word, values in _OTHERS.items()}


@cache
def _ways(family: int) -> SearchStrategy[list[NextHop]]:
    return st.lists(legs(family), min_size=1, max_size=2)


@cache
def _prefixes(within: Prefix, *, wider: bool) -> SearchStrategy[Prefix]:
    return prefixes(within, wider=wider)


@cache
def _lengths(*lengths: int) -> SearchStrategy[int]:
    return st.sampled_from(lengths)


@cache
def _rules(within: Prefix, most: int) -> SearchStrategy[list[Rule]]:
    return st.lists(rules(within), max_size=most)


@cache
def _routes(within: Prefix, most: int) -> SearchStrategy[list[Route]]:
    return st.lists(routes(within, only_ipv6=True), max_size=most)


@st.composite
def routes(draw: st.DrawFn, within: Prefix, *, only_ipv6: bool = False) -> Route:
    """Any route to a prefix in the block or around it: of every type, in several tables.

    With `only_ipv6`, an IPv6 route may have what only IPv6 routes have: sources, a preference, an end.
    """
    family = within.family
    table = draw(_TABLES)
    kind = draw(_LOCAL_TYPES if table == TABLE_LOCAL else _TYPES)
    ways = () if kind in PATHLESS else tuple(draw(_ways(family)))
    more: dict[str, Any] = {}
    if family == 6 and only_ipv6:
        length = draw(_SOURCE_LENGTHS)
        # The sources are in the same block, so that few are enough to nest.
        source = None if length is None else Prefix.around(family, within.first + 3, within.length + length)
        more = {"source": source, "preference": draw(_PREFERENCES), "expires": draw(_EXPIRES)}
    return Route(
        draw(_prefixes(within, wider=True)),
        ways,
        table=table,
        metric=draw(_METRICS),
        tos=draw(_TOS) if family == 4 else 0,
        type=kind,
        scope=draw(_SCOPES),
        protocol=draw(_PROTOCOLS),
        **more,
    )


@st.composite
def rules(draw: st.DrawFn, within: Prefix) -> Rule:
    """Any rule: with every action and any selectors; most have few selectors."""

    def seldom(strategy: SearchStrategy[Any], otherwise: Any) -> Any:
        return draw(strategy) if draw(_ONE_IN_SIX) == 0 else otherwise

    action, priority, inside = draw(_ACTIONS), draw(_PRIORITIES), _prefixes(within, wider=False)
    ahead = [priority + 1, *(place for place in (32766, 32767) if place > priority)]
    fwmark, fwmask = seldom(_MARKS, (0, 0))
    texts = ((word, seldom(values, None)) for word, values in _OTHER_VALUES.items())
    return Rule(
        family=within.family,
        priority=priority,
        action=action,
        table=draw(_TABLES) if action == "to_table" else 0,
        target=draw(st.sampled_from(ahead)) if action == "goto" else None,
        invert=seldom(_YES, otherwise=False),
        src=seldom(inside, None),
        dst=seldom(inside, None),
        iif=seldom(_INCOMING, None),
        fwmark=fwmark,
        fwmask=fwmask,
        others=tuple((word, text) for word, text in texts if text is not None),
        suppress_prefixlength=seldom(_lengths(0, within.length, within.length + 2), None),
        suppress_ifgroup=seldom(_SUPPRESSED_GROUPS, None),
    )


@st.composite
def links(draw: st.DrawFn) -> tuple[Link, ...]:
    """The devices of the routes; some in another group, some with `ignore_routes_with_linkdown`."""
    return tuple(
        Link(
            name=name,
            index=index,
            group=draw(_GROUPS),
            ignore_routes_with_linkdown=draw(_BOOLEANS),
            ipv6_ignore_routes_with_linkdown=draw(_BOOLEANS),
        )
        for index, name in enumerate(DEVICES, start=2)
    )


@st.composite
def snapshots(draw: st.DrawFn, within: Prefix, *, max_rules: int = 4, max_routes: int = 12) -> Snapshot:
    """Any host that forwards. Its rules are in the kernel's order; half of the hosts have only the default rules."""
    extra = draw(_rules(within, max_rules)) if draw(_BOOLEANS) else []
    standing = [rule for rule in default_rules(within.family) if not extra or draw(_ONE_IN_TEN)]
    address = LinkAddress(
        ip=ip_at(within.family, within.first + 1),
        length=draw(_lengths(width_of(within.family), within.length)),
        dev="eth0",
        metric=draw(_ADDRESS_METRICS),
        prefix_route=draw(_BOOLEANS),
        preferred=draw(_BOOLEANS),
    )
    return Snapshot(
        links=draw(links()),
        addresses=(address,),
        rules=tuple(sorted([*standing, *extra], key=lambda rule: rule.priority)),
        routes=draw(_routes(within, max_routes)),
        ipv6_forwarding=True,
    )
