"""hostrouting.routes.plan: the ordered steps from what is to what is wanted."""

import json
import re
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from hostrouting.config.settings import HostRoutingConfig, ProbeRewriteConfig, StaticRoute
from hostrouting.errors import RouteConflict
from hostrouting.model.prefix import IPV4, IPV6, Prefix, as_ip
from hostrouting.model.route import (
    DEFAULT_METRIC,
    OURS,
    PROTOCOL_RA,
    SCOPE_LINK,
    TABLE_LOCAL,
    NextHop,
    Route,
    RouteKey,
    bare,
    deletion_command,
)
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, Link, Snapshot
from hostrouting.routes.plan import plan_static_routes, reply_routes
from hostrouting.routes.steps import RoutePlan
from hostrouting.routes.uplink import TO_PIN
from hostrouting.testing import h200, plain_vm
from tests.support.examples import scaled
from tests.support.own_routes import (
    FOREIGN,
    HOPS,
    PREFIXES,
    configured,
    entry,
    fake,
    hosts,
    put,
    wishes,
)
from tests.support.sections import static

ORDER = ["conflict", "keep", "add", "delete"]


@given(hosts(), wishes(), st.data())
@settings(max_examples=scaled(200))
def test_what_every_plan_is(
    there: list[Route], desired: list[StaticRoute], data: st.DataObject
) -> None:
    """A plan adds before it deletes, changes only our routes, and leaves none of ours without a
    reason; the order of the configuration does not matter.
    """
    kernel = fake()
    put(kernel, there)
    snapshot = kernel.snapshot()
    plan = plan_static_routes(configured(*desired), snapshot)
    after = plan.apply_to(snapshot)

    actions = [step.action for step in plan.steps]
    assert actions == sorted(actions, key=ORDER.index)
    for change in plan.changes:
        assert change.route.protocol == OURS
        assert change.route.prefix.family == IPV4 or len(change.route.next_hops) == 1
    assert Counter(of_others(after)) == Counter(of_others(snapshot))
    settled = {step.route.key for step in plan.steps if step.action != "delete"}
    settled |= {waiting.route.key for waiting in plan.waiting}
    assert {route.key for route in after.routes if route.protocol == OURS} <= settled

    in_another_order = configured(*data.draw(st.permutations(desired)))
    assert set(plan_static_routes(in_another_order, snapshot).steps) == set(plan.steps)


@given(hosts(), wishes())
@settings(max_examples=scaled(200))
def test_once_applied_a_plan_has_nothing_to_do(
    there: list[Route], desired: list[StaticRoute]
) -> None:
    """What waited, and what was a conflict, still is."""
    kernel = fake()
    put(kernel, there)
    snapshot = kernel.snapshot()
    plan = plan_static_routes(configured(*desired), snapshot)
    again = plan_static_routes(configured(*desired), plan.apply_to(snapshot))
    assert again.changes == ()
    assert again.waiting == plan.waiting
    assert [step.route for step in again.conflicts] == [step.route for step in plan.conflicts]


def of_others(snapshot: Snapshot) -> list[Route]:
    """The routes that are not ours."""
    return [route for route in snapshot.routes if route.protocol != OURS]


# Each way in which a key can be held: the family; the routes that are there, with the letter of
# each next hop and the owner; the next hops of the default route, which are those of the wanted
# route; and the steps.
HELD = """\
4  -                    A   add A
4  A:ours               A   keep A
4  A:foreign            A   keep A
4  B:foreign            A   conflict A
4  B:ours               A   add A, delete B
4  B:ours C:ours        A   add A, delete C, delete B
4  B:ours A:ours        A   keep A, delete B
4  B:ours C:foreign     A   conflict A
4  B:ours A:foreign     A   keep A, delete B
4  A:ours B:foreign     A   keep A
4  B:foreign A:ours     A   conflict A
4  B:foreign A:ours     -   delete A
6  BA:ours              AB  keep A, keep B
6  A:ours               AB  keep A, add B
6  AC:ours              AB  keep A, add B, delete C
6  CA:ours D:ours       AB  keep A, add B, delete D, delete C
6  AB:ours              A   keep A, delete B
6  BA:foreign           AB  keep A, keep B
6  AB:ours              -   delete B, delete A
6  AB:foreign           A   conflict A
6  A:foreign            AB  conflict AB
6  A:foreign D:foreign  A   keep A
6  D:ours               A   add A, delete D
6  D:ours B:foreign     A   conflict A
6  D:ours B:ours        A   add A, delete B, delete D
"""
LETTERS = "ABCD"  # of the next hops; D is a device without a gateway
OWNERS = {"ours": OURS, "foreign": FOREIGN}


