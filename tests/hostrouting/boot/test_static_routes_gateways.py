"""static-routes.sh and gateways: a route of ours is right while Linux reaches its gateway."""

from pathlib import Path
from typing import NamedTuple

import pytest

from hostrouting.config.settings import StaticRoute
from hostrouting.model.prefix import IPV6
from tests.support.commands import lose_carriers
from tests.support.namespace import Namespace
from tests.support.routes_script import ETH0, HALF, ROUTER, Ran, events, listed, ours, planned
from tests.support.sections import static
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

ANOTHER_NETWORK = ["address add 10.9.0.4/24 dev eth0", "address del 10.0.0.4/24 dev eth0"]
WAITS = "<3>static-routes: ROUTE-WAITS: "
NOT_NEAR = "an address or route on eth0 that reaches the gateway 10.0.0.1 directly"
IN_IPV6 = static("fd00:16::/64")
ELSEWHERE = static("fd57::/64")
OF_ANOTHER = "route append fd55::/64 via fe80::7 dev"
OURS_IPV4 = "172.16.0.0/17 via 10.0.0.1 dev eth0 proto 213"
THEIRS_IPV4 = "172.16.0.0/17 via 10.1.0.1 dev eth1 proto 4"
IPV6_WAY = "fd00:16::/64 via fe80::1 dev eth0"
OURS_IPV6 = f"{IPV6_WAY} proto 213"
HALF_BY_ETH0 = HALF._replace(dev="eth0")


def assert_complete(namespace: Namespace, folder: Path, wish: StaticRoute) -> None:
    """The route waits for nothing, neither for Python nor for the script."""
    plan = planned(namespace, wish)
    ran = Ran(namespace, [wish], folder)
    assert plan.waiting == ()
    assert ran.status == 0, ran.lines


def assert_waiting(namespace: Namespace, folder: Path, wish: StaticRoute) -> None:
    """Python and the script say in the same words what this route waits for."""
    [waiting] = planned(namespace, wish).waiting
    ran = Ran(namespace, [wish], folder)
    # Only Python names the metric, which is not a reason.
    reason = str(waiting).replace(f" metric {wish.metric}", "")
    assert ran.status == 1
    assert ran.lines == [f"{WAITS}{reason}"]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(ANOTHER_NETWORK, id="not reached"),
        pytest.param(["address add 10.0.0.1/32 dev eth1"], id="own"),
    ],
)
@pytest.mark.parametrize("gateway", [None, "10.0.0.1"])
def test_gateway_that_is_gone(
    namespace: Namespace, tmp_path: Path, changes: list[str], gateway: str | None
) -> None:
    """A route of ours is right only while its gateway is a neighbour, and not this host."""
    wish = static("172.16.0.0/17", gateway)
    assert Ran(namespace, [wish], tmp_path).status == 0
    namespace.batch([*changes, "route del default"])
    assert ours(namespace) == ["172.16.0.0/17"], "Linux keeps the route"
    [waiting] = planned(namespace, wish).waiting
    assert Ran(namespace, [wish], tmp_path).lines == [f"{WAITS}{waiting}; last seen: none"]
    assert str(waiting) == f"{wish} needs an IPv4 default route"


def test_the_journal_says_where_routes_lead_now(namespace: Namespace, tmp_path: Path) -> None:
    """A second card gets a default route that Linux prefers, and a route that names no device
    follows it: whoever looks for the cause finds the device and the time.
    """
    assert Ran(namespace, [HALF], tmp_path).status == 0
    namespace.batch(
        [
            "address add 10.1.0.4/24 dev eth1",
            "route del default",
            "route add default via 10.0.0.1 dev eth0 metric 100",
            "route add default via 10.1.0.1 dev eth1 metric 50",
        ]
    )
    ran = Ran(namespace, [HALF], tmp_path)
    assert ran.changes == [2]
    assert ran.first_changes == [
        "ip route append 172.16.0.0/17 proto 213 metric 0 via 10.1.0.1 dev eth1"
    ]


def test_gateway_in_ipv6_that_is_gone(namespace: Namespace, tmp_path: Path) -> None:
    """It can become the link-local address of this host."""
    namespace.batch([ROUTER])
    assert Ran(namespace, [IN_IPV6], tmp_path).status == 0
    namespace.batch(["address add fe80::1/64 dev eth0 nodad", "route del ::/0"])
    [waiting] = planned(namespace, IN_IPV6).waiting
    assert Ran(namespace, [IN_IPV6], tmp_path).lines == [f"{WAITS}{waiting}; last seen: none"]


