"""The configuration that repairs a host for good, and the routes that are needed and not in the
configuration.
"""

from collections.abc import Iterable
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import event, given

from hostrouting.check.check import check_snapshot
from hostrouting.check.proposal import (
    find_by_hand,
    find_unconfigured,
    propose_configuration,
)
from hostrouting.check.results import CheckReport, Escape, Unrepairable
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.fib.engine import FROM_HOST
from hostrouting.finding import Finding
from hostrouting.model.prefix import Prefix
from hostrouting.model.route import OURS, PROTOCOL_BOOT, Route
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.routes.plan import plan_static_routes
from hostrouting.testing import FakeKernel, cni_node, h200, plain_vm
from tests.support import topologies
from tests.support.nodes import block_of, nodes
from tests.support.sections import expect
from tests.support.tasks import CIDR, REPAIR, config
from tests.support.topologies import ELSEWHERE, IB0, main_with, rule

BOTH = config(*REPAIR, cidrs=(CIDR,))
HALF = config(REPAIR[0], cidrs=(CIDR,))
NONE = config(cidrs=(CIDR,))

DELETER = "the next boot deletes"


def with_ours(*destinations: str) -> FakeKernel:
    """An H200 node with these routes, as the commands of a check add them."""
    kernel = h200()
    for destination in destinations:
        kernel.ip_route("add", Route.to(destination, dev="eth0", gateway="10.0.0.1", protocol=OURS))
    return kernel


def destinations(configuration: HostRoutingConfig) -> list[str]:
    """The destinations of the static routes."""
    return [str(route.destination) for route in configuration.static_routes.routes]


@pytest.mark.parametrize(
    "there",
    [
        pytest.param((), id="no route"),
        pytest.param(REPAIR[:1], id="half of the repair"),
        pytest.param(REPAIR, id="the repair"),
        pytest.param((*REPAIR, "10.9.0.0/16"), id="the repair and one more"),
    ],
)
@pytest.mark.parametrize("configured", [NONE, HALF, BOTH], ids=["none", "half", "both"])
def test_what_apply_would_delete_is_proposed(
    there: tuple[str, ...], configured: HostRoutingConfig
) -> None:
    """Whatever routes of ours are on the host, the proposed configuration repairs it, and has no
    other routes.
    """
    proposal = propose_configuration(configured, with_ours(*there).snapshot())

    assert destinations(proposal.config) == list(REPAIR)
    assert proposal.config.route_overlap == configured.route_overlap
    named: list[str] = []
    for finding in proposal.unconfigured:
        named += finding.facts["unconfigured"]
    for destination in REPAIR:
        if destination in there and destination not in destinations(configured):
            assert destination in named


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


def unconfigured(configured: HostRoutingConfig, snapshot: Snapshot) -> tuple[Finding, ...]:
    """What is found for this configuration and this host."""
    plan = plan_static_routes(configured, snapshot)
    after = check_snapshot(plan.apply_to(snapshot), configured)
    return tuple(find_unconfigured(plan, snapshot, configured, after=after, deleter=DELETER))


@pytest.mark.parametrize(
    ("there", "configured", "named", "lost"),
    [
        pytest.param(REPAIR, HALF, REPAIR[1], REPAIR[1], id="one of two"),
        pytest.param(REPAIR, NONE, f"{REPAIR[0]} and {REPAIR[1]}", CIDR, id="two of two"),
        pytest.param(REPAIR[:1], NONE, REPAIR[0], REPAIR[0], id="one of one"),
        pytest.param(("172.16.9.9/32",), NONE, "172.16.9.9/32", "172.16.9.9", id="one address"),
    ],
)
def test_routes_that_are_needed_and_not_configured(
    there: tuple[str, ...], configured: HostRoutingConfig, named: str, lost: str
) -> None:
    """The finding names them, what escapes without them, and the routes that the configuration
    needs instead.
    """
    [finding] = unconfigured(configured, with_ours(*there).snapshot())
    assert finding.sentence == (
        f"the next boot deletes routes that are not in the configuration ({named}); "
        f"without them, {lost} would escape"
    )
    needed = [route["destination"] for route in finding.facts["routes"]]
    assert sorted([*needed, *destinations(configured)]) == sorted(REPAIR)


@pytest.mark.parametrize(
    ("there", "configured"),
    [
        pytest.param(REPAIR, BOTH, id="all are configured"),
        pytest.param(("10.9.0.0/16",), NONE, id="it is not needed"),
        pytest.param((), NONE, id="there is none"),
    ],
)
def test_no_route_is_needed_and_not_configured(
    there: tuple[str, ...], configured: HostRoutingConfig
) -> None:
    """Then there is nothing to say."""
    assert unconfigured(configured, with_ours(*there).snapshot()) == ()