def route_by(letters: str, family: int, protocol: int) -> Route:
    """A route to the wanted destination with these next hops."""
    hops = [HOPS[family][LETTERS.index(letter)] for letter in letters]
    route = entry(PREFIXES[family][0], hops[0], protocol=protocol)
    return route._replace(next_hops=tuple(hops))


def in_letters(route: Route) -> str:
    """The next hops of the route."""
    hops = HOPS[route.prefix.family]
    return "".join(LETTERS[hops.index(hop)] for hop in route.next_hops)


@pytest.mark.parametrize("row", HELD.splitlines())
def test_what_holds_a_key(row: str) -> None:
    """A row of the table: what is there and what is wanted lead to the steps. In IPv6, each next
    hop has its own step.
    """
    number, held, wanted, steps = re.split(r"  +", row)
    family = int(number)
    there: list[Route] = []
    desired: list[StaticRoute] = []
    if wanted != "-":
        right = route_by(wanted, family, protocol=9)
        there.append(right._replace(prefix=Prefix(family, 0, 0)))
        desired.append(static(right.prefix))
    if held != "-":
        for word in held.split():
            letters, owner = word.split(":")
            there.append(route_by(letters, family, OWNERS[owner]))

    host = fake().snapshot().with_routes(there)
    plan = plan_static_routes(configured(*desired), host)

    seen = [f"{step.action} {in_letters(step.route)}" for step in plan.steps]
    assert ", ".join(seen) == steps


