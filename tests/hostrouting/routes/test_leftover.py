"""hostrouting.routes.plan: the command that deletes one route, and no other."""

from typing import Any

import attrs
import pytest

from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import NextHop, Route
from hostrouting.routes.plan import deletion_command, is_left_behind
from tests.support.commands import ports
from tests.support.namespace import private_namespace

PREFIX = "172.16.0.0/16"
LEFT = Route.to(PREFIX, dev="eth0", gateway="10.0.0.9", protocol=3)
WANTED = Route.to(PREFIX, dev="eth0", gateway="10.0.0.1", protocol=213)


BOTH = (NextHop("eth0", gateway=as_ip("10.0.0.1")), NextHop("eth0", gateway=as_ip("10.0.0.9"), weight=2))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "via 10.0.0.9 dev eth0 table main proto boot scope global metric 0"),
        ({"tos": 16}, "via 10.0.0.9 dev eth0 tos 0x10 table main proto boot scope global metric 0"),
        ({"table": 100, "metric": 5}, "via 10.0.0.9 dev eth0 table 100 proto boot scope global metric 5"),
        ({"protocol": 4}, "via 10.0.0.9 dev eth0 table main proto static scope global metric 0"),
        ({"protocol": 16, "scope": 253}, "via 10.0.0.9 dev eth0 table main proto 16 scope link metric 0"),
        (
            {"prefsrc": as_ip("10.0.0.5"), "mtu": 1400, "advmss": 1300},
            "via 10.0.0.9 dev eth0 table main proto boot scope global src 10.0.0.5 metric 0 mtu 1400 advmss 1300",
        ),
        ({"nexthop_id": 7}, "table main proto boot scope global metric 0 nhid 7"),
        (
            {"legs": BOTH},
            (
                "table main proto boot scope global metric 0"
                " nexthop via 10.0.0.1 dev eth0 weight 1 nexthop via 10.0.0.9 dev eth0 weight 2"
            ),
        ),
        ({"legs": BOTH, "nexthop_id": 7}, "table main proto boot scope global metric 0 nhid 7"),
    ],
)
def test_the_whole_command(changed: dict[str, Any], words: str) -> None:
    """The command has every attribute that the kernel compares."""
    assert deletion_command(attrs.evolve(LEFT, **changed)) == f"ip route del {PREFIX} {words}"


def test_the_command_for_a_default_route() -> None:
    """A default route has its name, and a route that is not unicast has its type."""
    assert deletion_command(Route.to("0.0.0.0/0", type="blackhole", protocol=3)) == (
        "ip route del blackhole default table main proto boot scope global metric 0"
    )


@pytest.mark.parametrize(
    ("standing", "left"),
    [
        (LEFT, True),
        (attrs.evolve(LEFT, protocol=4), True),
        (attrs.evolve(LEFT, protocol=16), False),
        (attrs.evolve(LEFT, protocol=2), False),
        (Route.to(PREFIX, dev="eth0", protocol=3), False),
        (Route.to(PREFIX, dev="ib0", gateway="10.0.0.9", protocol=3), False),
        (Route.to(PREFIX, type="blackhole", protocol=3), False),
    ],
)
def test_what_a_script_has_left(standing: Route, *, left: bool) -> None:
    """A handwritten route through the same device to a gateway."""
    assert is_left_behind(standing, WANTED) is left


@pytest.mark.linux
@pytest.mark.needs("root")
def test_law_it_deletes_that_route_only() -> None:
    """On Linux, each of many similar routes is deleted by its own command, and only the first time."""
    src = attrs.evolve(LEFT, prefix=Prefix.parse("172.17.0.0/16"), prefsrc=as_ip("10.0.0.5"))
    with private_namespace() as namespace:
        namespace.batch(
            [
                "link set lo up",
                *ports("eth0", "ib0"),
                "address add 10.0.0.4/24 dev eth0",
                "address add 10.0.0.5/24 dev eth0",
                "address add 172.16.1.10/16 dev ib0",
                f"route replace {PREFIX} via 10.0.0.9 dev eth0",
                f"route append {PREFIX} via 10.0.0.1 dev eth0",
                f"route append {PREFIX} via 10.0.0.9 dev eth0 proto static",
                f"route append {PREFIX} via 10.0.0.9 dev eth0 proto 213",
                f"route append {PREFIX} via 10.0.0.9 dev eth0 mtu 1400",
                f"route append {PREFIX} nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.9 dev eth0 weight 2",
                f"route append {PREFIX} dev eth0 proto 99",
                f"route add {PREFIX} via 10.0.0.9 dev eth0 metric 5",
                f"route add {PREFIX} via 10.0.0.9 dev eth0 tos 0x10",
                f"route add {PREFIX} via 10.0.0.9 dev eth0 table 100",
                f"route add {src.prefix} via 10.0.0.9 dev eth0 src 10.0.0.5",
                f"route add blackhole {PREFIX} metric 9",
                "link set ib0 down",
                "link set ib0 up",
            ]
        )
        there = [it for it in namespace.routes(4) if str(it.prefix).startswith("172.1") and it.table in {254, 100}]
        for route in (LEFT, src, attrs.evolve(LEFT, legs=BOTH), attrs.evolve(LEFT, mtu=1400)):
            assert route in there
        assert len(there) == 13
        for route in there:
            before = namespace.routes(4)
            done = namespace.run("sh", "-c", deletion_command(route))
            assert done.returncode == 0, (deletion_command(route), done.stderr)
            assert [it for it in before if it not in namespace.routes(4)] == [route]
