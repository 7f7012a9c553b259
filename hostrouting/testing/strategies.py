"""Hypothesis strategies for property tests of code that uses hostrouting; they need hypothesis.

Code that renders a configuration into another program's file can be tested with any configuration::

    @given(configs())
    def test_no_value_becomes_a_line(config): ...

`static_routes()`, `networks()`, `destinations()`, `gateways()` and `device_names()` are valid parts
of a configuration.

`snapshots(small_block())` makes hosts whose routes and rules often overlap. All prefixes are in
one small block, so they nest, halve and repeat each other, and a scan of every address is cheap.
The parts of such a host are `prefixes(block)`, `routes(block)`, `rules(block)` and
`next_hop(family)`.
"""

from __future__ import annotations

from functools import cache, partial
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import strategies as st

from hostrouting import config
from hostrouting.model.prefix import IP, Prefix, as_ip, as_ipv4, ip_at, is_reserved, width_of
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
from hostrouting.model.snapshot import Address, Link, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy


T = TypeVar("T")

__all__ = ["configs", "device_names", "networks", "static_routes"]  # configurations
__all__ += ["destinations", "gateways"]  # the parts of a static route
__all__ += ["next_hop", "prefixes", "routes", "rules", "small_block", "snapshots"]  # hosts

_UNITS = (
    "k3s.service",
    "kubelet.service",
    "systemd-nspawn@.service",
    "systemd-nspawn@kube1.service",
)
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

# IPv6 addresses, as numbers.
_LINK_LOCAL = st.integers(0xFE80 << 112, (0xFEC0 << 112) - 1)
_GLOBAL_UNICAST = st.integers(0x2000 << 112, (0x4000 << 112) - 1)


# Hypothesis checks a new strategy for longer than it draws from it, so each is made once.


@cache
def prefixes(within: Prefix, *, wider: bool = False) -> SearchStrategy[Prefix]:
    """Prefixes in the block; if `wider`, also some that contain the block."""
    family = within.family
    addresses = st.integers(within.first, within.last)
    lengths = st.integers(within.length, width_of(family))
    inside = st.builds(partial(Prefix.around, family), addresses, lengths)
    if not wider:
        return inside
    # Many are default routes, because Linux has special rules for choosing among default routes.
    lengths_around = st.just(0) | st.integers(0, within.length)
    return inside | lengths_around.map(partial(Prefix.around, family, within.first))


# Configurations


def networks(family: int | None = None) -> SearchStrategy[config.Network]:
    """Any network of this family but the loopback one; without a family, of either one."""
    if family is None:
        return networks(4) | networks(6)
    ordinary = prefixes(Prefix(family, 0, 0)).filter(lambda block: as_ipv4(block) is None)
    return ordinary.map(Prefix.to_network).filter(lambda network: not network.is_loopback)


def destinations(family: int) -> SearchStrategy[config.Network]:
    """Networks that are valid as the destination of a static route."""
    blocks = prefixes(Prefix(family, 0, 0))
    valid = blocks.filter(lambda block: block.length and not is_reserved(block))
    return valid.map(Prefix.to_network)


def gateways(family: int = 4) -> SearchStrategy[IP]:
    """Addresses that are valid as a gateway; in IPv6 some are link-local, so a device is needed."""
    if family == 4:
        numbers = st.integers(1 << 24, (224 << 24) - 1).filter(lambda number: number >> 24 != 127)
    else:
        numbers = st.integers(1 << 48, (0xFF << 120) - 1) | _LINK_LOCAL
    return numbers.map(partial(ip_at, family))


def device_names() -> SearchStrategy[str]:
    """Names of network devices."""
    return st.text(_LETTERS, min_size=1, max_size=15).filter(lambda name: name not in {".", ".."})


def static_routes() -> SearchStrategy[config.StaticRoute]:
    """Any static route."""
    return _static_routes(4) | _static_routes(6)


def _static_routes(family: int) -> SearchStrategy[config.StaticRoute]:
    # A route to a single address could be to its own gateway, which is refused.
    to = destinations(family).filter(lambda network: network.prefixlen < network.max_prefixlen)
    metric = st.integers(0, 2**32 - 1)
    by_default_gateway = st.builds(
        config.StaticRoute, to, gateway=st.none(), dev=st.none() | device_names(), metric=metric
    )
    by_gateway = st.builds(
        config.StaticRoute, to, gateway=gateways(family), dev=device_names(), metric=metric
    )
    return by_default_gateway | by_gateway


# The sections.