def test_what_an_operator_reads(snapshot: object) -> None:
    """A plan reads as a diff: conflicts, kept, added and deleted routes, and those that wait while
    ours stay.
    """
    ours = [
        Route.to("10.1.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=OURS),
        Route.to("10.2.0.0/16", dev="eth0", gateway="10.0.0.7", protocol=OURS),
        Route.to("10.3.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=OURS),
        Route.to("10.5.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=OURS),
    ]
    wanted = [
        static("10.4.0.0/16", metric=9),
        static("10.2.0.0/16"),
        static("10.1.0.0/16"),
        static("10.5.0.0/16", dev="x"),
        static("10.6.0.0/16", dev="x"),
        static("10.7.0.0/16", dev="y"),
        static("172.16.0.0/16"),
    ]
    plan = plan_static_routes(configured(*wanted), h200().snapshot().with_routes(ours))
    findings = [json.dumps(finding.to_mapping()) for finding in plan.findings()]
    assert snapshot == "\n".join([str(plan), *findings])


def test_a_plan_of_nothing() -> None:
    """It says that nothing is configured, and not that all is well."""
    assert str(RoutePlan()) == "no routes are configured, and hostrouting has added none"


@pytest.mark.parametrize(
    ("wish", "edit"),
    [
        (static("172.16.0.0/16"), "172.16.0.0/17 and 172.16.128.0/17 instead of 172.16.0.0/16"),
        (static("172.16.0.0/16", metric=100), 'another "metric" for 172.16.0.0/16'),
        (static("172.16.0.9/32", metric=100), 'another "metric" for 172.16.0.9/32'),
        (static("172.16.0.9/32"), ""),
        (static("2001:db8:7::/48"), 'another "metric" for 2001:db8:7::/48'),
        (static("2001:db8:7::9/128", metric=2), 'another "metric" for 2001:db8:7::9/128'),
        (static("fd07::/16", metric=1), "fd07::/17 and fd07:8000::/17 instead of fd07::/16"),
        (static("2001:db8:7::9/128", metric=1), ""),
    ],
    ids=str,
)
def test_ways_out_of_a_conflict(wish: StaticRoute, edit: str) -> None:
    """A lower metric if there is one, else halves if there are any; or the route is deleted."""
    key = wish.key
    theirs = Route.to(key.prefix, dev="ib0", protocol=3, metric=key.metric)

    with pytest.raises(RouteConflict) as caught:
        plan_static_routes(configured(wish), ipv6_host(theirs)).require_no_conflict()
    [finding] = caught.value.findings
    command = f"as root: {deletion_command(theirs)}"
    delete = f"if nothing needs that route, delete it (a program may add it again), {command}"
    if edit:
        assert str(finding.remedy).startswith(f"write {edit} ")
        assert str(finding.remedy).endswith(f"; or, {delete}")
    else:
        assert str(finding.remedy) == f"no route can be more specific; {delete}"


SIX_PLACE = "2001:db8:7::/48"
THEIR_NETWORK = Route.to("172.16.0.0/16", dev="ib0", protocol=4)


def remedy_beside(there: list[Route], wanted: list[StaticRoute]) -> str:
    """What to do about the conflict with the network of another program, beside these routes."""
    config = configured(static("172.16.0.0/16"), *wanted)
    [conflict] = plan_static_routes(config, ipv6_host(THEIR_NETWORK, *there)).conflicts
    assert str(conflict.remedy).endswith(f"as root: {deletion_command(THEIR_NETWORK)}")
    return str(conflict.remedy)


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        pytest.param(
            [Route.to("172.16.128.0/17", dev="ib0", protocol=4)], [], id="another program's"
        ),
        pytest.param(
            [Route.to("172.16.0.0/17", dev="ib0", protocol=4, metric=7)], [], id="another metric"
        ),
        pytest.param([], [static("172.16.0.0/17", metric=7)], id="configured"),
    ],
)
def test_halves_that_are_not_free(there: list[Route], wanted: list[StaticRoute]) -> None:
    """Halves are proposed only if both can be installed: no way leads to the next conflict."""
    assert "172.16.0.0/17" not in remedy_beside(there, wanted)


@pytest.mark.parametrize(
    "half",
    [
        pytest.param(
            Route.to("172.16.0.0/17", dev="ib0", protocol=OURS, metric=7), id="not configured"
        ),
        pytest.param(
            Route.to("172.16.0.0/17", dev="ib0", protocol=4, table=100), id="in another table"
        ),
    ],
)
def test_halves_that_are_free(half: Route) -> None:
    """Neither a route of ours that goes, nor a route in another table is in the way."""
    assert "172.16.0.0/17 and 172.16.128.0/17" in remedy_beside([half], [])


def test_several_rivals() -> None:
    """Each is named, with a command for it: one conflict tells all."""
    first = entry(PLACE, HOPS[IPV4][1], protocol=FOREIGN)
    second = entry(PLACE, HOPS[IPV4][3], protocol=FOREIGN)
    host = host_with(DEFAULT, first, BY_A, second)
    [conflict] = plan_static_routes(configured(static(PLACE)), host).conflicts
    assert conflict.rivals == (first, second)
    assert f": [{first}], [{second}]" in conflict.finding.sentence
    deletions = f"{deletion_command(first)} && {deletion_command(second)}"
    assert str(conflict.remedy).endswith(deletions)


@pytest.mark.parametrize(
    ("theirs", "is_of_an_address"),
    [
        pytest.param(Route.to(SIX_PLACE, dev="ib0", protocol=2), True, id="a network"),
        pytest.param(Route.to(SIX_PLACE, dev="ib0", protocol=4), False, id="another program's"),
        pytest.param(
            Route.to(SIX_PLACE, dev="lo", protocol=2, type="unreachable"), False, id="Cilium's"
        ),
        pytest.param(
            Route(Prefix.parse(SIX_PLACE), (NextHop("ib0"), NextHop("ib1")), protocol=2),
            False,
            id="several next hops",
        ),
    ],
)
def test_a_rival_that_linux_has_added(theirs: Route, *, is_of_an_address: bool) -> None:
    """The remedy warns of a network of this host; a route that refuses packets is not one."""
    wish = static(SIX_PLACE, metric=7)
    host = ipv6_host(theirs._replace(metric=7))
    [conflict] = plan_static_routes(configured(wish), host).conflicts
    warning = "Linux has this route from an address of ib0: "
    assert str(conflict.remedy).startswith(warning) is is_of_an_address
    assert ("from an address" in str(conflict.remedy)) is is_of_an_address


ROUTER = NextHop("eth0", gateway=as_ip("10.0.0.1"))
OTHER_ROUTER = NextHop("eth0", gateway=as_ip("10.0.0.2"))
GLOBAL_ROUTER = NextHop("eth0", gateway=as_ip("fd00::1"))
NEAR_ROUTER = NextHop("eth0", gateway=as_ip("fe80::1"))
OTHER_NEAR_ROUTER = NextHop("eth0", gateway=as_ip("fe80::2"))


@pytest.mark.parametrize(
    ("held", "of_default", "actions"),
    [
        pytest.param(
            [ROUTER._replace(linkdown=True, dead=True)],
            [ROUTER],
            ["keep"],
            id="IPv4: not whether it is down",
        ),
        pytest.param(
            [GLOBAL_ROUTER],
            [GLOBAL_ROUTER._replace(onlink=True)],
            ["keep"],
            id="IPv6: not what Linux does not keep",
        ),
        pytest.param(
            [ROUTER, OTHER_ROUTER], [ROUTER, OTHER_ROUTER], ["keep"], id="IPv4: equal weights"
        ),
        pytest.param(
            [ROUTER, OTHER_ROUTER],
            [ROUTER, OTHER_ROUTER._replace(weight=3)],
            ["add", "delete"],
            id="IPv4: another weight",
        ),
        pytest.param(
            [NEAR_ROUTER, OTHER_NEAR_ROUTER],
            [NEAR_ROUTER, OTHER_NEAR_ROUTER._replace(weight=3)],
            ["keep", "keep"],
            id="IPv6: not the weights",
        ),
    ],
)
def test_what_is_compared_of_next_hops(
    held: list[NextHop], of_default: list[NextHop], actions: list[str]
) -> None:
    """Whether our route has the next hops of the default route, as far as they matter."""
    gateway = held[0].gateway
    assert gateway is not None
    family = gateway.version
    prefix = PREFIXES[family][0]
    ours = Route(prefix, tuple(held), protocol=OURS, metric=DEFAULT_METRIC[family])
    default = Route(Prefix(family, 0, 0), tuple(of_default))
    host = h200().snapshot()
    without_default = [route for route in host.routes if route.prefix.length]
    host = host._replace(routes=(*without_default, ours, default))

    plan = plan_static_routes(configured(static(prefix)), host)

    assert [step.action for step in plan.steps] == actions


def test_a_nexthop_object_with_an_on_link_leg() -> None:
    """In IPv6 it becomes entries that are not joined; another program's route is a conflict."""
    hops = (NextHop("eth0", gateway=as_ip("fe80::1")), NextHop("eth0"))
    default = Route(Prefix(IPV6, 0, 0), hops, metric=512, nexthop_id=7)
    theirs = entry(PREFIXES[IPV6][0], HOPS[IPV6][0], protocol=FOREIGN)
    plan = plan_static_routes(configured(static(theirs.prefix)), host_with(default, theirs))
    assert [step.action for step in plan.steps] == ["conflict"]


DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=16)
BY_TUNNEL = Route.to("0.0.0.0/0", dev="tun0", gateway="10.8.0.1", protocol=3)
TUNNEL = Link(name="tun0", index=9, type=65534, kind="tun")
OF_ETH1 = Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", protocol=16)
IN_DOUBT = {
    "missing": [],
    "of a tunnel": [BY_TUNNEL],
    "hidden by a tunnel": [BY_TUNNEL, DEFAULT],
    "equal": [OF_ETH1, DEFAULT],
}
PLACE = PREFIXES[IPV4][0]
BY_A = entry(PLACE, HOPS[IPV4][0])
BY_B = entry(PLACE, HOPS[IPV4][1])
BY_DEV = entry(PLACE, HOPS[IPV4][3])


