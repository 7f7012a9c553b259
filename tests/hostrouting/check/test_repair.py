"""hostrouting.check.repair: hosts on which a repair was too big, too wide, or had a wrong reason."""

from functools import partial

import pytest

from hostrouting.check.judge import Judge
from hostrouting.check.parts import find_parts
from hostrouting.check.repair import prove
from hostrouting.check.results import CheckReport, Grade, Opinion, Repair
from hostrouting.check.way_out import WayOut, find_way_out
from hostrouting.config.settings import RouteOverlapConfig
from hostrouting.fib.engine import Fib
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import OURS, SCOPE_UNIVERSE, TABLE_MAIN, NextHop, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link
from tests.support.topologies import checked, vm_with

CIDR = "172.16.0.0/16"
IB0 = Link(name="ib0", index=9, type=32)
ETH1 = Link(name="eth1", index=10)
ELSEWHERE = Route.to("0.0.0.0/0", dev="ib0", table=100)
node = partial(vm_with, links=(IB0, ETH1))
"""A plain VM with these things."""


def main_with(suppressed: int, *, priority: int = 100, to: str | None = None) -> Rule:
    """A rule that looks up table main, and suppresses its wide routes."""
    dst = Prefix.parse(to) if to else None
    return Rule(
        family=4,
        priority=priority,
        table=TABLE_MAIN,
        suppress_prefixlength=suppressed,
        dst=dst,
    )


def destinations(report: CheckReport) -> list[str]:
    """The destinations of the repair's routes."""
    return [str(route.destination) for route in report.routes]


def reasons(report: CheckReport) -> list[tuple[str, str]]:
    """Why ranges cannot be repaired: the reason and the words."""
    [family] = report.families
    return [(unsafe.why.reason, unsafe.why.cause) for unsafe in family.repair.unrepairable]


def test_a_later_rule_for_table_main_takes_a_wide_route() -> None:
    """What the first rule for table main suppresses is used by the second one."""
    report = checked(node(Route.to("10.0.0.0/8", dev="ib0"), rules=(main_with(16),)), "10.0.0.0/8")
    assert destinations(report) == ["10.0.0.0/9", "10.128.0.0/9"]
    assert reasons(report) == []


def test_a_later_rule_for_table_main_would_divert_what_is_fine() -> None:
    """Packets that an allowed device has behind table main stay there, although the first rule for
    table main would suppress the route that takes them.
    """
    rules = (
        main_with(16, to="10.64.0.0/10"),
        Rule(family=4, priority=33000, table=100, dst=Prefix.parse("10.64.0.0/10")),
    )
    throw = Route(Prefix.parse("10.0.0.0/8"), type="throw")
    allowed = Route.to("10.0.0.0/8", dev="eth1", table=100)
    report = checked(node(throw, allowed, rules=rules), "10.0.0.0/8", allowed_devs=["eth1"])
    assert destinations(report) == ["10.0.0.0/10", "10.128.0.0/9"]


def test_what_leaves_rightly_already_needs_no_way_around() -> None:
    """A VPN takes all but what a rule excludes from it: that leaves by the uplink's default route,
    and may as well leave by a route of ours with the same next hop.
    """
    excluded = Rule(family=4, priority=150, table=TABLE_MAIN, dst=Prefix.parse("10.1.2.0/24"))
    vpn = Rule(family=4, priority=200, table=100)
    report = checked(
        node(ELSEWHERE, rules=(main_with(0), excluded, vpn)), "10.1.0.0/16", expected_devs=["eth0"]
    )
    assert destinations(report) == ["10.1.0.0/16"]
    assert reasons(report) == []


def test_a_refusal_that_no_rule_suppresses() -> None:
    """Linux suppresses no refusal, but the longer route that hides it: so a later rule has that
    route. If a rule for another table decides before, no route is proposed.
    """
    refusal = Route(Prefix.parse("10.0.0.0/15"), type="blackhole", protocol=4)
    report = checked(node(refusal, rules=(main_with(16),)), "10.0.0.0/15")
    assert destinations(report) == ["10.0.0.0/16", "10.1.0.0/16"]
    vpn = Rule(family=4, priority=200, table=100)
    report = checked(node(refusal, ELSEWHERE, rules=(main_with(16), vpn)), "10.0.0.0/15")
    cause = f"[rule {main_with(16)}] does not use every route of table main"
    assert (destinations(report), reasons(report)) == ([], [("earlier-rule", cause)])


