"""The configuration that repairs a host for good."""

from collections.abc import Iterable

import pytest
from hypothesis import given

from hostrouting.check.check import check_snapshot
from hostrouting.check.proposal import propose_configuration
from hostrouting.check.results import CheckReport, Escape, Unrepairable
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.model.route import OURS, Route
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.routes.plan import plan_static_routes
from hostrouting.testing import FakeKernel, h200, plain_vm
from tests.support.nodes import block_of, nodes
from tests.support.sections import expect
from tests.support.tasks import CIDR, REPAIR, config

BOTH = config(*REPAIR, cidrs=(CIDR,))
HALF = config(REPAIR[0], cidrs=(CIDR,))
NONE = config(cidrs=(CIDR,))


def with_routes(protocol: int, *destinations: str) -> FakeKernel:
    """An H200 node with these routes by its gateway."""
    kernel = h200()
    for destination in destinations:
        route = Route.to(destination, dev="eth0", gateway="10.0.0.1", protocol=protocol)
        kernel.ip_route("add", route)
    return kernel


def destinations(configuration: HostRoutingConfig) -> list[str]:
    return [str(route.destination) for route in configuration.static_routes.routes]


@pytest.mark.parametrize(
    ("protocol", "there", "configured"),
    [
        pytest.param(OURS, (), BOTH, id="no route"),
        pytest.param(OURS, REPAIR[:1], HALF, id="half of the repair"),
        pytest.param(OURS, REPAIR, NONE, id="the repair"),
    ],
)
def test_the_proposed_configuration_has_the_whole_repair(
    protocol: int, there: tuple[str, ...], configured: HostRoutingConfig
) -> None:
    """It repairs the host, whatever routes of ours are there, and has no other routes."""
    proposal = propose_configuration(configured, with_routes(protocol, *there).snapshot())
    assert destinations(proposal.config) == list(REPAIR)
    assert proposal.config.route_overlap == configured.route_overlap


@pytest.mark.parametrize(
    ("cidr", "right", "wrong"),
    [
        pytest.param(CIDR, "10.0.0.1", "10.9.0.1", id="IPv4"),
        pytest.param("fd16::/48", "fe80::1", "fe80::9", id="IPv6"),
    ],
)
def test_a_configured_route_that_leads_elsewhere(cidr: str, right: str, wrong: str) -> None:
    """The route of the repair has its key, and takes its place."""
    kernel = plain_vm()
    kernel.add_link(Link(name="ib0", index=0, type=32))
    kernel.add_address("ib0", "10.9.0.4/24")
    kernel.ip_route("add", Route.to("::/0", dev="eth0", gateway="fe80::1", metric=1))
    kernel.ip_route("add", Route.to(cidr, dev="eth0", gateway=right, protocol=OURS))
    by_ib0 = config(cidr, cidrs=(cidr,), dev="ib0", gateway=wrong)
    proposed = propose_configuration(by_ib0, kernel.snapshot())
    assert proposed.report.escapes
    assert destinations(proposed.config) == [cidr]


@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_configured_route_whose_place_is_taken(*, is_wrong: bool) -> None:
    """The configured one stays, unless something escapes by the other: then others are proposed."""
    kernel = h200() if is_wrong else plain_vm()
    kernel.ip_route("add", Route.to(REPAIR[0], dev="ib0" if is_wrong else "eth0", protocol=4))
    taken = config(REPAIR[0], cidrs=(CIDR,))
    proposal = propose_configuration(taken, kernel.snapshot())
    assert bool(proposal.report.escapes) is is_wrong
    assert (REPAIR[0] in destinations(proposal.config)) is not is_wrong


def addresses_of(ranges: Iterable[Escape | Unrepairable]) -> set[int]:
    addresses: set[int] = set()
    for each in ranges:
        addresses.update(range(each.first, each.last + 1))
    return addresses


def escaping(report: CheckReport) -> set[int]:
    return addresses_of(report.escapes)


@given(nodes())
def test_a_proposal_repairs_all_that_routes_can_repair(node: tuple[int, Snapshot]) -> None:
    """Nothing escapes then but what no route repairs, and nothing is to be added."""
    family, snapshot = node
    config = HostRoutingConfig(route_overlap=expect(str(block_of(family))))
    proposed = propose_configuration(config, snapshot).config

    plan = plan_static_routes(proposed, snapshot)
    assert plan.conflicts == ()
    assert plan.waiting == ()
    before = plan_static_routes(config, snapshot).apply_to(snapshot)
    unrepairable: set[int] = set()
    for family_report in check_snapshot(before, config).families:
        unrepairable |= addresses_of(family_report.repair.unrepairable)
    assert escaping(check_snapshot(plan.apply_to(snapshot), proposed)) <= unrepairable
    assert propose_configuration(proposed, snapshot).config == proposed
