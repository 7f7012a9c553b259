"""The check of a host, by the names of its findings."""

from collections.abc import Callable

import pytest

from hostrouting.install.host_check import check_host
from hostrouting.testing import FakeHost, FakeKernel
from tests.support.incidents import start_vpn
from tests.support.node import PROBES
from tests.support.statuses import start_router
from tests.support.tasks import CIDR, config
from tests.support.topologies import dual_stack_h200


@pytest.mark.parametrize("change", [start_vpn, start_router])
def test_a_device_of_one_family(change: Callable[[FakeHost], None]) -> None:
    """No command names it: the other family would have no expected device that works."""
    for cidrs, devs in (((CIDR,), 2), ((CIDR, "fd16::/64"), 1)):
        host = FakeHost(kernel=dual_stack_h200())
        change(host)
        check = check_host(config(cidrs=cidrs), host)
        [finding] = check.named("default-routes", "unsafe")
        assert finding.remedy is not None
        lines = [way.line for way in finding.remedy.ways() if way.command]
        assert len(lines) == devs
        dev = "eth1" if (change, devs) == (start_router, 2) else "eth0"  # Linux prefers it
        start = f"if {dev} is right, as root: hostrouting repair --dev {dev} |"
        assert lines[0].startswith(start)


def test_what_keeps_probes_from_pods() -> None:
    """The check names it, too."""
    wanted = config(cidrs=(CIDR,))._replace(probe_rewrite=PROBES)
    [finding] = check_host(wanted, FakeHost(kernel=FakeKernel())).named("probe-rewrite")
    assert finding.target == "net.ipv6.conf.all.forwarding"
