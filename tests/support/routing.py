"""Strategies for routes and rules of any kind that Linux takes, all about one small block of
addresses, so that they nest, halve and repeat each other. `nodes` makes hosts as in the field.
"""

from functools import cache, partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from hostrouting.model.prefix import Prefix, as_ip, width_of
from hostrouting.model.route import (
    OURS,
    PATHLESS,
    REFUSING,
    SCOPE_LINK,
    TABLE_LOCAL,
    TABLE_MAIN,
    NextHop,
    Route,
    RouteType,
)
from hostrouting.model.rule import Rule, RuleAction

DEVICES = ("eth0", "eth1", "ib0", "wg0")
TABLES = (TABLE_MAIN, TABLE_LOCAL, 100)
_TYPES_IN_TABLE_LOCAL: list[RouteType] = ["local", "broadcast", "anycast"]
_TYPES: list[RouteType] = ["unicast"] * 12  # most routes
_TYPES += [*PATHLESS, *_TYPES_IN_TABLE_LOCAL, "multicast"]
_ACTIONS: list[RuleAction] = ["to_table"] * 6  # most rules
_ACTIONS += ["goto", "nop", *sorted(REFUSING)]
_OTHER_SELECTORS = [("tos", "0x10"), ("dscp", "0x4"), ("dscp", "0/0x38"), ("uidrange", "0-0")]
_OTHER_SELECTORS += [("uidrange", "1000-1999"), ("ipproto", "tcp"), ("ipproto", "udp")]
_OTHER_SELECTORS += [("sport", "1-1023"), ("dport", "53"), *(("oif", dev) for dev in DEVICES)]
"""The selectors that a Rule has as text, with some values."""


def _seldom(strategy: SearchStrategy[Any], usual: Any = None) -> SearchStrategy[Any]:
    """One value in six is drawn from the strategy; the others are the usual one."""
    is_usual = st.integers(0, 5).map(bool)
    return is_usual.flatmap(lambda usually: st.just(usual) if usually else strategy)


def small_block(family: int = 4) -> Prefix:
    base = as_ip("172.16.0.0" if family == 4 else "fd00:16::")
    return Prefix(family, int(base), width_of(family) - 4)


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
    # Many are default routes, for which Linux has special rules.
    lengths_around = st.just(0) | st.integers(0, within.length)
    return inside | lengths_around.map(partial(Prefix.around, family, within.first))


@cache
def routes(within: Prefix) -> SearchStrategy[Route]:
    """Any route to a prefix in the block or around it: of every type, in several tables."""
    family = within.family
    gateway = as_ip("10.0.0.1" if family == 4 else "fe80::1")
    hops = [NextHop(dev, gateway=via) for dev in DEVICES for via in (None, gateway)]
    return st.builds(
        _route,
        prefixes(within, wider=True),
        st.lists(st.sampled_from(hops), min_size=1, max_size=2),
        st.sampled_from(_TYPES),
        st.sampled_from(_TYPES_IN_TABLE_LOCAL),
        table=st.sampled_from(TABLES),
        metric=st.sampled_from([0, 0, 0, 100, 1024]),
        tos=st.sampled_from([0] * 7 + [0x10]) if family == 4 else st.just(0),
        scope=st.sampled_from([0, SCOPE_LINK]),
        protocol=st.sampled_from([2, 3, 16, OURS]),
        unread=st.sampled_from([()] * 8 + [("encap ip6",), ("encap seg6",)]),
    )


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
    """Sources of a rule: in the block, or around the 0.0.0.0 of a packet without source."""
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