@pytest.mark.parametrize("gateway", [None, "10.0.0.1"])
def test_gateway_that_is_still_reached(
    namespace: Namespace, tmp_path: Path, gateway: str | None
) -> None:
    """Another address, and no default route, change nothing about that."""
    wish = static("172.16.0.0/17", gateway)
    assert Ran(namespace, [wish], tmp_path).status == 0
    namespace.batch(["address add 10.9.0.4/24 dev eth0", "route del default"])
    assert Ran(namespace, [wish], tmp_path).lines == []
    assert planned(namespace, wish).waiting == ()


def test_a_gateway_that_another_table_takes_in(namespace: Namespace, tmp_path: Path) -> None:
    """A route of the type local in another table, as of a proxy, makes no address of this host."""
    namespace.batch(
        [
            "rule add fwmark 0x1 lookup 100",
            "route add local 10.0.0.1/32 dev lo table 100",
        ]
    )
    plan = planned(namespace, HALF)
    assert [step.action for step in plan.steps] == ["add"]
    assert Ran(namespace, [HALF], tmp_path).changes == [1]


def test_a_gateway_with_a_route_of_its_own(namespace: Namespace, tmp_path: Path) -> None:
    """The route to it, which is wanted and that of another program, makes it no address of this
    host.
    """
    there = "route add 10.9.0.1 dev wg0 proto 4"
    namespace.batch(["route add default dev wg0 table 100", there])
    wanted = [static("10.9.0.1/32", dev="wg0"), static("172.16.0.0/17", "10.9.0.1", "wg0")]
    assert [step.action for step in planned(namespace, *wanted).steps] == ["keep", "add"]
    assert Ran(namespace, wanted, tmp_path).changes == [1]


def test_a_first_next_hop_without_a_gateway(namespace: Namespace, tmp_path: Path) -> None:
    """The scope is link only if no next hop has a gateway: else Linux refuses the route."""
    default = "nexthop dev eth1 nexthop via 10.0.0.1 dev eth0"
    namespace.batch([f"route replace default {default}"])
    assert Ran(namespace, [HALF], tmp_path).changes == [1]
    plan = planned(namespace, HALF)
    assert [step.action for step in plan.steps] == ["keep"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param(ANOTHER_NETWORK, NOT_NEAR, id="not reached"),
        pytest.param(
            ["address add 9.9.9.4/24 dev eth0", "address del 10.0.0.4/24 dev eth0"],
            NOT_NEAR,
            id="not reached, and behind the network",
        ),
        pytest.param(
            [*ANOTHER_NETWORK, "route add 10.0.0.1 dev eth0 scope global"],
            NOT_NEAR,
            id="reached by a route of the wrong scope",
        ),
        pytest.param(
            [*ANOTHER_NETWORK, "route add 10.0.0.1 dev eth0 proto 213"],
            NOT_NEAR,
            id="reached by a route of ours, which goes",
        ),
        pytest.param(
            [*ANOTHER_NETWORK, "route add 10.0.0.1 dev eth0 table 100"],
            NOT_NEAR,
            id="reached by a route of another table",
        ),
        pytest.param(
            [*ANOTHER_NETWORK, "route add 10.0.0.1 tos 0x10 dev eth0"],
            NOT_NEAR,
            id="reached by a route for some packets",
        ),
        pytest.param(
            ["address add 10.0.0.1/32 dev eth1"],
            "a gateway other than 10.0.0.1, this host's own address or a broadcast address",
            id="own",
        ),
        pytest.param(
            ["address add 192.168.7.7/24 broadcast 10.0.0.1 dev eth0"],
            "a gateway other than 10.0.0.1, this host's own address or a broadcast address",
            id="broadcast",
        ),
    ],
)
def test_named_gateway_that_is_gone(
    namespace: Namespace, tmp_path: Path, changes: list[str], reason: str
) -> None:
    """A route that has all of its own waits, too, with the words of Python."""
    wish = static("172.16.0.0/17", "10.0.0.1", "eth0")
    namespace.batch(["route del default"])
    assert Ran(namespace, [wish], tmp_path).status == 0
    namespace.batch(changes)
    [waiting] = planned(namespace, wish).waiting
    with events(namespace, tmp_path / "events") as seen:
        assert Ran(namespace, [wish], tmp_path).lines == [f"{WAITS}{waiting}"]
    assert seen == [], "it would wake the guard each time"
    assert str(waiting) == f"{wish} needs {reason}"


