"""static-routes.sh, run in private namespaces: the table after it is the one that the plan leads
to, or as before.
"""

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, reject, settings, strategies as st

from hostrouting.config.settings import StaticRoute
from hostrouting.model.prefix import IPV4, IPV6, Prefix
from hostrouting.model.route import (
    DEFAULT_METRIC,
    OURS,
    TABLE_LOCAL,
    TABLE_MAIN,
    Route,
    RouteKey,
    bare_hop,
)
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.routes.plan import plan_static_routes
from hostrouting.routes.steps import RoutePlan
from hostrouting.testing.strategies import prefixes, routes, small_block
from tests.support.awks import AWKS, TREES
from tests.support.check_script import showing
from tests.support.commands import default_routes, furnish, route_command
from tests.support.examples import scaled
from tests.support.namespace import Namespace, private_namespace
from tests.support.own_routes import configured
from tests.support.routes_script import Ran
from tests.support.sections import static

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

FAMILIES = ((IPV4,), (IPV6,), (IPV4, IPV6))
GATEWAYS = (
    "10.0.0.1",
    "10.0.0.9",
    "10.5.0.1",
    "172.16.0.5",
    "fd00:99::1",
    "fd00:99::4",
    "fd00:5::1",
    "fd00:16::5",
)
WAYS = {
    IPV4: [
        *["via 10.0.0.1 dev eth0"] * 2,
        "via 10.0.0.1 dev eth0 onlink",
        "via 10.0.0.1 dev eth0 mtu 1400",
        "via 10.0.0.9 dev eth0",
        "nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.2 dev eth0",
        "dev ib0",
        "dev wg0",
    ],
    IPV6: [
        *["via fe80::1 dev eth0"] * 2,
        "via fe80::1 dev eth0 onlink",
        "via fe80::1 dev eth0 mtu 1400",
        "via fe80::7 dev eth0",
        "dev ib0",
        "dev wg0",
    ],
}
"""Ways of routes that have the place of a configured one."""
GUISES: tuple[dict[str, tuple[int, str]], ...] = (
    *[{}] * 3,
    {"wg0": (65534, "wireguard")},
    {"wg0": (1, "tun")},
    {"wg0": (512, "ppp")},
    {"wg0": (519, "wwan")},
    {"wg0": (1, "dummy")},
    {"eth1": (32, "ipoib"), "wg0": (65534, "tun")},
    {"eth0": (1, "tun")},
    {"eth0": (1, "bridge"), "wg0": (1, "tun")},
)
"""The link types and kinds as which devices are shown to both."""
EXPECTED = ((), (), ("eth0",), ("eth1", "ib0"), ("wg0",), ("eth0", "eth1"), ("gone",))
"""Devices that `expectedDevs` names."""


@st.composite
def wishes(draw: st.DrawFn, block: Prefix) -> list[StaticRoute]:
    """Static routes in the block that want the same places and gateways now and then."""
    near = [gateway for gateway in map(ip_address, GATEWAYS) if gateway.version == block.family]
    gateways = [None, None, None, *near]
    ways = st.tuples(prefixes(block), st.sampled_from(gateways)).filter(
        lambda way: way[0].ip != way[1]
    )
    route = st.builds(
        lambda way, dev, metric: static(way[0], way[1], dev, metric),
        ways,
        st.sampled_from([None, None, "eth0", "eth1", "ib0", "gone"]),
        st.sampled_from([0, 0, 100, 1024]),
    )
    usual = DEFAULT_METRIC[block.family]
    return draw(
        st.lists(
            route, max_size=4, unique_by=lambda route: (route.destination, route.metric or usual)
        )
    )


