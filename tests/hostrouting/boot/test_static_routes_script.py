"""static-routes.sh, run in private namespaces: the table after it is the one that the plan leads to."""

import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostrouting.config.probe_rewrite import ProbeRewriteConfig
from hostrouting.config.settings import StaticRoute
from hostrouting.fib.engine import Fib
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import IPV4, IPV6, Prefix
from hostrouting.model.route import DEFAULT_METRIC, OURS, TABLE_LOCAL, Route
from hostrouting.model.snapshot import Snapshot
from hostrouting.routes.plan import RoutePlan, plan_routes
from hostrouting.routes.uplink import DesiredRoute, bare_leg
from tests.support.awks import AWKS, TREES
from tests.support.commands import LINKS, furnish, lose_carriers, route_command
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace
from tests.support.routes_script import HALVES, Ran, ours
from tests.support.strategies import blocks, prefixes, routes
from tests.support.waiting import wait_for
from tests.tables.next_hops import by_wanted, found, put

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

UPLINKS = (
    *[["route add default via 10.0.0.1 dev eth0"]] * 3,
    ["route add default nexthop via 10.0.0.1 dev eth0 weight 2 nexthop via 10.0.0.2 dev eth1 onlink"],
    ["route add default dev wg0 metric 5", "route add default via 10.0.0.1 dev eth0 metric 9"],
    ["route add default via 10.0.0.7 dev eth0 proto 213"],
    ["route add default via 10.5.0.1 dev eth0 onlink"],
    ["route add unreachable default", "route add default via 10.0.0.1 dev eth0 metric 9"],
    ["route add default via 10.0.0.1 dev eth0 table 253"],
    ["link set wg0 up", "route add default nexthop via 10.0.0.1 dev eth0 nexthop dev wg0", "link set wg0 down"],
    [],
)
UPLINKS_IPV6 = (
    *[["route add default via fe80::1 dev eth0 proto ra expires 600 hoplimit 64"]] * 3,
    ["route add default nexthop via fe80::1 dev eth0 weight 2 nexthop via fe80::2 dev eth1"],
    [
        "route add default via fe80::1 dev eth0 proto ra metric 5 expires 0",
        "route add default via fe80::2 dev eth1 metric 9 pref low",
        "route add default via fe80::3 dev ib0 metric 12",
    ],
    ["route add default via fe80::1 dev eth0", "route append default dev eth1 pref high"],
    ["route add default via fe80::7 dev eth0 proto 213", "route add default via fe80::1 dev eth0 metric 2000"],
    [
        "route add default from fd00::/8 via fe80::1 dev eth0 metric 5",
        "route add default via fe80::2 dev eth0 metric 9",
    ],
    ["route add unreachable default metric 7", "route add default via fe80::1 dev eth0"],
    ["route add default via fe80::1 dev eth0", "rule add lookup 100", "route add throw default table 100"],
    [
        "route add default via fe80::1 dev eth0",
        "rule add lookup 100",
        "route add default via fe80::5 dev eth0 table 100",
    ],
    [],
)
FAMILIES = ((IPV4,), (IPV6,), (IPV4, IPV6))


def both(namespace: Namespace) -> Snapshot:
    """The host, with its rules and routes of both families."""
    one, other = namespace.snapshot(IPV4), namespace.snapshot(IPV6)
    # `ip` shows whole seconds: 0 in the last second before a route expires, and in the first one after.
    routes = [
        attrs.evolve(route, expires=-1) if route.expires == 0 else route for route in (*one.routes, *other.routes)
    ]
    return attrs.evolve(other, rules=(*one.rules, *other.rules), routes=routes)


def plan(wanted: Iterable[StaticRoute], snapshot: Snapshot) -> RoutePlan:
    """The engine's plan for the same wishes."""
    desired = (
        DesiredRoute(Prefix.of(it.destination), gateway=it.gateway, dev=it.dev, metric=it.metric) for it in wanted
    )
    return plan_routes(desired, snapshot)


def table(snapshot: Snapshot) -> Counter[Route]:
    """The routes, whatever their order, without the state of their legs.

    Those for multicast, which the kernel adds when it comes to it, do not count.
    """
    routes = (route for route in snapshot.routes if route.type != "multicast")
    return Counter(attrs.evolve(route, legs=tuple(map(bare_leg, route.legs))) for route in routes)


WAYS = {
    IPV4: [
        *["via 10.0.0.1 dev eth0"] * 2,
        "via 10.0.0.1 dev eth0 onlink",
        "via 10.0.0.9 dev eth0 mtu 1400",
        "dev ib0 scope link",
    ],
    # Of routes with gateways, IPv6 makes one, with the protocol of the first.
    IPV6: [
        *["via fe80::1 dev eth0"] * 2,
        "via fe80::7 dev eth0",
        "nexthop via fe80::8 dev eth0 nexthop via fe80::1 dev eth0",
        "via fe80::1 dev eth0 expires 600",
        "dev eth0 pref high",
        "dev ib0",
        "from fd00:2::/64 dev ib0",
    ],
}
PLACES = {
    IPV4: ("172.16.0.0/17", "default via 10.0.0.1 dev eth0"),
    IPV6: ("fd00:16::/64", "default via fe80::1 dev eth0"),
}


def crowds(family: int) -> st.SearchStrategy[list[str]]:
    """Present routes with a wanted key: ours and others in any order, often including the wanted one."""
    ways = st.tuples(st.sampled_from([4, OURS, OURS]), st.sampled_from(WAYS[family]))
    return st.lists(ways.map(lambda it: f"proto {it[0]} {it[1]}"), max_size=4)