NEAR = [
    ("fd55::4/64", "fd55::1"),
    ("fd55::4/63", "fd55::1"),
    ("::1.2.3.4/120", "::1.2.3.9"),
    ("0:1::4/20", "0:1::1"),
]
NOT_IN_THE_PREFIX = ("fd56::4/64", "fd55::1")


def add_our_route(namespace: Namespace, address: str, gateway: str) -> None:
    """A host with this address and a route of ours by this gateway, in IPv6."""
    ours_by_gateway = f"route add {IN_IPV6.destination} via {gateway} dev eth0 proto 213"
    namespace.batch([f"address add {address} dev eth0 nodad"])
    namespace.batch([f"route add {gateway} dev eth0 metric 9"])  # or Linux refuses the route
    namespace.batch([ours_by_gateway])
    namespace.batch([f"route del {gateway}"])


@pytest.mark.parametrize(("address", "gateway"), NEAR)
def test_gateway_in_ipv6(namespace: Namespace, tmp_path: Path, address: str, gateway: str) -> None:
    """A gateway in the prefix of an address on the device is near."""
    add_our_route(namespace, address, gateway)
    assert_complete(namespace, tmp_path, IN_IPV6)


def test_addresses_that_python_writes_in_another_way(namespace: Namespace, tmp_path: Path) -> None:
    """A route that is there is found again: the script has them as `ip` lists them."""
    namespace.batch(["address add ::1.2.3.4/120 dev eth0 nodad"])
    wish = static("::1.2.4.0/120", gateway="::1.2.3.9", dev="eth0")
    assert Ran(namespace, [wish], tmp_path).status == 0
    with events(namespace, tmp_path / "events") as seen:
        assert Ran(namespace, [wish], tmp_path).status == 0
    assert seen == []


def test_a_gateway_on_a_link_whose_prefix_has_expired(namespace: Namespace, tmp_path: Path) -> None:
    """Linux lists the prefix until its next clean-up, and refuses the gateway."""
    namespace.batch(["route append fd55::/64 dev eth0 expires 0"])
    wait_for("its end", lambda: " expires " in namespace.ip("-6", "route").stdout)
    wish = static("fd00:16::/64", gateway="fd55::1", dev="eth0")
    [waiting] = planned(namespace, wish).waiting
    ran = Ran(namespace, [wish], tmp_path)
    assert ran.lines == [f"{WAITS}{waiting}"]
    by_linux = namespace.ip("route", "add", "fd00:16::/64", "via", "fd55::1", "dev", "eth0")
    assert by_linux.returncode


@pytest.mark.parametrize("gateway", [None, "10.1.0.1"])
def test_a_named_device_that_is_down(
    namespace: Namespace, tmp_path: Path, gateway: str | None
) -> None:
    """That is said first: while it is down, it has no default route either."""
    namespace.batch(["link set eth1 down"])
    assert_waiting(namespace, tmp_path, static("172.16.0.0/17", gateway=gateway, dev="eth1"))


@pytest.mark.parametrize(("dev", "is_own"), [("eth0", True), ("eth1", False)])
def test_a_link_local_gateway_that_this_host_has(
    namespace: Namespace, tmp_path: Path, dev: str, *, is_own: bool
) -> None:
    """Linux refuses it on the device that has the address, and only there."""
    namespace.batch([f"address add fe80::1/64 dev {dev} nodad"])
    wish = static("fd00:16::/64", gateway="fe80::1", dev="eth0")
    if is_own:
        assert_waiting(namespace, tmp_path, wish)
        by_linux = namespace.ip("route", "add", "fd00:16::/64", "via", "fe80::1", "dev", "eth0")
        assert by_linux.returncode
    else:
        assert_complete(namespace, tmp_path, wish)
        assert ours(namespace, IPV6) == ["fd00:16::/64"]