@st.composite
def standing_routes(draw: st.DrawFn, block: Prefix, wanted: list[StaticRoute]) -> list[str]:
    """The commands that add any routes, and routes in the places of the wanted ones: ours and
    others', in any order.
    """
    any_route = routes(block, only_ipv6=True)
    # A default route in table local hides all others.
    drawn = [
        command_of(route)
        for route in draw(st.lists(any_route, max_size=6))
        if (route.prefix.length or route.table != TABLE_LOCAL)
        and (route.protocol != OURS or may_be_ours(route))
    ]
    for route in wanted:
        ways = st.tuples(st.sampled_from([4, OURS, OURS]), st.sampled_from(WAYS[block.family]))
        metric = route.metric or DEFAULT_METRIC[block.family]
        place = f"route append {route.destination} metric {metric}"
        drawn += [
            f"{place} proto {protocol} {way}" for protocol, way in draw(st.lists(ways, max_size=2))
        ]
    return drawn


def may_be_ours(route: Route) -> bool:
    """Whether the script deletes such a route if it is ours and not wanted; nobody adds others."""
    return (
        route.table == TABLE_MAIN
        and not route.unread
        and route.type in {"unicast", "blackhole", "unreachable"}
    )


def command_of(route: Route) -> str:
    """The command that appends a route, with what only IPv6 has."""
    words = route_command(route)
    if route.prefix.family != IPV6:
        return words
    if route.source is not None:
        words += f" from {route.source}"
    words += f" pref {route.preference}"
    if route.expired is not None:
        words += " expires 0" if route.expired else " expires 600"
    return words


def state_of(namespace: Namespace, guise: Mapping[str, tuple[int, str]] | None = None) -> Snapshot:
    """The host, with its rules and routes of both families, without Linux's own for multicast,
    which come and go.
    """
    snapshot = namespace.snapshot()
    links: list[Link] = []
    for link in snapshot.links:
        number, kind = (guise or {}).get(link.name, (link.type, link.kind))
        links.append(link._replace(type=number, kind=kind))
    routes = tuple(
        route
        for route in snapshot.routes
        if route.type != "multicast" or route.table != TABLE_LOCAL
    )
    return snapshot._replace(links=tuple(links), routes=routes)


def plan_of(
    wanted: list[StaticRoute], snapshot: Snapshot, expected: Iterable[str] = ()
) -> RoutePlan:
    """The plan in Python for the same routes."""
    return plan_static_routes(configured(*wanted, expected=expected), snapshot)


def table_of(snapshot: Snapshot) -> Counter[Route]:
    """The routes, without their order, and without the order and the state of their next hops."""
    return Counter(
        route._replace(next_hops=tuple(sorted(map(bare_hop, route.next_hops), key=str)))
        for route in snapshot.routes
    )


def without_fields_of_the_first(snapshot: Snapshot) -> Snapshot:
    """Linux lists an IPv6 route of several next hops with the protocol and the mtu of the first
    one. A rollback adds ours again behind another program's, which is the first then.
    """
    routes: list[Route] = []
    for route in snapshot.routes:
        is_joined = route.prefix.family == IPV6 and len(route.next_hops) > 1
        routes.append(route._replace(protocol=0, mtu=None) if is_joined else route)
    return snapshot._replace(routes=tuple(routes))


def shared_keys(snapshot: Snapshot) -> set[RouteKey]:
    """The keys with routes of ours and of others, or with several IPv6 next hops, which can be
    both.
    """
    owners: dict[RouteKey, set[bool]] = {}
    for route in snapshot.routes:
        is_joined = route.prefix.family == IPV6 and len(route.next_hops) > 1
        owners.setdefault(route.key, set()).update(
            {True, False} if is_joined else {route.protocol == OURS}
        )
    return {key for key, several in owners.items() if len(several) > 1}


