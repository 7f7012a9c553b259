"""NetlinkBackend changes routes as `ip` does, in private network namespaces."""

import re

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hostrouting.kernel.base import Outcome, RouteRequest, Verb
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import (
    OURS,
    PROTOCOL_KERNEL,
    SCOPE_LINK,
    SCOPE_UNIVERSE,
    NextHop,
    Route,
    RouteType,
    deletion_command,
)
from tests.support.commands import furnish, ports, route_command
from tests.support.examples import scaled
from tests.support.ip_text import route_of
from tests.support.namespace import Namespace, private_namespace
from tests.support.routing import prefixes
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

properties = settings(max_examples=scaled(12), suppress_health_check=list(HealthCheck))

GATEWAYS = {
    4: ("10.0.0.1", "10.0.0.2", "203.0.113.1", "10.0.0.255"),
    6: ("fd00:99::1", "fd00:99::2", "fd01::1"),
}
VERBS: tuple[Verb, ...] = ("add", "append", "delete")
TYPES: tuple[RouteType, ...] = ("unicast", "unicast", "unicast", "blackhole", "throw")


@st.composite
def next_hops(draw: st.DrawFn, family: int) -> tuple[NextHop, ...]:
    """One or two next hops. IPv4 may have a gateway of IPv6, and only a single one has none."""
    count = draw(st.sampled_from([1, 1, 1, 2]))
    has_gateway = count > 1 or draw(st.booleans())
    is_on_link = draw(st.booleans())
    hops: list[NextHop] = []
    for _ in range(count):
        hop = NextHop(draw(st.sampled_from(["eth0", "eth0", "ib0"])))
        if has_gateway:
            gateways = GATEWAYS[draw(st.sampled_from([family, family, 6]))]
            gateway = as_ip(draw(st.sampled_from(gateways)))
            hop = hop._replace(gateway=gateway, onlink=is_on_link)
        if count > 1:
            hop = hop._replace(weight=draw(st.integers(1, 256)))
        hops.append(hop)
    return tuple(hops)


@st.composite
def requests(draw: st.DrawFn, family: int) -> RouteRequest:
    block = Prefix.parse("192.0.2.0/30" if family == 4 else "2001:db8:9::/126")
    own = as_ip("10.0.0.4" if family == 4 else "fd00:99::4")
    kind = draw(st.sampled_from(TYPES))
    hops = draw(next_hops(family)) if kind == "unicast" else ()
    is_on_the_link = family == 4 and kind == "unicast" and not any(hop.gateway for hop in hops)
    route = Route(
        draw(prefixes(block)),
        hops,
        type=kind,
        scope=SCOPE_LINK if is_on_the_link else SCOPE_UNIVERSE,
        table=draw(st.sampled_from([254, 254, 100, 70000])),
        metric=draw(st.sampled_from([5, 5, 4294967295])),
        protocol=draw(st.sampled_from([OURS, OURS, 4])),
        tos=draw(st.sampled_from([0, 0, 0x10])) if family == 4 else 0,
        mtu=draw(st.sampled_from([None, None, 1400])),
        advmss=draw(st.sampled_from([None, None, 1300])),
        prefsrc=draw(st.sampled_from([None, None, own])),
    )
    return RouteRequest(draw(st.sampled_from(VERBS)), route)


def command_of(request: RouteRequest) -> str:
    route = request.route
    is_ipv4 = route.prefix.family == 4
    onlink = " onlink" if any(hop.onlink for hop in route.next_hops) else ""
    words = route_command(route._replace(mtu=None, advmss=None), onlink=onlink)
    words = words.replace("route append", f"route {request.verb}").replace(" dev None", "")
    options = f"proto {route.protocol}"
    if is_ipv4:
        words = words.replace("via fd", "via inet6 fd")
        options += f" scope {route.scope}"
    if route.prefsrc is not None:
        options += f" src {route.prefsrc}"
    if route.mtu:
        options += f" mtu {route.mtu}"
    if route.advmss:
        options += f" advmss {route.advmss}"
    if request.verb == "delete" and is_ipv4 and len(route.next_hops) == 1:
        # Not a route that only begins with this next hop
        words = re.sub("(?= via | dev )", " nexthop", words, count=1)
    if request.verb == "delete" and not is_ipv4 and not route.has_gateway:
        options += " via ::"  # the one without a gateway, and not all next hops of a device
    return words.replace(f"proto {route.protocol}", options)


