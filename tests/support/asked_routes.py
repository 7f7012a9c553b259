"""Strategies for routes that a user may request, and index numbers for devices that do not exist."""

import attrs
from hypothesis import strategies as st

from hostrouting.kernel.base import Verb
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import NextHop, Route
from hostrouting.testing.strategies import DEVICES, prefixes, routes

VERBS: tuple[Verb, ...] = ("add", "append", "prepend", "replace", "delete")
GATEWAYS = {4: ("10.0.0.1", "10.0.0.2", "203.0.113.1"), 6: ("fd00:99::1", "fd00:99::2", "fd01::1")}
NAMES = {300 + place: dev for place, dev in enumerate(DEVICES)}


def number_of(dev: str) -> int:
    """The index of the device."""
    return 300 + DEVICES.index(dev)


@st.composite
def ways(draw: st.DrawFn, family: int, *, other: bool) -> NextHop:
    """One next hop; sometimes with a gateway of the other family."""
    version = draw(st.sampled_from([family] * 4 + [6])) if other else family
    gateway = draw(st.sampled_from((None, *map(as_ip, GATEWAYS[version]))))
    weight, onlink = draw(st.integers(1, 256)), draw(st.booleans()) and gateway is not None
    return NextHop(draw(st.sampled_from(DEVICES)), gateway=gateway, weight=weight, onlink=onlink)


@st.composite
def wanted(draw: st.DrawFn, block: Prefix, *, other: bool = True) -> Route:
    """A route that a user may request: everything that a message can express, except nexthop objects."""
    family = block.family
    legs = tuple(draw(st.lists(ways(family, other=other), min_size=1, max_size=draw(st.sampled_from([1, 1, 3])))))
    seldom = draw(st.integers(0, 4)) == 0
    return attrs.evolve(
        draw(routes(block)),
        prefix=draw(prefixes(block)),
        legs=legs if len(legs) > 1 else (attrs.evolve(legs[0], weight=1),),
        type=draw(st.sampled_from(["unicast", "unicast", "unicast", "blackhole"])),
        scope=0 if family == 6 or legs[0].gateway else 253,
        table=draw(st.sampled_from([254, 100, 70000])),
        metric=draw(st.sampled_from([0, 1, 4294967295])),
        mtu=1400 if seldom else None,
        advmss=1300 if seldom and draw(st.booleans()) else None,
        prefsrc=as_ip("10.0.0.4" if family == 4 else "fd00:99::4") if seldom else None,
    )