def test_gateway_in_ipv6_that_is_not_near(namespace: Namespace, tmp_path: Path) -> None:
    """It is in the prefix of no address on the device."""
    address, gateway = NOT_IN_THE_PREFIX
    add_our_route(namespace, address, gateway)
    [waiting] = planned(namespace, IN_IPV6).waiting
    ran = Ran(namespace, [IN_IPV6], tmp_path)
    assert ran.lines == [f"{WAITS}{waiting}; last seen: none"]
    assert ran.status == 1


@pytest.mark.parametrize(("address", "gateway"), [*NEAR, NOT_IN_THE_PREFIX])
def test_gateway_in_ipv6_of_an_on_link_route(
    namespace: Namespace, tmp_path: Path, address: str, gateway: str
) -> None:
    """There, no address has to be near."""
    ours_on_link = f"route add {IN_IPV6.destination} via {gateway} dev eth0 onlink proto 213"
    namespace.batch([f"address add {address} dev eth0 nodad", ours_on_link])
    assert_complete(namespace, tmp_path, IN_IPV6)


def by_default_gateway(namespace: Namespace, changes: list[str]) -> None:
    """A host with a default route by fd55::1, which is near by fd55::/64, and these changes."""
    default = ["address add fd55::4/64 dev eth0 nodad", "route add default via fd55::1"]
    namespace.batch([*default, *changes], family=IPV6)


@pytest.mark.parametrize(
    "wish",
    [
        pytest.param(static("fd55::/64"), id="as long as the route to the gateway"),
        pytest.param(static("fd55::/63", metric=100), id="shorter"),
        pytest.param(static("fd55::/80", "fe80::5", "eth1"), id="longer, by another device"),
        pytest.param(static("fd54::/80"), id="longer, and before it"),
        pytest.param(static("fd56::/80"), id="longer, and behind it"),
        pytest.param(static("10.0.0.0/25"), id="in IPv4"),
    ],
)
def test_a_gateway_in_the_destination(
    namespace: Namespace, tmp_path: Path, wish: StaticRoute
) -> None:
    """In IPv6, the wanted route may contain the gateway if another route leads there first."""
    by_default_gateway(namespace, [])
    assert_complete(namespace, tmp_path, wish)


def test_a_gateway_in_the_destination_with_a_route_of_its_own(
    namespace: Namespace, tmp_path: Path
) -> None:
    """That one leads to the gateway, also if the wanted route is longer than the network's."""
    by_default_gateway(namespace, ["route add fd55::1 dev eth0"])
    assert_complete(namespace, tmp_path, static("fd55::/80"))


@pytest.mark.parametrize(
    "wish",
    [
        pytest.param(static("fd55::/64", metric=100), id="better metric"),
        pytest.param(static("fd55::/64", metric=256), id="as long, with its metric"),
        pytest.param(static("fd55::/80"), id="longer than the route to the gateway"),
        pytest.param(static("fd55::/80", "fe80::5", "eth0"), id="longer, by a gateway"),
    ],
)
def test_a_gateway_that_the_wanted_route_takes_in(
    namespace: Namespace, tmp_path: Path, wish: StaticRoute
) -> None:
    """In IPv6, the best route to a gateway must not have one: the wanted route would be that."""
    by_default_gateway(namespace, [])
    assert_waiting(namespace, tmp_path, wish)


def test_a_gateway_in_a_destination_on_the_link(namespace: Namespace, tmp_path: Path) -> None:
    """The wanted route may take the gateway in if it has none itself."""
    by_default_gateway(namespace, ["route add default dev eth0 metric 9"])
    assert_complete(namespace, tmp_path, static("fd55::/80", dev="eth0"))


def test_a_gateway_that_is_not_near_in_the_destination(
    namespace: Namespace, tmp_path: Path
) -> None:
    """Linux does not reach it anyway: the wanted route takes nothing away."""
    by_default_gateway(namespace, ["address del fd55::4/64 dev eth0"])
    assert_complete(namespace, tmp_path, static("fd55::/80", "fe80::5", "eth0"))


def test_a_gateway_of_a_default_route_without_a_carrier(
    namespace: Namespace, tmp_path: Path
) -> None:
    """It does not matter that the wanted route takes that in: the default route is not in use."""
    default = ["address add fd55::4/64 dev ib0 nodad", "route add default via fd55::1"]
    namespace.batch(default, family=IPV6)
    namespace.sysctl("ipv6/conf/ib0/ignore_routes_with_linkdown", 1)
    lose_carriers(namespace, ["ib0"])
    assert_complete(namespace, tmp_path, static("fd55::/80", "fe80::5", "ib0"))


