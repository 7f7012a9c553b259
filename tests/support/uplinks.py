"""Hosts for the boot scripts: devices, default routes, and other rules and routes."""

from hypothesis import strategies as st

from hostrouting.model import Prefix, Route, Rule
from hostrouting.testing.strategies import routes, rules
from tests.support.commands import LINKS

__all__ = ["LINKS", "UPLINKS", "wishes"]

UPLINKS: tuple[list[str], ...] = (
    *[["route add default via 10.0.0.1 dev eth0"]] * 3,
    ["route add default nexthop via 10.0.0.1 dev eth0 weight 2 nexthop via 10.0.0.2 dev eth1 onlink"],
    ["route add default dev wg0 metric 5", "route add default via 10.0.0.1 dev eth0 metric 9"],
    ["route add default dev eth1"],
    ["route add default via 10.0.0.7 dev eth0 proto 213"],
    [],
)
"""`ip` commands for the default route: of DHCP, ECMP, by a tunnel, without a gateway, with our protocol, or none."""


@st.composite
def wishes(draw: st.DrawFn, block: Prefix) -> tuple[list[Rule], list[Route]]:
    """Rules and routes to add to the kernel; it may refuse some of them."""
    wanted = draw(st.lists(rules(block), max_size=4, unique_by=lambda rule: rule.priority))
    return wanted, draw(st.lists(routes(block), min_size=1, max_size=14))
