"""static-routes.sh and gateways: a route of ours is right while Linux reaches its gateway."""

from pathlib import Path

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
            ["address add 10.0.0.1/32 dev eth1"],
            "a gateway other than 10.0.0.1, this host's own address",
            id="own",
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


ADDRESSES = [
    ("fd55::4/64", "fd55::1", True),
    ("fd55::4/63", "fd55::1", True),
    ("::1.2.3.4/120", "::1.2.3.9", True),
    ("fd56::4/64", "fd55::1", False),
]


@pytest.mark.parametrize(("address", "gateway", "is_near"), ADDRESSES)
def test_gateway_in_ipv6(
    namespace: Namespace, tmp_path: Path, address: str, gateway: str, *, is_near: bool
) -> None:
    """The prefix of an address on the device says what is near."""
    ours_by_gateway = f"route add {IN_IPV6.destination} via {gateway} dev eth0 proto 213"
    namespace.batch([f"address add {address} dev eth0 nodad"])
    namespace.batch([f"route add {gateway} dev eth0 metric 9"])  # or Linux refuses the route
    namespace.batch([ours_by_gateway])
    namespace.batch([f"route del {gateway}"])
    assert (planned(namespace, IN_IPV6).waiting == ()) is is_near
    assert (Ran(namespace, [IN_IPV6], tmp_path).status == 0) is is_near


@pytest.mark.parametrize(("address", "gateway"), [row[:2] for row in ADDRESSES])
def test_gateway_in_ipv6_of_an_on_link_route(
    namespace: Namespace, tmp_path: Path, address: str, gateway: str
) -> None:
    """There, no address has to be near."""
    ours_on_link = f"route add {IN_IPV6.destination} via {gateway} dev eth0 onlink proto 213"
    namespace.batch([f"address add {address} dev eth0 nodad", ours_on_link])
    assert planned(namespace, IN_IPV6).waiting == ()
    assert Ran(namespace, [IN_IPV6], tmp_path).status == 0


@pytest.mark.parametrize(
    ("changes", "wish", "is_complete"),
    [
        pytest.param([], static("fd55::/64", metric=100), False, id="better metric"),
        pytest.param([], static("fd55::/80"), False, id="longer"),
        pytest.param([], static("fd55::/64"), True, id="as long"),
        pytest.param([], static("fd55::/64", metric=256), False, id="as long, with its metric"),
        pytest.param([], static("fd55::/63", metric=100), True, id="shorter"),
        pytest.param(
            ["route add fd55::1 dev eth0"],
            static("fd55::/80"),
            True,
            id="longer, beside a route to the gateway",
        ),
        pytest.param(
            [f"{OF_ANOTHER} eth0 metric 100"], ELSEWHERE, False, id="another's, better metric"
        ),
        pytest.param(
            [f"{OF_ANOTHER} eth0 metric 300"], ELSEWHERE, True, id="another's, worse metric"
        ),
        pytest.param(
            [f"{OF_ANOTHER} eth0 metric 256 pref high"],
            ELSEWHERE,
            False,
            id="another's, preferred",
        ),
        pytest.param(
            ["route add fd55::/80 via fe80::7 dev eth1"],
            ELSEWHERE,
            True,
            id="another's, by another device",
        ),
        pytest.param([], static("fd55::/80", "fe80::5", "eth0"), False, id="longer, by a gateway"),
        pytest.param(
            ["route replace default via fd55::1 dev eth0 onlink"],
            static("fd55::/80", "fe80::5", "eth0"),
            True,
            id="longer, and the default route is on-link",
        ),
        pytest.param(
            [], static("fd55::/80", "fe80::5", "eth1"), True, id="longer, by another device"
        ),
    ],
)
def test_a_gateway_in_the_destination(
    namespace: Namespace,
    tmp_path: Path,
    changes: list[str],
    wish: StaticRoute,
    *,
    is_complete: bool,
) -> None:
    """In IPv6, the best route to a gateway must not have one: neither another program's, nor
    the wanted route.
    """
    gateway = ["address add fd55::4/64 dev eth0 nodad", "route add default via fd55::1"]
    namespace.batch([*gateway, *changes], family=IPV6)
    plan = planned(namespace, wish)
    ran = Ran(namespace, [wish], tmp_path)
    assert (plan.waiting == ()) is is_complete
    assert (ran.status == 0) is is_complete
    if plan.waiting:
        said = str(plan.waiting[0]).replace(f" metric {wish.metric}", "")
        assert ran.lines == [f"{WAITS}{said}"]


@pytest.mark.parametrize(
    ("other", "is_complete"),
    [
        ("fd00::/8 via fe80::7 dev eth1", False),
        ("fd00::/8 via fe80::7 dev eth0", True),
        ("unreachable fd00::/8", True),
        ("::/8 via fe80::7 dev eth1", True),
    ],
)
def test_a_gateway_on_link_in_ipv6(
    namespace: Namespace, tmp_path: Path, other: str, *, is_complete: bool
) -> None:
    """Linux does not believe that a gateway is on the link to which a route leads elsewhere."""
    default = "route add default via fd55::1 dev eth0 onlink"
    namespace.batch([default, f"route add {other}"], family=IPV6)
    wish = static("2001:db8::/32")
    plan = planned(namespace, wish)
    ran = Ran(namespace, [wish], tmp_path)
    assert (plan.waiting == ()) is is_complete
    assert (ran.status == 0) is is_complete
    if plan.waiting:
        assert ran.lines == [f"{WAITS}{plan.waiting[0]}"]


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


@pytest.mark.parametrize(
    ("there", "lost", "is_right"),
    [
        pytest.param([OURS_IPV4], "eth0", False, id="ours is dead"),
        pytest.param([OURS_IPV4, THEIRS_IPV4], "eth0", False, id="ours is dead before theirs"),
        pytest.param([THEIRS_IPV4, OURS_IPV4], "eth1", True, id="theirs is dead before ours"),
        pytest.param([f"{IPV6_WAY} pref high expires 600"], "eth1", True, id="theirs is ours"),
        pytest.param(
            [OURS_IPV6, "fd00:16::/64 dev wg0 pref high proto 4"],
            "eth1",
            False,
            id="theirs is preferred",
        ),
        pytest.param(
            ["fd00:16::/64 dev wg0 pref low proto 4", OURS_IPV6],
            "eth1",
            True,
            id="ours is preferred",
        ),
        pytest.param(
            ["fd00:16::/64 dev eth1 pref high proto 4", f"{OURS_IPV6} pref low"],
            "eth1",
            True,
            id="theirs is preferred, and dead",
        ),
    ],
)
def test_the_route_that_linux_uses(
    namespace: Namespace, tmp_path: Path, there: list[str], lost: str, *, is_right: bool
) -> None:
    """It decides, wherever it stands in the list: one that is dead does not, and in IPv6 the
    router's preference does.
    """
    for dev in ("eth0", "eth1"):
        for family in ("ipv4", "ipv6"):
            namespace.sysctl(f"{family}/conf/{dev}/ignore_routes_with_linkdown", 1)
    namespace.batch([ROUTER, "address add 10.1.0.4/24 dev eth1"])
    namespace.batch(f"route append {route}" for route in there)
    lose_carriers(namespace, [lost])
    wish = IN_IPV6 if ":" in there[0] else HALF._replace(dev="eth0")
    before = listed(namespace)

    plan = planned(namespace, wish)
    ran = Ran(namespace, [wish], tmp_path)

    assert (not plan.waiting and not plan.conflicts) is is_right
    assert (ran.status == 0) is is_right
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
    assert (ran.status, ran.changes) == (0, [])
    assert listed(namespace) == before
