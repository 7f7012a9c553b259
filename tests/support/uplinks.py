"""Hosts for the boot scripts: devices, ways out, and whatever else may stand in the tables."""

from hypothesis import strategies as st

from hostrouting.model import Link, Prefix, Route, Rule
from tests.support.strategies import DEVICES, routes, rules

__all__ = ["LINKS", "UPLINKS", "wishes"]

LINKS = tuple(
    Link(name=name, index=0, group=7 * (name == "eth1"), ignore_routes_with_linkdown=name == "ib0") for name in DEVICES
)
"""One in a group of its own, one that heeds a lost carrier."""

UPLINKS: tuple[list[str], ...] = (
    *[["route add default via 10.0.0.1 dev eth0"]] * 3,
    ["route add default nexthop via 10.0.0.1 dev eth0 weight 2 nexthop via 10.0.0.2 dev eth1 onlink"],
    ["route add default dev wg0 metric 5", "route add default via 10.0.0.1 dev eth0 metric 9"],
    ["route add default dev eth1"],
    ["route add default via 10.0.0.7 dev eth0 proto 213"],
    [],
)
"""Commands of `ip` that make the default route: by DHCP, ECMP, a tunnel, without a gateway, of our own, none."""


@st.composite
def wishes(draw: st.DrawFn, block: Prefix) -> tuple[list[Rule], list[Route]]:
    """What to ask of the kernel; it may refuse some of it."""
    wanted = draw(st.lists(rules(block), max_size=4, unique_by=lambda rule: rule.priority))
    return wanted, draw(st.lists(routes(block), min_size=1, max_size=14))