def _pattern(name: str, end: str) -> str:
    """A name of a device, or a pattern that begins with it."""
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
_STEPS = st.builds(
    config.GateStep,
    name=st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}", fullmatch=True),
    script=st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1).filter(
        str.strip
    ),
    when=st.sampled_from(["before", "after"]),
)
_GATES = st.none() | st.builds(
    config.GateConfig,
    units=st.lists(st.sampled_from(_UNITS), min_size=1, unique=True),
    steps=st.lists(_STEPS, max_size=2, unique_by=lambda step: step.name),
)
_PROBE_UPLINKS = st.lists(device_names().filter(lambda name: name != "lo"), max_size=3, unique=True)


@st.composite
def _route_overlaps(draw: st.DrawFn) -> config.RouteOverlapConfig:
    expected = tuple(draw(st.lists(networks(), max_size=4)))
    services = tuple(draw(st.lists(networks(), max_size=2)))
    is_strict = draw(st.booleans()) and bool(expected or services)
    return config.RouteOverlapConfig(
        expected_cidrs=expected,
        mode="STRICT" if is_strict else "WARN",
        expected_devs=tuple(draw(st.lists(device_names(), max_size=3))),
        allowed_devs=tuple(draw(st.lists(_PATTERNS, max_size=3))),
        service_cidrs=services,
        pod_cidrs=tuple(draw(st.lists(networks(), max_size=3))),
        intended_rules=tuple(draw(st.lists(_SELECTIONS, max_size=2))),
    )


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


@st.composite
def configs(draw: st.DrawFn) -> config.HostRoutingConfig:
    """Any configuration."""
    without_guard = config.HostRoutingConfig(
        static_routes=draw(_STATIC_ROUTES),
        route_overlap=draw(_route_overlaps()),
        probe_rewrite=draw(_probe_rewrites()),
        azure_vnet_cleanup=draw(_CLEANUPS),
        gate=draw(_GATES),
        manage_foreign=draw(st.sampled_from(["leave", "keep"])),
    )
    is_guarded = draw(st.booleans()) and without_guard.has_work
    return without_guard._replace(guard=config.GuardConfig(enabled=is_guarded))


# Hosts

DEVICES = ("eth0", "eth1", "ib0", "wg0")
TABLES = (TABLE_MAIN, TABLE_LOCAL, 100)
_TYPES_IN_TABLE_LOCAL: list[RouteType] = ["local", "broadcast", "anycast"]
_TYPES: list[RouteType] = ["unicast"] * 12  # most routes
_TYPES += [*PATHLESS, *_TYPES_IN_TABLE_LOCAL, "multicast"]
_ACTIONS: list[RuleAction] = ["to_table"] * 6  # most rules
_ACTIONS += ["goto", "nop", *sorted(REFUSING)]
_OTHER_SELECTORS = [
    ("tos", "0x10"),
    ("dscp", "0x4"),
    ("dscp", "0/0x38"),
    ("uidrange", "0-0"),
    ("uidrange", "1000-1999"),
    ("ipproto", "tcp"),
    ("ipproto", "udp"),
    ("sport", "1-1023"),
    ("dport", "53"),
    *(("oif", dev) for dev in DEVICES),
]
"""The selectors that a Rule has as text, with some values."""


def _seldom(strategy: SearchStrategy[Any], usual: Any = None) -> SearchStrategy[Any]:
    """One value in six is drawn from the strategy; the others are the usual one."""
    is_usual = st.integers(0, 5).map(bool)
    return is_usual.flatmap(lambda usually: st.just(usual) if usually else strategy)


def small_block(family: int = 4) -> Prefix:
    """A block of sixteen addresses."""
    base = as_ip("172.16.0.0" if family == 4 else "fd00:16::")
    return Prefix(family, int(base), width_of(family) - 4)


def _with_fields(cls: Callable[..., T], **fields: SearchStrategy[Any]) -> SearchStrategy[T]:
    """Named tuples with these fields; `builds` would also draw the fields that have defaults."""
    return st.fixed_dictionaries(fields).map(lambda values: cls(**values))


@cache
def next_hop(family: int) -> SearchStrategy[NextHop]:
    """A next hop, in any state."""
    gateway = as_ip("10.0.0.1" if family == 4 else "fe80::1")
    seldom = st.sampled_from([False] * 9 + [True])
    return _with_fields(
        NextHop,
        dev=st.sampled_from(DEVICES),
        gateway=st.sampled_from([None, gateway]),
        dead=seldom,
        linkdown=seldom,
    )