def host_with(*routes: Route, links: tuple[Link, ...] = ()) -> Snapshot:
    """A host with eth0 and eth1, a tunnel and ib0, and these routes."""
    kernel = fake()
    for link in (TUNNEL, Link(name="ib0", index=10, type=ARPHRD_INFINIBAND), *links):
        kernel.add_link(link)
    there = kernel.snapshot()
    return there._replace(routes=(*routes, *there.routes))


def dead(route: Route) -> Route:
    """The route on a device without a carrier where Linux passes over such routes."""
    [hop] = route.next_hops
    return route._replace(next_hops=(hop._replace(dead=True, linkdown=True),))


ONE_LEG_DEAD = BY_A._replace(next_hops=(*dead(BY_A).next_hops, *BY_B.next_hops))
SIX = PREFIXES[IPV6][0]
SIX_BY_A = entry(SIX, HOPS[IPV6][0])
SIX_BY_B = entry(SIX, HOPS[IPV6][1])
OTHERS = BY_B._replace(protocol=FOREIGN)
OTHERS_SIX = SIX_BY_B._replace(protocol=FOREIGN)
HIGH = OTHERS_SIX._replace(preference="high")
LOW = OTHERS_SIX._replace(preference="low")
ADVERTISED = SIX_BY_A._replace(protocol=PROTOCOL_RA, expired=False)


@pytest.mark.parametrize(
    ("there", "action"),
    [
        pytest.param([dead(BY_A)], "keep", id="ours is dead"),
        pytest.param([dead(BY_A), OTHERS], "conflict", id="ours is dead before another one"),
        pytest.param([dead(OTHERS), BY_A], "keep", id="a dead one before ours"),
        pytest.param([dead(BY_A), dead(OTHERS)], "keep", id="both are dead"),
        pytest.param([SIX_BY_A, HIGH], "conflict", id="a preferred one behind ours"),
        pytest.param([LOW, SIX_BY_A], "keep", id="one that is not preferred before ours"),
        pytest.param([LOW], "conflict", id="one that is not preferred alone"),
        pytest.param([ADVERTISED], "keep", id="advertised, with the wanted next hop"),
        pytest.param(
            [ADVERTISED._replace(preference="high")], "keep", id="advertised and preferred"
        ),
        pytest.param([ADVERTISED._replace(expired=True)], "conflict", id="advertised and expired"),
        pytest.param(
            [OTHERS_SIX._replace(expired=True), SIX_BY_A], "keep", id="an expired one before ours"
        ),
        pytest.param([HIGH._replace(expired=True), SIX_BY_A], "keep", id="expired and preferred"),
    ],
)
def test_which_route_of_a_key_linux_uses(there: list[Route], action: str) -> None:
    """Not one that is dead or has expired; in IPv6, the one that its router prefers."""
    default = Route.to("::/0", dev="eth0", gateway="fd00:99::1", metric=1024, protocol=9)
    wish = static(there[0].prefix)
    plan = plan_static_routes(configured(wish), host_with(DEFAULT, default, *there))
    assert [step.action for step in plan.steps] == [action]


