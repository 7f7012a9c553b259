"""hostrouting.routes.plan: the ordered steps from what is to what is wanted."""

from collections import Counter

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostrouting.config.settings import HostRoutingConfig, StaticRoute, StaticRoutesConfig
from hostrouting.errors import RouteConflict
from hostrouting.fib.engine import Fib
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import OURS, NextHop, Route
from hostrouting.model.rule import default_rules
from hostrouting.model.snapshot import Address, Snapshot
from hostrouting.routes.plan import RoutePlan, Step, deletion_command, plan_exactly, plan_routes, plan_static_routes
from hostrouting.routes.uplink import DesiredRoute, resolve_route, wanted_routes
from tests.support.examples import scaled
from tests.support.strategies import blocks, links, prefixes, routes
from tests.support.topologies import connected, h200, plain

BLOCK = blocks(bits=2)
DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=16)


def want(destination: str, **how: object) -> DesiredRoute:
    """A desired route, from texts."""
    gateway = how.pop("gateway", None)
    return DesiredRoute(
        Prefix.parse(destination),
        gateway=None if gateway is None else as_ip(str(gateway)),
        **how,  # type: ignore[arg-type]  # dev and metric
    )


@st.composite
def wishes(draw: st.DrawFn, block: Prefix) -> list[DesiredRoute]:
    """Desired routes within the block, explicit and automatic, each destination and metric once."""
    return draw(
        st.lists(
            st.builds(
                lambda prefix, gateway, dev, metric: DesiredRoute(
                    prefix, gateway=gateway and as_ip(gateway), dev=dev, metric=metric
                ),
                prefixes(block),
                st.sampled_from([None, "10.0.0.1", "10.0.0.9", "172.16.0.1"]),
                st.sampled_from([None, "eth0", "ib0", "gone"]),
                st.sampled_from([0, 0, 100]),
            ),
            max_size=5,
            unique_by=lambda wish: wish.key,
        )
    )


@st.composite
def hosts(draw: st.DrawFn, block: Prefix) -> Snapshot:
    """A host with routes of ours and of other programs, many of them with a wanted key."""
    base = [DEFAULT, *connected("eth0", "10.0.0.4/24"), Route.to("10.9.0.0/16", dev="ib0", protocol=2)]
    near = st.builds(
        lambda prefix, dev, gateway, metric, protocol: Route.to(
            prefix, dev=dev, gateway=gateway, metric=metric, protocol=protocol
        ),
        prefixes(block),
        st.sampled_from(["eth0", "eth0", "ib0"]),
        st.sampled_from([None, "10.0.0.1", "10.0.0.1"]),
        st.sampled_from([0, 100]),
        st.sampled_from([OURS, OURS, 2]),
    )
    more = draw(st.lists(near, max_size=6)) + draw(st.lists(routes(block), max_size=3))
    return Snapshot(links=draw(links()), rules=default_rules(4), routes=draw(st.permutations(base + more)))


@given(st.data(), BLOCK)
@settings(max_examples=scaled(200))
def test_what_every_plan_is(data: st.DataObject, block: Prefix) -> None:
    """A plan changes only our routes, adds before it deletes, and once applied has nothing to do.

    The order in which routes are wanted does not matter.
    """
    snapshot, desired = data.draw(hosts(block)), data.draw(wishes(block))
    plan = plan_routes(desired, snapshot)
    after = plan.apply_to(snapshot)
    again = plan_routes(desired, after)
    assert (again.changes, again.pending) == ((), plan.pending)
    assert [step.route for step in again.conflicts] == [step.route for step in plan.conflicts]
    assert plan == plan_routes(data.draw(st.permutations(desired)), snapshot)
    assert {route.protocol for step in plan.changes for route in (step.route, step.held) if route} <= {OURS}
    actions = [step.action for step in plan.changes]
    assert actions == sorted(actions, key=["add", "replace", "delete"].index)
    actions = [step.action for step in plan.steps]
    assert actions == sorted(actions, key=["conflict", "keep", "add", "replace", "delete"].index)
    assert (plan.asking, plan.beside) == ((), ())