def static_routes(block: Prefix) -> st.SearchStrategy[list[StaticRoute]]:
    """Wishes in the block that want the same keys and gateways now and then."""
    few = {
        IPV4: ("10.0.0.1", "10.0.0.9", "10.5.0.1", "172.16.0.5"),
        IPV6: ("fd00:99::1", "fd00:99::4", "fd00:5::1", "fd00:16::5"),
    }
    gateways = [None, None, *map(ip_address, few[block.family])]
    ways = st.tuples(prefixes(block), st.sampled_from(gateways)).filter(lambda it: it[0].ip != it[1])
    one = st.builds(
        lambda way, dev, metric: StaticRoute(str(way[0]), way[1], dev, metric),
        ways,
        st.sampled_from([None, None, "eth0", "eth1", "ib0", "gone"]),
        st.sampled_from([0, 0, 100, 1024]),
    )
    return st.lists(
        one, max_size=4, unique_by=lambda route: (route.destination, route.metric or DEFAULT_METRIC[block.family])
    )


@settings(max_examples=scaled(35), deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(data=st.data())
def test_the_table_is_the_planned_one(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The script does what the engine plans; if a route cannot be installed, nothing is taken away either."""
    families = data.draw(st.sampled_from(FAMILIES))
    wanted = [wish for it in families for wish in data.draw(static_routes(data.draw(blocks(it))))]
    with private_namespace() as namespace:
        furnish(namespace, LINKS, data.draw(st.sets(st.sampled_from(["ib0", "wg0"]))))
        for family in families:
            namespace.batch(data.draw(st.sampled_from({IPV4: UPLINKS, IPV6: UPLINKS_IPV6}[family])), family=family)
            standing = data.draw(st.lists(routes(data.draw(blocks(family)), only_ipv6=True), max_size=8))
            # A default route in table local hides all others, so Linux uses none: the script waits.
            standing = [it for it in standing if it.prefix.length or it.table != TABLE_LOCAL]
            namespace.batch(map(command, standing), force=True, family=family)
        before = both(namespace)
        planned = plan(wanted, before)
        awk, tree = data.draw(st.sampled_from(AWKS)), data.draw(st.sampled_from(TREES))
        ran = Ran(namespace, wanted, tmp_path_factory.mktemp("routes"), awk=awk, tree=tree)
        after = both(namespace)
    is_as_planned(planned, ran, before, after, plan(wanted, after))


def command(route: Route) -> str:
    """The command that appends a route, with what only IPv6 has."""
    end = "" if route.expires is None else f" expires {max(route.expires, 0)}"
    sources = "" if route.source is None else f" from {route.source}"
    return route_command(route) + (f"{sources} pref {route.preference}{end}" if route.prefix.family == IPV6 else "")


@settings(max_examples=scaled(35), deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(data=st.data(), family=st.sampled_from([IPV4, IPV6]), metric=st.sampled_from([0, 100]))
def test_a_crowded_place_is_the_planned_one(
    data: st.DataObject, family: int, metric: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever routes have a wanted key, ours and others in any order, the script does what the engine plans."""
    place, default = PLACES[family]
    wanted = [StaticRoute(place, metric=metric)]
    awk, tree = data.draw(st.sampled_from(AWKS)), data.draw(st.sampled_from(TREES))
    with private_namespace() as namespace:
        furnish(namespace, LINKS, set())
        crowd = [f"route append {place} metric {metric} {it}" for it in data.draw(crowds(family))]
        namespace.batch([f"route add {default}", *crowd], force=True, family=family)
        before = both(namespace)
        ran = Ran(namespace, wanted, tmp_path_factory.mktemp("routes"), awk=awk, tree=tree)
        after = both(namespace)
        is_as_planned(plan(wanted, before), ran, before, after, plan(wanted, after))


def is_as_planned(
    planned: RoutePlan, ran: Ran, before: Snapshot, after: Snapshot, then: RoutePlan | None = None
) -> None:
    """The script carried out the whole plan, or nothing, and then said why each route cannot be installed.

    `then` is the plan after it.
    """
    then = then or RoutePlan()
    told = (
        f"{ran.said}\n{planned}\n--\n"
        + "\n".join(map(str, before.routes))
        + "\n--\n"
        + "\n".join(map(str, after.routes))
    )
    said = [re.sub(r"^<3>static-routes: (ROUTE-[A-Z]+: )?", "", line) for line in ran.lines]
    if not ran.status and planned.pending:
        # The script leaves it to the kernel whether a gateway is next to the host.
        assert all(re.search("to be a router|that reaches the gateway", it.missing) for it in planned.pending), told
        return
    if ran.status == 0:
        expected = planned.apply_to(before)
        assert not [*planned.conflicts, *planned.pending], told
        assert not said, told
        if any(route.prefix.family == IPV6 and len(route.legs) > 1 for route in before.routes):
            # Whose next hops stood there is known only now.
            assert not then.changes, told
            return
        assert firsts(after) == firsts(expected), told
        assert table(after) <= table(expected), told
        # A deletion takes the first that is like its words: a twin of ours behind another's may go with what is to go.
        assert all(route.protocol == OURS for route in table(expected) - table(after)), told
        return
    assert said, told
    assert given_back(after) == given_back(before), told
    if any(leg.dead for route in before.routes if not route.prefix.length for leg in route.legs):
        return  # of a default route with several legs the engine takes one that has lost its carrier, and the script waits
    taken = ": another route has the same destination and metric: ["
    refused = {line.split()[0].rstrip(":") for line in said if taken in line}
    waits = {line.partition("; gave up")[0] for line in said if ": waiting for " in line}
    # The script tells by itself what it does not need the kernel for.
    assert waits <= {str(it) for it in planned.pending}, told
    conflicts = {str(conflict.route.prefix) for conflict in planned.conflicts}
    # Where others stand in the same place as ours that say something else, the script does not look for a way; and it
    # says so also of a route whose gateway cannot be reached.
    held = {str(it.prefix) for it in before.routes if it.protocol != OURS}
    wanted = [change.route.prefix for change in planned.changes] + [it.desired.destination for it in planned.pending]
    crowded = held & set(map(str, wanted))
    assert conflicts <= refused <= conflicts | crowded, told
    assert (
        refused or planned.pending or any(": Error: " in it or ": File exists" in it or "arg" in it for it in said)
    ), told


def given_back(snapshot: Snapshot) -> tuple[dict[tuple[object, ...], Route], Counter[Route]]:
    """The first routes and the table, as they are after a failed run.

    Each IPv6 next hop has a protocol and an end of its own. Linux lists those of the first, and what was deleted and put
    back comes last.
    """

    def alike(route: Route) -> Route:
        if route.prefix.family == IPV4 or len(route.legs) == 1:
            return route
        return attrs.evolve(route, legs=tuple(sorted(route.legs, key=str)), protocol=0, expires=None)

    found = firsts(snapshot)
    return {key: alike(route) for key, route in found.items()}, Counter(map(alike, table(snapshot).elements()))


def firsts(snapshot: Snapshot) -> dict[tuple[object, ...], Route]:
    """Of each key the route that the kernel takes."""
    found: dict[tuple[object, ...], Route] = {}
    for route in table(snapshot):
        found.setdefault(route.key, route)
    return found


@pytest.mark.parametrize("wanted", by_wanted(), ids=str)
def test_next_hops_of_two_programs(wanted: tuple[tuple[str, int], ...], tmp_path: Path) -> None:
    """Next hops of another program stay; the others become the wanted ones, with their weights."""
    cases = by_wanted()[wanted]
    routes = [StaticRoute(str(prefix)) for prefix in cases]
    with private_namespace() as namespace:
        namespace.batch(["link add eth0 type veth peer name eth0p", "link set eth0p up", "link set eth0 up"])
        namespace.batch(["addr add fd10::9/64 dev eth0 nodad"])
        hops = " ".join(f"nexthop via {gateway} dev eth0 weight {weight}" for gateway, weight in wanted)
        namespace.batch([f"route add default proto static {hops}"], family=IPV6)
        with NetlinkBackend(netns=namespace.path) as backend:
            put(backend, cases)
            runs = [Ran(namespace, routes, tmp_path) for _ in range(2)]
            now = found(backend, cases)
    assert not {case.name: now[prefix] for prefix, case in cases.items() if not case.is_as_expected(*now[prefix])}
    assert [(ran.status, ran.lines) for ran in runs] == [(0, [])] * 2


class TestOneHost:
    """On an H200 node, while the script runs."""

    def test_automatic(self, namespace: Namespace, tmp_path: Path) -> None:
        """Device and gateway are those of the default route; ours are tagged; the second run writes nothing."""
        assert Ran(namespace, HALVES, tmp_path).status == 0
        assert namespace.ip("-N", "route", "show", "proto", "213").stdout.splitlines() == [
            "172.16.0.0/17 via 10.0.0.1 dev eth0 ",
            "172.16.128.0/17 via 10.0.0.1 dev eth0 ",
        ]
        with (tmp_path / "events").open("w+") as events:
            watch = subprocess.Popen([*namespace.enter, "ip", "monitor", "route"], stdout=events)
            try:
                _see(namespace, "9.9.9.9", events.name)
                assert Ran(namespace, HALVES, tmp_path).status == 0
                _see(namespace, "8.8.8.8", events.name)
            finally:
                watch.kill()
                watch.wait()
            said = {line.removeprefix("Deleted ").split()[0] for line in Path(events.name).read_text().splitlines()}
            assert said == {"9.9.9.9", "8.8.8.8"}, "nothing but what was written between the runs"

    def test_no_longer_wanted(self, namespace: Namespace, tmp_path: Path) -> None:
        """Ours that are no longer wanted go, those of others stay, and with no routes wanted all of ours are gone."""
        others = ["route add 9.9.9.9 via 10.0.0.1 proto static", "route add 9.9.9.10 via 10.0.0.1 proto 212"]
        namespace.batch(others)
        assert Ran(namespace, HALVES, tmp_path).status == 0
        assert Ran(namespace, [StaticRoute("172.16.0.0/18")], tmp_path).status == 0
        (ours,) = (route for route in namespace.routes(IPV4) if route.protocol == 213)
        assert str(ours.prefix) == "172.16.0.0/18"
        assert Ran(namespace, [], tmp_path).status == 0
        assert not [route for route in namespace.routes(IPV4) if route.protocol == 213]
        assert Fib(namespace.snapshot()).routes(Prefix.parse("9.9.9.9/32"))
        assert Fib(namespace.snapshot()).routes(Prefix.parse("9.9.9.10/32"))

    def test_awaited(self, namespace: Namespace, tmp_path: Path) -> None:
        """The script waits for missing devices and routes, once for all routes."""
        namespace.batch(["route del default"])
        many = [StaticRoute(f"10.{number}.0.0/16") for number in range(1, 50)]
        later = subprocess.Popen([*namespace.enter, "sh", "-c", "sleep 0.4; ip route add default via 10.0.0.1"])
        try:
            assert Ran(namespace, many, tmp_path, wait=20).status == 0
        finally:
            later.wait()
        assert len([route for route in namespace.routes(IPV4) if route.protocol == 213]) == 49

    def test_given_up(self, namespace: Namespace, tmp_path: Path) -> None:
        """Waiting ends, and then each route says what it waited for. No nap is longer than 2 s, or than what is left.

        Kills: nap.sh without either of these limits.
        """
        namespace.batch(["route del default"])
        naps, wishes = tmp_path / "naps", [*HALVES, StaticRoute("10.1.0.0/16", dev="gone")]
        ran = Ran(namespace, wishes, tmp_path, wait=30, tools={"sleep": f'echo "$1" >>{naps}'})
        assert ran.status == 1
        assert ran.lines == [
            "<3>static-routes: ROUTE-WAITS: 172.16.0.0/17: waiting for an IPv4 default route; gave up after 30 s",
            "<3>static-routes: ROUTE-WAITS: 172.16.128.0/17: waiting for an IPv4 default route; gave up after 30 s",
            "<3>static-routes: ROUTE-WAITS: 10.1.0.0/16 dev gone: waiting for the device gone; gave up after 30 s",
        ]
        seconds = [float(nap) for nap in naps.read_text().split()]
        assert max(seconds) <= 2
        assert sum(seconds) < 30.1

    def test_work_counts(self, namespace: Namespace, tmp_path: Path) -> None:
        """The time that reading takes is part of the wait, so there are fewer naps.

        Kills: nap.sh that does not read when programs were started; then there are eight naps.
        """
        namespace.batch(["route del default"])
        naps = tmp_path / "naps"
        tools = {"sleep": f'echo "$1" >>{naps}', "ip": 'sleep 0.5; exec ip "$@"'}
        assert Ran(namespace, HALVES, tmp_path, wait=2, tools=tools).status == 1
        assert len(naps.read_text().split()) < 8

    def test_two_next_hops_with_one_gateway(self, namespace: Namespace, tmp_path: Path) -> None:
        """If the configured gateway is that of several next hops of the default route, the first of these is used."""
        way = "nexthop via 10.0.0.1 dev eth0 onlink"
        namespace.batch([f"route replace default {way} {way}"])
        ran = Ran(namespace, [StaticRoute("10.9.0.0/16", "10.0.0.1")], tmp_path)
        assert ran.status == 0, ran.lines
        assert "10.9.0.0/16 via 10.0.0.1 dev eth0 proto 213 onlink" in namespace.run("ip", "-N", "route").stdout

    @pytest.mark.parametrize("awk", AWKS)
    def test_any_awk(self, namespace: Namespace, tmp_path: Path, awk: str) -> None:
        """Whichever awk a host has, the script says and does the same."""
        namespace.batch(
            [
                "route add 10.7.0.0/16 dev ib0",  # the words after the prefix are those of another one
                "route add 172.16.0.0/17 dev ib0 proto 186 metric 4000000000",
                "route add 10.9.0.0/16 dev ib0",
                "route add 10.8.0.0/16 via 10.0.0.9 dev eth0",  # `ip` ends this line with a blank
            ]
        )
        wanted = [
            *HALVES,
            StaticRoute("10.8.0.0/16"),
            StaticRoute("10.9.0.0/16"),
            StaticRoute("10.7.0.0/16"),
            StaticRoute("172.16.0.0/17", metric=4_000_000_000),
        ]
        lines = [
            f"{text}: another route has the same destination and metric: [{holder}], which is not ours; "
            "for the routes to configure instead, run: hostrouting status"
            for text, holder in (
                ("10.8.0.0/16", "10.8.0.0/16 via 10.0.0.9 dev eth0"),
                ("10.9.0.0/16", "10.9.0.0/16 dev ib0 scope link"),
                ("10.7.0.0/16", "10.7.0.0/16 dev ib0 scope link"),
                ("172.16.0.0/17 metric 4000000000", "172.16.0.0/17 dev ib0 proto bgp scope link metric 4000000000"),
            )
        ]
        ran = Ran(namespace, wanted, tmp_path, awk=awk)
        assert ran.lines == [f"<3>static-routes: ROUTE-CONFLICT: {line}" for line in lines]
        assert ran.status == 1
        assert not ours(namespace), "all or nothing"
        assert Ran(namespace, HALVES, tmp_path, awk=awk).status == 0
        assert len(ours(namespace)) == 2

    def test_what_the_kernel_refuses(self, namespace: Namespace, tmp_path: Path) -> None:
        """A route that the kernel refuses is named in its words; the others are not kept, and none is taken away."""
        namespace.batch(["route add 10.9.0.0/16 via 10.0.0.1 proto 213"])
        namespace.batch(["route add broadcast 10.0.0.77 dev eth0 table main"])
        broadcast = StaticRoute("10.1.0.0/16", "10.0.0.77", "eth0")
        ran = Ran(namespace, [*HALVES, broadcast], tmp_path)
        assert ran.status == 1
        (line,) = ran.lines
        assert line.startswith("<3>static-routes: route add 10.1.0.0/16 ")
        assert line.endswith(": Error: Nexthop has invalid gateway.")
        assert ours(namespace) == ["10.9.0.0/16"]

    def test_a_refused_batch_is_tried_again_after_a_nap(self, namespace: Namespace, tmp_path: Path) -> None:
        """Each try makes routes appear and vanish, so there is a nap after each; the naps get longer."""
        wanted = [HALVES[0], StaticRoute("10.1.0.0/16", "10.9.9.9", "eth0")]
        log = f'[[ "$*" != "-batch "* ]] || echo >>{tmp_path}/tries\nexec ip "$@"'
        assert Ran(namespace, wanted, tmp_path, wait=2, tools={"ip": log}).status == 1
        assert len((tmp_path / "tries").read_text()) <= 9

    def test_no_room_for_temporary_files(self, namespace: Namespace, tmp_path: Path) -> None:
        """The script needs no temporary file: with a full disk it does all that it is to do."""
        full = tmp_path / "full"
        full.mkdir()
        fill = f"mount -t tmpfs -o size=64k none {full} && export TMPDIR={full} && ! cat /dev/zero 2>&- >{full}/all"
        many = [StaticRoute(f"10.{1 + number // 256}.{number % 256}.0/24") for number in range(1500)]
        ran = Ran(namespace, many, tmp_path, before=fill)
        assert (ran.lines, ran.status) == ([], 0)
        assert len(ours(namespace)) == 1500

    @pytest.mark.parametrize(
        "was",
        [
            "via 10.0.0.1 dev eth0 onlink",
            "via 10.0.0.1 dev eth0 src 10.0.0.4",
            "via 10.0.0.1 dev eth0 mtu 1400",
            "via 10.0.0.1 dev eth0 mtu lock 1400",
            "via 10.0.0.9 dev eth0",
            "nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.2 dev eth0",
            "scope global dev eth0",
        ],
    )
    @pytest.mark.parametrize("twin", ["", "before", "behind"])
    def test_whatever_stood_there(self, namespace: Namespace, tmp_path: Path, was: str, twin: str) -> None:
        """Afterwards, any other route of ours with the key is gone, and the wanted one is there.

        Where a route of another stands there too, its place is refused, and nothing is touched.
        """
        wanted = "172.16.0.0/17 via 10.0.0.1 dev eth0 proto 213"
        namespace.batch([f"route append {wanted}"] * (twin == "before"))
        namespace.batch([f"route append 172.16.0.0/17 proto 213 {was}"])
        namespace.batch([f"route append {wanted}"] * (twin == "behind"))
        namespace.batch(["route append 172.16.0.0/17 dev ib0 proto static"])
        before = namespace.ip("route", "show").stdout
        if not twin:
            ran = Ran(namespace, HALVES[:1], tmp_path)
            assert ran.status == 1
            assert "the same destination and metric: [172.16.0.0/17 dev ib0 proto static scope link]" in ran.said
            assert namespace.ip("route", "show").stdout == before
        namespace.batch(["route del 172.16.0.0/17 dev ib0 proto static"])
        ran = Ran(namespace, HALVES[:1], tmp_path)
        assert (ran.lines, ran.status) == ([], 0)
        (line,) = namespace.ip("-N", "route", "show", "172.16.0.0/17").stdout.splitlines()
        assert line == f"{wanted} "

    def test_another_programs_route_behind_ours(self, namespace: Namespace, tmp_path: Path) -> None:
        """Our route that differs goes, because another program's route behind it is as wanted. Kills: it is a conflict."""
        namespace.batch(["route add 172.16.0.0/17 dev ib0 proto 213"])
        namespace.batch(["route append 172.16.0.0/17 via 10.0.0.1 dev eth0 proto static"])
        ran = Ran(namespace, HALVES[:1], tmp_path)
        assert (ran.lines, ran.status, ours(namespace)) == ([], 0, [])

    def test_an_environment_with_its_names(self, namespace: Namespace, tmp_path: Path) -> None:
        """What the environment has under the names of the script's variables changes nothing."""
        ran = Ran(
            namespace, HALVES, tmp_path, lines="any", dev="any", plan="any", why="any", undo="any", finished="any"
        )
        assert (ran.lines, ran.status, len(ours(namespace))) == ([], 0, 2)

    def test_by_an_object(self, namespace: Namespace, tmp_path: Path) -> None:
        """One of our routes by a nexthop object is also replaced, whoever created the object."""
        namespace.batch(["nexthop add id 5 via 10.0.0.1 dev eth0 proto 4", "route add 172.16.0.0/17 nhid 5 proto 213"])
        namespace.batch(["route add 10.1.0.0/16 nhid 5 proto 213"])
        ran = Ran(namespace, HALVES[:1], tmp_path)
        assert (ran.lines, ran.status, ours(namespace)) == ([], 0, ["172.16.0.0/17"])
        assert "nhid" not in namespace.ip("route", "show").stdout

    def test_by_a_group(self, namespace: Namespace, tmp_path: Path) -> None:
        """If the default route is by a group of nexthop objects, an automatic route has the legs of the group."""
        batch = ["nexthop add id 5 via 10.0.0.1 dev eth0", "nexthop add id 6 via 10.0.0.2 dev eth0"]
        batch += [
            "nexthop add id 10 group 5,3/6",
            "route replace default nhid 10",
            "route add 10.1.0.0/16 nhid 10 proto 213",
        ]
        namespace.batch(batch)
        planned, before = plan(HALVES, namespace.snapshot()), namespace.snapshot()
        ran = Ran(namespace, HALVES, tmp_path)
        is_as_planned(planned, ran, before, namespace.snapshot())
        assert (ran.lines, ran.status, len(ours(namespace))) == ([], 0, 2)

    @pytest.mark.parametrize(
        ("batch", "by"),
        [
            (["rule add not fwmark 51820 lookup 100", "route add default dev wg0 table 100"], "dev wg0"),
            (["rule add fwmark 51820 lookup 100", "route add default dev wg0 table 100"], "via 10.0.0.1 dev eth0"),
            (["rule add lookup main suppress_prefixlength 0"], "via 10.0.0.1 dev eth0"),
            (["rule add from 10.0.0.4 lookup 100", "route add default dev wg0 table 100"], "via 10.0.0.1 dev eth0"),
            (["rule add to 203.0.113.0/24 lookup 100", "route add default dev wg0 table 100"], "via 10.0.0.1 dev eth0"),
            (["rule add lookup 100", "route add throw default table 100"], "via 10.0.0.1 dev eth0"),
            (
                ["route add default via inet6 fe80::1 dev eth0 table 100", "rule add lookup 100"],
                "via inet6 fe80::1 dev eth0",
            ),
            (["rule add lookup 100", "route add unreachable default table 100"], ""),
            (["route add default dev wg0 tos 4"], "via 10.0.0.1 dev eth0"),
            (["rule add uidrange 0-0 lookup 100", "route add default dev wg0 table 100"], "dev wg0"),
            (["rule add goto 39999", "rule add pref 40000 prohibit"], "via 10.0.0.1 dev eth0"),
            (["rule add lookup main suppress_ifgroup 7", "rule del pref 32766"], "via 10.0.0.1 dev eth0"),
            (["route add 0.0.0.0/1 dev wg0", "route add 128.0.0.0/1 dev wg0"], "via 10.0.0.1 dev eth0"),
        ],
    )
    def test_rules(self, namespace: Namespace, tmp_path: Path, batch: list[str], by: str) -> None:
        """The default route is the one that a plain packet takes, as for the engine."""
        namespace.batch(batch, family=IPV4)
        before = namespace.snapshot()
        ran = Ran(namespace, HALVES[:1], tmp_path)
        is_as_planned(plan(HALVES[:1], before), ran, before, namespace.snapshot())
        shown = namespace.ip("-N", "route", "show", "proto", "213").stdout
        assert shown.startswith(f"172.16.0.0/17 {by} ") if by else not shown

    def test_a_default_route_behind_one_that_refuses(self, namespace: Namespace, tmp_path: Path) -> None:
        """A route with a device only uses the default route by that device, also if another one refuses the packets."""
        wanted = [StaticRoute("172.16.0.0/17", dev="eth0")]
        namespace.batch(["route add default via 10.0.0.1 dev eth0 metric 9", "route replace unreachable default"])
        before = namespace.snapshot()
        ran = Ran(namespace, wanted, tmp_path)
        is_as_planned(plan(wanted, before), ran, before, namespace.snapshot())
        assert ran.status == 0, ran.said

    @pytest.mark.parametrize(
        ("wish", "by"),
        [
            (StaticRoute("172.16.0.0/17"), ["dev eth0 weight 2", "dev eth1 weight 1 onlink"]),
            (StaticRoute("172.16.0.0/17", dev="eth1"), ["dev eth1 onlink"]),
            (StaticRoute("172.16.0.0/17", "10.0.0.2"), ["dev eth1 onlink"]),
            (StaticRoute("172.16.0.0/17", "10.0.0.1", "eth0"), ["dev eth0"]),
        ],
    )
    def test_legs(self, namespace: Namespace, tmp_path: Path, wish: StaticRoute, by: list[str]) -> None:
        """Of a default route with several legs all are taken, or those that the wish names."""
        legs = "nexthop via 10.0.0.1 dev eth0 weight 2 nexthop via 10.0.0.2 dev eth1 onlink"
        namespace.batch([f"route replace default {legs}"])
        wanted, before = [wish], namespace.snapshot()
        ran = Ran(namespace, wanted, tmp_path)
        is_as_planned(plan(wanted, before), ran, before, namespace.snapshot())
        (found,) = (route for route in namespace.routes(IPV4) if route.protocol == OURS)
        assert len(found.legs) == len(by)
        assert [leg.dev for leg in found.legs] == [it.split()[1] for it in by]

    @pytest.mark.parametrize("metric", [0, 9])
    def test_a_dead_default_route(self, namespace: Namespace, tmp_path: Path, metric: int) -> None:
        """A default route that is not in use for want of a carrier is passed over, as by the kernel.

        Kills: of two with one metric, the first is taken even if it is dead.
        """
        namespace.batch(
            ["route replace default via 10.0.0.1 dev eth0 metric 9", "route del default metric 0"], force=True
        )
        namespace.batch([f"route prepend default dev ib0 metric {metric}"])
        lose_carriers(namespace, ["ib0"])
        before = namespace.snapshot()
        ran = Ran(namespace, HALVES, tmp_path)
        is_as_planned(plan(HALVES, before), ran, before, namespace.snapshot())
        assert (ran.lines, ran.status) == ([], 0)

    def test_what_is_not_waited_for(self, namespace: Namespace, tmp_path: Path) -> None:
        """A conflict ends the script at once, and so does a caller that gives it no time."""
        begin = time.monotonic()
        namespace.batch(["route add 172.16.0.0/17 dev ib0"])
        assert "another route has the same destination and metric" in Ran(namespace, HALVES, tmp_path, wait=40).said
        namespace.batch(["route del default"])
        assert "; gave up after 0 s" in Ran(namespace, HALVES, tmp_path, wait=40, argument="0").said
        assert time.monotonic() - begin < 30

    def test_all_is_given_back(self, namespace: Namespace, tmp_path: Path) -> None:
        """If a route cannot be installed, the routes that were moved for it return to their former places."""
        namespace.batch(["route add broadcast 10.0.0.77 dev eth0 table main"])
        batch = ["route add 172.16.0.0/17 dev ib0 proto 213", "route append 172.16.0.0/17 via 10.0.0.9 proto 213"]
        batch += [
            "route append unreachable 172.16.0.0/17 metric 3 proto 213",
            "route add 10.7.0.0/16 dev ib0 tos 4 proto 213",
        ]
        namespace.batch(batch)
        before = namespace.ip("route", "show").stdout
        ran = Ran(namespace, [HALVES[0], StaticRoute("10.1.0.0/16", "10.0.0.77", "eth0")], tmp_path)
        assert (ran.status, len(ran.lines)) == (1, 1)
        assert namespace.ip("route", "show").stdout == before
        assert Ran(namespace, HALVES[:1], tmp_path).status == 0
        assert ours(namespace) == ["172.16.0.0/17"]

    def test_one_leg_becomes_two(self, namespace: Namespace, tmp_path: Path) -> None:
        """A route with one leg is replaced by one that has the same leg first and a second one."""
        namespace.batch(["route add 172.16.0.0/17 via 10.0.0.1 dev eth0 proto 213"])
        namespace.batch(["route replace default nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.2 dev eth0"])
        assert Ran(namespace, HALVES[:1], tmp_path).status == 0
        (found,) = (route for route in namespace.routes(IPV4) if route.protocol == 213)
        assert len(found.legs) == 2

    def test_a_refused_route_takes_nothing_away(self, namespace: Namespace, tmp_path: Path) -> None:
        """If the kernel refuses the replacement of one of our routes, the old route stays."""
        namespace.batch(["route add broadcast 10.0.0.77 dev eth0 table main"])
        namespace.batch(["route add 10.1.0.0/16 via 10.0.0.1 proto 213"])
        ran = Ran(namespace, [StaticRoute("10.1.0.0/16", "10.0.0.77", "eth0")], tmp_path)
        assert ran.status == 1
        assert "10.1.0.0/16 via 10.0.0.1 dev eth0" in namespace.ip("-N", "route", "show", "proto", "213").stdout

    @pytest.mark.parametrize("step", ["100000", "-100000"])
    def test_a_clock_that_is_set(self, namespace: Namespace, tmp_path: Path, step: str) -> None:
        """The script waits for the same time even if the clock is set meanwhile."""
        namespace.batch(["route del default"])
        begin = time.monotonic()
        # With this, bash begins to count where a clock that jumped would have it.
        assert Ran(namespace, HALVES, tmp_path, wait=1, SECONDS=step).status == 1
        assert 1 <= time.monotonic() - begin < 60

    def test_other_names_of_a_device(self, namespace: Namespace, tmp_path: Path) -> None:
        """A device that has more names, even such as `ip` uses itself, is known by its own."""
        for name in ("group", "UP", "inet", "altname"):
            assert namespace.ip("link", "property", "add", "dev", "eth0", "altname", name).returncode == 0
        wanted = [*HALVES, StaticRoute("10.1.0.0/16", dev="eth0"), StaticRoute("10.2.0.0/16", dev="inet")]
        ran = Ran(namespace, wanted, tmp_path)
        assert ran.lines == [
            f"<3>static-routes: ROUTE-WAITS: 10.2.0.0/16 dev inet: waiting for {plan(wanted, namespace.snapshot()).pending[0].missing}; gave up after 0 s"
        ]
        assert Ran(namespace, wanted[:-1], tmp_path).status == 0
        assert len(ours(namespace)) == 3


PAIR = [HALVES[0], StaticRoute("fd00:16::/64")]
ROUTER = "route add ::/0 via fe80::1 dev eth0 proto ra expires 600 hoplimit 64"


class TestBothFamilies:
    """On a host with a default route of each family."""

    def test_one_run(self, namespace: Namespace, tmp_path: Path) -> None:
        """Each family's route is by its own default route, and a second run writes nothing."""
        namespace.batch([ROUTER, "route add ::1.2.3.0/120 dev ib0 proto 213"])
        wanted = [*PAIR, StaticRoute("::1.2.3.0/120"), StaticRoute("fd00:17::/64", "fe80::7", "ib0", 5)]
        assert Ran(namespace, wanted, tmp_path).lines == []
        again = Ran(namespace, wanted, tmp_path, tools={"ip": '[[ "$*" != "-batch"* ]] && exec ip "$@"; exit 3'})
        assert (again.lines, again.status, ours(namespace)) == ([], 0, ["172.16.0.0/17"])
        assert namespace.ip("-6", "-N", "route", "show", "proto", "213").stdout.splitlines() == [
            "::1.2.3.0/120 via fe80::1 dev eth0 metric 1024 pref medium",
            "fd00:16::/64 via fe80::1 dev eth0 metric 1024 pref medium",
            "fd00:17::/64 via fe80::7 dev ib0 metric 5 pref medium",
        ]

    def test_awaited(self, namespace: Namespace, tmp_path: Path) -> None:
        """A router's advertisement is awaited, and found when it comes."""
        later = subprocess.Popen([*namespace.enter, "sh", "-c", f"sleep 0.4; ip {ROUTER}"])
        try:
            assert Ran(namespace, PAIR, tmp_path, wait=20).lines == []
        finally:
            later.wait()
        assert (ours(namespace), ours(namespace, IPV6)) == (["172.16.0.0/17"], ["fd00:16::/64"])

    def test_given_up(self, namespace: Namespace, tmp_path: Path) -> None:
        """Without a default route of one family, nothing of the other is changed either."""
        namespace.batch(["route add default from fd00::/8 via fe80::1 dev eth0"], family=IPV6)
        ran = Ran(namespace, PAIR, tmp_path)
        assert ran.lines == [
            "<3>static-routes: ROUTE-WAITS: fd00:16::/64: waiting for an IPv6 default route; gave up after 0 s"
        ]
        assert (ran.status, ours(namespace)) == (1, [])

    @pytest.mark.parametrize(
        ("batch", "by"),
        [
            (["via fe80::1 dev eth0", "dev ib0 pref high"], "dev ib0"),
            (["via fe80::1 dev eth0 pref low", "dev ib0"], "dev ib0"),
            (["via fe80::1 dev eth0 pref low metric 5", "dev ib0 pref high metric 6"], "via inet6 fe80::1 dev eth0"),
            (["via fe80::1 dev eth0 metric 5 expires 0", "dev wg0 pref low metric 6", "dev ib0 metric 7"], "dev ib0"),
            (["from fd00::/8 via fe80::1 dev eth0 metric 5", "dev ib0"], "dev ib0"),
        ],
    )
    def test_which_router(self, namespace: Namespace, tmp_path: Path, batch: list[str], by: str) -> None:
        """Of several IPv6 default routes, the one that Linux uses: by metric, then by preference, if it has not expired."""
        namespace.batch([f"route append default {way}" for way in batch], family=IPV6)
        planned = plan(PAIR, both(namespace))
        assert Ran(namespace, PAIR, tmp_path).lines == []
        (route,) = (it for it in namespace.routes(IPV6) if it.protocol == OURS)
        assert [str(leg) for leg in route.legs] == [by]
        assert route in [step.route for step in planned.changes]

    @pytest.mark.parametrize("refused", ["172.30.0.0/16 via 10.9.9.9 dev eth0", "fd00:18::/64 via fd00:5::1 dev eth0"])
    def test_all_is_given_back(self, namespace: Namespace, tmp_path: Path, refused: str) -> None:
        """When the kernel refuses a route of one family, those of both are as they were."""
        namespace.batch([ROUTER, "route add 172.16.0.0/17 dev ib0 proto 213"])
        stood = ["dev ib0 mtu 1400 pref high", "via fe80::3 dev eth1 metric 5", "from fd00::/8 dev ib0"]
        stood += ["via fe80::3 dev eth0 table 100", "via fe80::3 dev eth1 metric 7 expires 500"]
        namespace.batch([f"route add fd00:16::/64 {it} proto 213" for it in stood])
        namespace.batch(["route add unreachable fd00:15::/64 metric 3 proto 213"])
        namespace.batch(["route append fd00:16::/64 dev eth1 metric 5 proto static"])
        before = both(namespace)
        destination, _, gateway, _, dev = refused.split()
        ran = Ran(namespace, [*PAIR, StaticRoute(destination, gateway, dev)], tmp_path)
        assert (ran.status, len(ran.lines)) == (1, 1)
        assert ran.said.startswith(f"<3>static-routes: route add {destination} ")
        assert table(both(namespace)) == table(before)
        assert Ran(namespace, PAIR, tmp_path).lines == []
        assert ours(namespace, IPV6) == ["fd00:16::/64"]

    def test_no_longer_wanted(self, namespace: Namespace, tmp_path: Path) -> None:
        """If no IPv6 route is configured, ours are deleted; those for the probes and other programs' stay."""
        rewrite = ProbeRewriteConfig(enabled=True, interfaces=["eth0"])
        probes = f"{rewrite.global_address}/128"
        namespace.batch([f"route add {probes} dev eth0 proto 213", "route add fd00:15::/64 dev ib0 proto 212"])
        namespace.batch(["route add fd00:16::/64 from fd00::/8 dev ib0 proto 213"])
        namespace.batch(["route add fd00:17::/64 proto 213 nexthop via fe80::1 dev eth0 nexthop via fe80::2 dev eth1"])
        assert Ran(namespace, [], tmp_path, rewrite=rewrite).lines == []
        assert ours(namespace, IPV6) == [probes]
        assert namespace.ip("-6", "route", "show", "fd00:15::/64").stdout
        assert Ran(namespace, [], tmp_path).lines == []
        assert ours(namespace, IPV6) == []

    @pytest.mark.parametrize("awk", AWKS)
    def test_another_programs_next_hop(self, namespace: Namespace, tmp_path: Path, awk: str) -> None:
        """In IPv6, a next hop of another program stays, also if all of ours change."""
        hops = "nexthop via fe80::1 dev eth0 nexthop via fe80::2 dev eth0"
        namespace.batch([f"route add default {hops}"], family=IPV6)
        assert Ran(namespace, PAIR[1:], tmp_path, awk=awk).lines == []
        namespace.batch(["route append fd00:16::/64 via fe80::9 dev eth0 proto bird"])
        for wish in (PAIR[1], StaticRoute("fd00:16::/64", "fe80::3", "eth0")):
            ran = Ran(namespace, [wish], tmp_path, awk=awk)
            assert (ran.status, ran.lines) == (0, [])
        (left,) = (route for route in namespace.routes(IPV6) if str(route.prefix) == "fd00:16::/64")
        assert left.ways == ("via fe80::9 dev eth0", "via fe80::3 dev eth0")

    def test_for_some_sources(self, namespace: Namespace, tmp_path: Path) -> None:
        """Another program's route for some sources does not hold the key."""
        namespace.batch([ROUTER, "route add fd00:16::/64 from fd00::/8 dev ib0 proto static"])
        assert Ran(namespace, PAIR, tmp_path).lines == []
        assert ours(namespace, IPV6) == ["fd00:16::/64"]
        assert len(namespace.ip("-6", "route", "show", "fd00:16::/64").stdout.splitlines()) == 2

    def test_encapsulations(self, namespace: Namespace, tmp_path: Path) -> None:
        """An encapsulation's table and tos are not those of its route, which is a default route or a conflict as others."""
        namespace.batch(["route replace default encap ip id 7 dst 10.0.0.9 tos 4 via 10.0.0.1 dev eth0"])
        assert Ran(namespace, HALVES[:1], tmp_path).lines == []
        namespace.batch([ROUTER, "route add fd00:16::/64 encap seg6local action End.T table 100 dev ib0"])
        [line] = Ran(namespace, PAIR[1:], tmp_path).lines
        assert "ROUTE-CONFLICT: fd00:16::/64: another route has the same destination and metric: [fd00:16::/64 " in line
        assert ours(namespace) == ["172.16.0.0/17"]

    def test_a_gateway_of_another_link(self, namespace: Namespace, tmp_path: Path) -> None:
        """A link-local address is this host's own, which the kernel refuses, only on the device that has it."""
        namespace.batch(["route add default via fe80::1 dev eth0", "address add fe80::1/64 dev ib0 nodad"], family=IPV6)
        wanted = [StaticRoute("fd00:16::/64"), StaticRoute("fd00:17::/64", "fe80::1", "eth0")]
        assert Ran(namespace, wanted, tmp_path).lines == []
        assert len(ours(namespace, IPV6)) == 2
        (line,) = Ran(namespace, [*wanted, StaticRoute("fd00:18::/64", "fe80::1", "ib0")], tmp_path).lines
        assert line.startswith("<3>static-routes: route add fd00:18::/64 ")
        assert line.endswith(": Error: Gateway can not be a local address.")
        assert len(ours(namespace, IPV6)) == 2

    def test_a_kernel_without_ipv6(self, namespace: Namespace, tmp_path: Path) -> None:
        """On a kernel without IPv6, the script installs IPv4 routes, and waits for an IPv6 default route."""
        refused = 'echo "RTNETLINK answers: Operation not supported"; echo "Command failed -:$at"'
        answer = f"case $line in *:*) {refused} ;; route\\ show*) ip -4 -N -o $line ;; *) ip -N -o $line ;; esac"
        tools = {
            "ip": f'[[ "$*" == *-force* ]] || exec ip "$@"\nat=0; while read -r line; do ((++at)); {answer}; done 2>&1'
        }
        assert Ran(namespace, HALVES, tmp_path, tools=tools).lines == []
        assert len(ours(namespace)) == 2
        (line,) = Ran(namespace, PAIR, tmp_path, tools=tools).lines
        assert (
            line == "<3>static-routes: ROUTE-WAITS: fd00:16::/64: waiting for an IPv6 default route; gave up after 0 s"
        )


def _see(namespace: Namespace, address: str, path: str) -> None:
    """Write a route and take it away again, until a watcher sees it."""

    def is_seen() -> bool:
        namespace.batch([f"route {verb} {address} via 10.0.0.1" for verb in ("add", "del")])
        return address in Path(path).read_text()

    wait_for(f"a watcher to see {address}", is_seen)
