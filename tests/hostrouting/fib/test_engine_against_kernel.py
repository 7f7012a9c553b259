"""hostrouting.fib against Linux itself, in private network namespaces: the kernel is the oracle.

Random rules and routes go into a new namespace; what the kernel then lists is the snapshot; and at every address
the engine and `ip route get fibmatch` have to name the same route, or the same error.
"""

import attrs
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hostrouting.fib.decision import Decision
from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import PLAIN
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import IP, IPV4, IPV6, as_ip, ip_at
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Snapshot
from tests.support.commands import LINKS, furnish, ports, query, route_command, rule_command, wishes
from tests.support.examples import scaled
from tests.support.namespace import private_namespace
from tests.support.strategies import blocks

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

# The kernel's error when a lookup ends without a route; it is the same for a rule's "unreachable" and for no route.
ERRORS = {
    "Invalid argument": {"blackhole"},
    "No route to host": {"unreachable"},
    "Permission denied": {"prohibit"},
    "Network is unreachable": {"no-route", "unreachable"},
}
FLOWS = st.builds(
    lambda mark, tos, uid, ports: attrs.evolve(
        PLAIN, mark=mark, tos=tos, uid=uid, ipproto=ports[0], sport=ports[1], dport=ports[2]
    ),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([0, 0x10, 0x30, 0x50, 0xB0, 0x11, 0x8]),
    st.sampled_from([0, 1000]),
    st.sampled_from([(17, 0, 0), (6, 22, 443), (17, 5353, 53)]),
)


def agree(answer: Route | str, decision: Decision) -> bool:
    """Whether the kernel's answer and ours agree."""
    if isinstance(answer, str):
        return decision.kind in ERRORS[answer]
    if decision.route is None:
        return False
    return any(_is_named(answer, route, decision.route) for route in (decision.route, *decision.in_turn))


def _is_named(answer: Route, route: Route, found: Route) -> bool:
    """Whether the kernel names this route; for alternating routes it reports the tos of the one found first."""
    said, ours = ([(leg.dev, leg.gateway) for leg in it.legs] for it in (answer, route))
    if (answer.prefix, answer.metric) != (route.prefix, route.metric):
        return False
    if route.prefix.family == IPV6 and len(ours) > 1:
        # IPv6 answers with the one next hop of ECMP that it chose, and each has its own type.
        return set(said) <= set(ours)
    return (answer.tos, answer.type, answer.protocol, said) == (found.tos, route.type, route.protocol, ours)


@pytest.mark.parametrize("family", [4, 6])
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(data=st.data())
def test_the_kernel_agrees(family: int, data: st.DataObject) -> None:
    """For every address and any packet, the engine gives the same route or error as Linux."""
    block = data.draw(blocks(family))
    wanted_rules, wanted_routes = data.draw(wishes(block))
    lost = data.draw(st.sets(st.sampled_from(["ib0", "wg0"])))
    flow = data.draw(FLOWS)
    if family == IPV6 and not (flow.sport or flow.dport):
        # If `ip route get` is not given a protocol, only IPv4 assumes UDP.
        flow = attrs.evolve(flow, ipproto=0)
    with private_namespace() as namespace:
        furnish(namespace, LINKS, lost)
        # The gateways are known but not reachable now, so Linux alternates between default routes.
        stale = [f"neigh replace 10.0.0.1 lladdr 02:00:00:00:00:01 dev {link.name} nud stale" for link in LINKS]
        batch = [*map(route_command, wanted_routes), *map(rule_command, wanted_rules), *stale * (family == IPV4)]
        namespace.batch(batch, force=True, family=family)
        snapshot = Snapshot(links=LINKS, rules=namespace.rules(family), routes=namespace.routes(family))
        fib = Fib(snapshot)
        beyond = [block.first - 1, block.last + 1] if family == IPV4 else []
        addresses = [ip_at(family, number) for number in [*range(block.first, block.last + 1), *beyond]]
        answers = namespace.get(family, [query(str(address), flow) for address in addresses])
    for address, answer in zip(addresses, answers, strict=True):
        decision = fib.lookup(address, flow)
        assert agree(answer, decision), (
            f"{address}: the kernel says {answer}, we say {decision.kind} {decision.route}\n"
            + "\n".join(map(str, [*snapshot.rules, *snapshot.routes]))
        )


NESTED = ["10.9.0.0/16", "10.9.0.0/20", "10.9.0.0/24", "10.9.0.0/28", "10.9.0.8/29", "10.0.0.0/8"]
# With a nexthop object or without; the device; the tos.
HELD = st.tuples(
    st.sampled_from(NESTED), st.booleans(), st.sampled_from(["eth0", "ib0"]), st.sampled_from(["0", "0", "0x8", "0x10"])
)