def test_a_stray_of_ours_in_table_local() -> None:
    """A route of ours that the plan deletes does not make the gateway an own address. Kills: no such filter in _taken."""
    stray = Route.to("0.0.0.0/0", dev="eth0", table=255, type="local", protocol=OURS)
    snapshot = plain()
    sick = attrs.evolve(snapshot, routes=(*snapshot.routes, stray))
    plan = plan_routes([want("10.9.0.0/16", gateway="10.0.0.1")], sick)
    again = plan_routes([want("10.9.0.0/16", gateway="10.0.0.1")], plan.apply_to(sick))
    assert (plan.pending, again.changes) == ((), ())


@given(st.data(), BLOCK)
@settings(max_examples=scaled(100))
def test_what_is_there_afterwards(data: st.DataObject, block: Prefix) -> None:
    """Afterwards each wish holds its key first or was refused, nothing else is ours, and others' routes stand."""
    snapshot, desired = data.draw(hosts(block)), data.draw(wishes(block))
    plan = plan_routes(desired, snapshot)
    after = plan.apply_to(snapshot)
    refused = {step.route.key for step in plan.conflicts} | {it.desired.key for it in plan.pending}
    fib = Fib(after)
    for wish in desired:
        if wish.key in refused:
            continue
        first = next(route for route in fib.routes(wish.destination) if route.key == wish.key)
        meant = resolve_route(wish, fib)
        assert isinstance(meant, Route) or wish.gateway
        if isinstance(meant, Route):
            bare = tuple(attrs.evolve(leg, dead=False, linkdown=False) for leg in first.legs)
            assert attrs.evolve(first, protocol=OURS, legs=bare) == meant
    kept = {wish.key for wish in desired}
    assert all(route.key in kept for route in after.routes if route.protocol == OURS)
    theirs, still = (Counter(route for route in it.routes if route.protocol != OURS) for it in (snapshot, after))
    assert theirs == still


def told(plan: RoutePlan) -> list[str]:
    """The steps of a plan, each as its action and its destination."""
    return [f"{step.action} {step.route.prefix}" for step in plan.steps]


