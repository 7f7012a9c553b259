"""hostrouting.install.losses: the protection that a configuration would take away."""

from ipaddress import IPv4Network
from itertools import chain

import pytest
from hypothesis import given, strategies as st

from hostrouting.config.settings import (
    MACHINES,
    GateConfig,
    GuardConfig,
    HostRoutingConfig,
    StaticRoute,
    StaticRoutesConfig,
)
from hostrouting.install.losses import find_losses
from tests.support.sections import expect
from tests.support.tasks import CIDR, REPAIR, config

# Few enough that routes often cover each other, as a whole or by halves.
BLOCK = IPv4Network("10.0.0.0/24")
NETWORKS = st.integers(24, 27).flatmap(
    lambda length: st.sampled_from([*BLOCK.subnets(new_prefix=length)])
)
ROUTES = st.lists(NETWORKS, max_size=6, unique=True)


def routes(networks: list[IPv4Network]) -> HostRoutingConfig:
    """A configuration with routes to these networks."""
    return HostRoutingConfig(StaticRoutesConfig(bool(networks), tuple(map(StaticRoute, networks))))


@given(before=ROUTES, after=ROUTES)
def test_law_a_route_is_lost_where_no_other_that_is_as_long_takes_its_place(
    before: list[IPv4Network], after: list[IPv4Network]
) -> None:
    """Address by address: halves take the place of a route, and a shorter route does not."""
    is_lost = False
    for route in before:
        as_long = [other for other in after if other.prefixlen >= route.prefixlen]
        kept = set(chain.from_iterable(as_long))
        is_lost = is_lost or not kept.issuperset(route)
    faults = {fault.path for fault in find_losses(routes(before), routes(after))}
    assert ("staticRoutes.routes" in faults) is is_lost


OLD = config(*REPAIR, cidrs=(CIDR,))._replace(guard=GuardConfig(enabled=True))
LOSSES = {
    "routes": (
        OLD._replace(static_routes=config("172.16.0.0/17").static_routes),
        "staticRoutes.routes: 172.16.128.0/17 would lose the route that is installed",
    ),
    "a metric": (
        OLD._replace(static_routes=config(*REPAIR, metric=4000).static_routes),
        f"staticRoutes.routes: {' and '.join(REPAIR)} would lose the route that is installed",
    ),
    "CIDRs": (
        OLD._replace(route_overlap=expect("172.16.64.0/18", mode="STRICT")),
        "routeOverlap.expectedCidrs: 172.16.0.0/16 would no longer be checked",
    ),
    "all CIDRs": (  # the mode means nothing then
        OLD._replace(route_overlap=HostRoutingConfig().route_overlap),
        "routeOverlap.expectedCidrs: 172.16.0.0/16 would no longer be checked",
    ),
    "units": (
        OLD._replace(gate=GateConfig(("kubelet.service",))),
        "gate.units: systemd-nspawn@.service would no longer wait for the gate",
    ),
    "guard": (
        OLD._replace(guard=GuardConfig()),
        "guard.enabled: the guard that repairs routes would be removed",
    ),
}
"""By what would be lost: the new configuration, and the loss."""


def losses(old: HostRoutingConfig, new: HostRoutingConfig) -> list[str]:
    """What the new configuration would take away."""
    return [str(fault) for fault in find_losses(old, new)]


@pytest.mark.parametrize(("new", "sentence"), LOSSES.values(), ids=LOSSES)
def test_each_loss(new: HostRoutingConfig, sentence: str) -> None:
    """What protects less than the installed configuration is named."""
    assert losses(OLD, new) == [sentence]


def test_both_families() -> None:
    """A route or a CIDR of one family takes the place of none of the other."""
    ipv4 = config("172.16.0.0/16", cidrs=("172.16.0.0/16",))
    ipv6 = config("fd00:16::/32", cidrs=("fd00:16::/32",))
    both = config("172.16.0.0/16", "fd00:16::/32", cidrs=("172.16.0.0/16", "fd00:16::/32"))
    assert losses(ipv4, both) == []
    assert losses(both, both) == []
    assert losses(both, ipv6) == [
        "staticRoutes.routes: 172.16.0.0/16 would lose the route that is installed",
        "routeOverlap.expectedCidrs: 172.16.0.0/16 would no longer be checked",
    ]


def test_a_lower_metric() -> None:
    """A route that takes precedence wherever the old one does is no loss, and neither are its
    halves, whatever their metric.
    """
    old = config("172.16.0.0/16", metric=100)
    assert losses(old, config("172.16.0.0/16", metric=50)) == []
    assert losses(old, config(*REPAIR, metric=4000)) == []


def without_cidrs(config: HostRoutingConfig) -> HostRoutingConfig:
    """The configuration, without the CIDRs that make it a check."""
    return config._replace(route_overlap=config.route_overlap._replace(expected_cidrs=()))


def test_pods_that_are_no_longer_checked() -> None:
    """A range of pods is a loss where anything is checked before and afterwards. Where nothing is
    checked any more, that is the loss.
    """
    whole = HostRoutingConfig(route_overlap=expect(CIDR, pod_cidrs=["10.244.0.0/16"]))
    half = HostRoutingConfig(route_overlap=expect(CIDR, pod_cidrs=["10.244.0.0/17"]))
    assert losses(whole, half) == [
        "routeOverlap.podCidrs: packets from 10.244.0.0/16 would no longer be checked"
    ]
    assert losses(half, whole) == []
    assert losses(without_cidrs(whole), half) == []
    of_nothing = find_losses(whole, HostRoutingConfig())
    assert [fault.path for fault in of_nothing] == ["routeOverlap.expectedCidrs", "gate.units"]


def test_no_loss() -> None:
    """More routes, other halves of a CIDR and more units are no loss; nor is anything on a new
    host.
    """
    more = config(*REPAIR, "10.9.0.0/16", cidrs=(*REPAIR, "10.0.0.0/8"))
    units = GateConfig(("kubelet.service", MACHINES))
    new = more._replace(gate=units, guard=GuardConfig(enabled=True))
    assert losses(OLD, new) == []
    assert losses(HostRoutingConfig(), OLD) == []


def test_no_loss_of_an_instance() -> None:
    """The template gates it, too."""
    instance = OLD._replace(gate=GateConfig(("systemd-nspawn@kube.1.service",)))
    assert losses(instance, OLD._replace(gate=GateConfig((MACHINES,)))) == []
