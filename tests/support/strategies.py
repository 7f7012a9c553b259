"""Hypothesis strategies for hosts whose routes and rules often overlap.

All prefixes are in one small block. So random prefixes often nest, halve and repeat each other, and a scan of every
address is cheap: `blocks().flatmap(snapshots)`. Strategies for configurations are in `config_strategies`.

    blocks()            the block that contains all prefixes
    prefixes(block)     prefixes in the block
    legs(family)        next hops, in any state
    routes(block)       routes of every type, in several tables
    rules(block)        rules of every action, with any selector
    links()             devices
    snapshots(block)    hosts
"""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from hostrouting.model.prefix import Prefix, as_ip, ip_at, width_of
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
from tests.support.rules import rule

DEVICES = ("eth0", "eth1", "ib0", "wg0")
TABLES = (TABLE_MAIN, TABLE_LOCAL, 100)
OWN: list[RouteType] = ["local", "broadcast", "anycast"]


def blocks(family: int = 4, bits: int = 4) -> st.SearchStrategy[Prefix]:
    """The block that contains all prefixes: sixteen addresses, unless other `bits` are given."""
    base = as_ip("172.16.0.0" if family == 4 else "fd00:16::")
    return st.just(Prefix(family, int(base), width_of(family) - bits))


def prefixes(within: Prefix, *, wider: bool = False) -> st.SearchStrategy[Prefix]:
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


def legs(family: int) -> st.SearchStrategy[NextHop]:
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
_VALUES: dict[tuple[str, ...], list[tuple[Any, ...]]] = {
    ("tos",): [(0x10,)],
    ("dscp",): [((4, 0x3F),), ((0, 0x38),)],
    ("fwmark", "fwmask"): [(1, 1), (0, 3), (2, 0xFF)],
    ("iif",): [("lo",), ("eth0",), ("eth1",), ("ib0",), ("gone",)],
    ("oif",): [("eth0",), ("eth1",), ("ib0",), ("wg0",)],
    ("uids",): [((0, 0),), ((1000, 1999),)],
    ("ipproto",): [(6,), (17,)],
    ("sports",): [((1, 1023),)],
    ("dports",): [((53, 53),)],
}


@cache
def _ways(family: int) -> st.SearchStrategy[list[NextHop]]:
    return st.lists(legs(family), min_size=1, max_size=2)


@cache
def _prefixes(within: Prefix, *, wider: bool) -> st.SearchStrategy[Prefix]:
    return prefixes(within, wider=wider)


@cache
def _selectors(within: Prefix) -> dict[tuple[str, ...], st.SearchStrategy[Any]]:
    """By the fields of a selector: its values."""
    return {
        ("src",): st.tuples(prefixes(within)),
        ("dst",): st.tuples(prefixes(within)),
        **{fields: st.sampled_from(values) for fields, values in _VALUES.items()},
    }


@cache
def _lengths(*lengths: int) -> st.SearchStrategy[int]:
    return st.sampled_from(lengths)


@cache
def _rules(within: Prefix, most: int) -> st.SearchStrategy[list[Rule]]:
    return st.lists(rules(within), max_size=most)


@cache
def _routes(within: Prefix, most: int) -> st.SearchStrategy[list[Route]]:
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

    def seldom(strategy: st.SearchStrategy[Any], otherwise: Any) -> Any:
        return draw(strategy) if draw(_ONE_IN_SIX) == 0 else otherwise

    action = draw(_ACTIONS)
    priority = draw(_PRIORITIES)
    ahead = [priority + 1, *(place for place in (32766, 32767) if place > priority)]
    said: dict[str, Any] = {}
    for fields, values in _selectors(within).items():
        if (value := seldom(values, None)) is not None:
            said |= zip(fields, value, strict=True)
    return rule(
        family=within.family,
        priority=priority,
        action=action,
        table=draw(_TABLES) if action == "to_table" else 0,
        target=draw(st.sampled_from(ahead)) if action == "goto" else None,
        invert=seldom(_YES, otherwise=False),
        suppress_prefixlength=seldom(_lengths(0, within.length, within.length + 2), None),
        suppress_ifgroup=seldom(_SUPPRESSED_GROUPS, None),
        **said,
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
    address = Address(
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
