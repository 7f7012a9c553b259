"""What escapes after the next boot: routes of ours that are not configured, and routes that
somebody has typed, are gone then.
"""

from ipaddress import ip_network

import pytest
from hypothesis import event, given

from hostrouting.check.check import check_snapshot
from hostrouting.check.next_boot import after_next_boot, find_lost_at_boot, find_new_escapes
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.fib.engine import FROM_HOST
from hostrouting.finding import Finding, Remedy
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import OURS, PROTOCOL_BOOT, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link, Snapshot
from tests.hostrouting.check.test_proposal import BOTH, HALF, NONE, addresses_of, with_routes
from tests.support.nodes import block_of, nodes
from tests.support.sections import expect
from tests.support.tasks import CIDR, REPAIR, config
from tests.support.topologies import ELSEWHERE, cni_node, dual_stack_h200, vm_of

KEEP = Remedy("to keep them", "repair | apply")


def lost(snapshot: Snapshot, configured: HostRoutingConfig) -> list[Finding]:
    """What is found on this host with this configuration installed."""
    now = check_snapshot(snapshot, configured)
    return [*find_lost_at_boot(now, configured, configured, KEEP)]


@pytest.mark.parametrize(
    ("protocol", "there", "configured", "named", "ranges"),
    [
        pytest.param(OURS, REPAIR, HALF, REPAIR[1], REPAIR[1], id="one of two"),
        pytest.param(
            PROTOCOL_BOOT, REPAIR, NONE, f"{REPAIR[0]} and {REPAIR[1]}", CIDR, id="two of two"
        ),
        pytest.param(
            PROTOCOL_BOOT,
            ("10.9.0.0/16", "172.16.9.9/32", "192.168.0.0/16"),
            NONE,
            "172.16.9.9/32",
            "172.16.9.9",
            id="one address of three",
        ),
        pytest.param(
            OURS,
            ("172.16.64.0/20",),
            config(cidrs=("172.16.65.0/24",)),
            "172.16.64.0/20",
            "172.16.65.0/24",
            id="wider than what is expected",
        ),
    ],
)
def test_routes_that_are_needed_and_not_configured(
    protocol: int, there: tuple[str, ...], configured: HostRoutingConfig, named: str, ranges: str
) -> None:
    """The finding names them, and what escapes without them; the remedy keeps them."""
    [finding] = lost(with_routes(protocol, *there).snapshot(), configured)
    routes, are = ("routes", "are") if " and " in named else ("route", "is")
    assert finding.name == "route-not-configured"
    assert finding.sentence == (
        f"after the next boot, {ranges} will escape: the {routes} to {named} {are} not in the "
        "configuration"
    )
    assert finding.target == named
    assert finding.remedy == KEEP


def test_configured_routes_that_would_wait() -> None:
    """While the default route is in doubt, they stay as they are, and nothing is said of them."""
    ways = "; ".join(f"{to} via 10.0.0.1 dev eth0 proto ours" for to in REPAIR)
    host = vm_of(f"{CIDR} dev ib0; {ways}; default via 10.1.0.1 dev eth1 metric 100")
    assert lost(host, BOTH) == []


TYPED = ("10.128.0.0/10", "10.192.0.0/10")