def test_only_what_is_needed_is_called_not_configured() -> None:
    """`apply` deletes every route of ours that is not configured; a wrong one is not missed."""
    kernel = with_ours(*REPAIR)
    kernel.ip_route("add", Route.to("172.16.9.9/32", dev="ib0", protocol=OURS))
    [finding] = unconfigured(NONE, kernel.snapshot())
    assert finding.facts["unconfigured"] == [*REPAIR]


@pytest.mark.parametrize(
    ("cidr", "right", "wrong"),
    [
        pytest.param(CIDR, "10.0.0.1", "10.9.0.1", id="IPv4"),
        pytest.param("fd16::/48", "fe80::1", "fe80::9", id="IPv6"),
    ],
)
def test_a_configured_route_that_leads_elsewhere(cidr: str, right: str, wrong: str) -> None:
    """It has the key of a route of ours, which is therefore configured, and of the repair's, which
    takes its place.
    """
    kernel = plain_vm()
    kernel.add_link(Link(name="ib0", index=0, type=32))
    kernel.add_address("ib0", "10.9.0.4/24")
    kernel.ip_route("add", Route.to("::/0", dev="eth0", gateway="fe80::1", metric=1))
    kernel.ip_route("add", Route.to(cidr, dev="eth0", gateway=right, protocol=OURS))
    by_ib0 = config(cidr, cidrs=(cidr,), dev="ib0", gateway=wrong)

    proposed = propose_configuration(by_ib0, kernel.snapshot())

    assert proposed.report.escapes
    assert destinations(proposed.config) == [cidr]
    assert proposed.unconfigured == ()


def test_a_destination_is_named_once() -> None:
    """Also if several routes of ours lead there, with several metrics."""
    kernel = with_ours(*REPAIR)
    route = Route.to(REPAIR[0], dev="eth0", gateway="10.0.0.1", metric=50, protocol=OURS)
    kernel.ip_route("add", route)
    [finding] = unconfigured(NONE, kernel.snapshot())
    assert finding.target == f"{REPAIR[0]} and {REPAIR[1]}"


def test_addresses_of_ipv6_that_are_as_small_as_those_of_ipv4() -> None:
    """An escape in IPv4, which is there before and after, hides none of these."""
    kernel = h200(dual_stack=True)
    kernel.ip_route("add", Route.to("::/2", dev="ib0"))
    kernel.ip_route("add", Route.to("::/3", dev="eth0", gateway="fe80::1", protocol=OURS))
    [finding] = unconfigured(config(cidrs=(CIDR, "::/3")), kernel.snapshot())
    assert finding.facts["ranges"] == ["::/3"]


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


def by_hand(snapshot: Snapshot, cidr: str) -> list[Finding]:
    """What is found for this host."""
    expected = HostRoutingConfig(route_overlap=expect(cidr))
    now = check_snapshot(snapshot, expected)
    assert now.verdict == "ok"
    return [*find_by_hand(expected, now=now, pipeline="repair | apply")]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Route.to("10.244.5.0/24", dev="ib0", table=101), id="in another table"),
        pytest.param(
            Route.to("10.130.0.0/16", dev="eth0", gateway="10.0.0.1"), id="inside, not needed"
        ),
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
    ],
)
def test_only_what_was_typed_and_is_needed_is_to_be_configured(other: Route) -> None:
    """Protocol boot says only that no program has named itself: CNIs add such routes, too."""
    [finding] = by_hand(typed(other), "10.128.0.0/9")
    assert finding.facts["unconfigured"] == list(TYPED)

    expected = HostRoutingConfig(route_overlap=expect("10.128.0.0/9"))
    proposed = propose_configuration(expected, typed(other))
    assert destinations(proposed.config) == list(TYPED)
    assert [str(route) for route in proposed.taken_over] == list(TYPED)


@pytest.mark.parametrize(("count", "are_proposed"), [(32, True), (33, False)])
def test_more_routes_than_anybody_types(count: int, *, are_proposed: bool) -> None:
    """A program adds them, and will again."""
    kernel = cni_node()
    kernel.add_link(Link(name="ib0", index=0, type=32))
    kernel.add_address("ib0", "10.128.0.4/16")
    destinations = [f"10.128.1.{number}/32" for number in range(count)]
    for to in destinations:
        kernel.ip_route("add", Route.to(to, dev="eth0", gateway="10.0.0.1", protocol=PROTOCOL_BOOT))
    expected = HostRoutingConfig(route_overlap=expect(*destinations))
    now = check_snapshot(kernel.snapshot(), expected)

    findings = list(find_by_hand(expected, now=now, pipeline="repair | apply"))

    assert now.verdict == "ok"
    assert bool(findings) == are_proposed