BY_BOTH = BY_A._replace(next_hops=(*BY_A.next_hops, *BY_B.next_hops))
OF_ANOTHER = BY_A._replace(protocol=FOREIGN)


@pytest.mark.parametrize(
    ("there", "actions"),
    [
        ([BY_A, BY_BOTH], ["keep"]),
        ([BY_BOTH, BY_A], ["keep", "delete"]),
        ([OF_ANOTHER, BY_B], ["keep", "delete"]),
        ([BY_A, BY_BOTH._replace(mtu=1400)], ["keep", "delete"]),
        ([BY_A, BY_BOTH._replace(advmss=1300)], ["keep", "delete"]),
        ([BY_A, BY_BOTH._replace(prefsrc=as_ip("10.0.0.4"))], ["keep", "delete"]),
        ([BY_A, BY_BOTH._replace(scope=SCOPE_LINK)], ["keep", "delete"]),
        ([BY_A, BY_BOTH._replace(type="multicast")], ["keep", "delete"]),
    ],
    ids=[
        "behind it",
        "before it",
        "behind another program's",
        "with an mtu that the wanted one does not have",
        "with an advmss that the wanted one does not have",
        "with a source that the wanted one does not have",
        "of another scope",
        "of another type",
    ],
)
def test_a_route_whose_deletion_could_take_the_wanted_one(
    there: list[Route], actions: list[str]
) -> None:
    """Linux deletes the first route that begins with the next hops of the request. So a longer one
    behind the wanted one stays: it is not used.
    """
    by_a = StaticRoute(PLACE.to_network(), gateway=BY_A.next_hops[0].gateway, dev="eth0")
    plan = plan_static_routes(configured(by_a), host_with(DEFAULT, *there))
    assert [step.action for step in plan.steps] == actions


def test_a_stale_route_without_a_carrier() -> None:
    """The host after the plan does not have it."""
    stale = BY_A._replace(next_hops=(BY_A.next_hops[0]._replace(linkdown=True),))
    host = host_with(DEFAULT, stale)
    plan = plan_static_routes(HostRoutingConfig(), host)
    assert [step.action for step in plan.steps] == ["delete"]
    assert PLACE not in {route.prefix for route in plan.apply_to(host).routes}


def test_the_next_hop_of_another_program_in_a_nexthop_object() -> None:
    """Linux lists it as a route of its own: after the plan, it is there as before."""
    default = Route.to("::/0", dev="eth0", gateway="fd00:99::1", metric=1024, protocol=PROTOCOL_RA)
    both = SIX_BY_A._replace(next_hops=(*SIX_BY_A.next_hops, *SIX_BY_B.next_hops))
    in_object = OTHERS_SIX._replace(nexthop_id=7)
    host = host_with(default, both, in_object)
    plan = plan_static_routes(configured(static(SIX)), host)
    assert [step.action for step in plan.steps] == ["keep", "delete"]
    assert set(plan.apply_to(host).routes) - set(host.routes) == {SIX_BY_A}
    assert in_object in plan.apply_to(host).routes


def by_dev(dev: str, gateway: str | None = None) -> Route:
    """Our route to the place by this device."""
    return entry(PLACE, NextHop(dev, gateway=None if gateway is None else as_ip(gateway)))


