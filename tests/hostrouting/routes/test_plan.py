"""hostrouting.routes.plan: the ordered steps from what is to what is wanted."""

import re
from itertools import combinations, product

import pytest
from hypothesis import given, settings, strategies as st

from hostrouting.config.settings import HostRoutingConfig, ProbeRewriteConfig, StaticRoute
from hostrouting.finding import Finding
from hostrouting.model.prefix import IPV4, IPV6, Prefix
from hostrouting.model.route import OURS, Route
from hostrouting.model.snapshot import ARPHRD_INFINIBAND, Link, Snapshot
from hostrouting.routes.plan import plan_static_routes, reply_routes
from hostrouting.routes.steps import RoutePlan
from hostrouting.testing import plain_vm
from tests.hostrouting.routes.own_routes import (
    HOPS,
    PREFIXES,
    configured,
    entry,
    fake,
    hosts,
    put,
    wishes,
)
from tests.support.examples import scaled
from tests.support.ip_text import routes_of, text_rows
from tests.support.sections import static

DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=16)
BY_TUNNEL = Route.to("0.0.0.0/0", dev="tun0", gateway="10.8.0.1", protocol=3)
TUNNEL = Link(name="tun0", index=9, type=65534, kind="tun")
OF_ETH1 = Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", protocol=16)
IN_DOUBT = [[], [BY_TUNNEL], [BY_TUNNEL, DEFAULT], [OF_ETH1, DEFAULT]]
PLACE = PREFIXES[IPV4][0]
BY_A = entry(PLACE, HOPS[IPV4][0])


def host_with(*routes: Route) -> Snapshot:
    """A host with three cards, InfiniBand, tunnels and a device that is down, and these routes."""
    kernel = fake()
    kernel.add_address("eth1", "10.1.0.4/24")
    kernel.add_link("eth2")
    kernel.add_link(TUNNEL)
    kernel.add_link(Link(name="ib0", index=10, type=ARPHRD_INFINIBAND))
    kernel.add_link(Link(name="down0", index=11, up=False))
    there = kernel.snapshot()
    return there._replace(routes=(*routes, *there.routes))