def test_one_configuration_repairs_what_escapes_and_takes_typed_routes_over() -> None:
    """Nothing escapes once it is applied, nor after the next boot, which loses the typed routes."""
    expected = HostRoutingConfig(route_overlap=expect("10.128.0.0/9"))
    host = typed(Route.to("10.130.0.0/24", dev="ib0"))

    proposed = propose_configuration(expected, host)

    assert destinations(proposed.config) == ["10.130.0.0/25", "10.130.0.128/25", *TYPED]
    assert [str(route) for route in proposed.taken_over] == list(TYPED)
    for before in (host, without_typed(host)):
        applied = plan_static_routes(proposed.config, before).apply_to(before)
        assert check_snapshot(applied, expected).verdict == "ok"


def test_routes_by_hand_are_said_only_where_nothing_escapes() -> None:
    """What escapes is repaired first, and the repair takes the routes over."""
    expected = HostRoutingConfig(route_overlap=expect("10.128.0.0/9"))
    now = check_snapshot(typed(Route.to("10.130.0.0/24", dev="ib0")), expected)
    assert now.escapes
    assert list(find_by_hand(expected, now=now, pipeline="repair | apply")) == []


def without_typed(host: Snapshot) -> Snapshot:
    """The host without the two routes that repair it."""
    routes = tuple(route for route in host.routes if str(route.prefix) not in TYPED)
    return host._replace(routes=routes)


def test_a_typed_route_that_the_repair_makes_superfluous_is_not_taken_over() -> None:
    """The routes of the repair have its addresses, too."""
    host = without_typed(typed(Route.to("10.128.0.0/11", dev="eth0", gateway="10.0.0.1")))
    proposed = propose_configuration(HostRoutingConfig(route_overlap=expect("10.128.0.0/9")), host)
    assert destinations(proposed.config) == list(TYPED)
    assert proposed.taken_over == ()


def test_typed_routes_that_stand_in_for_each_other() -> None:
    """Each could go alone, and the next boot deletes them all: so as many stay as are needed."""
    first_half = Route.to("10.128.0.0/11", dev="eth0", gateway="10.0.0.1")
    second_half = Route.to("10.160.0.0/11", dev="eth0", gateway="10.0.0.1")
    [with_halves] = by_hand(typed(first_half, second_half), "10.128.0.0/9")
    [without_halves] = by_hand(typed(), "10.128.0.0/9")
    assert with_halves.facts["unconfigured"] == ["10.128.0.0/11", "10.160.0.0/11", TYPED[1]]
    assert with_halves.facts["ranges"] == without_halves.facts["ranges"]


def test_a_typed_route_may_be_wider_than_the_expected_cidr() -> None:
    """It is needed all the same."""
    [finding] = by_hand(typed(), "10.130.0.0/16")
    assert finding.facts["unconfigured"] == ["10.128.0.0/10"]


def test_a_typed_route_that_no_configured_one_equals() -> None:
    """Static routes have no source address: apply would find another route in the place."""
    snapshot = typed()
    routes: list[Route] = []
    for route in snapshot.routes:
        if str(route.prefix) in TYPED:
            routes.append(route._replace(prefsrc=ip_address("10.0.0.4")))
        else:
            routes.append(route)
    assert by_hand(snapshot._replace(routes=tuple(routes)), "10.128.0.0/9") == []


@pytest.mark.parametrize(
    ("cidr", "dev"), [("240.0.0.0/4", "eth0"), ("172.16.0.0/16", "a@b")], ids=["reserved", "a name"]
)
def test_a_typed_route_that_no_configuration_can_have(cidr: str, dev: str) -> None:
    """Neither the proposal nor the check of its host fails because of it."""
    kernel = FakeKernel()
    for index, name in enumerate((dev, "ib0"), 2):
        kernel.add_link(Link(name=name, index=index))
    kernel.add_address(dev, "10.0.0.4/24")
    kernel.ip_route("add", Route.to("0.0.0.0/0", dev=dev, gateway="10.0.0.1", table=100))
    kernel.ip_route("add", Route.to("0.0.0.0/0", dev="ib0", metric=100))
    kernel.add_rule(main_with(0))
    kernel.add_rule(rule(priority=200))
    kernel.ip_route("add", Route.to(cidr, dev="ib0", metric=100))
    kernel.ip_route("add", Route.to(cidr, dev=dev, gateway="10.0.0.1", protocol=PROTOCOL_BOOT))
    expected = HostRoutingConfig(route_overlap=expect(cidr))

    proposed = propose_configuration(expected, kernel.snapshot())

    assert proposed.report.verdict == "ok"
    assert proposed.taken_over == ()