class Given(NamedTuple):
    """A host, its configured routes, and the programs that the script uses there."""

    wanted: list[StaticRoute]
    expected: Sequence[str]
    """The devices that `expectedDevs` names."""
    commands: dict[int, list[str]]
    """By family: what makes the host."""
    lost: set[str]
    """The devices without a carrier."""
    guise: Mapping[str, tuple[int, str]]
    awk: str
    tree: Path

    def make_host(self, namespace: Namespace) -> None:
        """Make the host in this namespace; commands that Linux refuses are left out."""
        furnish(namespace, lost=self.lost)
        for family, commands in self.commands.items():
            namespace.batch(commands, force=True, family=family)
            if any(line.endswith(" expires 0") for line in commands):
                # For a tick, Linux lists an expired route like one that never expires.
                time.sleep(0.05)


@st.composite
def situations(draw: st.DrawFn) -> Given:
    """Any host with any configuration; the default routes are often in doubt."""
    wanted: list[StaticRoute] = []
    commands: dict[int, list[str]] = {}
    for family in draw(st.sampled_from(FAMILIES)):
        of_family = draw(wishes(small_block(family)))
        commands[family] = [
            f"rule add pref {draw(st.sampled_from([50, 40000]))} lookup 100",
            *draw(default_routes(family)),
            *draw(standing_routes(small_block(family), of_family)),
        ]
        wanted += of_family
    return Given(
        wanted,
        draw(st.sampled_from(EXPECTED)),
        commands,
        draw(st.sets(st.sampled_from(["ib0", "wg0"]))),
        draw(st.sampled_from(GUISES)),
        draw(st.sampled_from(AWKS)),
        draw(st.sampled_from(TREES)),
    )


EQUAL_DEFAULTS = [
    "route append default via 10.0.0.1 dev eth0 onlink",
    "route append default via 10.0.0.7 dev eth1 onlink",
]
IN_USE = "route append 172.16.0.0/29 proto 213 via 10.0.0.1 dev eth0 mtu 1400"
BEHIND_IT = "route append 172.16.0.0/29 proto 213 via 10.0.0.1 dev eth0"
STAYS_BESIDE_ANOTHER = Given(
    [static("172.16.0.0/29")],
    (),
    {4: ["rule add pref 50 lookup 100", *EQUAL_DEFAULTS, IN_USE, BEHIND_IT]},
    set(),
    {},
    AWKS[0],
    TREES[0],
)
"""The command that deletes the second of these two routes of ours would delete the first."""


class Outcome(NamedTuple):
    """What the script did: the host before and after it, and a second run if it succeeded."""

    before: Snapshot
    ran: Ran
    after: Snapshot
    again: Ran | None

    @classmethod
    def of(cls, given: Given, namespace: Namespace, folder: Path) -> "Outcome":
        """Run the script on this host; a second run fails if it would write."""
        options = {"awk": given.awk, "expected": given.expected}
        tools = {"ip": showing(given.guise)} if given.guise else {}
        before = state_of(namespace, given.guise)
        ran = Ran(namespace, given.wanted, folder, tree=given.tree, tools=tools, **options)
        after = state_of(namespace, given.guise)
        if ran.status:
            return cls(before, ran, after, again=None)
        tools = {"ip": f"{_NO_CHANGES}\n{showing(given.guise)}"}
        again = Ran(namespace, given.wanted, folder, tools=tools, **options)
        return cls(before, ran, after, again)

    def destinations_of(self, name: str) -> list[str]:
        """The destinations that the lines with this name are about."""
        lines = [line.removeprefix("<3>static-routes: ") for line in self.ran.lines]
        return [line.split()[1].rstrip(":") for line in lines if line.startswith(f"{name}: ")]


_NO_CHANGES = '[[ "$*" == *" -o "* ]] || { echo "a second run writes" >&2; exit 3; }'