ROWS = """
# Whose the routes with the key are
| | add
A encap seg6 proto 186                                              | | conflict
-; default dev eth1; local PLACE dev eth1 proto 186                 | | conflict
B proto ours; A proto 186                                           | | keep, delete
B proto 186; A proto ours                                           | | conflict

# In IPv6, where each next hop is a route of its own
fd20::/32 proto ours metric 1024 SIX_AB                             | six | keep, delete
fd20::/32 proto ours metric 1024 SIX_BC                             | six | delete, delete, add
fd20::/32 proto 186 metric 1024 SIX_AB                              | six | conflict
SIX_A proto 186 metric 1024; fd20::/32 dev eth1 proto 186 metric 1024 | six | keep
fd20::/32 dev eth1 proto ours metric 1024; SIX_B proto 186 metric 1024 | six | conflict

# Which route of a key Linux uses: not a dead or expired one, and in IPv6 the preferred one
A dead proto ours                            | | keep
A dead proto ours; B proto 186               | | conflict
SIX_A proto ours metric 1024; SIX_B proto 186 metric 1024 pref high | six | conflict
SIX_A proto 9 metric 1024 expires pref high               | six | keep
SIX_A proto 9 metric 1024 expired                         | six | conflict
SIX_B proto 186 metric 1024 expired; SIX_A proto ours metric 1024 | six | keep

# Not compared: whether the device is down, and whether the gateway is said to be on link
A linkdown proto ours | | keep
A onlink proto 186    | | keep

# The source is compared if the default route has one that Linux would not take otherwise
A proto 186 src 10.1.0.4                            | | keep
-; default via 10.0.0.1 dev eth0 src 10.1.0.4; A proto ours src 10.1.0.4 | | keep
-; default via 10.0.0.1 dev eth0 src 10.1.0.4; A proto ours | | delete, add
-; default via 10.0.0.1 dev eth0 src 10.1.0.4; A proto ours; A proto ours src 10.1.0.4 \
| | keep, delete
-; default via 10.0.0.1 dev eth0 src 10.1.0.4; A proto 186  | | conflict
-; A proto ours src 10.1.0.4                        | | keep
-; ::/0 via fd00:99::1 dev eth0 src fd00:99::4; SIX_A proto ours metric 1024 | six | delete, add

# Several next hops: neither their weights nor their order is compared
-; default A_AND_B; PLACE proto ours A_AND_B weight 3 | | keep
-; default A_AND_B; PLACE proto ours B_AND_A          | | keep
-; default A_AND_B; A proto ours                      | | delete, add
-; default via 10.0.0.1 dev eth0; PLACE proto ours A_AND_B dead | | keep
PLACE proto ours A_AND_B                              | | delete, add

# A request to delete a longer route would take the wanted one before it: the longer one stays
A proto ours; PLACE proto ours A_AND_B              | via 10.0.0.1 dev eth0 | keep
PLACE proto ours A_AND_B; A proto ours              | via 10.0.0.1 dev eth0 | keep, delete
A proto 186; PLACE proto ours A_AND_B               | via 10.0.0.1 dev eth0 | keep, delete

# Without a default route: ours that Linux uses stays, by devices that are up, as far as it is named
-; A proto ours; B proto ours                  | | keep, delete
-; A proto ours                                | via 10.0.0.1 | keep
-; PLACE dev ib0 proto ours                    | dev ib0 | keep
-; local fe80::4 dev eth1 table 255; fd20::/32 via fe80::4 dev eth0 proto ours metric 1024 \
| six | keep
-; A dead proto ours                           | | wait
-; A proto ours                                | via 10.0.0.2 | wait
-; PLACE proto ours nhid 7                     | | wait
-; B proto 186; A proto ours                   | | wait
-; A proto ours metric 7                       | | delete, wait

# With an expected device: in doubt, what leaves by it stays
-; PLACE dev eth1 proto ours                   | expected eth0 | keep
-; PLACE dev tun0 proto ours                   | expected tun0 | keep
-; default dev tun0; A proto ours              | expected eth0 dev eth1 | wait
"""
WORDS = {
    "SIX_A": "fd20::/32 via fd00:99::1 dev eth0",
    "SIX_B": "fd20::/32 via fd00:99::2 dev eth0",
    "SIX_AB": "nexthop via fd00:99::1 dev eth0 nexthop via fd00:99::2 dev eth0",
    "SIX_BC": "nexthop via fd00:99::2 dev eth0 nexthop via fd00:99::3 dev eth0",
    "A_AND_B": "nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.2 dev eth0",
    "B_AND_A": "nexthop via 10.0.0.2 dev eth0 nexthop via 10.0.0.1 dev eth0",
    "B_AND_ETH1": "nexthop via 10.0.0.2 dev eth0 nexthop dev eth1",
    "BOTH": "nexthop via 10.0.0.1 dev eth0 nexthop via 10.1.0.1 dev eth1",
    "A": "20.0.0.0/16 via 10.0.0.1 dev eth0",
    "B": "20.0.0.0/16 via 10.0.0.2 dev eth0",
    "OTHER": "default via 10.0.0.1 dev eth0 metric 9",
    "PLACE": "20.0.0.0/16",
    "SIX_LINK": "fd20::/32 via fe80::1 dev eth0",
}
"""What stands for a text in the rows."""


def spelt(row: str) -> list[Route]:
    for short, long in WORDS.items():
        row = re.sub(rf"\b{short}\b", long, row)
    return routes_of(row)


def wished(wish: str) -> HostRoutingConfig:
    """The configuration with a route to the place, with this device and gateway: `six dev eth0`."""
    place = PREFIXES[IPV6 if wish.startswith("six") else IPV4][0]
    words = wish.removeprefix("six").split()
    names = dict(zip(words[::2], words[1::2], strict=True))
    wanted = static(place, gateway=names.get("via"), dev=names.get("dev"))
    expected = [names["expected"]] if "expected" in names else []
    return configured(wanted, expected=expected)