def done_by(way: str, family: int, wanted: list[RouteRequest]) -> tuple[list[bool], list[Route]]:
    """Which of the requests are carried out on a fresh host, and the routes afterwards."""
    with private_namespace() as namespace, namespace.inside(), NetlinkBackend() as netlink:
        furnish(namespace)
        if way == "ip":
            commands = [command_of(request).split() for request in wanted]
            done = [namespace.ip(f"-{family}", *words).returncode == 0 for words in commands]
        else:
            done = [outcome.ok for outcome in netlink.change(wanted)]
        routes = netlink.snapshot().routes
    return done, [route for route in routes if route.protocol != PROTOCOL_KERNEL]


@pytest.mark.parametrize("family", [4, 6])
@properties
@given(data=st.data())
def test_a_change_does_what_ip_does(family: int, data: st.DataObject) -> None:
    """Any requests leave the tables as `ip` leaves them; those that `ip` refuses are refused."""
    wanted = data.draw(st.lists(requests(family), min_size=1, max_size=8))
    expected = done_by("ip", family, wanted)
    assert done_by("netlink", family, wanted) == expected


# Where Linux would take another route, or refuse, if a message lacked what `encode` adds.
HOPS = "nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.2 dev eth0"
ELSEWHERE = "nexthop via 9.0.0.1 dev eth0 onlink nexthop via 9.0.0.2 dev eth0 onlink"
MISTAKABLE: dict[int, list[tuple[Verb, str]]] = {
    4: [
        ("add", f"192.0.2.0/24 metric 5 proto 4 {HOPS}"),
        ("append", "192.0.2.0/24 metric 5 proto 4 via 10.0.0.1 dev eth0"),
        ("delete", "192.0.2.0/24 metric 5 proto 4 via 10.0.0.1 dev eth0"),
        ("add", "192.0.3.0/24 metric 5 proto 4 via 203.0.113.1 dev eth0 onlink"),
        ("add", "192.0.4.0/24 metric 5 proto 4 via 10.0.0.1"),  # Linux finds the device
        ("add", f"192.0.5.0/24 metric 5 proto 4 {ELSEWHERE}"),
    ],
    6: [
        ("add", "2001:db8:9::/64 metric 5 proto 4 via fd00:99::1 dev eth0"),
        ("append", "2001:db8:9::/64 metric 5 proto 4 via fd00:99::2 dev eth0"),
        ("append", "2001:db8:9::/64 metric 5 proto 4 dev eth0"),
        ("delete", "2001:db8:9::/64 metric 5 proto 4 dev eth0"),
        ("add", "2001:db8:a::/64 metric 5 proto 4 via fd00:99::1"),
    ],
}


@pytest.mark.parametrize("family", [4, 6])
def test_changes_that_could_be_mistaken(family: int) -> None:
    wanted = [RouteRequest(verb, route_of(route)) for verb, route in MISTAKABLE[family]]
    expected = done_by("ip", family, wanted)
    assert all(expected[0])
    assert done_by("netlink", family, wanted) == expected


@pytest.mark.parametrize("family", [4, 6])
def test_a_route_by_a_nexthop_object(
    namespace: Namespace, backend: NetlinkBackend, family: int
) -> None:
    """It is added by the object's number, and deleted as it is read, with its next hops."""
    network, gateway = ("20.0.0.0/24", "10.0.0.9") if family == 4 else ("2001::/64", "fd00:99::9")
    namespace.batch([f"nexthop add id 5 via {gateway} dev eth0"], family=family)
    wanted = Route(Prefix.parse(network), metric=1024, protocol=OURS, nexthop_id=5)
    [added] = backend.change([RouteRequest("add", wanted)])
    assert added.error is None
    [present] = [route for route in backend.snapshot().routes if route.protocol == OURS]
    assert present.nexthop_id == 5
    [deleted] = backend.change([RouteRequest("delete", present)])
    assert deleted.error is None
    assert not any(route.protocol == OURS for route in backend.snapshot().routes)


def test_a_long_list_of_changes(backend: NetlinkBackend) -> None:
    """In many messages, each refusal is that of its own request, and all others are done."""
    wanted: list[Route] = []
    for number in range(1000):
        gateway = "203.0.113.1" if number % 7 == 3 else "10.0.0.1"
        prefix = f"20.{number >> 8}.{number & 255}.0/24"
        wanted.append(Route.to(prefix, dev="eth0", gateway=gateway, protocol=OURS))
    outcomes = backend.change(RouteRequest("add", route) for route in wanted)
    assert [outcome.ok for outcome in outcomes] == [number % 7 != 3 for number in range(1000)]
    assert outcomes[0] == Outcome(RouteRequest("add", wanted[0]))
    done = {outcome.change.route for outcome in outcomes if outcome.ok}
    assert {route for route in backend.snapshot().routes if route.protocol == OURS} == done