def host_with_two_cards(*routes: Route) -> Snapshot:
    """A host with these routes beside InfiniBand and two cards, each with a default route, of which
    Linux prefers that of eth0.
    """
    addresses = [("eth0", "10.0.0.4/24"), ("eth1", "10.1.0.4/24"), ("ib0", "10.128.0.4/9")]
    defaults = (
        Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", metric=2, protocol=4),
        Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", metric=3, protocol=4),
    )
    return topologies.host(addresses, (*defaults, *routes), links=[IB0])


def test_a_typed_route_by_a_second_default_route_keeps_its_way() -> None:
    """The configured route names its device and its gateway."""
    typed_route = Route.to("172.16.0.0/16", dev="eth1", gateway="10.1.0.1", protocol=PROTOCOL_BOOT)
    host = host_with_two_cards(typed_route)
    section = expect("172.16.0.0/16", expected_devs=["eth1"])

    proposed = propose_configuration(HostRoutingConfig(route_overlap=section), host)

    [static] = proposed.taken_over
    assert str(static.destination) == "172.16.0.0/16"
    assert static.dev == "eth1"
    assert str(static.gateway) == "10.1.0.1"
    assert plan_static_routes(proposed.config, host).changes == ()
    assert propose_configuration(proposed.config, host).config == proposed.config


def test_a_typed_route_by_an_allowed_device_is_taken_over() -> None:
    """It leads away from ib0, by a second default route whose device the configuration allows."""
    typed_route = Route.to("10.192.0.0/10", dev="eth1", gateway="10.1.0.1", protocol=PROTOCOL_BOOT)
    host = host_with_two_cards(typed_route)
    section = expect("10.192.0.0/10", allowed_devs=["eth1"])

    proposed = propose_configuration(HostRoutingConfig(route_overlap=section), host)

    [static] = proposed.taken_over
    assert str(static.destination) == "10.192.0.0/10"
    assert static.dev == "eth1"


def test_a_typed_route_with_a_metric_keeps_it() -> None:
    """Another metric would be another route."""
    kernel = h200()
    halves = ["172.16.0.0/17", "172.16.128.0/17"]
    for half in halves:
        kernel.ip_route("add", Route.to(half, dev="eth0", gateway="10.0.0.1", metric=50))
    snapshot = kernel.snapshot()
    routes = [route._replace(protocol=route.protocol or PROTOCOL_BOOT) for route in snapshot.routes]
    expected = HostRoutingConfig(route_overlap=expect("172.16.0.0/16"))

    proposed = propose_configuration(expected, snapshot._replace(routes=tuple(routes)))

    assert [str(static) for static in proposed.taken_over] == [
        f"{half} metric 50" for half in halves
    ]


def test_a_typed_route_of_ipv6_names_no_metric() -> None:
    """What Linux takes for its own default, a configuration leaves out."""
    kernel = h200(dual_stack=True)
    halves = ["fd16::/49", "fd16:0:0:8000::/49"]
    for half in halves:
        kernel.ip_route("add", Route.to(half, dev="eth0", gateway="fe80::1"))
    expected = HostRoutingConfig(route_overlap=expect("fd16::/48"))

    proposed = propose_configuration(expected, kernel.snapshot())

    assert [str(static) for static in proposed.taken_over] == halves


@pytest.mark.parametrize("gateway", ["10.0.0.9", "10.0.0.5"])
def test_a_route_by_another_gateway_was_not_typed_instead_of_ours(gateway: str) -> None:
    """Flannel leads to other nodes by their addresses, without a protocol. A route of ours in such
    a place would lead to the router.
    """
    assert by_hand(typed(gateway=gateway), "10.128.0.0/9") == []


def test_a_default_route_is_never_to_be_configured() -> None:
    """Also if every address is expected, and the default route has protocol boot."""
    kernel = FakeKernel()
    kernel.add_link(Link(name="eth0", index=2))
    kernel.add_address("eth0", "10.0.0.4/24")
    default = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=PROTOCOL_BOOT)
    kernel.ip_route("add", default)
    assert by_hand(kernel.snapshot(), "0.0.0.0/0") == []


PODS = "10.244.0.0/16"


