"""The tasks on Linux itself: the H200 node in a private network namespace, from the failure to the proof."""

from __future__ import annotations

import os
import threading
import time

import pytest

import phases
from hostrouting.backends.netlink import NetlinkBackend
from hostrouting.config import HostRoutingConfig
from hostrouting.errors import RouteOverlapError
from hostrouting.host import Host
from hostrouting.tasks import CheckRouteOverlap, Configure, ConfigureStaticRoutes, Remove
from hostrouting.testing import FakeFiles, FakeManager
from tests.support.namespace import Namespace, private_namespace

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(os.geteuid() != 0, reason="a private network namespace takes root"),
]

CIDR = "172.16.0.0/16"
DEVICES = ("eth0", *(f"ib{number}" for number in range(8)))
H200 = [
    "link set lo up",
    *(f"link add {name} type veth peer name peer-{name}" for name in DEVICES),
    *(f"link set {name} up" for name in DEVICES),
    *(f"link set peer-{name} up" for name in DEVICES),
    "address add 10.0.0.4/24 dev eth0",
    *(f"address add 172.16.{number + 1}.10/16 dev ib{number}" for number in range(8)),
    "route add default via 10.0.0.1 dev eth0 proto dhcp",
]


def host(namespace: Namespace) -> Host:
    """The namespace's kernel, with files and a manager in memory."""
    backend = lambda: NetlinkBackend(netns=namespace.path)  # noqa: E731  it is the edge, and has no name of its own
    return Host(backend=backend, files=FakeFiles(), manager=FakeManager())


def test_the_h200_node() -> None:
    """The check finds the overlap; its repair is applied, closes it, and goes again; no InfiniBand route is touched."""
    with private_namespace() as namespace:
        namespace.batch(H200)
        before = namespace.routes(4)
        wanted = HostRoutingConfig(None, {"expectedCidrs": [CIDR], "mode": "STRICT"})
        ctx = phases.Context(observers=[])
        with pytest.raises(phases.TaskFailed) as caught:
            phases.execute(CheckRouteOverlap(wanted, host=host(namespace)), ctx)
        error = caught.value.cause
        assert isinstance(error, RouteOverlapError)
        assert "routes via ib0 [172.16.0.0/16 proto kernel], expected eth0" in str(error)

        halves = [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}]
        mended = HostRoutingConfig({"enabled": True, "routes": halves}, wanted.route_overlap)
        task = Configure(mended, host=host(namespace))
        report = phases.run(task, observers=[])
        assert report.ok, str(report)
        assert report.find("check-route-overlap").fields["verdict"] == "ok"
        [answer] = namespace.get(4, ["172.16.200.1"])
        assert not isinstance(answer, str)
        assert answer.devs == ("eth0",)
        assert [it for it in namespace.routes(4) if it.protocol != mended.protocol] == list(before)

        phases.undo(task, ctx)
        assert namespace.routes(4) == before


def test_another_protocol_number() -> None:
    """After the number in the configuration changed, Linux has the same routes under the new one, and none other."""
    with private_namespace() as namespace:
        namespace.batch(H200)
        before = namespace.routes(4)
        node, ctx = host(namespace), phases.Context(observers=[])
        halves = [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}]
        for number, routes in ((213, [{"destination": "10.77.0.0/16"}, *halves]), (214, halves)):
            phases.execute(
                Configure(HostRoutingConfig({"enabled": True, "routes": routes}, protocol=number), host=node), ctx
            )
            ours = [it for it in namespace.routes(4) if it not in before]
            assert [(str(it.prefix), it.protocol) for it in ours] == [(it["destination"], number) for it in routes]
        phases.execute(Remove(HostRoutingConfig(), host=node), ctx)
        assert namespace.routes(4) == before


@pytest.mark.parametrize("task", [ConfigureStaticRoutes, CheckRouteOverlap])
def test_cancelled_while_it_waits(task: type[ConfigureStaticRoutes]) -> None:
    """The order to stop ends a wait for the default route at once."""
    wanted = HostRoutingConfig(
        {"enabled": True, "routes": [{"destination": "10.77.0.0/16"}]}, {"expectedCidrs": [CIDR], "mode": "STRICT"}
    )
    with private_namespace() as namespace:
        ctx = phases.Context(observers=[])
        threading.Timer(0.3, lambda: ctx.scope.cancel("enough")).start()
        began = time.monotonic()
        with pytest.raises(phases.Cancelled, match="enough"):
            phases.execute(task(wanted, host=host(namespace), wait=20), ctx)
        assert time.monotonic() - began < 10