def actions(plan: RoutePlan) -> str:
    """What is done with each route; "wait" for each that waits."""
    return ", ".join([*(step.action for step in plan.steps), *["wait"] * len(plan.waiting)])


@text_rows(ROWS)
def test_the_steps_for_one_route(row: list[str]) -> None:
    """On a host with these routes, a wish leads to these steps; a dash: no default route."""
    there, wish, steps = row
    if not there.startswith("-;"):
        there += "; default via 10.0.0.1 dev eth0; ::/0 via fd00:99::1 dev eth0 metric 1024 proto 9"
    host = host_with(*spelt(there.removeprefix("-;")))
    plan = plan_static_routes(wished(wish), host)
    assert actions(plan) == steps
    again = plan_static_routes(wished(wish), plan.apply_to(host))
    assert again.changes == ()


def test_the_order_of_deletions() -> None:
    """One that Linux could delete in place of another goes first: with fewer hops, or a source."""
    there = spelt("A proto ours src 10.0.0.4; A proto ours; PLACE proto ours A_AND_B")
    steps = plan_static_routes(configured(), host_with(*there)).steps
    assert [step.route for step in steps] == there


class TestWhatStays:
    """While it is missing or in doubt, usable routes of ours are right."""

    def test_nothing_moves(self) -> None:
        """What is there stays, what is not there waits, and what is not configured goes."""
        stale = entry(PREFIXES[IPV4][1], HOPS[IPV4][0])
        there = host_with(BY_TUNNEL, DEFAULT, BY_A, stale)
        plan = plan_static_routes(configured(static(PLACE), static("20.1.0.0/16")), there)
        assert plan.steps == (("keep", BY_A, "exists"), ("delete", stale, "not configured"))
        assert [str(step)[:2] for step in plan.steps] == ["  ", "- "]
        [(missing, route)] = plan.waiting
        assert str(route.destination) == "20.1.0.0/16"
        sentence = f"after the next boot, {PLACE} will wait for {missing}; what is there now stays"
        warning = Finding("route-stays", "warning", sentence, str(PLACE), missing.remedy)
        assert plan.warnings == (warning,)

    @text_rows(
        """
# Another default route is the best one now
default via 10.8.0.1 dev tun0; OTHER; A proto ours                     | | keep
default dev eth1; OTHER; A proto ours                                  | | keep
default dev eth1; OTHER; A proto ours                                  | dev eth1 | delete, add
default dev eth1; OTHER; A proto ours                       | via 10.0.0.2 dev eth0 | delete, add
default dev eth1; OTHER; A dead proto ours                             | | delete, add
default dev eth1; OTHER; A linkdown proto ours                         | | delete, add
default dev eth1; OTHER; PLACE via 10.9.9.9 dev eth0 proto ours        | | delete, add
default dev eth1; OTHER; B proto 186; A proto ours                     | | conflict
default dev eth1; OTHER; A proto ours metric 7                         | | add, delete

# The router of the device is another one now
default via 10.0.0.2 dev eth0; A proto ours                            | | delete, add
default dev eth0; A proto ours                                         | | delete, add
::/0 via fe80::1 dev eth0 expired; ::/0 via fe80::2 dev eth0 metric 9; SIX_LINK proto ours \
metric 1024 | six | delete, add
::/0 via fe80::2 dev eth0; ::/0 via fe80::1 dev eth1 metric 9; SIX_LINK proto ours metric 1024 \
| six | delete, add

# Its default route has a source now: the route leads the same way
default via 10.0.0.1 dev eth0 src 10.1.0.4; A proto ours               | | delete, add
default via 10.0.0.1 dev eth0; A proto ours src 10.1.0.4               | | keep
default via 10.0.0.2 dev eth0 src 10.1.0.4; OTHER; A proto ours        | | keep

# One of several routers is gone, or has come
default via 10.0.0.1 dev eth0; PLACE proto ours A_AND_B                | | delete, add
default A_AND_B; A proto ours                                          | | delete, add
::/0 proto 9 nexthop via fe80::2 dev eth0 nexthop via fe80::1 dev eth0; SIX_LINK proto ours \
metric 1024 | six | keep

# One of two routers on different devices is withdrawn, for good or until its leg comes back
default via 10.0.0.1 dev eth0; PLACE proto ours BOTH                   | | delete, add
default via 10.0.0.1 dev eth0; PLACE proto ours B_AND_ETH1             | | delete, add
default BOTH; A proto ours                                             | | delete, add
default BOTH; B proto ours                                             | | keep
default nexthop via 10.0.0.1 dev eth0 nexthop dev tun0; A proto ours   | | keep

# Its link is down: Linux passes over the dead next hop, and uses it again later
default BOTH dead linkdown; PLACE proto ours BOTH dead linkdown        | | keep
default via 10.8.0.1 dev tun0; PLACE proto ours BOTH dead linkdown     | | keep
default dev eth2; PLACE proto ours BOTH dead linkdown                 | | keep
PLACE proto ours BOTH dead linkdown                                    | | keep
PLACE proto ours BOTH linkdown                                         | | wait
default BOTH linkdown; PLACE proto ours BOTH linkdown                  | | keep

# Some default route still has the old one
default via 10.0.0.2 dev eth0; default via 10.0.0.1 dev eth0 table 100; A proto ours | | keep

# There is no other router for the device
A proto ours                                                           | | keep
default via 10.9.9.9 dev eth0; A proto ours                            | | keep
default dev eth1; A proto ours                                         | | keep
default dev eth1; default via 10.0.0.2 dev eth0 metric 9; A proto ours | | keep
default nexthop via 10.0.0.2 dev eth0 nexthop dev eth1; A proto ours   | | keep
default via 10.8.0.1 dev tun0; PLACE proto ours BOTH                   | | keep
default nexthop via 10.0.0.1 dev eth0 nexthop dev eth2; PLACE proto ours BOTH | | keep

# It did not take a gateway
default via 10.0.0.2 dev eth0; A proto ours                            | via 10.0.0.1 | keep
default via 10.0.0.2 dev eth0; PLACE proto ours B_AND_ETH1             | | keep
"""
    )
    def test_who_may_not_move_routes(self, row: list[str]) -> None:
        """It stays while default routes have its gateways. A finding says what a boot does."""
        there, wish, steps = row
        host = host_with(*spelt(there))

        plan = plan_static_routes(wished(wish), host, may_move=False)

        assert actions(plan) == steps
        moved = plan_static_routes(wished(wish), host)
        added = [step.route for step in moved.changes if step.action == "add"]
        if added and moved.changes != plan.changes:
            [warning] = plan.warnings
            assert warning.name == "route-stays"
            assert f" will lead {added[0].way}; what is there now stays" in warning.sentence
            assert str(warning.remedy).startswith(f"to keep it {plan.steps[0].route.way}, write ")

    def test_no_device_is_added(self) -> None:
        """Who may not move routes adds no device, and leaves no router that was withdrawn."""
        ways = [way for number in (1, 2, 3) for way in combinations(HOPS[IPV4], number)]
        for old, new in product(ways, ways):
            default = DEFAULT._replace(next_hops=new)
            there = host_with(default, BY_A._replace(next_hops=old))
            plan = plan_static_routes(configured(static(PLACE)), there, may_move=False)
            [used] = [step.route for step in plan.steps if step.action != "delete"]
            if not {*old} <= {*new}:
                assert {hop.dev for hop in used.next_hops} <= {hop.dev for hop in old}
            if {*new} <= {*old}:
                assert {hop for hop in used.next_hops if hop.gateway} <= {*new}

    @settings(max_examples=scaled(200))
    @given(hosts(), wishes(), st.sampled_from(IN_DOUBT))
    def test_after_any_plan(
        self, there: list[Route], desired: list[StaticRoute], defaults: list[Route]
    ) -> None:
        """It stays as it is when the default routes go, or come in doubt."""
        kernel = fake()
        kernel.add_link(TUNNEL)
        put(kernel, there)
        config = configured(*desired)
        before = kernel.snapshot()
        plan = plan_static_routes(config, before)
        after = plan.apply_to(before)
        # A plan with a conflict has made nothing.
        stuck = {step.route.key for step in plan.conflicts}
        stuck |= {route.key for _, route in plan.waiting}

        others = [route for route in after.routes if route.prefix.length or route.protocol == OURS]
        in_doubt = after._replace(routes=(*defaults, *others))
        plan_in_doubt = plan_static_routes(config, in_doubt)

        assert {step.route.key for step in plan_in_doubt.changes} <= stuck
        used = {route.key: route for route in reversed(after.routes)}
        for _, route in plan_in_doubt.waiting:
            if route.key in used and used[route.key].protocol == OURS:
                assert route.key in stuck


