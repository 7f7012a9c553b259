"""The tasks on Linux itself: the H200 node in a private network namespace, from the failure to the proof."""

import threading
import time

import pytest

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import RouteConflict
from hostrouting.host.host import Host
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing import FakeFiles, FakeManager
from tests.support.commands import ports
from tests.support.machine import H200
from tests.support.namespace import Namespace, private_namespace
from tests.support.tasks import failure_of

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

CIDR = "172.16.0.0/16"


def host(namespace: Namespace) -> Host:
    """The namespace's kernel, with files and a manager in memory."""
    backend = lambda: NetlinkBackend(netns=namespace.path)  # noqa: E731  it is the edge, and has no name of its own
    return Host(backend=backend, files=FakeFiles(), manager=FakeManager())


ONE_IB = [line for line in H200 if not any(f"ib{number}" in line for number in range(1, 8))]
UPLINK_AGAIN = ["link set eth0 down", "link set eth0 up", "route add default via 10.0.0.1 dev eth0 proto dhcp"]


@pytest.mark.parametrize(
    "before",
    [f"route replace {CIDR} via 10.0.0.1 dev eth0", f"route del {CIDR} dev ib0"],
    ids=["what the Go original left", "a place that is free"],
)
def test_a_route_that_does_not_last(before: str, caplog: pytest.LogCaptureFixture) -> None:
    """What was foretold happens: ib0's own route comes back behind, and once the uplink was down it is a conflict."""
    config = HostRoutingConfig({"enabled": True, "routes": [{"destination": CIDR}]})
    with private_namespace() as namespace:
        namespace.batch([*ONE_IB, before])
        node, ctx = host(namespace), phases.Context(observers=[])

        def again() -> object:
            return phases.execute(ConfigureStaticRoutes(config, host=node), ctx)

        def taken() -> tuple[str, ...]:
            return next(route.devs for route in namespace.routes(4) if str(route.prefix) == CIDR)

        result = again()
        assert result.log_fields()["foreseen"] == 1  # type: ignore[attr-defined]  # a RoutesResult
        assert "172.16.0.0/16 via 10.0.0.1 dev eth0 does not last: ib0 has the address 172.16.1.10/16" in caplog.text
        namespace.batch(["link set ib0 down", "link set ib0 up"])
        again()
        assert taken() == ("eth0",)
        namespace.batch(UPLINK_AGAIN)
        assert taken() == ("ib0",)
        failure_of(again, of=RouteConflict)


def test_the_halves_last() -> None:
    """The proposed routes can still be installed after devices went down and up, and ib0 keeps its own route."""
    halves = [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}]
    config = HostRoutingConfig({"enabled": True, "routes": halves}, {"expectedCidrs": [CIDR], "mode": "STRICT"})
    with private_namespace() as namespace:
        namespace.batch([*ONE_IB, f"route replace {CIDR} via 10.0.0.1 dev eth0"])
        task = Configure(config, host=host(namespace))
        for happening in ([], ["link set ib0 down", "link set ib0 up"], UPLINK_AGAIN):
            namespace.batch(happening)
            report = phases.run(task, observers=[])
            assert report.ok, str(report)
            assert "foreseen" not in report.find("configure-static-routes").fields
            assert report.find("check-route-overlap").fields["verdict"] == "ok"
        connected = [route for route in namespace.routes(4) if (str(route.prefix), route.devs) == (CIDR, ("ib0",))]
        assert [it.protocol for it in connected] == [2]


def test_what_stays_after_remove(caplog: pytest.LogCaptureFixture) -> None:
    """A configured route of another program stays; the command in the finding deletes it."""
    config = HostRoutingConfig({"enabled": True, "routes": [{"destination": CIDR}]})
    with private_namespace() as namespace:
        namespace.batch(ONE_IB)
        before = namespace.routes(4)
        namespace.batch([f"route append {CIDR} via 10.0.0.1 dev eth0", f"route del {CIDR} dev ib0"])
        node, ctx = host(namespace), phases.Context(observers=[])
        phases.execute(ConfigureStaticRoutes(config, host=node), ctx)
        phases.execute(Remove(HostRoutingConfig(), host=node), ctx)
        [said] = [record.getMessage() for record in caplog.records if " stays: " in record.getMessage()]
        command = said.rpartition("delete it with: ")[2]
        assert namespace.run("sh", "-c", command).returncode == 0
        namespace.batch(["link set ib0 down", "link set ib0 up"])
        assert set(namespace.routes(4)) == set(before)