BLACKHOLE = BY_A._replace(type="blackhole", next_hops=())
BY_A_AND_TUNNEL = BY_A._replace(next_hops=(*BY_A.next_hops, NextHop("tun0")))
OWN_LINK_LOCAL = Route.to("fe80::4/128", dev="eth0", type="local", table=TABLE_LOCAL)
BY_ITSELF = entry(SIX, NextHop("eth0", gateway=as_ip("fe80::4")))
MORE_LINKS = (
    Link(name="idle0", index=11, up=False),
    Link(name="ppp0", index=12, type=512, kind="ppp"),
    Link(name="tap0", index=13, kind="tun"),
)
USABLE = {
    "nothing is named": ([BY_A], static(PLACE)),
    "its device is named": ([BY_A], static(PLACE, dev="eth0")),
    "its gateway is named": ([BY_A], static(PLACE, "10.0.0.1")),
    "without a gateway": ([BY_DEV], static(PLACE)),
    "one of its next hops is dead": ([ONE_LEG_DEAD], static(PLACE)),
    "by InfiniBand that is named": ([by_dev("ib0")], static(PLACE, dev="ib0")),
    "by a tunnel that is named": ([by_dev("tun0")], static(PLACE, dev="tun0")),
    "by a line": ([by_dev("ppp0")], static(PLACE)),
    "this host has its link-local gateway on another device": (
        [BY_ITSELF, OWN_LINK_LOCAL._replace(next_hops=(NextHop("eth1"),))],
        static(SIX),
    ),
}
NOT_USABLE = {
    "dead": ([dead(BY_A)], static(PLACE)),
    "dead, and its device is named": ([dead(BY_A)], static(PLACE, dev="eth0")),
    "another device is named": ([BY_A], static(PLACE, dev="eth1")),
    "another gateway is named": ([BY_A], static(PLACE, "10.0.0.2")),
    "by InfiniBand": ([by_dev("ib0")], static(PLACE)),
    "by a device that is down": ([by_dev("idle0")], static(PLACE)),
    "by a tunnel": ([by_dev("tun0")], static(PLACE)),
    "partly by a tunnel": ([BY_A_AND_TUNNEL], static(PLACE)),
    "by a tap": ([by_dev("tap0")], static(PLACE)),
    "this host is its gateway": ([by_dev("eth0", "10.0.0.4")], static(PLACE)),
    "this host is its link-local gateway": ([BY_ITSELF, OWN_LINK_LOCAL], static(SIX)),
    "a blackhole": ([BLACKHOLE], static(PLACE)),
    "made this host's own": ([by_dev("eth0")._replace(type="local")], static(PLACE)),
    "by what is not listed": ([BY_A._replace(next_hops=(), nexthop_id=7)], static(PLACE)),
    "another program's": ([OF_ANOTHER], static(PLACE)),
    "behind another program's": ([OF_ANOTHER, BY_B], static(PLACE)),
    "of another metric": ([BY_A._replace(metric=7)], static(PLACE)),
}


