"""The configuration that repairs a host for good."""

from collections.abc import Iterable

import pytest
from hypothesis import given

from hostrouting.check.check import check_snapshot
from hostrouting.check.next_boot import after_next_boot
from hostrouting.check.proposal import propose_configuration
from hostrouting.check.results import CheckReport, Escape, Unrepairable
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.model.route import OURS, PROTOCOL_BOOT, Route
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
    """The destinations of the static routes."""
    return [str(route.destination) for route in configuration.static_routes.routes]


def test_a_card_that_has_got_another_name() -> None:
    """With the new name expected, a configured route does not wait for the old one. It does if the
    old name is expected, or none.
    """
    named = [route._replace(dev="eth9") for route in BOTH.static_routes.routes]
    section = BOTH.route_overlap._replace(expected_devs=("eth0",))
    lost = BOTH._replace(
        static_routes=BOTH.static_routes._replace(routes=tuple(named)), route_overlap=section
    )
    host = plain_vm().snapshot()
    proposed = propose_configuration(lost, host).config
    plan = plan_static_routes(proposed, host)
    assert plan.waiting == ()
    assert check_snapshot(plan.apply_to(host), proposed).verdict == "ok"
    for expected in (("eth9",), ()):
        late = lost._replace(route_overlap=section._replace(expected_devs=expected))
        assert propose_configuration(late, host).config == late


@pytest.mark.parametrize(
    ("protocol", "there", "configured"),
    [
        pytest.param(OURS, (), BOTH, id="no route"),
        pytest.param(OURS, REPAIR[:1], HALF, id="half of the repair"),
        pytest.param(OURS, REPAIR, NONE, id="the repair"),
        pytest.param(PROTOCOL_BOOT, (*REPAIR, "10.9.0.0/16"), HALF, id="the repair and one more"),
    ],
)
def test_what_the_next_boot_takes_is_proposed(
    protocol: int, there: tuple[str, ...], configured: HostRoutingConfig
) -> None:
    """Whatever routes of ours or typed ones are on the host, the proposed configuration repairs it,
    and has no other routes.
    """
    proposal = propose_configuration(configured, with_routes(protocol, *there).snapshot())
    assert destinations(proposal.config) == list(REPAIR)
    assert proposal.config.route_overlap == configured.route_overlap


def test_what_the_next_boot_takes_leads_elsewhere_until_then() -> None:
    """A route that somebody has typed leads out by the other card: it is gone after the next boot,
    and the configuration repairs the host as it is now, too.
    """
    kernel = plain_vm()
    kernel.add_link("eth1")
    kernel.add_address("eth1", "10.1.0.4/24")
    better = Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", protocol=16, metric=50)
    kernel.ip_route("add", better)
    typed = Route.to(CIDR, dev="eth0", gateway="10.0.0.1", protocol=PROTOCOL_BOOT)
    kernel.ip_route("add", typed)
    proposal = propose_configuration(NONE, kernel.snapshot())
    assert proposal.report.verdict == "ok"
    assert destinations(proposal.config) == [*REPAIR]


def test_the_place_of_a_configured_route_is_taken() -> None:
    """Then longer prefixes are proposed in its place."""
    kernel = h200()
    kernel.ip_route("add", Route.to(REPAIR[0], dev="ib3", protocol=3))
    proposal = propose_configuration(BOTH, kernel.snapshot())
    assert destinations(proposal.config) == [REPAIR[1], "172.16.0.0/18", "172.16.64.0/18"]
    [conflict] = proposal.left_out
    assert conflict.target == REPAIR[0]


def test_the_place_of_a_configured_route_is_taken_rightly() -> None:
    """Nothing escapes, so the configuration stays as it is."""
    kernel = h200()
    kernel.ip_route("add", Route.to(REPAIR[0], dev="eth0", gateway="10.0.0.7", protocol=3))
    proposal = propose_configuration(BOTH, kernel.snapshot())
    assert proposal.config == BOTH
    assert proposal.left_out == ()


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


def addresses_of(ranges: Iterable[Escape | Unrepairable]) -> set[int]:
    """Every address of these ranges."""
    addresses: set[int] = set()
    for each in ranges:
        addresses.update(range(each.first, each.last + 1))
    return addresses


def escaping(report: CheckReport) -> set[int]:
    """The addresses that escape."""
    return addresses_of(report.escapes)


@given(nodes())
def test_a_proposal_repairs_all_that_routes_can_repair(node: tuple[int, Snapshot]) -> None:
    """After the proposed configuration was applied, nothing escapes but what no route repairs, on
    the host as it is (without routes of ours that are not configured) and as it is after the next
    boot, and nothing is to be added: neither to the host nor to the configuration.
    """
    family, snapshot = node
    config = HostRoutingConfig(route_overlap=expect(str(block_of(family))))
    proposed = propose_configuration(config, snapshot).config

    plan = plan_static_routes(proposed, snapshot)
    assert plan.conflicts == ()
    assert plan.waiting == ()
    for before, after in (
        (plan_static_routes(config, snapshot).apply_to(snapshot), plan.apply_to(snapshot)),
        (after_next_boot(snapshot, config), after_next_boot(snapshot, proposed)),
    ):
        unrepairable: set[int] = set()
        for family_report in check_snapshot(before, config).families:
            unrepairable |= addresses_of(family_report.repair.unrepairable)
        assert escaping(check_snapshot(after, proposed)) <= unrepairable
    assert propose_configuration(proposed, snapshot).config == proposed
