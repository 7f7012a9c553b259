"""hostrouting.routes.plan: the ordered steps from what is to what is wanted."""

from collections import Counter

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostrouting.fib import Fib
from hostrouting.model import OURS, Link, NextHop, Prefix, Route, Snapshot, as_ip, default_rules
from hostrouting.routes.plan import RoutePlan, Step, plan_exactly, plan_routes
from hostrouting.routes.uplink import DesiredRoute, Pending, resolve_route
from hostrouting.testing.strategies import blocks, links, prefixes, routes
from tests.support.examples import scaled
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
    """A host with routes of ours and of others, many of them for the keys that are wanted."""
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


class TestThePlanLeadsToWhatIsWanted:
    """Against the kernel's table, by all attributes; a route that is not ours is never changed."""

    @given(st.data(), BLOCK)
    @settings(max_examples=scaled(200))
    def test_plan_after_apply_is_empty(self, data: st.DataObject, block: Prefix) -> None:
        """plan(apply(plan)) changes nothing, and has the same conflicts and the same that is pending."""
        snapshot, desired = data.draw(hosts(block)), data.draw(wishes(block))
        plan = plan_routes(desired, snapshot)
        again = plan_routes(desired, plan.apply_to(snapshot))
        assert again.changes == ()
        assert [step.route for step in again.conflicts] == [step.route for step in plan.conflicts]
        assert again.pending == plan.pending

    @given(st.data(), BLOCK)
    @settings(max_examples=scaled(100))
    def test_what_is_there_afterwards(self, data: st.DataObject, block: Prefix) -> None:
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

    @given(st.data(), BLOCK)
    @settings(max_examples=scaled(100))
    def test_only_ours_is_changed(self, data: st.DataObject, block: Prefix) -> None:
        """No step that changes the kernel names a route that is not ours."""
        plan = plan_routes(data.draw(wishes(block)), data.draw(hosts(block)))
        for step in plan.changes:
            assert step.route.protocol == OURS
            assert step.held is None or step.held.protocol == OURS

    @given(st.data(), BLOCK)
    @settings(max_examples=scaled(100))
    def test_order_of_the_input(self, data: st.DataObject, block: Prefix) -> None:
        """The order in which routes are wanted does not matter."""
        snapshot, desired = data.draw(hosts(block)), data.draw(wishes(block))
        shuffled = data.draw(st.permutations(desired))
        assert plan_routes(desired, snapshot) == plan_routes(shuffled, snapshot)

    @given(st.data(), BLOCK)
    @settings(max_examples=scaled(100))
    def test_inverse(self, data: st.DataObject, block: Prefix) -> None:
        """The plan and then its inverse leave the routes that were there."""
        snapshot, desired = data.draw(hosts(block)), data.draw(wishes(block))
        plan = plan_routes(desired, snapshot)
        back = plan.inverse().apply_to(plan.apply_to(snapshot))
        assert Counter(back.routes) == Counter(snapshot.routes)
        for key in {route.key for route in snapshot.routes}:
            was, now = ([route for route in it.routes if route.key == key] for it in (snapshot, back))
            if sum(route.protocol == OURS for route in was) <= 1:
                assert now[0] == was[0]

    @given(st.data(), BLOCK)
    @settings(max_examples=scaled(50))
    def test_make_before_break(self, data: st.DataObject, block: Prefix) -> None:
        """Nothing is deleted before all that is new is there."""
        plan = plan_routes(data.draw(wishes(block)), data.draw(hosts(block)))
        actions = [step.action for step in plan.changes]
        assert actions == sorted(actions, key=["add", "replace", "delete"].index)


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
        assert plan.changes == ()
        assert str(step) == (
            "! 172.16.0.0/16 via 10.0.0.1 dev eth0 proto hostrouting    # conflict: another route has the same "
            "destination and metric: [172.16.0.0/16 dev ib0 proto kernel scope link src 172.16.1.10], which is not ours; "
            "instead, configure 172.16.0.0/17 and 172.16.128.0/17, which take precedence"
        )

    @pytest.mark.parametrize(
        ("metric", "remedy"),
        [
            (0, "it has to be deleted first: no prefix can be longer, and no metric better"),
            (5, "instead, configure one with metric 0, which takes precedence"),
        ],
    )
    def test_conflict_with_a_host_route(self, metric: int, remedy: str) -> None:
        """A host route has no halves: the way out is another metric."""
        theirs = Route.to("172.16.0.9/32", dev="ib0", protocol=3, metric=metric)
        (step,) = plan_routes([want("172.16.0.9/32", metric=metric)], plain().with_routes([theirs])).conflicts
        assert step.reason.endswith(remedy)

    def test_the_halves_are_held_too(self) -> None:
        """Halves that are held themselves are no way out, and where a better metric is free it takes one route."""
        theirs = Route.to("172.16.128.0/17", dev="ib0", protocol=3)
        (step,) = plan_routes([want("172.16.0.0/16")], h200().with_routes([theirs])).conflicts
        assert step.reason.endswith("that are free (172.16.0.0/17 and 172.16.128.0/17 are not both free)")
        behind = Route.to("10.1.0.0/16", dev="ib0", protocol=3, metric=100)
        (step,) = plan_routes([want("10.1.0.0/16", metric=100)], plain().with_routes([behind])).conflicts
        assert step.reason.endswith("instead, configure one with metric 0, which takes precedence")

    def test_a_keep_that_never_wins(self) -> None:
        """A route of ours that is there behind a better metric is kept, and that it never wins is said."""
        ours = Route.to("172.16.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=OURS, metric=100)
        (step,) = plan_routes([want("172.16.0.0/16", metric=100)], h200().with_routes([ours])).steps
        assert step.action == "keep"
        assert step.reason.startswith("it already exists; it is not used while [172.16.0.0/16 dev ib0 ")

    def test_several_stale_ones(self) -> None:
        """Of several routes of ours that say something else one is replaced, and every other one goes."""
        stale = [Route.to("10.1.0.0/16", dev="eth0", gateway=f"10.0.0.{n}", protocol=OURS) for n in (7, 8, 9)]
        plan = plan_routes([want("10.1.0.0/16")], plain().with_routes(stale))
        assert told(plan) == ["replace 10.1.0.0/16", "delete 10.1.0.0/16", "delete 10.1.0.0/16"]
        assert [str(route.legs[0].gateway) for route in plan.apply_to(plain().with_routes(stale)).routes][
            -1
        ] == "10.0.0.1"

    def test_an_old_one_behind_the_right_one(self) -> None:
        """If the right route is first, an older route of ours behind it is deleted."""
        right = Route.to("10.1.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=OURS)
        old = Route.to("10.1.0.0/16", dev="eth0", gateway="10.0.0.7", protocol=OURS)
        plan = plan_routes([want("10.1.0.0/16")], plain().with_routes([right, old]))
        assert [(step.action, step.route) for step in plan.steps] == [("keep", right), ("delete", old)]

    def test_the_state_of_a_leg_is_no_difference(self) -> None:
        """A route of ours whose device has lost its carrier is kept: it says what is wanted."""
        leg = NextHop("eth0", gateway=as_ip("10.0.0.1"), linkdown=True)
        ours = Route(Prefix.parse("10.1.0.0/16"), (leg,), protocol=OURS)
        plan = plan_routes([want("10.1.0.0/16")], plain().with_routes([ours]))
        assert [step.action for step in plan.steps] == ["keep"]

    def test_an_add_on_a_held_key(self) -> None:
        """A plan that adds a route whose key is held cannot be carried out, and says so."""
        route = Route.to("172.16.0.0/16", dev="eth0", protocol=OURS)
        with pytest.raises(ValueError, match="another route has the same destination and metric"):
            RoutePlan((Step("add", route, ""),)).apply_to(h200())

    def test_a_diff(self) -> None:
        """A plan reads as a diff: what goes, what comes, what stays, and what is waited for."""
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

    def test_nothing_at_all(self) -> None:
        """Nothing wanted and nothing of ours: the plan is empty and says so."""
        assert plan_routes([], h200()) == RoutePlan()
        assert str(RoutePlan()) == "no routes are wanted, and none of our routes exist"

    def test_someone_elses_twin(self) -> None:
        """A route that is there already is kept, also when it is someone else's; it stays theirs."""
        theirs = Route.to("10.1.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=16)
        (step,) = plan_routes([want("10.1.0.0/16")], plain().with_routes([theirs])).steps
        assert step == Step("keep", theirs, "it already exists (proto dhcp) and stays as it is")

    def test_the_right_one_stands_behind(self) -> None:
        """When the wanted route stands behind a wrong one of ours, only the wrong one goes (REPLACE would fail)."""
        wrong = Route.to("10.1.0.0/16", dev="eth0", gateway="10.0.0.7", protocol=OURS)
        right = Route.to("10.1.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=3)
        plan = plan_routes([want("10.1.0.0/16")], plain().with_routes([wrong, right]))
        assert told(plan) == ["keep 10.1.0.0/16", "delete 10.1.0.0/16"]
        assert plan.changes[0].route == wrong

    def test_a_changed_metric(self) -> None:
        """A metric is part of the key: the new route is added before the old one goes."""
        old = Route.to("10.1.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=OURS)
        plan = plan_routes([want("10.1.0.0/16", metric=7)], plain().with_routes([old]))
        assert told(plan) == ["add 10.1.0.0/16", "delete 10.1.0.0/16"]
        assert "not used while" in plan.steps[0].reason

    def test_what_is_pending_stays(self) -> None:
        """Without a default route an automatic wish waits, and what is there for it is not taken away."""
        ours = Route.to("10.1.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=OURS)
        snapshot = plain().with_routes([ours], without=[plain().routes[0]])
        plan = plan_routes([want("10.1.0.0/16")], snapshot)
        assert (plan.steps, [it.missing for it in plan.pending]) == ((), ["an IPv4 default route"])

    def test_two_wishes_for_one_key(self) -> None:
        """Two different routes for one destination and metric cannot both be had; twins are one."""
        twins = [want("10.1.0.0/16"), want("10.1.0.0/16")]
        assert len(plan_routes(twins, plain()).steps) == 1
        with pytest.raises(ValueError, match="two different routes are wanted"):
            plan_routes([*twins, want("10.1.0.0/16", gateway="10.0.0.9")], plain())

    def test_on_link_comes_first_and_goes_last(self) -> None:
        """A route without a gateway is made before those with one, and deleted after them."""
        snapshot = plain().with_routes([Route.to("0.0.0.0/0", dev="wg0")])
        snapshot = attrs.evolve(snapshot, links=(*snapshot.links, attrs.evolve(snapshot.links[1], name="wg0")))
        desired = [want("10.1.0.0/16", gateway="192.168.7.1", dev="wg0"), want("192.168.7.0/24", dev="wg0")]
        plan = plan_routes(desired, snapshot)
        assert told(plan) == ["add 192.168.7.0/24", "add 10.1.0.0/16"]
        assert told(plan.inverse()) == ["delete 10.1.0.0/16", "delete 192.168.7.0/24"]
        late = [want("10.1.0.0/16", dev="wg0"), want("192.168.7.0/24", gateway="192.168.7.1", dev="wg0")]
        for wishes, last in ((desired, "192.168.7.0/24"), (late, "10.1.0.0/16")):
            there = plan_routes(wishes, snapshot).apply_to(snapshot)
            assert told(plan_routes([], there))[-1] == f"delete {last}"

    def test_a_former_protocol(self) -> None:
        """Routes of a former number are ours: they get the number of today where they are wanted, and go otherwise."""
        here = [
            Route.to("10.1.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=200),
            Route.to("10.2.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=200),
            Route.to("10.3.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=77),
        ]
        snapshot = plain().with_routes(here)
        plan = plan_routes([want("10.1.0.0/16"), want("10.3.0.0/16")], snapshot, former={200})
        assert str(plan).splitlines() == [
            "  10.3.0.0/16 via 10.0.0.1 dev eth0 proto 77    # keep: it already exists (proto 77) and stays as it is",
            "- 10.1.0.0/16 via 10.0.0.1 dev eth0 proto 200",
            (
                "+ 10.1.0.0/16 via 10.0.0.1 dev eth0 proto hostrouting"
                "    # replace: ours, with route protocol 200 of an earlier configuration"
            ),
            (
                "- 10.2.0.0/16 via 10.0.0.1 dev eth0 proto 200"
                "    # delete: ours, with route protocol 200 of an earlier configuration"
            ),
        ]
        assert not plan_routes([want("10.1.0.0/16"), want("10.3.0.0/16")], plan.apply_to(snapshot)).changes

    def test_a_former_default_route_says_nothing(self) -> None:
        """A default route with a former protocol number of ours may be deleted, so no gateway is taken from it."""
        ours = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.9", protocol=200, metric=0)
        snapshot = attrs.evolve(plain(), routes=(ours, *plain().routes))
        (step,) = plan_routes([want("10.1.0.0/16")], snapshot, former={200}).changes[:1]
        assert str(step.route).startswith("10.1.0.0/16 via 10.0.0.1 ")

    def test_protocol(self) -> None:
        """Ours are the routes of the protocol that is asked for, and no others."""
        other = Route.to("10.1.0.0/16", dev="eth0", gateway="10.0.0.1", protocol=77)
        assert told(plan_routes([], plain().with_routes([other]), protocol=77)) == ["delete 10.1.0.0/16"]
        assert told(plan_routes([], plain().with_routes([other]))) == []


class TestWhatIsLeftOpen:
    """Empty dev is the default route's device; empty gateway the default gateway on that device."""

    def resolved(self, wish: DesiredRoute, snapshot: Snapshot | None = None) -> str:
        """The route with all values filled in, or what is missing, as text."""
        return str(resolve_route(wish, Fib(snapshot or plain())))

    def test_both_automatic(self) -> None:
        """Device and gateway of the default route."""
        assert self.resolved(want("10.1.0.0/16")) == "10.1.0.0/16 via 10.0.0.1 dev eth0 proto hostrouting"

    def test_explicit(self) -> None:
        """Given values are used unchanged."""
        wish = want("10.1.0.0/16", gateway="10.0.0.9", dev="eth0", metric=4294967295)
        assert self.resolved(wish) == "10.1.0.0/16 via 10.0.0.9 dev eth0 proto hostrouting metric 4294967295"

    def test_lowest_metric_decides(self) -> None:
        """Of several default routes the one with the lowest metric; on a named device, that device's."""
        second = Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", metric=500)
        snapshot = plain().with_routes([second, *connected("eth1", "10.1.0.4/24")])
        snapshot = attrs.evolve(snapshot, links=(*snapshot.links, attrs.evolve(snapshot.links[1], name="eth1")))
        assert " via 10.0.0.1 dev eth0 " in self.resolved(want("10.9.0.0/16"), snapshot)
        assert " via 10.1.0.1 dev eth1 " in self.resolved(want("10.9.0.0/16", dev="eth1"), snapshot)

    def test_default_without_gateway(self) -> None:
        """A default route without a gateway makes a link-scope route."""
        snapshot = plain().with_routes([Route.to("0.0.0.0/0", dev="eth0")], without=plain().routes[:1])
        assert self.resolved(want("10.1.0.0/16"), snapshot) == "10.1.0.0/16 dev eth0 proto hostrouting scope link"

    def test_ecmp_default(self) -> None:
        """An ECMP default gives its legs, without the state they happen to be in."""
        legs = (
            NextHop("eth0", gateway=as_ip("10.0.0.1"), linkdown=True, dead=True, weight=2),
            NextHop("eth0", gateway=as_ip("10.0.0.2")),
        )
        snapshot = plain().with_routes([Route(Prefix.parse("0.0.0.0/0"), legs)], without=plain().routes[:1])
        route = resolve_route(want("10.1.0.0/16"), Fib(snapshot))
        assert isinstance(route, Route)
        assert route.legs == (attrs.evolve(legs[0], linkdown=False, dead=False), legs[1])

    def test_gateway_chooses_the_leg(self) -> None:
        """A gateway alone goes by that device of an ECMP default on which it is a neighbour."""
        legs = (NextHop("ib7", gateway=as_ip("172.16.0.1")), NextHop("eth0", gateway=as_ip("10.0.0.1")))
        snapshot = h200().with_routes([Route(Prefix.parse("0.0.0.0/0"), legs)], without=h200().routes[:1])
        assert " via 10.0.0.9 dev eth0 " in self.resolved(want("10.1.0.0/16", gateway="10.0.0.9"), snapshot)

    @pytest.mark.parametrize(
        ("wish", "missing"),
        [
            (want("10.1.0.0/16", dev="eth1"), "an IPv4 default route on eth1"),
            (want("10.1.0.0/16", dev="eth9"), "the device eth9"),
            (want("10.1.0.0/16", dev="eth9", gateway="10.0.0.9"), "the device eth9"),
            (
                want("10.1.0.0/16", gateway="10.7.0.9"),
                "an address or route on eth0 that reaches the gateway 10.7.0.9 directly",
            ),
        ],
    )
    def test_what_is_missing(self, wish: DesiredRoute, missing: str) -> None:
        """The plan says what is missing."""
        idle = attrs.evolve(plain(), links=(*plain().links, Link(name="eth1", index=9)))
        pending = resolve_route(wish, Fib(idle))
        assert pending == Pending(wish, missing)
        assert str(pending) == f"{wish}: waiting for {missing}"

    def test_link_that_is_down(self) -> None:
        """A device that is down is waited for: the kernel would refuse the route."""
        snapshot = attrs.evolve(plain(), links=(attrs.evolve(plain().links[1], up=False),))
        assert self.resolved(want("10.1.0.0/16"), snapshot).endswith("waiting for the device eth0 to be up")

    def test_no_default_route(self) -> None:
        """A dead default route does not count; a default route of our own is not used for automatic values."""
        dead = Route(Prefix.parse("0.0.0.0/0"), (NextHop("eth0", gateway=as_ip("10.0.0.1"), dead=True),))
        ours = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=OURS)
        for other in (dead, ours):
            snapshot = plain().with_routes([other], without=plain().routes[:1])
            assert "waiting for an IPv4 default route" in self.resolved(want("10.1.0.0/16"), snapshot)
            assert "waiting for an IPv4 default route" in self.resolved(
                want("10.1.0.0/16", gateway="10.0.0.1"), snapshot
            )

    def test_ipv6(self) -> None:
        """IPv6 is the same with other data: the default metric is 1024."""
        default = Route.to("::/0", dev="eth0", gateway="fe80::1", metric=1024, protocol=9)
        snapshot = plain().with_routes([default, Route.to("fe80::/64", dev="eth0", metric=256, protocol=2)])
        snapshot = attrs.evolve(snapshot, rules=default_rules(6))
        assert self.resolved(want("fd00:9::/64"), snapshot) == (
            "fd00:9::/64 via fe80::1 dev eth0 proto hostrouting metric 1024"
        )


def ipv6_host(*more: Route) -> Snapshot:
    """A host with an IPv6 default route on eth0, and these routes."""
    default = Route.to("::/0", dev="eth0", gateway="fe80::1", metric=1024, protocol=9)
    return attrs.evolve(plain().with_routes([default, *more]), rules=default_rules(6))


class TestIPv6:
    """IPv6 has other rules than IPv4."""

    @pytest.mark.parametrize(
        ("prefix", "held", "remedy"),
        [
            ("2001:db8:78::1/128", [1024], "instead, configure one with metric 1, which takes precedence"),
            ("2001:db8:78::/48", [1024], "instead, configure one with metric 1, which takes precedence"),
            ("2001:db8:78::/48", [2000], "instead, configure one with metric 1024, which takes precedence"),
            ("2001:db8:78::/48", [2000, 7], "instead, configure one with metric 1, which takes precedence"),
            (
                "2001:db8:78::/48",
                [1024, 1],
                "instead, configure 2001:db8:78::/49 and 2001:db8:78:8000::/49, which take precedence",
            ),
            ("2001:db8:78::1/128", [1], "it has to be deleted first: no prefix can be longer, and no metric better"),
        ],
    )
    def test_a_lower_metric(self, prefix: str, held: list[int], remedy: str) -> None:
        """A lower metric than the usual one exists: it takes one route, where longer prefixes take two."""
        theirs = [Route.to(prefix, dev="ib0", protocol=4, metric=metric) for metric in held]
        (step,) = plan_routes([want(prefix, metric=held[0])], ipv6_host(*theirs)).conflicts
        assert step.reason.endswith(f"which is not ours; {remedy}")

    def test_a_route_for_some_sources(self) -> None:
        """Such a route does not hold the key; but it hides the route for any source, and longer prefixes are needed."""
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


def test_a_replacement_that_would_hit_another_route() -> None:
    """Beside another's route of the same key, one of ours in IPv6 is not replaced: the kernel might replace the other."""
    wanted = Route.to("fd00:9::1/128", dev="eth0", metric=1024, protocol=OURS)
    stale = Route.to("fd00:9::1/128", dev="eth0", gateway="fe80::1", metric=1024, protocol=OURS)
    theirs = Route.to("fd00:9::1/128", dev="ib0", metric=1024, protocol=4)

    def actions(*there: Route) -> list[str]:
        snapshot = attrs.evolve(plain().with_routes(there), rules=default_rules(6))
        return [it.action for it in plan_exactly([wanted], snapshot, ours=[OURS], about=[wanted.prefix]).steps]

    assert actions(stale) == ["replace"]
    assert actions(stale, theirs) == ["conflict"]