class TestReplyRoute:
    """It is one of ours: on the link, without a gateway, and optional."""

    config = HostRoutingConfig(probe_rewrite=ProbeRewriteConfig(enabled=True, interfaces=("eth0",)))
    prefix = Prefix.of(config.probe_rewrite.global_address)

    @pytest.mark.parametrize(("dev", "name"), [("eth0", "route-conflict"), ("eth9", "route-waits")])
    def test_left_out(self, dev: str, name: str) -> None:
        """If its key is taken, or its device missing, nothing waits: a warning says why."""
        theirs = Route.to(self.prefix, dev="ib0", metric=1024, protocol=4)
        rewrite = ProbeRewriteConfig(enabled=True, interfaces=(dev,))
        there = plain_vm().snapshot().with_routes([theirs])
        plan = plan_static_routes(HostRoutingConfig(probe_rewrite=rewrite), there)
        assert (plan.steps, plan.waiting) == ((), ())
        [finding] = plan.findings()
        assert (finding.name, finding.severity) == (name, "warning")

    def test_wanted(self) -> None:
        """One for the device of the probe rewrite, unless a configured route has its key."""
        [step] = plan_static_routes(self.config, plain_vm().snapshot()).steps
        assert step.action == "add"
        assert step.route == Route.to(self.prefix, dev="eth0", metric=1024, protocol=OURS)
        rewrite = self.config.probe_rewrite
        without_it = HostRoutingConfig(probe_rewrite=rewrite._replace(ensure_route=False))
        same_key = static(self.prefix, gateway="fe80::1", dev="eth0", metric=1024)
        with_same_key = configured(same_key)._replace(probe_rewrite=rewrite)
        assert not reply_routes(HostRoutingConfig())
        assert not reply_routes(without_it)
        [step] = plan_static_routes(with_same_key, plain_vm().snapshot()).steps
        assert step.route.has_gateway


@given(hosts(), wishes(), st.data())
@settings(max_examples=scaled(200))
def test_what_every_plan_is(
    there: list[Route], desired: list[StaticRoute], data: st.DataObject
) -> None:
    """Only ours change, in any order of the configuration; afterwards nothing is left to do."""
    kernel = fake()
    put(kernel, there)
    snapshot = kernel.snapshot()
    plan = plan_static_routes(configured(*desired), snapshot)
    after = plan.apply_to(snapshot)

    for change in plan.changes:
        assert change.route.protocol == OURS
    theirs = [route for route in snapshot.routes if route.protocol != OURS]
    assert [route for route in after.routes if route.protocol != OURS] == theirs
    settled = {step.route.key for step in plan.steps if step.action != "delete"}
    settled |= {route.key for _, route in plan.waiting}
    assert {route.key for route in after.routes if route.protocol == OURS} <= settled

    in_another_order = configured(*data.draw(st.permutations(desired)))
    assert set(plan_static_routes(in_another_order, snapshot).steps) == set(plan.steps)

    again = plan_static_routes(configured(*desired), after)
    assert again.changes == ()
    assert again.waiting == plan.waiting
    assert [step.route for step in again.conflicts] == [step.route for step in plan.conflicts]