class TestWhatStays:
    """While the default route is missing or in doubt, routes of ours that are there and usable are
    right.
    """

    @pytest.mark.parametrize("defaults", IN_DOUBT.values(), ids=IN_DOUBT)
    def test_nothing_moves(self, defaults: list[Route]) -> None:
        """What is there stays, what is not there waits, and what is not configured goes."""
        stale = entry(PREFIXES[IPV4][1], HOPS[IPV4][0])
        there = host_with(*defaults, BY_A, stale)

        plan = plan_static_routes(configured(static(PLACE), static("20.1.0.0/16")), there)

        keep, delete = plan.steps
        assert keep.action == "keep"
        assert keep.route == BY_A
        assert keep.reason.startswith("exists, and stays; a new one would need ")
        assert delete.action == "delete"
        assert delete.route == stale
        [waiting] = plan.waiting
        assert str(waiting.route.destination) == "20.1.0.0/16"

        [finding] = plan.warnings
        assert finding.name == "route-stays"
        assert finding.severity == "warning"
        assert finding.target == str(PLACE)
        assert finding.sentence == (
            f"after the next boot, {PLACE} will wait for {waiting.missing}; what is there now works"
        )
        if defaults:
            assert finding.remedy == waiting.missing.remedy
        else:
            assert finding.remedy == TO_PIN

    @pytest.mark.parametrize(("there", "wish"), USABLE.values(), ids=USABLE)
    def test_which_is_usable(self, there: list[Route], wish: StaticRoute) -> None:
        """Ours that Linux uses for this key, by devices that are up, as far as the configuration
        names them.
        """
        plan = plan_static_routes(configured(wish), host_with(*there, links=MORE_LINKS))
        [step] = plan.steps
        assert step.action == "keep"
        assert step.route == bare(there[0])
        assert plan.waiting == ()

    @pytest.mark.parametrize(("there", "wish"), NOT_USABLE.values(), ids=NOT_USABLE)
    def test_which_is_not_usable(self, there: list[Route], wish: StaticRoute) -> None:
        """The wanted route waits, and nothing is added beside what is there."""
        plan = plan_static_routes(configured(wish), host_with(*there, links=MORE_LINKS))
        assert len(plan.waiting) == 1
        assert not [step for step in plan.steps if step.action != "delete"]

    @pytest.mark.parametrize(
        ("defaults", "dev"),
        [
            pytest.param([BY_TUNNEL], "eth0", id="the wanted device"),
            pytest.param([], "eth1", id="another device, no doubt"),
        ],
    )
    def test_with_a_device_that_settles(self, defaults: list[Route], dev: str) -> None:
        """In doubt, what leaves by the device that is expected stays."""
        config = configured(static(PLACE), expected=["eth0"])
        plan = plan_static_routes(config, host_with(*defaults, by_dev(dev)))
        assert [step.action for step in plan.steps] == ["keep"]
        assert plan.waiting == ()

    @pytest.mark.parametrize(
        ("defaults", "dev"),
        [
            pytest.param([BY_TUNNEL], "eth1", id="another device"),
            pytest.param([], "tun0", id="a tunnel"),
        ],
    )
    def test_with_another_device_than_the_one_that_settles(
        self, defaults: list[Route], dev: str
    ) -> None:
        """The wanted route waits for the device that is expected."""
        config = configured(static(PLACE), expected=["eth0"])
        plan = plan_static_routes(config, host_with(*defaults, by_dev(dev)))
        assert plan.steps == ()
        assert len(plan.waiting) == 1

    def test_with_another_device_than_the_one_that_is_named(self) -> None:
        """A device in the configured route comes before the one that settles the doubt."""
        config = configured(static(PLACE, dev="eth1"), expected=["eth0"])
        plan = plan_static_routes(config, host_with(BY_TUNNEL, by_dev("eth0")))
        assert plan.steps == ()
        assert len(plan.waiting) == 1

    def test_with_a_tunnel_that_is_named(self) -> None:
        """It is not a VPN's guess."""
        config = configured(static(PLACE), expected=["tun0"])
        plan = plan_static_routes(config, host_with(by_dev("tun0")))
        assert [step.action for step in plan.steps] == ["keep"]

    def test_a_line_beside_a_card(self) -> None:
        """A line is usable only if no card has a default route."""
        of_line = Route.to("0.0.0.0/0", dev="ppp0", protocol=3)
        card = DEFAULT._replace(metric=100)
        line = Link(name="ppp0", index=12, type=512, kind="ppp")
        there = host_with(of_line, card, entry(PLACE, NextHop("ppp0")), links=(line,))
        plan = plan_static_routes(configured(static(PLACE)), there)
        assert plan.steps == ()
        assert len(plan.waiting) == 1

    def test_many_that_stay(self) -> None:
        """Routes that would wait for the same thing share a finding."""
        others = [entry(prefix, HOPS[IPV4][0]) for prefix in PREFIXES[IPV4]]
        wanted = [static(route.prefix) for route in others]
        plan = plan_static_routes(configured(*wanted), host_with(*others))
        [finding] = plan.findings()
        assert finding.sentence == (
            f"after the next boot, {len(others)} routes, such as {PLACE}, will wait for "
            "an IPv4 default route; what is there now works"
        )

    def test_another_one_of_ours_behind_it_goes(self) -> None:
        """Only the first route of a key is used."""
        plan = plan_static_routes(configured(static(PLACE)), host_with(BY_A, BY_B))
        assert [(step.action, step.route) for step in plan.steps] == [
            ("keep", BY_A),
            ("delete", BY_B),
        ]

    @settings(max_examples=scaled(200))
    @given(hosts(), wishes(), st.sampled_from([*IN_DOUBT.values()]))
    def test_after_any_plan(
        self, there: list[Route], desired: list[StaticRoute], defaults: list[Route]
    ) -> None:
        """What a plan has made of any host stays as it is when the default routes go, or come in
        doubt.
        """
        kernel = fake()
        kernel.add_link(TUNNEL)
        put(kernel, there)
        config = configured(*desired)
        before = kernel.snapshot()
        plan = plan_static_routes(config, before)
        after = plan.apply_to(before)
        # A plan with a conflict has made nothing.
        stuck = {step.route.key for step in plan.conflicts}
        stuck |= {waiting.route.key for waiting in plan.waiting}

        others = [route for route in after.routes if route.prefix.length or route.protocol == OURS]
        in_doubt = after._replace(routes=(*defaults, *others))
        plan_in_doubt = plan_static_routes(config, in_doubt)

        assert {step.route.key for step in plan_in_doubt.changes} <= stuck
        waits = {waiting.route.key for waiting in plan_in_doubt.waiting}
        assert waits & keys_that_ours_hold(after) <= stuck


def keys_that_ours_hold(snapshot: Snapshot) -> set[RouteKey]:
    """The keys of which a route of ours is the first one, which Linux uses."""
    firsts: dict[RouteKey, Route] = {}
    for route in snapshot.routes:
        firsts.setdefault(route.key, route)
    return {key for key, route in firsts.items() if route.protocol == OURS}


@pytest.mark.parametrize("protocol", [OURS, FOREIGN])
@pytest.mark.parametrize(("of_default", "of_present"), [(True, False), (False, True)])
def test_on_link_is_no_difference(protocol: int, *, of_default: bool, of_present: bool) -> None:
    """It changes nothing about where packets go, whether the default route or the present route has
    it.
    """
    present = on_link(BY_A._replace(protocol=protocol), onlink=of_present)
    host = host_with(on_link(DEFAULT, onlink=of_default), present)
    [step] = plan_static_routes(configured(static(PLACE)), host).steps
    assert step.action == "keep"
    assert step.route == present


