"""hostrouting.fib: rare rules and next hops, each on the smallest host that shows the case; Linux is the oracle."""

from collections import Counter
from collections.abc import Iterable

import attrs
import pytest

from hostrouting.fib.engine import Fib
from hostrouting.fib.packet import PLAIN
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.prefix import as_ip
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Address, Link
from tests.support.commands import LINKS, furnish, lose_carriers, ports
from tests.support.namespace import Namespace, private_namespace
from tests.support.rawkernel import raw_kernel

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

DEFAULT = "route add default via 10.0.0.1 dev eth0"
TWO = "route add 172.16.0.0/16 nexthop via 10.0.0.1 dev eth0 nexthop via 10.1.0.1 dev eth1"
TWO_IPV6 = "route add fd16::/16 nexthop via fe80::1 dev eth0 nexthop via fe80::2 dev eth1"


def agreed(namespace: Namespace, *, tos: Iterable[int] = (0,)) -> list[tuple[str, tuple[str, ...]]]:
    """The engine's result for a packet of each tos, checked against Linux."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for each in tos:
        flow = attrs.evolve(PLAIN, tos=each)
        with namespace.inside(), NetlinkBackend() as backend:
            decision = Fib(backend.snapshot(family=4)).lookup("172.16.0.1", flow)
            (answer,) = backend.lookup([as_ip("172.16.0.1")], flow)
        assert (answer.kind, answer.route) == (decision.kind, decision.route), f"tos {each}"
        found.append((decision.kind, decision.devs))
    return found


@pytest.mark.parametrize("invert", ["", "not"])
def test_rules_for_vrfs(invert: str) -> None:
    """A rule for packets in a VRF matches none outside it; inverted it matches all, and looks up table main."""
    with private_namespace() as namespace:
        furnish(namespace, LINKS)
        namespace.batch([DEFAULT, f"rule add {invert} l3mdev pref 8", "rule add pref 9 prohibit"])
        assert agreed(namespace) == ([("unicast", ("eth0",))] if invert else [("prohibit", ())])


def test_an_action_that_linux_does_not_know() -> None:
    """A rule with such an action, as `ip rule add throw` makes it, refuses packets as a blackhole does."""
    with private_namespace() as namespace:
        furnish(namespace, LINKS)
        namespace.batch([DEFAULT, "rule add pref 10 throw"])
        assert agreed(namespace) == [("blackhole", ())]


@pytest.mark.parametrize(("first", "second", "dev"), [("ib0", "eth1", "ib0"), ("eth1", "eth0", "wg0")])
def test_a_group_that_is_suppressed(first: str, second: str, dev: str) -> None:
    """Of several next hops Linux checks the group of the first one, whether it is in use or not."""
    links = (*(attrs.evolve(it, group=7 * (it.name == "eth1"), ignore_routes_with_linkdown=True) for it in LINKS),)
    with private_namespace() as namespace:
        furnish(namespace, links)
        namespace.batch(
            [
                *(f"address add 10.{at}.0.4/24 dev {link.name}" for at, link in enumerate(LINKS, start=1)),
                f"route add 172.16.0.0/16 nexthop dev {first} nexthop dev {second}",
                "route add 172.16.0.0/16 dev wg0 table 100",
                "rule add pref 10 lookup main suppress_ifgroup 7",
                "rule add pref 20 lookup 100",
            ]
        )
        lose_carriers(namespace, [first])
        assert dev in agreed(namespace)[0][1]


@pytest.mark.parametrize("late", [True, False])  # when the setting came
@pytest.mark.parametrize("family", [4, 6])
def test_shares_of_legs(family: int, *, late: bool) -> None:
    """A next hop without a carrier may still have its share: Linux does not compute it again for the sysctl."""
    with private_namespace() as namespace:
        furnish(namespace, [Link(name="eth0", index=0), Link(name="eth1", index=0)])
        namespace.batch(["address add 10.1.0.4/24 dev eth1", TWO])
        namespace.batch([TWO_IPV6], family=6)
        if late:
            lose_carriers(namespace, ["eth1"])
        namespace.sysctl(f"ipv{family}/conf/eth1/ignore_routes_with_linkdown", 1)
        if not late:
            lose_carriers(namespace, ["eth1"])
        block = "172.16.0." if family == 4 else "fd16::"
        said = namespace.ip("-batch", "-", lines=[f"route get {block}{at}" for at in range(1, 60)]).stdout
        used = Counter(line.partition(" dev ")[2].split()[0] for line in said.splitlines() if " dev " in line)
        # A snapshot does not show which of the two came first.
        with NetlinkBackend(netns=namespace.path) as backend:
            assert Fib(backend.snapshot(family=family)).lookup(f"{block}1").devs == ("eth0", "eth1")
    assert set(used) == ({"eth0", "eth1"} if late else {"eth0"})


@pytest.mark.parametrize(("ignored", "kind"), [(0, "unicast"), (1, "no-route")])
def test_a_bound_socket_without_a_carrier(ignored: int, kind: str) -> None:
    """A socket bound to a device without a carrier finds no route there if Linux heeds the carrier."""
    with private_namespace() as namespace:
        furnish(namespace, [Link(name="eth0", index=0), Link(name="eth1", index=0)])
        namespace.batch(["address add 10.1.0.4/24 dev eth1", TWO])
        lose_carriers(namespace, ["eth1"])
        namespace.sysctl("ipv4/conf/eth1/ignore_routes_with_linkdown", ignored)
        with NetlinkBackend(netns=namespace.path) as backend:
            flow = attrs.evolve(PLAIN, oif="eth1")
            (answer,) = backend.lookup([as_ip("172.16.5.9")], flow)
            fib = Fib(backend.snapshot(family=4))
    assert fib.lookup("172.16.5.9", flow).kind == kind
    assert (answer.route is not None) == (kind == "unicast")


@pytest.mark.parametrize("dscp", [(4, 0x3F), (12, 0x3F), (0, 0x3F), (0, 0x38), (44, 0x3C)])
def test_rules_by_dscp(dscp: tuple[int, int]) -> None:
    """All six bits of a DSCP count, and 0 is a value like any other; of a type of service IPv4 checks three bits."""
    rule = Rule(family=4, priority=10, action="prohibit", dscp=dscp)
    with raw_kernel() as kernel:
        for said in (kernel.add_link("eth0"), kernel.set_up("eth0"), kernel.add_rule(rule)):
            assert not said.errno, said
        kernel.add_address(Address(ip=as_ip("172.16.0.9"), length=16, dev="eth0"))
        with NetlinkBackend(netns=kernel.path) as backend:
            assert rule in backend.snapshot(family=4).rules
            fib = Fib(backend.snapshot(family=4))
            for tos in (0, 0x10, 0x30, 0x50, 0xB0, 0x04, 0x11):
                flow = attrs.evolve(PLAIN, tos=tos)
                (answer,) = backend.lookup([as_ip("172.16.0.1")], flow)
                assert fib.lookup("172.16.0.1", flow).kind == answer.kind
                assert (answer.kind == "prohibit") is not bool((tos >> 2 ^ dscp[0]) & dscp[1])


UPLINKS = [("eth0", "10.0.0.4/24"), ("eth1", "10.1.0.4/24"), ("ib0", "10.2.0.4/24")]


def test_default_routes_in_turn() -> None:
    """While the gateways are not reachable, Linux itself answers with either of the two, and never with a third."""
    with private_namespace() as namespace:
        batch = ["link set lo up", *ports(*(dev for dev, _ in UPLINKS))]
        for at, (dev, address) in enumerate(UPLINKS):
            batch += [f"address add {address} dev {dev}"]
            batch += [f"route append default via 10.{at}.0.1 dev {dev} metric {9 if dev == 'ib0' else 5}"]
            batch += [f"neigh replace 10.{at}.0.1 lladdr 02:00:00:00:00:01 dev {dev} nud stale"]
        namespace.batch(batch)
        snapshot = namespace.snapshot()
        answers = namespace.get(4, [f"172.16.0.{number}" for number in range(8)])
    assert {answer.devs for answer in answers if isinstance(answer, Route)} == {("eth0",), ("eth1",)}
    assert Fib(snapshot).lookup("172.16.0.1").devs == ("eth0", "eth1")