@cache
def routes(within: Prefix, *, only_ipv6: bool = False) -> SearchStrategy[Route]:
    """Any route to a prefix in the block or around it: of every type, in several tables.

    With `only_ipv6`, an IPv6 route may have what only IPv6 routes have: sources, a preference, an
    expiry.
    """
    family = within.family
    of_ipv6: dict[str, SearchStrategy[Any]] = {}
    if only_ipv6 and family == 6:
        of_ipv6 = _fields_of_ipv6(within)
    return st.builds(
        _route,
        prefixes(within, wider=True),
        st.lists(next_hop(family), min_size=1, max_size=2),
        st.sampled_from(_TYPES),
        st.sampled_from(_TYPES_IN_TABLE_LOCAL),
        table=st.sampled_from(TABLES),
        metric=st.sampled_from([0, 0, 0, 100, 1024]),
        tos=st.sampled_from([0] * 7 + [0x10]) if family == 4 else st.just(0),
        scope=st.sampled_from([0, SCOPE_LINK]),
        protocol=st.sampled_from([2, 3, 16, OURS]),
        unread=st.sampled_from([()] * 8 + [("encap ip6",), ("encap seg6",)]),
        **of_ipv6,
    )


def _fields_of_ipv6(within: Prefix) -> dict[str, SearchStrategy[Any]]:
    # The sources are in the same block, so that few are enough to nest.
    sources = (Prefix.around(6, within.first + 3, within.length + length) for length in (0, 2, 4))
    return {
        "source": st.sampled_from([*[None] * 7, *sources]),
        "preference": st.sampled_from([*["medium"] * 4, *PREFERENCES]),
        "expired": st.sampled_from([None] * 5 + [True, False]),
    }


def _route(
    prefix: Prefix,
    hops: list[NextHop],
    type_: RouteType,
    type_in_table_local: RouteType,
    **fields: Any,
) -> Route:
    if fields["table"] == TABLE_LOCAL:
        type_ = type_in_table_local
    if type_ in PATHLESS:
        hops = []
        fields["unread"] = ()
    return Route(prefix, tuple(hops), type=type_, **fields)


@cache
def _sources(within: Prefix) -> SearchStrategy[Prefix]:
    """Sources of a rule: in the block, or around 0.0.0.0, which a packet has before it has a
    source.
    """
    width = width_of(within.family)
    unbound = st.sampled_from([Prefix(within.family, 0, length) for length in (width, 8)])
    return prefixes(within) | unbound


@cache
def rules(within: Prefix) -> SearchStrategy[Rule]:
    """Any rule: with every action and any selectors; most have few selectors."""
    return st.builds(
        _rule,
        priority=st.integers(1, 40000),
        action=st.sampled_from(_ACTIONS),
        table=st.sampled_from(TABLES),
        target=st.sampled_from([0, 32766, 32767]),
        mark=_seldom(st.sampled_from([(1, 1), (0, 3), (2, 0xFF)]), (0, 0)),
        others=st.lists(
            st.sampled_from(_OTHER_SELECTORS), max_size=2, unique_by=lambda other: other[0]
        ),
        family=st.just(within.family),
        invert=_seldom(st.just(value=True), usual=False),
        src=_seldom(_sources(within)),
        dst=_seldom(prefixes(within)),
        iif=_seldom(st.sampled_from(["lo", "eth0", "eth1", "ib0", "gone"])),
        suppress_prefixlength=_seldom(st.sampled_from([0, within.length, within.length + 2])),
        suppress_ifgroup=_seldom(st.sampled_from([0, 7])),
    )


def _rule(
    *, target: int, mark: tuple[int, int], others: list[tuple[str, str]], **fields: Any
) -> Rule:
    if fields["action"] != "to_table":
        fields["table"] = 0
    if fields["action"] == "goto":
        fields["target"] = max(target, fields["priority"] + 1)
    fwmark, fwmask = mark
    return Rule(fwmark=fwmark, fwmask=fwmask, others=tuple(others), **fields)


@cache
def snapshots(within: Prefix) -> SearchStrategy[Snapshot]:
    """Any host that forwards. Its rules are in the kernel's order; half of the hosts have only the
    default rules.
    """
    family = within.family
    kernels_own = default_rules(family)

    def by_priority(added: list[Rule]) -> tuple[Rule, ...]:
        return tuple(sorted((*kernels_own, *added), key=lambda rule: rule.priority))

    with_custom_rules = st.lists(rules(within), max_size=4).map(by_priority)
    links = tuple(Link(name=name, index=index) for index, name in enumerate(DEVICES, start=2))
    address = _with_fields(
        Address,
        ip=st.just(ip_at(family, within.first + 1)),
        length=st.sampled_from([width_of(family), within.length]),
        dev=st.just("eth0"),
    )
    return _with_fields(
        Snapshot,
        links=st.just(links),
        addresses=st.tuples(address),
        rules=st.just(kernels_own) | with_custom_rules,
        routes=st.lists(routes(within, only_ipv6=True), max_size=12).map(tuple),
        ipv6_forwarding=st.just(value=True),
    )
