"""The configuration that repairs a host for good, and the routes that are needed and not in the
configuration.
"""

from collections.abc import Iterable

import pytest
from hypothesis import event, given

from hostrouting.check.check import check_snapshot
from hostrouting.check.proposal import find_unconfigured, propose_configuration
from hostrouting.check.results import CheckReport
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.finding import Finding
from hostrouting.model.route import OURS, Route
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.plan import plan_static_routes
from hostrouting.testing import FakeKernel, h200
from tests.support.nodes import block_of, nodes
from tests.support.sections import expect
from tests.support.tasks import CIDR, REPAIR, config

BOTH, HALF, NONE = (config(*routes, cidrs=(CIDR,)) for routes in (REPAIR, REPAIR[:1], ()))


def with_ours(*destinations: str) -> FakeKernel:
    """An H200 node with these routes, as the commands of a check add them."""
    kernel = h200()
    for destination in destinations:
        kernel.ip_route("add", Route.to(destination, dev="eth0", gateway="10.0.0.1", protocol=OURS))
    return kernel


def destinations(configuration: HostRoutingConfig) -> list[str]:
    """The destinations of the static routes."""
    return [str(route.destination) for route in configuration.static_routes.routes]


@pytest.mark.parametrize("there", [(), REPAIR[:1], REPAIR, (*REPAIR, "10.9.0.0/16")])
@pytest.mark.parametrize("configured", [NONE, HALF, BOTH])
def test_what_apply_would_delete_is_proposed(
    there: tuple[str, ...], configured: HostRoutingConfig
) -> None:
    """Whatever routes of ours are on the host, the proposed configuration repairs it, and has no
    other routes.
    """
    proposal = propose_configuration(configured, with_ours(*there).snapshot())
    assert destinations(proposal.config) == [*REPAIR]
    assert proposal.config.route_overlap == configured.route_overlap
    missing = {*REPAIR} - {*destinations(configured)}
    named = {
        destination
        for finding in proposal.unconfigured
        for destination in finding.facts["unconfigured"]
    }
    assert missing & {*there} <= named


def test_the_place_of_a_configured_route_is_taken() -> None:
    """Then longer prefixes are proposed in its place; where nothing escapes, the configuration
    stays as it is.
    """
    kernel = h200()
    kernel.ip_route("add", Route.to(REPAIR[0], dev="ib3", protocol=3))
    proposal = propose_configuration(BOTH, kernel.snapshot())
    assert destinations(proposal.config) == [REPAIR[1], "172.16.0.0/18", "172.16.64.0/18"]
    assert [conflict.target for conflict in proposal.left_out] == [REPAIR[0]]
    kernel = h200()
    kernel.ip_route("add", Route.to(REPAIR[0], dev="eth0", gateway="10.0.0.7", protocol=3))
    proposal = propose_configuration(BOTH, kernel.snapshot())
    assert (proposal.config, proposal.left_out) == (BOTH, ())


def unconfigured(configured: HostRoutingConfig, snapshot: Snapshot) -> tuple[Finding, ...]:
    """What is found for this configuration and this host."""
    plan = plan_static_routes(configured, snapshot)
    after = check_snapshot(plan.apply_to(snapshot), configured)
    return tuple(find_unconfigured(plan, snapshot, configured, after=after))


@pytest.mark.parametrize(
    ("there", "configured", "sentence"),
    [
        (REPAIR, BOTH, ""),
        (
            REPAIR,
            HALF,
            f"the route to {REPAIR[1]} is not in the configuration, and will be gone after the next boot; without it {REPAIR[1]} escapes",
        ),
        (
            REPAIR,
            NONE,
            f"the routes to {REPAIR[0]} and {REPAIR[1]} are not in the configuration, and will be gone after the next boot; without them {CIDR}",
        ),
        (REPAIR[:1], NONE, f"without it {REPAIR[0]} escapes"),
        (("10.9.0.0/16",), NONE, ""),
        ((), NONE, ""),
    ],
)
def test_routes_that_are_needed_and_not_configured(
    there: tuple[str, ...], configured: HostRoutingConfig, sentence: str
) -> None:
    """The finding names them, what escapes without them, and the routes that the configuration
    needs instead.
    """
    findings = unconfigured(configured, with_ours(*there).snapshot())
    assert len(findings) == bool(sentence)
    for finding in findings:
        assert sentence in finding.sentence
        needed = [route["destination"] for route in finding.facts["routes"]]
        assert {*needed} | {*destinations(configured)} == {*REPAIR}


def escaping(report: CheckReport) -> set[int]:
    """The addresses that escape."""
    ranges: Iterable[tuple[int, int]] = [(escape.first, escape.last) for escape in report.escapes]
    return {address for first, last in ranges for address in range(first, last + 1)}


@given(nodes())
def test_laws(node: tuple[int, Snapshot]) -> None:
    """After the proposed configuration was applied, nothing escapes that routes repair, and nothing
    is to be added.

    Routes of ours are named if and only if an address escapes after apply that does not escape now.
    """
    family, snapshot = node
    wanted = HostRoutingConfig(route_overlap=expect(str(block_of(family))))
    plan = plan_static_routes(wanted, snapshot)
    after = check_snapshot(plan.apply_to(snapshot), wanted)
    lost = escaping(after) - escaping(check_snapshot(snapshot, wanted))
    findings = tuple(find_unconfigured(plan, snapshot, wanted, after=after))
    event(f"needs {len(findings)} routes of ours")
    assert bool(findings) is bool(lost)

    proposed = propose_configuration(wanted, snapshot).config
    plan = plan_static_routes(proposed, snapshot)
    assert (plan.conflicts, plan.waiting) == ((), ())
    report = check_snapshot(plan.apply_to(snapshot), proposed)
    unsafe = [
        (each.first, each.last)
        for family_report in after.families
        for each in family_report.repair.unrepairable
    ]
    assert escaping(report) <= {
        address for first, last in unsafe for address in range(first, last + 1)
    }
    assert report.routes == ()
    assert propose_configuration(proposed, snapshot).config == proposed
