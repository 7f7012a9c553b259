"""For every address, the engine and Linux name the same route or refusal."""

import pytest
from hypothesis import HealthCheck, event, given, settings, strategies as st

from hostrouting.fib.engine import Decision, Fib
from hostrouting.kernel.base import Answer
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import Prefix, ip_at
from hostrouting.model.route import Route
from tests.support.commands import ports
from tests.support.examples import scaled
from tests.support.namespace import private_namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

BLOCK = {4: Prefix.parse("10.9.0.0/26"), 6: Prefix.parse("fd09::/122")}
DEVS = ("eth0", "eth1", "ib0")
HOST = (
    "link set lo up",
    *ports(*DEVS),
    "address add 10.0.0.4/24 dev eth0",
    "address add 10.9.0.33/28 dev ib0",
    "address add fd00::4/64 dev eth0 nodad",
    "address add fd09::21/124 dev ib0 nodad",
)
GATEWAY = {4: "10.0.0.1", 6: "fd00::1"}
ON_LINK = {4: "", 6: "via fe80::1"}
"""How a next hop by a device is written: IPv6 wants a gateway for each of several."""
SOURCE = {4: "10.0.0.0/24", 6: "fd00::/64"}
UNBOUND = {4: ["0.0.0.0/32", "0.0.0.0/8", "0.0.0.0/1"], 6: ["::/128", "::/8", "::/1"]}
"""Sources around the address that IPv4 compares while a packet has no source."""
PATHLESS = ["blackhole", "unreachable", "prohibit", "throw"]
MOST = {4: 26, 6: 122}
WIDTH = {4: 32, 6: 128}


@st.composite
def prefixes(draw: st.DrawFn, family: int) -> str:
    block, width = BLOCK[family], WIDTH[family]
    length = draw(st.sampled_from([0, MOST[family] - 4, *range(MOST[family], width + 1)]))
    return str(Prefix.around(family, block.first + draw(st.integers(0, 63)), length))


@st.composite
def routes(draw: st.DrawFn, family: int) -> str:
    kind = draw(st.sampled_from(["", "", "", "multicast", "anycast", "broadcast", *PATHLESS]))
    by_device = f"dev {draw(st.sampled_from(DEVS))}"
    by_gateway = f"via {GATEWAY[family]} dev eth0"
    second = f"{ON_LINK[family]} dev {draw(st.sampled_from(DEVS[1:]))}"
    by_both = f"nexthop {by_gateway} nexthop {second}"
    way = ""
    if kind not in PATHLESS:
        way = draw(st.sampled_from([by_device, by_device, by_gateway, by_both]))
    table = draw(st.sampled_from(["main", "main", "100", "101"]))
    metric = draw(st.sampled_from([0, 10, 100, 1024]))
    verb = draw(st.sampled_from(["add", "append"]))  # with `append`, several have one key
    # What comes after the first `nexthop` belongs to a next hop.
    return f"route {verb} {kind} {draw(prefixes(family))} table {table} metric {metric} {way}"


@st.composite
def rules(draw: st.DrawFn, family: int) -> str:
    words = draw(st.sampled_from(["", "", "not "]))
    words += draw(
        st.sampled_from(
            [
                "from all",
                f"to {draw(prefixes(family))}",
                f"to {draw(prefixes(family))} fwmark 0x0/0xff",
                f"from {SOURCE[family]}",
                *(f"from {block}" for block in UNBOUND[family]),
                *(f"from {block} iif lo" for block in UNBOUND[family]),
                f"from {UNBOUND[family][0]} to {draw(prefixes(family))}",
                "fwmark 0x200/0xf00",
                "fwmark 0x0/0xff",
                "iif lo",
                "iif eth1",
                "oif eth1",
                "uidrange 0-99",
                "uidrange 1000-1999",
            ]
        )
    )
    words += f" priority {draw(st.integers(1, 40_000))}"
    refusal = draw(st.sampled_from(["", "", "", "", *PATHLESS[:3]]))
    if refusal:
        return f"rule add {words} {refusal}"
    suppress = draw(st.sampled_from(["", "", " suppress_prefixlength 0"]))
    return f"rule add {words} lookup {draw(st.sampled_from(['main', '100', '101']))}{suppress}"


@pytest.mark.parametrize("family", [4, 6])
@settings(
    max_examples=scaled(40),
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    deadline=None,
)
@given(data=st.data())
def test_every_address_of_a_random_host(family: int, data: st.DataObject) -> None:
    """The plain decision is what Linux answers, also if a device is down."""
    some_routes = data.draw(st.lists(routes(family), max_size=8))
    some_rules = data.draw(st.lists(rules(family), max_size=4))
    down = data.draw(st.sampled_from(["", "", "link set eth1 down", "link set ib0 down"]))
    default = f"route add default via {GATEWAY[family]} dev eth0 metric 1024"
    # A rule that was ever added lets Linux look up table local before main; a snapshot cannot show
    # that.
    a_rule = "rule add priority 50000 lookup 200"
    block = BLOCK[family]
    addresses = [ip_at(family, number) for number in range(block.first, block.last + 1)]
    with private_namespace() as namespace, namespace.inside(), NetlinkBackend() as backend:
        namespace.batch(HOST)
        commands = [a_rule, default, *some_routes, *some_rules, down]
        namespace.batch(commands, force=True, family=family)
        fib = Fib(backend.snapshot(), family)
        answers = backend.lookup(addresses)
    for address, answer in zip(addresses, answers, strict=True):
        decision = fib.lookup(address)
        event(decision.kind)
        assert agree(answer, decision), f"{address}: Linux {answer}, the engine {decision}"


def agree(answer: Answer, decision: Decision) -> bool:
    """Whether both are the same; a rule's `unreachable` has the error of no route."""
    if answer.route is None or decision.route is None:
        failed = {"no-route", "unreachable"}
        return decision.kind == answer.kind or {decision.kind, answer.kind} <= failed
    return what_is_compared(decision.route) == what_is_compared(answer.route)


def what_is_compared(route: Route) -> tuple[object, ...]:
    return route.prefix, route.table, route.metric, set(route.devs)