@settings(
    max_examples=scaled(30), deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
@given(given=situations())
@example(given=STAYS_BESIDE_ANOTHER)
def test_the_table_is_the_planned_one(
    given: Given, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The script carries out the whole plan or nothing; other programs' routes stay; a second run
    writes nothing.

    It waits for what the plan waits for, also if the default route is missing or in doubt.
    """
    with private_namespace() as namespace:
        given.make_host(namespace)
        outcome = Outcome.of(given, namespace, tmp_path_factory.mktemp("routes"))
    # Linux can join another program's next hop to a route of ours: `ip` cannot read the segments
    # that it lists for one (docs/limits.md).
    ours = [route for route in outcome.before.routes if route.protocol == OURS]
    if any("encap seg6" in route.unread for route in ours):
        reject()

    oracle = plan_of(given.wanted, outcome.before, given.expected)
    try:
        assert_it_waits_for_the_same(outcome, oracle)
        if outcome.again is None:
            assert_nothing_was_done(outcome, oracle)
        else:
            assert_the_plan_was_carried_out(outcome, oracle)
            left = plan_of(given.wanted, outcome.after, given.expected)
            assert oracle.waiting or not left.changes
    except AssertionError as error:
        before, after = (map(str, host.routes) for host in (outcome.before, outcome.after))
        context = [outcome.ran.said, str(oracle), "--", *before, "--", *after]
        raise AssertionError("\n".join([str(error), *context])) from error
    if outcome.again is None:
        reject()  # it does not count: Hypothesis makes another, and fails if each is like this


def assert_it_waits_for_the_same(outcome: Outcome, oracle: RoutePlan) -> None:
    """The script waits for the routes that the plan waits for, and tells of those that stay."""
    waiting = [str(waiting.route.destination) for waiting in oracle.waiting]
    assert sorted(outcome.destinations_of("ROUTE-WAITS")) == sorted(waiting)
    if outcome.again is not None:
        assert [_without_routes(line) for line in outcome.ran.stays] == [
            _without_routes(str(finding)) for finding in oracle.warnings
        ]


def _without_routes(text: str) -> str:
    """The line without the route of a doubt, which the script has from `ip`, and without the
    metric, which it does not say.
    """
    return re.sub(r" metric \d+|\[.*\]", "", text)


def assert_nothing_was_done(outcome: Outcome, oracle: RoutePlan) -> None:
    """After a run that fails, all is as before, and there is a reason for it."""
    assert outcome.ran.lines
    before, after = map(without_fields_of_the_first, (outcome.before, outcome.after))
    assert table_of(after) == table_of(before)
    shared = shared_keys(outcome.before)
    conflicts = {
        str(step.route.prefix) for step in oracle.conflicts if step.route.key not in shared
    }
    assert conflicts <= set(outcome.destinations_of("ROUTE-CONFLICT"))
    # Only the kernel knows if a gateway is near.
    by_gateway = re.compile(rf"<3>static-routes: route .* via ({'|'.join(GATEWAYS)})")
    far = [line for line in outcome.ran.lines if by_gateway.match(line)]
    planned = {step.route.key for step in oracle.steps}
    assert conflicts or oracle.waiting or shared & planned or far


_MAY_FAIL = "<7>static-routes: optional: route del "


def assert_the_plan_was_carried_out(outcome: Outcome, oracle: RoutePlan) -> None:
    """After a run that succeeds, the routes are those of the plan, and a second run writes nothing.

    Which next hops of an IPv6 route are ours is not listed: the script learns it when Linux does
    not delete one, and so does `apply`. Those keys are not compared.
    """
    assert outcome.again is not None
    assert outcome.again.lines == []
    assert outcome.again.status == 0
    shared = shared_keys(outcome.before)
    refused = [line for line in outcome.ran.lines if _MAY_FAIL in line]
    assert outcome.ran.lines == (refused if shared else [])
    assert {step.route.key for step in oracle.conflicts} <= shared
    uncertain = shared | {waiting.route.key for waiting in oracle.waiting}
    result = table_of(outcome.after)
    planned = table_of(oracle.apply_to(outcome.before))
    for differing in (result - planned, planned - result):
        assert not [route for route in differing if route.key not in uncertain]


VIA, VIA_6 = "{} via 10.0.0.1 dev eth0", "{} via fe80::1 dev eth0"
TWICE = "nexthop dev wg0 nexthop dev wg0"
JOINED = "nexthop via fe80::1 dev wg0 nexthop via fe80::2 dev wg0"
OTHER_TYPES = [
    "unreachable {}",
    "blackhole {}",
    "prohibit {}",
    "throw {}",
    "local {} dev eth0 table main",
    "broadcast {} dev eth0 table main",
]
NEARLY = {
    VIA: [
        f"{VIA} mtu 1400",
        f"{VIA} src 10.0.0.4",
        f"{VIA} scope site",
        "{} nhid 5",
        "{} encap ip id 7 dst 10.0.0.9 via 10.0.0.1 dev eth0",
        *OTHER_TYPES,
    ],
    "{} dev ib0": ["{} dev ib0 scope global", "{} dev ib0 scope host", "{} dev ib0 src 10.0.0.4"],
    f"{{}} scope link {TWICE}": [
        f"{{}} {TWICE}",
        f"{{}} scope link {TWICE} weight 2",
        "{} dev wg0",
    ],
    VIA_6: [f"{VIA_6} mtu 1400", *OTHER_TYPES],
    f"{{}} {JOINED}": [f"{{}} mtu 1400 {JOINED}", "{} via fe80::1 dev wg0"],
}
"""By a route like the default route of its device: routes that differ from it in one attribute."""


def routes_of_another_program(
    namespace: Namespace, ways: Sequence[str], *, wanted_way: str
) -> list[StaticRoute]:
    """Add a route for each of these ways; the configured routes in their places, which take the
    wanted way from the default route.
    """
    furnish(namespace, then=["nexthop add id 5 via 10.0.0.1 dev eth0"])
    default, block = "default", "172.{}.0.0/16"
    if "::" in wanted_way:
        default, block = "::/0", "fd00:{}::/48"
    namespace.batch([f"route add table 100 {wanted_way.format(default)}"])
    places = [block.format(number) for number in range(16, 16 + len(ways))]
    for place, way in zip(places, ways, strict=True):
        namespace.batch([f"route add {way.format(place)}"])
    *_, dev = wanted_way.split()
    return [static(place, dev=dev) for place in places]


@pytest.mark.parametrize("tree", TREES, ids=str)
@pytest.mark.parametrize("way", NEARLY)
def test_the_wanted_route_of_another_program(tmp_path: Path, way: str, tree: Path) -> None:
    """It is right, for Python as well: whoever added it, nothing is done."""
    with private_namespace() as namespace:
        wanted = routes_of_another_program(namespace, [way], wanted_way=way)
        plan = plan_of(wanted, state_of(namespace))
        ran = Ran(namespace, wanted, tmp_path, tree=tree)
    assert {step.action for step in plan.steps} == {"keep"}  # in IPv6, for each next hop
    assert ran.lines == []
    assert ran.status == 0
    assert ran.changes == []


@pytest.mark.parametrize("tree", TREES, ids=str)
@pytest.mark.parametrize("way", NEARLY)
def test_nearly_the_wanted_route(tmp_path: Path, way: str, tree: Path) -> None:
    """Another program's route that differs in its scope, type or any attribute is a conflict, for
    Python as well.
    """
    named: list[str] = []
    with private_namespace() as namespace:
        wanted = routes_of_another_program(namespace, NEARLY[way], wanted_way=way)
        plan = plan_of(wanted, state_of(namespace))
        for first in range(0, len(wanted), 9):  # the script names so many
            ran = Ran(namespace, wanted[first : first + 9], tmp_path, tree=tree)
            named += re.findall("ROUTE-CONFLICT: (\\S+)", ran.said)
    places = [str(route.destination) for route in wanted]
    assert [str(step.route.prefix) for step in plan.conflicts] == places
    assert named == places
