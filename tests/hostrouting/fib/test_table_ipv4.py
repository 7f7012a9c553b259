"""hostrouting.fib.table_ipv4: default routes between which Linux alternates."""

import attrs
import pytest

from hostrouting.check.overlap import check_overlap
from hostrouting.fib import PLAIN, Fib
from hostrouting.model import Route, Snapshot
from hostrouting.routes.uplink import outbound_devs
from tests.support.commands import ports
from tests.support.namespace import private_namespace
from tests.support.topologies import host

INTERFACES = [("eth0", "10.0.0.4/24"), ("eth1", "10.1.0.4/24"), ("ib0", "10.2.0.4/24")]


def default(dev: str, metric: int = 1024, *, tos: int = 0, scope: int = 0) -> Route:
    """A default route on the device, as DHCP adds it."""
    gateway = f"10.{['eth0', 'eth1', 'ib0'].index(dev)}.0.1"
    route = Route.to("0.0.0.0/0", dev=dev, gateway=gateway, metric=metric, protocol=16)
    return attrs.evolve(route, tos=tos, scope=scope)


def leaving(*routes: Route, oif: str = "", tos: int = 0) -> tuple[str, ...]:
    """The devices by which a packet may leave a host with these routes."""
    return Fib(host(INTERFACES, routes)).lookup("172.16.5.9", attrs.evolve(PLAIN, oif=oif, tos=tos)).devs


def test_a_bound_socket() -> None:
    """A packet of a socket that is bound to a device uses the route of that device only."""
    routes = (default("eth0"), default("eth1"))
    assert [leaving(*routes, oif=dev) for dev in ("eth0", "eth1")] == [("eth0",), ("eth1",)]


def test_all_of_them_are_expected() -> None:
    """Without named devices those of all are expected; if one is named, packets that leave by the other escape."""
    fib = Fib(host(INTERFACES, [default("eth0"), default("eth1")]))
    assert outbound_devs(fib) == ("eth0", "eth1")
    report = check_overlap(fib, ["172.16.0.0/16"])
    assert (report.verdict, report.expected_devs) == ("ok", ("eth0", "eth1"))
    named = check_overlap(fib, ["172.16.0.0/16"], expected_devs=["eth0"])
    assert [(finding.kind, finding.devs) for finding in named.escapes] == [("overlap", ("eth1",))]
    assert named.escapes[0].decision.route == default("eth0")


@pytest.mark.linux
@pytest.mark.needs("root")
def test_linux_does() -> None:
    """While the gateways are not reachable, Linux itself answers with either of the two, and never with a third."""
    with private_namespace() as namespace:
        batch = ["link set lo up", *ports(*(dev for dev, _ in INTERFACES))]
        for at, (dev, address) in enumerate(INTERFACES):
            batch += [f"address add {address} dev {dev}"]
            batch += [f"route append default via 10.{at}.0.1 dev {dev} metric {9 if dev == 'ib0' else 5}"]
            batch += [f"neigh replace 10.{at}.0.1 lladdr 02:00:00:00:00:01 dev {dev} nud stale"]
        namespace.batch(batch)
        snapshot: Snapshot = namespace.snapshot()
        answers = namespace.get(4, [f"172.16.0.{number}" for number in range(8)])
    assert {answer.devs for answer in answers if isinstance(answer, Route)} == {("eth0",), ("eth1",)}
    assert Fib(snapshot).lookup("172.16.0.1").devs == ("eth0", "eth1")