def test_a_gateway_by_the_default_route(namespace: Namespace, tmp_path: Path) -> None:
    """A default route on the link reaches any gateway there."""
    namespace.batch(["route add ::/0 dev eth0"])
    assert_complete(namespace, tmp_path, static("fd00:16::/64", "fd55::1", "eth0"))


def test_a_default_route_of_the_other_family(namespace: Namespace, tmp_path: Path) -> None:
    """An IPv4 default route on the link reaches no IPv6 gateway."""
    namespace.batch(["route replace default dev eth0"])
    assert_waiting(namespace, tmp_path, static("fd00:16::/64", "fd55::1", "eth0"))


def test_a_gateway_that_is_said_to_be_on_the_link(namespace: Namespace, tmp_path: Path) -> None:
    """Linux does not ask for a route to it, so the wanted route may contain it and be longer."""
    by_default_gateway(namespace, ["route replace default via fd55::1 dev eth0 onlink"])
    assert_complete(namespace, tmp_path, static("fd55::/80", "fe80::5", "eth0"))


def test_a_link_local_gateway_in_the_destination(namespace: Namespace, tmp_path: Path) -> None:
    """Linux asks for no route to one, so the wanted route may take it in."""
    namespace.batch(["route add ::/0 dev eth0"])
    assert_complete(namespace, tmp_path, static("8000::/1", "fe80::5", "eth0"))


@pytest.mark.parametrize(
    "of_another",
    [
        pytest.param(f"{OF_ANOTHER} eth0 metric 300", id="worse metric"),
        pytest.param("route add fd55::/80 via fe80::7 dev eth1", id="by another device"),
    ],
)
def test_a_gateway_beside_the_route_of_another_program(
    namespace: Namespace, tmp_path: Path, of_another: str
) -> None:
    """A route to the gateway that has a gateway itself does not matter if Linux does not use it."""
    by_default_gateway(namespace, [of_another])
    assert_complete(namespace, tmp_path, ELSEWHERE)


@pytest.mark.parametrize(
    "of_another",
    [
        pytest.param(f"{OF_ANOTHER} eth0 metric 100", id="better metric"),
        pytest.param(f"{OF_ANOTHER} eth0 metric 256 pref high", id="preferred"),
    ],
)
def test_a_gateway_that_another_program_takes_in(
    namespace: Namespace, tmp_path: Path, of_another: str
) -> None:
    """In IPv6, the best route to a gateway must not have one: another program's has."""
    by_default_gateway(namespace, [of_another])
    assert_waiting(namespace, tmp_path, ELSEWHERE)


ON_LINK_IN_IPV6 = "route add default via fd55::1 dev eth0 onlink"


@pytest.mark.parametrize(
    "other",
    [
        "fd00::/8 via fe80::7 dev eth0",
        "unreachable fd00::/8",
        "default via fe80::7 dev eth1 metric 100",
    ],
)
def test_a_gateway_on_link_in_ipv6(namespace: Namespace, tmp_path: Path, other: str) -> None:
    """No route leads to the gateway by another device, but perhaps a default route."""
    namespace.batch([ON_LINK_IN_IPV6, f"route add {other}"], family=IPV6)
    assert_complete(namespace, tmp_path, static("2001:db8::/32", dev="eth0"))


def test_a_gateway_on_link_in_a_prefix_that_begins_with_zeros(
    namespace: Namespace, tmp_path: Path
) -> None:
    """Linux takes a route to such a prefix for a default route, and asks for none of those."""
    default = "route add default via 2001:db9::1 dev eth0 onlink"
    namespace.batch([default, "route add ::/2 via fe80::7 dev eth1"], family=IPV6)
    assert_complete(namespace, tmp_path, static("2001:db8::/32", dev="eth0"))


def test_a_gateway_on_link_to_which_a_route_leads_elsewhere(
    namespace: Namespace, tmp_path: Path
) -> None:
    """Linux does not believe that it is on the link."""
    elsewhere = "route add fd00::/8 via fe80::7 dev eth1"
    namespace.batch([ON_LINK_IN_IPV6, elsewhere], family=IPV6)
    assert_waiting(namespace, tmp_path, static("2001:db8::/32"))


