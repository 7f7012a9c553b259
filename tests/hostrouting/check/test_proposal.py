"""The configuration that repairs a host for good."""

from collections.abc import Iterable

import pytest
from hypothesis import given

from hostrouting.check.check import check_snapshot
from hostrouting.check.proposal import propose_configuration
from hostrouting.check.results import Escape, Unrepairable
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.model.prefix import ip_at
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.plan import plan_static_routes
from tests.support.nodes import block_of, nodes
from tests.support.sections import expect
from tests.support.tasks import CIDR, REPAIR, config
from tests.support.topologies import vm_of

CAUGHT = f"{CIDR} dev ib0"
FIRST, SECOND = (f"{half} via 10.0.0.1 dev eth0 proto ours" for half in REPAIR)
ADDRESS = "address 10.9.0.4/24 dev ib0; 10.9.0.0/24 dev ib0 proto 2"
CIDR6 = "fd16::/48"


@pytest.mark.parametrize(
    ("host", "configured", "proposed"),
    [
        ("", config(cidrs=(CIDR,)), []),
        (CAUGHT, config(*REPAIR, cidrs=(CIDR,)), REPAIR),
        (f"{CAUGHT}; {FIRST}", config(REPAIR[0], cidrs=(CIDR,)), REPAIR),
        (f"{CAUGHT}; {FIRST}; {SECOND}", config(cidrs=(CIDR,)), REPAIR),
        # A configured route that leads elsewhere: the proposed one has its key.
        (
            f"{CIDR} via 10.0.0.1 dev eth0 proto ours; {ADDRESS}",
            config(CIDR, cidrs=(CIDR,), dev="ib0", gateway="10.9.0.1"),
            [CIDR],
        ),
        (
            f"ipv6; {CIDR6} via fe80::1 dev eth0 metric 1024 proto ours; link ib0 ib",
            config(CIDR6, cidrs=(CIDR6,), dev="ib0", gateway="fe80::9"),
            [CIDR6],
        ),
        # One whose place is taken: it stays, unless something escapes by the other.
        (f"{REPAIR[0]} dev eth0 proto 4", config(REPAIR[0], cidrs=(CIDR,)), REPAIR[:1]),
        (
            f"{REPAIR[0]} dev ib0 proto 4",
            config(REPAIR[0], cidrs=(CIDR,)),
            ["172.16.0.0/18", "172.16.64.0/18"],
        ),
    ],
)
def test_the_proposed_routes(
    host: str, configured: HostRoutingConfig, proposed: Iterable[str]
) -> None:
    """The whole repair, whatever routes of ours are there, and no other routes."""
    proposal = propose_configuration(configured, vm_of(host))
    routes = proposal.config.static_routes.routes
    assert [str(route.destination) for route in routes] == [*proposed]
    assert proposal.config.static_routes.enabled is bool(routes)
    assert proposal.config.route_overlap == configured.route_overlap


def addresses_of(ranges: Iterable[Escape | Unrepairable]) -> set[int]:
    addresses: set[int] = set()
    for each in ranges:
        addresses.update(range(each.first, each.last + 1))
    return addresses


@given(nodes())
def test_a_proposal_repairs_all_that_routes_can_repair(node: tuple[int, Snapshot]) -> None:
    """Nothing escapes then but what no route repairs, and nothing is to be added."""
    family, snapshot = node
    config = HostRoutingConfig(route_overlap=expect(str(block_of(family))))
    proposed = propose_configuration(config, snapshot).config

    plan = plan_static_routes(proposed, snapshot)
    assert plan.conflicts == ()
    assert plan.waiting == ()
    [before] = check_snapshot(
        plan_static_routes(config, snapshot).apply_to(snapshot), config
    ).families
    after = check_snapshot(plan.apply_to(snapshot), proposed)
    new = addresses_of(after.escapes) - addresses_of(before.repair.unrepairable)
    assert [str(ip_at(family, address)) for address in new] == []
    assert propose_configuration(proposed, snapshot).config == proposed