class TestWhatAnOperatorReads:
    """Each step has its reason, and a way around the obstacle."""

    def test_conflict_with_a_connected_route(self) -> None:
        """A key held by InfiniBand is a conflict that names the holder and the two halves that win."""
        plan = plan_routes([want("172.16.0.0/16")], h200())
        (step,) = plan.conflicts
        assert step.held is not None
        assert step.held.devs == ("ib0",)
        assert (plan.changes, plan.foreseen) == ((), ())
        assert str(step) == (
            "! 172.16.0.0/16 via 10.0.0.1 dev eth0 proto hostrouting    # conflict: another route has the same "
            "destination and metric: [172.16.0.0/16 dev ib0 proto kernel scope link src 172.16.1.10], which is not ours; "
            "instead, configure 172.16.0.0/17 and 172.16.128.0/17, which take precedence"
        )

    @pytest.mark.parametrize(
        ("metric", "remedy"),
        [
            (0, "delete it first: no prefix can be longer, and no metric lower"),
            (5, "instead, configure one with metric 0, which takes precedence"),
        ],
    )
    def test_conflict_with_a_host_route(self, metric: int, remedy: str) -> None:
        """A host route has no halves: the way out is another metric."""
        theirs = Route.to("172.16.0.9/32", dev="ib0", protocol=3, metric=metric)
        plan = plan_routes([want("172.16.0.9/32", metric=metric)], plain().with_routes([theirs]))
        (step,) = plan.conflicts
        assert step.remedy == remedy
        with pytest.raises(RouteConflict) as caught:
            plan.require_possible()
        assert [finding.remedy for finding in caught.value.findings] == [remedy]

    def test_the_halves_are_held_too(self) -> None:
        """Halves whose keys are held are not proposed; with a better metric that is free, one route is enough."""
        theirs = Route.to("172.16.128.0/17", dev="ib0", protocol=3)
        (step,) = plan_routes([want("172.16.0.0/16")], h200().with_routes([theirs])).conflicts
        assert step.remedy.endswith("that no other route has (172.16.0.0/17 and 172.16.128.0/17 are not both free)")
        behind = Route.to("10.1.0.0/16", dev="ib0", protocol=3, metric=100)
        (step,) = plan_routes([want("10.1.0.0/16", metric=100)], plain().with_routes([behind])).conflicts
        assert step.remedy.endswith("instead, configure one with metric 0, which takes precedence")

    @pytest.mark.parametrize(
        ("prefix", "then"),
        [
            (
                "172.16.0.0/16",
                "; but then the kernel can add its own route to 172.16.0.0/16, because ib0 has the address 172.16.1.10/16",
            ),
            ("172.17.0.0/16", ""),
        ],
    )
    def test_what_a_script_has_left(self, prefix: str, then: str) -> None:
        """The remedy has the command that deletes such a route, and the address for which the kernel adds its own."""
        theirs = Route.to(prefix, dev="eth0", gateway="10.0.0.9", protocol=3)
        held = [route for route in h200().routes if str(route.prefix) == prefix]
        (step,) = plan_routes([want(prefix)], h200().with_routes([theirs], without=held)).conflicts
        assert step.remedy.partition("; if an earlier script ")[2] == (
            f"left it there, delete it with: {deletion_command(theirs)}{then}"
        )

    def test_what_keeps_routes_from_being_installed(self) -> None:
        """A finding for each conflict, for each thing that is missing, and for each route that does not last."""
        theirs = attrs.evolve(Route.to("10.7.0.0/16", dev="eth0", protocol=3), expires=9)
        address = Address(ip=as_ip("10.9.0.1"), length=16, dev="eth0")
        snapshot = plain().with_routes([theirs])
        snapshot = attrs.evolve(snapshot, addresses=(*snapshot.addresses, address))
        many = [want("10.1.0.0/16", dev="x"), want("10.2.0.0/16", dev="x")]
        plan = plan_routes([*many, want("10.3.0.0/16", dev="y"), want("10.7.0.0/16"), want("10.9.0.0/16")], snapshot)
        for wait, severity, then in (
            (None, "warning", ""),
            (0, "error", "; apply would fail at once"),
            (1, "warning", "; apply would wait up to 1 s for it, then fail"),
        ):
            conflict, both, one, lasts = plan.findings(wait=wait)
            assert (conflict.name, conflict.target, conflict.severity) == ("route-conflict", "10.7.0.0/16", "error")
            assert conflict.facts == {"held": "10.7.0.0/16 dev eth0 proto boot scope link", "metric": 0}
            assert (both.sentence, both.severity, both.target) == (
                f"2 routes, such as 10.1.0.0/16 dev x, need the device x{then}",
                severity,
                "10.1.0.0/16",
            )
            assert one.sentence == f"10.3.0.0/16 dev y needs the device y{then}"
            assert one.can_retry
            assert (lasts.name, lasts.target) == ("route-will-not-last", "10.9.0.0/16")

    def test_a_keep_that_never_wins(self) -> None:
        """One of our routes behind a better metric is kept, and the reason says that it is never used."""
        ours = Route.to("172.16.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=OURS, metric=100)
        (step,) = plan_routes([want("172.16.0.0/16", metric=100)], h200().with_routes([ours])).steps
        assert step.action == "keep"
        assert step.reason.startswith("it already exists; it is not used while [172.16.0.0/16 dev ib0 ")

    @pytest.mark.parametrize(
        ("there", "steps"),
        [
            ([(7, OURS), (8, OURS), (9, OURS)], ["replace 1", "delete 9", "delete 8"]),
            ([(1, OURS), (7, OURS)], ["keep 1", "delete 7"]),
            ([(7, OURS), (1, 3)], ["keep 1", "delete 7"]),
        ],
        ids=str,
    )
    def test_several_of_one_key(self, there: list[tuple[int, int]], steps: list[str]) -> None:
        """If we have several routes with one key, one is kept or replaced, and the others are deleted."""
        routes = [Route.to("10.1.0.0/16", dev="eth0", gateway=f"10.0.0.{at}", protocol=by) for at, by in there]
        plan = plan_routes([want("10.1.0.0/16")], plain().with_routes(routes))
        assert [f"{step.action} {str(step.route.legs[0].gateway).rpartition('.')[2]}" for step in plan.steps] == steps
        left = [
            route for route in plan.apply_to(plain().with_routes(routes)).routes if route.prefix == routes[0].prefix
        ]
        assert [str(it.legs[0].gateway) for it in left] == ["10.0.0.1"]

    def test_an_add_on_a_held_key(self) -> None:
        """A plan that adds a route whose key is held cannot be carried out, and says so."""
        route = Route.to("172.16.0.0/16", dev="eth0", protocol=OURS)
        with pytest.raises(ValueError, match="another route has the same destination and metric"):
            RoutePlan((Step("add", route, ""),)).apply_to(h200())

    def test_a_diff(self) -> None:
        """A plan reads as a diff: deleted, added and kept routes, and those that wait."""
        ours = [
            Route.to("10.1.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=OURS),
            Route.to("10.2.0.0/16", dev="eth0", gateway="10.0.0.7", protocol=OURS),
            Route.to("10.3.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=OURS),
        ]
        desired = [
            want("10.1.0.0/16"),
            want("10.2.0.0/16"),
            want("10.4.0.0/16", metric=9),
            want("10.5.0.0/16", dev="x"),
        ]
        assert str(plan_routes(desired, plain().with_routes(ours))).splitlines() == [
            "  10.1.0.0/16 via 10.0.0.1 dev eth0 proto hostrouting    # keep: it already exists",
            "+ 10.4.0.0/16 via 10.0.0.1 dev eth0 proto hostrouting metric 9    # add: it does not exist",
            "- 10.2.0.0/16 via 10.0.0.7 dev eth0 proto hostrouting",
            "+ 10.2.0.0/16 via 10.0.0.1 dev eth0 proto hostrouting    # replace: ours, but different",
            "- 10.3.0.0/16 via 10.0.0.1 dev eth0 proto hostrouting    # delete: ours, and no longer wanted",
            "? 10.5.0.0/16 dev x: waiting for the device x",
        ]

    def test_what_is_pending_stays(self) -> None:
        """Without a default route, an automatic route waits, and its present route is not deleted."""
        ours = Route.to("10.1.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=OURS)
        snapshot = plain().with_routes([ours], without=[plain().routes[0]])
        plan = plan_routes([want("10.1.0.0/16")], snapshot)
        assert (plan.steps, [it.missing for it in plan.pending]) == ((), ["an IPv4 default route"])

    def test_on_link_comes_first_and_goes_last(self) -> None:
        """A route without a gateway is made before those with one, and deleted after them."""
        snapshot = plain().with_routes([Route.to("0.0.0.0/0", dev="wg0")])
        snapshot = attrs.evolve(snapshot, links=(*snapshot.links, attrs.evolve(snapshot.links[1], name="wg0")))
        desired = [want("10.1.0.0/16", gateway="192.168.7.1", dev="wg0"), want("192.168.7.0/24", dev="wg0")]
        plan = plan_routes(desired, snapshot)
        assert told(plan) == ["add 192.168.7.0/24", "add 10.1.0.0/16"]
        assert told(plan_routes((), plan.apply_to(snapshot))) == ["delete 10.1.0.0/16", "delete 192.168.7.0/24"]
        late = [want("10.1.0.0/16", dev="wg0"), want("192.168.7.0/24", gateway="192.168.7.1", dev="wg0")]
        for wishes, last in ((desired, "192.168.7.0/24"), (late, "10.1.0.0/16")):
            there = plan_routes(wishes, snapshot).apply_to(snapshot)
            assert told(plan_routes([], there))[-1] == f"delete {last}"


def test_the_plan_of_a_configuration() -> None:
    """Each field of a route counts; our other routes go, and those of other programs stay."""
    routes = [StaticRoute("10.1.0.0/16", gateway="172.16.0.1", dev="ib0", metric=7)]
    config = HostRoutingConfig(StaticRoutesConfig(enabled=True, routes=routes))
    assert wanted_routes(config) == (want("10.1.0.0/16", gateway="172.16.0.1", dev="ib0", metric=7),)
    there = [Route.to(prefix, dev="eth0", protocol=by) for prefix, by in (("10.2.0.0/16", OURS), ("10.3.0.0/16", 77))]
    assert [
        (step.action, str(step.route.prefix), step.route.protocol)
        for step in plan_static_routes(config, h200().with_routes(there)).steps
    ] == [("add", "10.1.0.0/16", OURS), ("delete", "10.2.0.0/16", OURS)]


class TestReplyRoute:
    """The route for replies to probes is one of ours: on the link, without a gateway, and optional."""

    config = HostRoutingConfig(probe_rewrite={"enabled": True, "interfaces": ["eth0"]})
    prefix = Prefix.of(config.probe_rewrite.global_address)

    def test_steps(self) -> None:
        """It is installed and kept like any other, also beside a route by the device that has a gateway."""
        (wish,) = wanted_routes(self.config)
        assert (wish.is_on_link, wish.is_optional, wish.dev) == (True, True, "eth0")
        near = want("fd00::/64", dev="eth0")
        plan = plan_routes([near, wish], ipv6_host())
        reply = Route.to(str(self.prefix), dev="eth0", metric=1024, protocol=OURS)
        assert [step.route for step in plan.changes if step.route.prefix == self.prefix] == [reply]
        assert not plan_routes([near, wish], plan.apply_to(ipv6_host())).changes

    @pytest.mark.parametrize(
        ("routes", "dev", "name"),
        [
            ([Route.to(str(prefix), dev="ib0", metric=1024, protocol=4)], "eth0", "route-conflict"),
            ([], "eth9", "route-waits"),
        ],
    )
    def test_left_out(self, routes: list[Route], dev: str, name: str) -> None:
        """Where it cannot be installed, nothing waits and nothing fails: a warning says why."""
        config = HostRoutingConfig(probe_rewrite={"enabled": True, "interfaces": [dev]})
        plan = plan_static_routes(config, ipv6_host(*routes))
        assert (plan.changes, plan.conflicts, plan.pending) == ((), (), ())
        assert [(finding.name, finding.severity) for finding in plan.findings()] == [(name, "warning")]

    def test_not_wanted(self) -> None:
        """Without ensureRoute there is none, and a configured route with its key takes its place."""
        rewrite = self.config.probe_rewrite
        assert not wanted_routes(HostRoutingConfig(probe_rewrite=attrs.evolve(rewrite, ensure_route=False)))
        routes = [StaticRoute(str(self.prefix), gateway="fe80::1", dev="eth0")]
        config = HostRoutingConfig(StaticRoutesConfig(enabled=True, routes=routes), probe_rewrite=rewrite)
        assert [wish.gateway for wish in wanted_routes(config)] == [as_ip("fe80::1")]


def ipv6_host(*more: Route) -> Snapshot:
    """A host with an IPv6 default route on eth0, and these routes."""
    default = Route.to("::/0", dev="eth0", gateway="fe80::1", metric=1024, protocol=9)
    return attrs.evolve(plain().with_routes([default, *more]), rules=default_rules(6))


class TestIPv6:
    """IPv6 has other rules than IPv4."""

    def test_next_hops_of_two_programs(self) -> None:
        """Where a route was installed, Linux is asked to delete next hops of ours; where not, it is not."""
        legs = tuple(NextHop("eth0", gateway=as_ip(f"fe80::{last}")) for last in (7, 8))
        theirs = [
            Route(Prefix.parse(f"2001:db8:{last}::/48"), legs[:count], metric=1024, protocol=12)
            for last, count in ((1, 2), (2, 1), (3, 2), (4, 2))
        ]
        host = ipv6_host(*theirs)
        installed = [want("2001:db8:1::/48"), want("2001:db8:2::/48"), want("2001:db8:3::/48", metric=5)]
        plan = plan_routes([], host, installed=installed)
        step, *others = plan.steps
        assert (step.action, step.route, step.asked, others) == ("keep", theirs[0], theirs[0], [])
        assert plan.asking == plan.steps
        (finding,) = plan.beside
        assert finding.target == "2001:db8:1::/48"
        assert finding.sentence == f"2001:db8:1::/48: {step.asks}"
        assert step.asks.startswith("the next hop via fe80::7 dev eth0 is not wanted")
        assert "; the next hop via fe80::8 dev eth0 is not wanted" in step.asks
        assert [*plan.findings()] == [finding]
        wanted = plan_routes([want("2001:db8:1::/48"), want("2001:db8:2::/48")], host)
        assert [step.action for step in wanted.asking] == ["add", "add"]
        assert wanted.beside == ()
        joined = [route for route in wanted.apply_to(host).routes if route.prefix == theirs[0].prefix]
        assert [[str(leg.gateway) for leg in route.legs] for route in joined] == [["fe80::7", "fe80::8", "fe80::1"]]

    def test_a_route_for_some_sources(self) -> None:
        """A route for some sources does not hold the key, but it hides the route for any source: longer prefixes are needed."""
        theirs = Route.to("2001:db8:77::/48", dev="ib0", protocol=4, metric=1024)
        theirs = attrs.evolve(theirs, source=Prefix.parse("2001:db8:2::/64"))
        host = ipv6_host(theirs)
        plan = plan_routes([want("2001:db8:77::/48")], host)
        (step,) = plan.steps
        assert str(step) == (
            "+ 2001:db8:77::/48 via fe80::1 dev eth0 proto hostrouting metric 1024    # add: it does not exist; it is not"
            f" used while [{theirs}] exists, which is only for some sources; instead, configure"
            " 2001:db8:77::/49 and 2001:db8:77:8000::/49, which take precedence"
        )
        assert Fib(plan.apply_to(host)).lookup(as_ip("2001:db8:77::1")).route == host.routes[-2]
        halves = plan_routes([want("2001:db8:77::/49"), want("2001:db8:77:8000::/49")], host)
        assert [step.reason for step in halves.steps] == ["it does not exist"] * 2


DEV, VIA, OTHER, BOTH, OTHERS = (), ("fe80::1",), ("fe80::7",), ("fe80::1", "fe80::7"), ("fe80::7", "fe80::8")


@pytest.mark.parametrize(
    ("there", "wanted", "steps"),
    [
        ([(OTHER, OURS)], DEV, ["replace dev"]),
        ([(OTHER, OURS), (VIA, 12)], DEV, ["conflict dev"]),  # Linux might replace the other one
        ([(OTHER, OURS), (DEV, 12)], DEV, ["keep dev", "delete via"]),
        ([(VIA, OURS), (DEV, OURS)], VIA, ["keep via", "delete dev"]),
        ([(VIA, 12), (DEV, 12)], VIA, ["keep via"]),
        ([(DEV, OURS), (OTHER, 12)], VIA, ["add via, asked for fe80::7", "delete dev"]),
        ([(DEV, 12), (OTHER, OURS)], VIA, ["conflict via"]),
        ([(OTHER, OURS)], VIA, ["replace via"]),
        ([(BOTH, OURS)], VIA, ["keep via, asked for fe80::7"]),
        ([(OTHERS, OURS)], VIA, ["replace via, asked for fe80::7"]),
        ([(BOTH, OURS)], BOTH, ["keep via"]),
    ],
    ids=str,
)
def test_several_of_one_ipv6_key(
    there: list[tuple[tuple[str, ...], int]], wanted: tuple[str, ...], steps: list[str]
) -> None:
    """Only our routes are deleted, and Linux is asked only about the next hops of several owners."""

    def made(gateways: tuple[str, ...], protocol: int) -> Route:
        legs = tuple(NextHop("eth0", gateway=as_ip(gateway)) for gateway in gateways) or (NextHop("eth0"),)
        return Route(Prefix.parse("fd00:9::/32"), legs, metric=1024, protocol=protocol)

    def worded(step: Step) -> str:
        asked = f", asked for {step.asked.legs[0].gateway}" if step.asked else ""
        return f"{step.action} {'via' if step.route.legs[0].gateway else 'dev'}{asked}"

    snapshot = attrs.evolve(plain().with_routes([made(*route) for route in there]), rules=default_rules(6))
    plan = plan_exactly([made(wanted, OURS)], snapshot, about=[Prefix.parse("fd00:9::/32")])
    assert [worded(step) for step in plan.steps] == steps


def test_a_device_without_a_carrier() -> None:
    """A route whose next hop is down now is as wanted."""
    down = NextHop("eth0", gateway=as_ip("10.0.0.1"), linkdown=True, dead=True)
    ours = Route(Prefix.parse("10.1.0.0/16"), (down,), protocol=OURS)
    assert told(plan_routes([want("10.1.0.0/16", gateway="10.0.0.1")], plain().with_routes([ours]))) == [
        "keep 10.1.0.0/16"
    ]