@settings(max_examples=scaled(10), deadline=None)
@given(held=st.lists(HELD, min_size=1, max_size=8))
@example(held=[("10.9.0.0/24", True, "ib0", "0"), ("10.9.0.0/16", False, "eth0", "0")])
@example(held=[("10.9.0.0/24", True, "ib0", "0x8"), ("10.9.0.0/16", False, "eth0", "0")])
def test_a_nexthop_object_and_a_bound_socket(held: list[tuple[str, bool, str, str]]) -> None:
    """For a bound socket, a route with a nexthop object on another device hides those with the same network address."""
    lines = [*ports("eth0", "ib0"), "nexthop add id 1 dev eth0", "nexthop add id 2 dev ib0"]
    for metric, (prefix, by_object, dev, tos) in enumerate(held):
        way = f"nhid {1 + (dev == 'ib0')}" if by_object else f"dev {dev}"
        lines.append(f"route add {prefix} {way} tos {tos} metric {metric}")
    with private_namespace() as namespace:
        namespace.batch(lines)
        with NetlinkBackend(netns=namespace.path) as backend:
            fib = Fib(backend.snapshot(family=4))
            places = [
                as_ip(text) for text in ("10.9.0.1", "10.9.0.9", "10.9.0.99", "10.9.9.9", "10.9.99.9", "10.99.9.9")
            ]
            for oif in ("", "eth0"):
                ends: dict[IP, set[Route | None]] = {place: set() for place in places}
                for packet in (0, 0x8, 0x10, 0x4):
                    flow = attrs.evolve(PLAIN, oif=oif, tos=packet)
                    answers = backend.lookup(places, flow)
                    for place, answer in zip(places, answers, strict=True):
                        decision = fib.lookup(place, flow)
                        assert answer.route == decision.route, (place, flow)
                        ends[place].add(decision.route)
                unknown = attrs.evolve(PLAIN, oif=oif, tos=None)
                for place in places:
                    decision = fib.lookup(place, unknown)
                    assert {decision.route, *(variant.decision.route for variant in decision.variants)} == ends[place]


# A rule that looks up a table: the table, and the group that it suppresses. A route: its prefix, table and devices.
LOOKUP = st.tuples(st.sampled_from([100, 101, 254]), st.sampled_from(["", "0", "7"]))
SPREAD = st.tuples(
    st.sampled_from(["::/0", "fd00:16::/64", "fd00:16::/120", "fd00:16::/121"]),
    st.sampled_from([100, 101, 254]),
    st.lists(st.sampled_from(["eth0", "eth1", "ib0"]), min_size=1, max_size=3, unique=True),
)


@settings(max_examples=scaled(20), deadline=None)
@given(
    lookups=st.lists(LOOKUP, max_size=4),
    spread=st.lists(SPREAD, min_size=1, max_size=6, unique_by=lambda route: route[:2]),
    oif=st.sampled_from(["", "", "eth0", "eth1"]),
)
@example(
    lookups=[(100, "7"), (100, "0")],
    spread=[("fd00:16::/64", 100, ["eth0", "eth1"]), ("fd00:16::/64", 254, ["ib0"])],
    oif="",
)
@example(lookups=[(100, "7")], spread=[("::/0", 100, ["eth1", "eth0"]), ("::/0", 254, ["ib0"])], oif="")
@example(
    lookups=[(100, "0"), (101, "0")], spread=[("::/0", 100, ["eth0", "eth1"]), ("::/0", 101, ["eth1", "eth0"])], oif=""
)
def test_the_group_of_the_next_hop_that_ipv6_chose(
    lookups: list[tuple[int, str]], spread: list[tuple[str, int, list[str]]], oif: str
) -> None:
    """An IPv6 rule suppresses a route for the packets whose next hop is in the group: no answer of Linux is left out.

    Kills: the group of the first next hop, or of any, counts for all packets.
    """
    lines = []
    for prefix, table, devs in spread:
        hops = [f"via fe80::1 dev {dev} onlink" for dev in devs]
        way = hops[0] if len(hops) == 1 else " ".join(f"nexthop {hop}" for hop in hops)
        lines.append(f"route add {prefix} table {table} {way}")
    for number, (table, group) in enumerate(lookups):
        lines.append(f"rule add pref {100 + number} lookup {table}" + f" suppress_ifgroup {group}" * bool(group))
    places = [ip_at(IPV6, (0xFD000016 << 96) + number) for number in range(0, 512, 4)]
    with private_namespace() as namespace:
        furnish(namespace, LINKS)
        namespace.sysctl("ipv6/conf/all/forwarding", 1)
        namespace.batch(lines, family=IPV6)
        with NetlinkBackend(netns=namespace.path) as backend:
            fib, flow = Fib(backend.snapshot(family=IPV6)), attrs.evolve(PLAIN, oif=oif)
            answers = backend.lookup(places, flow)
    for place, answer in zip(places, answers, strict=True):
        decision = fib.lookup(place, flow)
        found = (decision, *(variant.decision for variant in decision.variants))
        assert (answer.route is None and "no-route" in {it.kind for it in found}) or any(
            answer.route is not None
            and it.route is not None
            and (answer.route.prefix, answer.route.table) == (it.route.prefix, it.route.table)
            and set(answer.route.devs) == set(it.route.devs)
            for it in found
        ), (place, answer, found)