def typed(*others: Route, gateway: str = "10.0.0.1") -> Snapshot:
    """A node with a CNI that sets routes without a protocol, as `ip route add` does, and two routes
    that somebody has typed because of ib0.
    """
    kernel = cni_node()
    kernel.add_link(Link(name="ib0", index=0, type=32))
    kernel.add_address("ib0", "10.128.0.4/9")
    for destination in TYPED:
        kernel.ip_route("add", Route.to(destination, dev="eth0", gateway=gateway))
    for route in others:
        kernel.ip_route("add", route)
    snapshot = kernel.snapshot()
    routes = [route._replace(protocol=route.protocol or PROTOCOL_BOOT) for route in snapshot.routes]
    return snapshot._replace(routes=tuple(routes))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Route.to("10.244.5.0/24", dev="ib0", table=101), id="in another table"),
        pytest.param(
            Route.to("10.130.0.0/16", dev="eth0", gateway="10.0.0.9"), id="by another gateway"
        ),
        pytest.param(
            Route.to("10.130.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=4),
            id="of another program",
        ),
        pytest.param(
            Route(Prefix.parse("10.130.0.0/24"), type="unreachable", table=101), id="a refusal"
        ),
        pytest.param(
            Route.to("128.0.0.0/1", dev="eth0", gateway="10.0.0.1"), id="a half of all addresses"
        ),
    ],
)
def test_only_what_was_typed_goes(other: Route) -> None:
    """Protocol boot says only that no program has named itself: CNIs add such routes, too."""
    wanted = HostRoutingConfig(route_overlap=expect("10.128.0.0/9"))
    snapshot = typed(other)
    gone = {*snapshot.routes} - {*after_next_boot(snapshot, wanted).routes}
    assert {str(route.prefix) for route in gone} == set(TYPED)


def test_typed_routes_of_both_families() -> None:
    """Those by the default route of their family go."""
    host = vm_of("::/0 via fe80::1 dev eth0; fd16::/48 via fe80::1 dev eth0 proto 3")
    gone = {*host.routes} - {*after_next_boot(host, NONE).routes}
    assert {str(route.prefix) for route in gone} == {"fd16::/48"}


def test_packets_of_pods_that_escape_anyway() -> None:
    """What plain packets lose is told from what only packets of pods lose."""
    pods = "10.244.0.0/16"
    wanted = HostRoutingConfig(route_overlap=expect(CIDR, pod_cidrs=[ip_network(pods)]))
    kernel = with_routes(OURS, *REPAIR)
    kernel.ip_route("add", ELSEWHERE)
    kernel.add_rule(Rule(family=4, priority=100, table=100, src=Prefix.parse(pods)))
    [finding] = lost(kernel.snapshot(), wanted)
    assert finding.facts == {"unconfigured": [*REPAIR], "ranges": [CIDR]}


def test_addresses_of_ipv6_that_are_as_small_as_those_of_ipv4() -> None:
    """An escape in IPv4, which is there before and after, hides none of these."""
    kernel = dual_stack_h200()
    kernel.ip_route("add", Route.to("::/2", dev="ib0"))
    kernel.ip_route("add", Route.to("::/3", dev="eth0", gateway="fe80::1", protocol=OURS))
    kernel.ip_route("add", Route.to("10.9.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=OURS))
    [finding] = lost(kernel.snapshot(), config(cidrs=(CIDR, "::/3")))
    assert finding.facts == {"unconfigured": ["::/3"], "ranges": ["::/3"]}


@given(nodes())
def test_law_new_escapes(node: tuple[int, Snapshot]) -> None:
    """Exactly the addresses escape newly that escape afterwards and do not now. Plain packets that
    escape now may stand for others. The finding needs one of them in a route that is then gone.
    """
    family, snapshot = node
    block = block_of(family)
    section = expect(str(block), pod_cidrs=[block.to_network()])
    config = HostRoutingConfig(route_overlap=section)
    booted = after_next_boot(snapshot, config)
    now = check_snapshot(snapshot, config)
    after = check_snapshot(booted, config)
    expected: set[int] = set()
    for escape in after.escapes:
        known = [each for each in now.escapes if each.packet in {FROM_HOST, escape.packet}]
        expected |= addresses_of([escape]) - addresses_of(known)

    found: set[int] = set()
    for _, first, last in find_new_escapes(now, after):
        found.update(range(first, last + 1))

    event(f"new escapes: {bool(expected)}")
    assert found == expected
    gone = {route.prefix for route in {*snapshot.routes}.difference(booted.routes)}
    in_these = any(prefix.first <= each <= prefix.last for prefix in gone for each in expected)
    assert bool([*find_lost_at_boot(now, config, config, KEEP)]) == in_these