def test_a_rule_that_suppresses_every_route_is_the_cause() -> None:
    """No route is too specific there."""
    host = node(Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", table=253))
    rules = (*(rule for rule in host.rules if rule.table != TABLE_MAIN), main_with(32))
    throw = Route(Prefix.parse(CIDR), type="throw", table=253)
    report = checked(host.with_routes([throw])._replace(rules=rules))
    assert reasons(report) == [("earlier-rule", "no rule uses every route of table main")]


@pytest.mark.parametrize("wrong", ["172.16.0.0/16", "172.16.9.9/32"])
def test_a_route_of_ours_by_another_device_is_replaced(wrong: str) -> None:
    """The new route has the key of the wrong one, so it needs no longer prefix."""
    ours = Route.to(wrong, dev="ib0", protocol=OURS)
    report = checked(node(Route.to("172.16.0.0/15", dev="eth1"), ours), wrong)
    assert destinations(report) == [wrong]
    assert reasons(report) == []


def test_a_holder_of_the_last_key_is_named() -> None:
    """A route that Linux does not use now holds the key that a route of ours would need."""
    dead = Route(Prefix.parse("172.16.5.1/32"), (NextHop("eth1", dead=True),), protocol=4)
    report = checked(node(Route.to(CIDR, dev="ib0"), dead), "172.16.5.1/32")
    assert reasons(report) == [("host-route", f"[{dead}] is as specific as a route can be")]


def test_a_throw_to_one_address_is_named() -> None:
    """A throw decides nothing, and is yet the route that no other comes before."""
    throw = Route(Prefix.parse("172.16.5.1/32"), type="throw")
    report = checked(node(throw), "172.16.5.1/32")
    assert reasons(report) == [("host-route", f"[{throw}] is as specific as a route can be")]


@pytest.mark.parametrize("captures", [0, 257])
def test_what_no_route_can_repair_keeps_its_reason_without_routes(captures: int) -> None:
    """Whether a gateway is missing, or too many routes would be needed, does not matter there."""
    tunnel = Link(name="wg1", index=12, kind="wireguard", type=65534)
    ways = [Route.to("172.16.0.0/24", type="local", dev="lo", table=255)]
    ways += [Route.to("172.30.0.0/16", dev="ib0"), Route.to("172.20.1.1/32", dev="ib0")]
    if captures:
        first = int(as_ip("172.24.0.0"))
        for at in range(captures):
            ways.append(Route(Prefix.around(4, first + 512 * at, 24), (NextHop("ib0"),)))
    else:
        ways.append(Route.to("0.0.0.0/0", dev="wg1"))
    rule = Rule(family=4, priority=50, action="prohibit", dst=Prefix.parse("172.17.0.0/16"))
    report = checked(
        node(*ways, rules=(rule,), links=(IB0, tunnel)),
        "172.16.0.0/24",
        "172.17.0.0/16",
        "172.20.1.1/32",
        "172.24.0.0/13",
    )
    by_route = {reason for reason, _ in reasons(report)}
    general = "too-many" if captures else "no-gateway"
    [family] = report.families
    said = {unsafe.first: unsafe.why.reason for unsafe in family.repair.unrepairable}
    assert said[int(as_ip("172.16.0.0"))] == "earlier-rule"
    assert said[int(as_ip("172.17.0.0"))] == "earlier-rule"
    assert said[int(as_ip("172.20.1.1"))] == "host-route"
    assert said[int(as_ip("172.30.0.0"))] == general
    assert by_route == {"earlier-rule", "host-route", general}


def test_the_way_out_is_a_device_that_can_be_configured() -> None:
    """Of several expected devices, the first whose name a configuration can have is used."""
    odd = Link(name="a@b", index=11)
    ways = [
        Route.to("0.0.0.0/0", dev="eth1", metric=10),
        Route.to("0.0.0.0/0", dev="a@b", metric=50),
    ]
    judge = Judge(Fib(vm_with(*ways, links=(ETH1, odd)), 4), RouteOverlapConfig())
    judge.uplinks = judge.uplinks._replace(devs=frozenset({"a@b", "eth0"}), doubtful=frozenset())
    way_out = find_way_out(judge)
    assert isinstance(way_out, WayOut)
    assert way_out.dev == "eth0"


def judge_of(*routes: Route) -> Judge:
    """The judge of a VM with these routes."""
    return Judge(Fib(node(*routes), 4), RouteOverlapConfig())


def test_plain_packets_that_would_escape_are_seen_beside_others_that_escape_already() -> None:
    """Each end is compared with itself, and not with the worst."""
    judge = judge_of()
    block = Prefix.parse("172.16.0.0/24")
    lost = Opinion(Grade.ESCAPE, "overlap", "ib0")
    parts = [part._replace(others=(lost,)) for part in find_parts(judge, block.first, block.last)]
    assert [part.plain_grade for part in parts] == [Grade.FINE]
    bad = Route(block, (NextHop("ib0"),), protocol=OURS)
    assert prove(judge, Repair((bad,)), [block], parts, {}).resolved == ()


def test_packets_that_would_still_escape_are_not_called_doubtful() -> None:
    """The reason says what the proof has seen."""
    block = Prefix.parse("172.16.0.0/24")
    judge = judge_of(Route.to(CIDR, dev="ib0"))
    parts = list(find_parts(judge, block.first, block.last))
    bad = Route(block, (NextHop("ib0"),), protocol=OURS)
    [unsafe] = prove(judge, Repair((bad,)), [block], parts, {}).unrepairable
    assert unsafe.why.cause == "with these routes, packets there would still escape"


@pytest.mark.parametrize(
    ("connected", "repair"),
    [("2001:db8::/32", []), ("2001:db8::/64", ["2001:db8::/33", "2001:db8:8000::/33"])],
)
def test_routes_that_lead_to_their_own_gateway(connected: str, repair: list[str]) -> None:
    """Linux refuses an IPv6 route whose gateway another route with a gateway leads to. So a repair
    in two halves around the gateway could not be added, unless a longer route still leads to it.
    """
    routes = (
        Route.to("::/0", dev="eth0", gateway="2001:db8::1", metric=1024),
        Route(Prefix.parse(connected), (NextHop("eth0"),), metric=256, protocol=2),
        Route(Prefix.parse("2001:db8::/32"), (NextHop("ib0"),), metric=100),
    )
    cause = (
        "a repair needs a destination without the gateway 2001:db8::1, which Linux would no longer "
        "reach directly"
    )
    report = checked(node(*routes), "2001:db8::/32")
    expected = [] if repair else [("no-gateway", cause)]
    assert destinations(report) == repair
    assert [why for why in reasons(report) if why[0] == "no-gateway"] == expected


def test_connections_that_escape_alone_have_a_reason() -> None:
    """Routes are looked for where plain packets escape. Where only connections do, this is said."""
    first_lookup = Rule(family=4, priority=100, table=100, src=Prefix.parse("0.0.0.0/32"))
    by_source = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", table=100)
    lost = Route.to("172.16.5.0/24", dev="ib0")
    report = checked(node(by_source, lost, rules=(first_lookup,)))
    cause = "for connections from 10.0.0.4, routes are proposed only where plain packets escape"
    assert reasons(report) == [("not-proven", cause)]


def test_an_ipv4_gateway_that_linux_refuses() -> None:
    """Linux looks for a gateway only by routes whose scope is link or host."""
    host = node(Route.to(CIDR, dev="ib0"))
    others = [route for route in host.routes if route.prefix != Prefix.parse("10.0.0.0/24")]
    near = Route(Prefix.parse("10.0.0.1/32"), (NextHop("eth0"),), scope=SCOPE_UNIVERSE)
    report = checked(host._replace(routes=(*others, near)))
    cause = "a repair needs an address or route on eth0 that reaches the gateway 10.0.0.1 directly"
    assert (destinations(report), reasons(report)) == ([], [("no-gateway", cause)])


@pytest.mark.parametrize("is_on_link", [True, False])
def test_ipv6_gateways_that_linux_refuses(*, is_on_link: bool) -> None:
    """No route is proposed that Linux refuses because of the way to its gateway: by another device
    to one that is said to be on the link, else by another gateway.
    """
    hop = NextHop("eth0", as_ip("fd01::1"), onlink=is_on_link)
    routes = [
        Route(Prefix.parse("::/0"), (hop,), metric=1024),
        Route.to("fd00::/8", dev="ib0", gateway="fe80::9", metric=1024),
    ]
    if not is_on_link:
        routes.append(Route.to("fd01::/64", dev="eth0", metric=256))
        routes.append(Route.to("fd01::1/128", dev="eth0", gateway="fe80::1", metric=1024))
    report = checked(node(*routes), "fd44::/16")
    cause = "a repair needs an address or route on eth0 that reaches the gateway fd01::1 directly"
    assert (destinations(report), reasons(report)) == ([], [("no-gateway", cause)])


@pytest.mark.parametrize(
    ("source", "mtu", "lost"),
    [
        ("10.0.0.4", None, []),  # as of a DHCP client: Linux would choose it anyway
        ("10.255.0.4", 1500, ["src 10.255.0.4 mtu 1500"]),
        (None, 9000, ["mtu 9000"]),
    ],
)
def test_what_the_default_route_has_and_a_static_route_cannot_have(
    source: str | None, mtu: int | None, lost: list[str]
) -> None:
    """With BGP to the host, only the address of lo is known to others: without it, nothing comes
    back. So this is a cost of the repair.
    """
    host = node(Route.to(CIDR, dev="ib0"))
    prefsrc = None if source is None else as_ip(source)
    [default] = [route for route in host.routes if route.prefix.length == 0]
    others = (route for route in host.routes if route.prefix.length)
    routes = (default._replace(prefsrc=prefsrc, mtu=mtu), *others)
    [family] = checked(host._replace(routes=routes)).families
    assert [cost.lost for cost in family.repair.costs] == lost