class TestPacketsOfPods:
    """What only packets of pods lose is told from what plain packets lose."""

    CONFIG = HostRoutingConfig(route_overlap=expect(CIDR, pod_cidrs=[ip_network(PODS)]))
    RULE = rule(PODS)

    def repaired(self, protocol: int) -> Snapshot:
        """Plain packets leave by eth0, and a rule leads those of pods by ib0."""
        kernel = h200()
        for destination in REPAIR:
            repair = Route.to(destination, dev="eth0", gateway="10.0.0.1", protocol=protocol)
            kernel.ip_route("add", repair)
        kernel.ip_route("add", ELSEWHERE)
        kernel.add_rule(self.RULE)
        return kernel.snapshot()

    def test_routes_of_ours_are_needed_where_pods_escape_anyway(self) -> None:
        """The finding names what plain packets would lose."""
        [finding] = unconfigured(self.CONFIG, self.repaired(OURS))
        assert finding.facts["unconfigured"] == [*REPAIR]
        assert finding.facts["ranges"] == [CIDR]

    def test_typed_routes_are_taken_over_where_pods_escape_anyway(self) -> None:
        """Plain packets would escape after the next boot."""
        proposed = propose_configuration(self.CONFIG, self.repaired(PROTOCOL_BOOT))
        assert [str(route) for route in proposed.taken_over] == [*REPAIR]

    def test_pods_escape_before_where_plain_packets_do(self) -> None:
        """The report does not name those of pods there. So it is nothing new that they still
        escape without a route of ours by which all did.
        """
        kernel = plain_vm()
        kernel.add_link(IB0)
        kernel.ip_route("add", Route.to("172.16.5.0/24", dev="ib0", protocol=OURS))
        kernel.ip_route("add", ELSEWHERE)
        kernel.add_rule(main_with(0, priority=90))
        kernel.add_rule(self.RULE)
        host = kernel.snapshot()
        cidr = expect("172.16.5.0/24", pod_cidrs=[ip_network(PODS)])
        assert unconfigured(HostRoutingConfig(route_overlap=cidr), host) == ()


def addresses_of(ranges: Iterable[Escape | Unrepairable]) -> set[int]:
    """Every address of these ranges."""
    addresses: set[int] = set()
    for each in ranges:
        addresses.update(range(each.first, each.last + 1))
    return addresses


def escaping(report: CheckReport) -> set[int]:
    """The addresses that escape."""
    return addresses_of(report.escapes)


def expecting_all(node: tuple[int, Snapshot]) -> HostRoutingConfig:
    """The check of all that a random node is about; no route is configured."""
    family, _ = node
    return HostRoutingConfig(route_overlap=expect(str(block_of(family))))


@given(nodes())
def test_what_apply_deletes_is_named_exactly_if_it_is_needed(node: tuple[int, Snapshot]) -> None:
    """Routes of ours are named if and only if packets escape after apply to an address to which
    they do not escape now. Plain packets that escape now may stand for others.
    """
    family, snapshot = node
    block = block_of(family)
    section = expect(str(block), pod_cidrs=[block.to_network()])
    config = HostRoutingConfig(route_overlap=section)
    plan = plan_static_routes(config, snapshot)
    now = check_snapshot(snapshot, config)
    after = check_snapshot(plan.apply_to(snapshot), config)
    lost: set[int] = set()
    for escape in after.escapes:
        known = [each for each in now.escapes if each.packet in {FROM_HOST, escape.packet}]
        lost |= addresses_of([escape]) - addresses_of(known)

    findings = list(find_unconfigured(plan, snapshot, config, after=after, deleter=DELETER))

    event(f"needs routes of ours: {bool(lost)}")
    assert bool(findings) is bool(lost)


@given(nodes())
def test_a_proposal_repairs_all_that_routes_can_repair(node: tuple[int, Snapshot]) -> None:
    """After the proposed configuration was applied, nothing escapes but what no route repairs, and
    nothing is to be added: neither to the host nor to the configuration.
    """
    _, snapshot = node
    config = expecting_all(node)
    without_ours = plan_static_routes(config, snapshot).apply_to(snapshot)
    unrepairable: set[int] = set()
    for family_report in check_snapshot(without_ours, config).families:
        unrepairable |= addresses_of(family_report.repair.unrepairable)

    proposed = propose_configuration(config, snapshot).config

    plan = plan_static_routes(proposed, snapshot)
    assert plan.conflicts == ()
    assert plan.waiting == ()
    report = check_snapshot(plan.apply_to(snapshot), proposed)
    assert escaping(report) <= unrepairable
    assert report.routes == ()
    assert propose_configuration(proposed, snapshot).config == proposed