# Route, kind, and words of Linux or ours.
REFUSALS = """\
1.0.0.0/8 via 9.9.9.9 dev eth0 | gateway-not-on-link \
| its gateway is not on-link (kernel: Nexthop has invalid gateway
1.0.0.0/8 dev a-name-of-16-byte | no-such-device | device a-name-of-16-byte does not exist
2001::/16 via 10.0.0.1 dev eth0 | invalid | IPv6 does not support RTA_VIA attribute
fd00:9::/64 dev ib0 metric 1024 | refused | IPv6 is disabled on nexthop device
1.0.0.0/8 dev eth0 src a00:4:: | invalid | is not an IPv4 address
1.0.0.0/8 dev eth0 metric -1 | invalid | does not fit into a message
1.0.0.0/8 nexthop dev eth0 weight 0 nexthop dev ib0 | invalid | does not fit into a message
2001::/16 dev eth0 pref high | invalid | are only read
2001::/16 from 2001:db8::/32 dev eth0 | invalid | are only read
2001::/16 dev eth0 expires | invalid | are only read"""


def test_a_refusal_says_why(namespace: Namespace, backend: NetlinkBackend) -> None:
    """A refusal has its kind, and a sentence with the route, and the kernel's own words or ours."""
    namespace.sysctl("ipv6/conf/ib0/disable_ipv6", 1)
    rows = [line.split(" | ") for line in REFUSALS.splitlines()]
    outcomes = backend.change(RouteRequest("add", route_of(route)) for route, _, _ in rows)
    for outcome, (_, kind, words) in zip(outcomes, rows, strict=True):
        assert outcome.error is not None
        assert outcome.error.kind == kind
        assert str(outcome.error).startswith(f"cannot {outcome.change}")
        assert words in str(outcome.error)


TARGET, TARGET6 = "192.0.2.0/24", "2001:db8:9::/48"
DELETED = (
    (4, f"{TARGET} via 10.0.0.1 dev eth0 proto dhcp"),
    (4, f"{TARGET} via 10.0.0.1 dev eth0 metric 7 mtu 1400 proto bird"),
    (4, f"{TARGET} via 10.9.0.1 dev eth0 onlink"),
    (4, f"{TARGET} via inet6 fd00:99::1 dev eth0"),
    (4, f"{TARGET} dev ib0 scope link table 100"),
    (4, f"{TARGET} dev down0 scope link"),
    (4, f"{TARGET} via 10.0.0.1 dev eth0 tos 0x10"),
    (4, f"{TARGET} nexthop via 10.0.0.1 dev eth0 weight 2 nexthop dev down0"),
    (4, f"{TARGET} nhid 5"),
    (4, f"blackhole {TARGET} proto 80"),
    (4, f"local {TARGET} dev lo table local"),
    (6, f"{TARGET6} via fd00:99::1 dev eth0"),
    (6, f"{TARGET6} dev ib0 metric 7 from 2001:db8:7::/48"),
    (6, f"{TARGET6} dev down0"),
    (6, f"{TARGET6} nexthop via fd00:99::1 dev eth0 nexthop via fd00:99::2 dev eth0"),
    (6, f"{TARGET6} nhid 6"),
    (6, f"unreachable {TARGET6} metric 7"),
)


def test_the_command_that_deletes_a_route(namespace: Namespace, backend: NetlinkBackend) -> None:
    """A route of any kind is gone once the command was typed as it stands, and no other is."""
    objects = {5: "10.0.0.1", 6: "fd00:99::1"}
    commands = [f"nexthop add id {id_} via {via} dev eth0" for id_, via in objects.items()]
    namespace.batch([*ports("down0"), "link set peer-down0 down", *commands])
    wait_for("the carrier to be gone", lambda: "NO-CARRIER" in namespace.ip("link").stdout)
    before = backend.snapshot().routes
    for family, words in DELETED:
        namespace.batch([f"route add {words}"], family=family)
        [added] = set(backend.snapshot().routes) - set(before)
        namespace.run("sh", "-c", deletion_command(added))
        assert backend.snapshot().routes == before, words