@pytest.mark.parametrize("protocol", ["static", "213"])
@pytest.mark.parametrize(("of_default", "of_present"), [(" onlink", ""), ("", " onlink")])
def test_on_link(
    namespace: Namespace, tmp_path: Path, protocol: str, of_default: str, of_present: str
) -> None:
    """Ifupdown's default route is on-link: a route of another program or of ours that is not is
    the same route.
    """
    namespace.batch(
        [
            "route del default",
            f"route add default {ETH0}{of_default}",
            f"route add 172.16.0.0/17 {ETH0}{of_present} proto {protocol}",
        ]
    )
    before = listed(namespace)
    ran = Ran(namespace, [HALF], tmp_path)
    assert ran.lines == []
    assert ran.status == 0
    assert ran.changes == []
    assert listed(namespace) == before


class Rivals(NamedTuple):
    """Routes to one destination, of which Linux uses one."""

    wish: StaticRoute
    there: list[str]
    lost: str
    """The device whose carrier is gone."""


RIGHT = {
    "theirs is dead before ours": Rivals(HALF_BY_ETH0, [THEIRS_IPV4, OURS_IPV4], "eth1"),
    "theirs is ours": Rivals(IN_IPV6, [f"{IPV6_WAY} pref high expires 600"], "eth1"),
    "ours is preferred": Rivals(
        IN_IPV6, ["fd00:16::/64 dev wg0 pref low proto 4", OURS_IPV6], "eth1"
    ),
    "theirs is preferred, and dead": Rivals(
        IN_IPV6, ["fd00:16::/64 dev eth1 pref high proto 4", f"{OURS_IPV6} pref low"], "eth1"
    ),
}
NOT_RIGHT = {
    "ours is dead": Rivals(HALF_BY_ETH0, [OURS_IPV4], "eth0"),
    "ours is dead before theirs": Rivals(HALF_BY_ETH0, [OURS_IPV4, THEIRS_IPV4], "eth0"),
    "theirs is preferred": Rivals(
        IN_IPV6, [OURS_IPV6, "fd00:16::/64 dev wg0 pref high proto 4"], "eth1"
    ),
}


@pytest.mark.parametrize("name", [*RIGHT, *NOT_RIGHT])
def test_the_route_that_linux_uses(namespace: Namespace, tmp_path: Path, name: str) -> None:
    """It decides, wherever it stands in the list: one that is dead does not, and in IPv6 the
    router's preference does.
    """
    rivals = (RIGHT | NOT_RIGHT)[name]
    for dev in ("eth0", "eth1"):
        for family in ("ipv4", "ipv6"):
            namespace.sysctl(f"{family}/conf/{dev}/ignore_routes_with_linkdown", 1)
    namespace.batch([ROUTER, "address add 10.1.0.4/24 dev eth1"])
    namespace.batch(f"route append {route}" for route in rivals.there)
    lose_carriers(namespace, [rivals.lost])
    before = listed(namespace)

    plan = planned(namespace, rivals.wish)
    ran = Ran(namespace, [rivals.wish], tmp_path)

    if name in RIGHT:
        assert plan.waiting == ()
        assert plan.conflicts == ()
        assert ran.status == 0
    else:
        assert plan.waiting or plan.conflicts
        assert ran.status == 1
    assert ran.changes == []
    assert listed(namespace) == before


def test_an_expired_route_before_ours(namespace: Namespace, tmp_path: Path) -> None:
    """Linux lists it until its next clean-up, and does not use it."""
    theirs = "fd00:16::/64 dev wg0 proto 4 expires 0"
    routes = ("::/0 via fe80::1 dev eth0", theirs, OURS_IPV6)
    namespace.batch(f"route append {route}" for route in routes)
    # In the first 10 ms after its end, Linux lists it like one without an end.
    wait_for("its end", lambda: " expires " in namespace.ip("-6", "route").stdout)
    before = listed(namespace)
    assert [line for line in before if "wg0" in line]
    plan = planned(namespace, IN_IPV6)
    assert [step.action for step in plan.steps] == ["keep"]
    ran = Ran(namespace, [IN_IPV6], tmp_path)
    assert ran.status == 0
    assert ran.changes == []
    assert listed(namespace) == before