@pytest.mark.parametrize("is_on_link", [True, False])
def test_a_route_is_deleted_as_it_is(*, is_on_link: bool) -> None:
    """With or without `onlink`, so that it can be brought back."""
    present = on_link(BY_A, onlink=is_on_link)
    host = host_with(on_link(DEFAULT, onlink=not is_on_link), present)
    plan = plan_static_routes(configured(static(PLACE, "10.0.0.3")), host)
    [deleted] = [step.route for step in plan.steps if step.action == "delete"]
    assert deleted == present


def on_link(route: Route, *, onlink: bool) -> Route:
    """The route whose gateway is, or is not, said to be on the link."""
    [hop] = route.next_hops
    return route._replace(next_hops=(hop._replace(onlink=onlink),))


class TestReplyRoute:
    """The route for replies to probes is one of ours: on the link, without a gateway, and
    optional.
    """

    config = HostRoutingConfig(probe_rewrite=ProbeRewriteConfig(enabled=True, interfaces=("eth0",)))
    prefix = Prefix.of(config.probe_rewrite.global_address)

    def test_steps(self) -> None:
        """It is installed and kept like any other, also beside a route by the device that has a
        gateway.
        """
        beside = configured(static("fd00::/64", dev="eth0"))
        config = beside._replace(probe_rewrite=self.config.probe_rewrite)
        host = ipv6_host()

        plan = plan_static_routes(config, host)
        again = plan_static_routes(config, plan.apply_to(host))

        [added] = [step.route for step in plan.changes if step.route.prefix == self.prefix]
        assert added == Route.to(str(self.prefix), dev="eth0", metric=1024, protocol=OURS)
        assert again.changes == ()

    @pytest.mark.parametrize(
        ("routes", "dev", "name"),
        [
            pytest.param(
                [Route.to(str(prefix), dev="ib0", metric=1024, protocol=4)],
                "eth0",
                "route-conflict",
                id="another program's has its key",
            ),
            pytest.param([], "eth9", "route-waits", id="its device is missing"),
        ],
    )
    def test_left_out(self, routes: list[Route], dev: str, name: str) -> None:
        """Where it cannot be installed, nothing waits and nothing fails: a warning says why."""
        rewrite = ProbeRewriteConfig(enabled=True, interfaces=(dev,))
        config = HostRoutingConfig(probe_rewrite=rewrite)
        plan = plan_static_routes(config, ipv6_host(*routes))
        assert plan.changes == ()
        assert plan.conflicts == ()
        assert plan.waiting == ()
        [finding] = plan.findings()
        assert finding.name == name
        assert finding.severity == "warning"
        assert 'write another "metric"' not in str(finding)  # the reply route has none
        assert str(plan) == f"? {finding.sentence}"

    def test_the_remedy_of_a_conflict(self) -> None:
        """Either the other route serves the replies, or it can be deleted."""
        theirs = Route.to(str(self.prefix), dev="ib0", metric=1024, protocol=4)
        plan = plan_static_routes(self.config, ipv6_host(theirs))
        [finding] = plan.findings()
        assert finding.remedy is not None
        leave, delete = finding.remedy.ways()
        assert leave.words.endswith("set probeRewrite.ensureRoute to false")
        assert delete.command == deletion_command(theirs)

    def test_wanted(self) -> None:
        """There is one for the device of the probe rewrite."""
        assert len(reply_routes(self.config)) == 1

    def test_not_wanted(self) -> None:
        """Without ensureRoute there is none; a configured route with its key takes its place."""
        rewrite = self.config.probe_rewrite
        without_it = HostRoutingConfig(probe_rewrite=rewrite._replace(ensure_route=False))
        same_key = static(self.prefix, gateway="fe80::1", dev="eth0", metric=1024)
        with_same_key = configured(same_key)._replace(probe_rewrite=rewrite)
        assert not reply_routes(HostRoutingConfig())
        assert not reply_routes(without_it)
        assert not reply_routes(with_same_key)


def ipv6_host(*more: Route) -> Snapshot:
    """A plain host that also has an IPv6 default route on eth0, and these routes."""
    default = Route.to("::/0", dev="eth0", gateway="fe80::1", metric=1024, protocol=9)
    return plain_vm().snapshot().with_routes([default, *more])


def test_the_deletion_of_a_route_by_a_device_that_a_shell_would_run() -> None:
    """Linux takes nearly any name for a device."""
    theirs = Route.to("172.16.0.0/16", dev="a;reboot", protocol=3)
    assert "dev 'a;reboot' table main" in deletion_command(theirs)
