"""The tasks on Linux itself: the H200 node in a private network namespace, from the failure to the proof."""

import pytest

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.host import Host
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeFiles, FakeManager
from tests.support.machine import H200
from tests.support.namespace import private_namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

CIDR = "172.16.0.0/16"


ONE_IB = [line for line in H200 if not any(f"ib{number}" in line for number in range(1, 8))]


def test_the_halves_last() -> None:
    """The proposed routes can still be installed after devices went down and up, and ib0 keeps its own route."""
    halves = [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}]
    config = HostRoutingConfig({"enabled": True, "routes": halves}, {"expectedCidrs": [CIDR], "mode": "STRICT"})
    with private_namespace() as namespace, namespace.inside():
        namespace.batch([*ONE_IB, f"route replace {CIDR} via 10.0.0.1 dev eth0"])
        task = Configure(config, host=Host(backend=NetlinkBackend, files=FakeFiles(), manager=FakeManager()))
        uplink_again = ["link set eth0 down", "link set eth0 up", "route add default via 10.0.0.1 dev eth0 proto dhcp"]
        for happening in ([], ["link set ib0 down", "link set ib0 up"], uplink_again):
            namespace.batch(happening)
            report = phases.run(task, observers=[])
            assert report.ok, str(report)
            assert report.find("check-route-overlap").fields["verdict"] == "ok"
        connected = [route for route in namespace.routes(4) if (str(route.prefix), route.devs) == (CIDR, ("ib0",))]
        assert [it.protocol for it in connected] == [2]