@pytest.mark.parametrize("task", [ConfigureStaticRoutes, CheckRouteOverlap])
def test_cancelled_while_it_waits(task: type[ConfigureStaticRoutes]) -> None:
    """The order to stop ends a wait for the default route at once."""
    wanted = HostRoutingConfig(
        {"enabled": True, "routes": [{"destination": "10.77.0.0/16"}]}, {"expectedCidrs": [CIDR], "mode": "STRICT"}
    )
    with private_namespace() as namespace:
        ctx = phases.Context(observers=[])
        timer = threading.Timer(0.3, lambda: ctx.scope.cancel("enough"))
        timer.start()
        began = time.monotonic()
        with pytest.raises(phases.Cancelled, match="enough"):
            phases.execute(task(wanted, host=host(namespace), wait=100), ctx)
        timer.join()
        assert time.monotonic() - began < 20


# Without link-local addresses of Linux, whose routes would come while a test compares the table.
SIX = ["link set lo up", *ports("eth0"), "addr add fd10::2/64 dev eth0 nodad"]
OURS_IN_SIX = {"destination": "fd20::/32", "gateway": "fd10::1", "dev": "eth0"}


def next_hops(namespace: Namespace) -> list[tuple[str, int]]:
    """The next hops to fd20::/32, each with its own protocol: Linux lists each by itself if the others are deleted."""
    legs = [str(leg.gateway) for route in namespace.routes(6) if str(route.prefix) == "fd20::/32" for leg in route.legs]
    found = []
    for gateway in legs:
        number = next(
            number
            for number in (12, 213)
            if not namespace.ip("-6", "route", "del", "fd20::/32", "via", gateway, "proto", str(number)).returncode
        )
        found.append((gateway, number))
    namespace.batch([f"route append fd20::/32 via {gateway} dev eth0 proto {number}" for gateway, number in found])
    return sorted(found)


def test_another_programs_next_hop(caplog: pytest.LogCaptureFixture) -> None:
    """In IPv6, another program's next hop in our route is reported and stays; the guard deletes only what was ours.

    Which next hops stay is tested with all of `tests.tables.next_hops`, in `routes`.
    """
    config = HostRoutingConfig({"enabled": True, "routes": [{**OURS_IN_SIX, "gateway": "fd10::3"}]})
    with private_namespace() as namespace:
        namespace.batch([*SIX, "route append fd20::/32 via fd10::9 dev eth0 proto bird"])
        node, ctx = host(namespace), phases.Context(observers=[])
        task = ConfigureStaticRoutes(config, host=node)
        phases.execute(task, ctx)
        assert "fd20::/32: the next hop via fd10::9 dev eth0 is not configured and was not deleted" in caplog.text
        # Linux lists the route with the other protocol now.
        namespace.batch(["route append fd20::/32 via fd10::1 dev eth0 proto 213"])
        looks = [task.keep(ctx, lambda _: True) for _ in range(2)]
        assert [[str(repair) for repair in look.repairs] != [] for look in looks] == [True, False]
        assert [len(look.findings) for look in looks] == [1, 1]
        assert next_hops(namespace) == [("fd10::3", 213), ("fd10::9", 12)]
        caplog.clear()
        plan = Remove(HostRoutingConfig(), host=node).plan(ctx)
        phases.execute(Remove(HostRoutingConfig(), host=node), ctx)
        assert next_hops(namespace) == [("fd10::9", 12)]
        assert "fd10::9 dev eth0 is not wanted: Linux deletes it if its protocol" in str(plan)
        assert "did not install it" not in f"{plan} {caplog.text}"


def test_the_guard_beside_another_program() -> None:
    """If an IPv6 route lost our next hop, the guard adds it again, and leaves another program's next hop."""
    with private_namespace() as namespace:
        hops = "nexthop via fd10::1 dev eth0 nexthop via fd10::2:1 dev eth0"
        namespace.batch([*SIX, f"route add default proto static {hops}"])
        node = host(namespace)
        task = ConfigureStaticRoutes(
            HostRoutingConfig({"enabled": True, "routes": [{"destination": "fd20::/32"}]}), host=node
        )
        ctx = phases.Context(observers=[])
        phases.execute(task, ctx)
        namespace.batch(["route append fd20::/32 via fd10::9 dev eth0 proto bird"])
        namespace.batch(["route del fd20::/32 via fd10::2:1 proto 213"])
        looks = [task.keep(ctx, lambda _: True) for _ in range(2)]
        assert [len(look.repairs) for look in looks] == [1, 0]
        look = looks[-1]
        assert [(finding.name, finding.target) for finding in look.findings] == [("route-beside", "fd20::/32")]
        assert look.routes == (1, 1, 1)
        assert next_hops(namespace) == [("fd10::1", 213), ("fd10::2:1", 213), ("fd10::9", 12)]
