"""What keeps probes from the pods although the table is in force."""

import pytest

from hostrouting.config.settings import HostRoutingConfig, ProbeRewriteConfig
from hostrouting.model.route import PROTOCOL_RA, Route
from hostrouting.model.snapshot import Link
from hostrouting.probe.obstacles import find_probe_obstacles
from hostrouting.testing import plain_vm

SETTINGS = ProbeRewriteConfig(enabled=True, interfaces=("eth0",), ensure_route=False)


@pytest.mark.parametrize(
    ("forwarding", "targets"),
    [
        (False, ["net.ipv6.conf.all.forwarding"]),
        (True, []),
        (None, []),  # it cannot be read on a remote host
    ],
)
def test_forwarding_of_probes(targets: list[str], *, forwarding: bool | None) -> None:
    """A host that does not forward is named; what is not known is not."""
    snapshot = plain_vm().snapshot()._replace(ipv6_forwarding=forwarding)
    findings = find_probe_obstacles(HostRoutingConfig(probe_rewrite=SETTINGS), snapshot)
    assert [finding.target for finding in findings] == targets


def test_what_takes_packets_before_the_table() -> None:
    """A bridge whose port the device is, and an XDP program; and an address of the host itself,
    which keeps replies here. Other devices and addresses do not matter.
    """
    probes = SETTINGS._replace(interfaces=("eth1", "eth2", "eth3"))
    kernel = plain_vm()
    for name in ("br0", "eth1"):
        kernel.add_link(name)
    kernel.add_link(Link(name="eth2", index=0, master="br0"))
    kernel.add_link(Link(name="eth3", index=0, xdp=True))
    kernel.add_link(Link(name="eth4", index=0, master="br0", xdp=True))
    kernel.add_address("eth1", f"{probes.global_address}/64")
    findings = find_probe_obstacles(HostRoutingConfig(probe_rewrite=probes), kernel.snapshot())
    assert [(finding.severity, finding.target) for finding in findings] == [
        ("error", "probeRewrite.globalAddress"),
        ("warning", "eth2"),
        ("warning", "eth3"),
    ]


@pytest.mark.parametrize("protocol", [PROTOCOL_RA, 4])
def test_forwarding_keeps_an_advertised_default_route(protocol: int) -> None:
    """Linux would delete it if accept_ra stayed 1, so the line that is typed looks."""
    kernel = plain_vm()
    kernel.ip_route("add", Route.to("::/0", dev="eth0", gateway="fe80::1", protocol=protocol))
    snapshot = kernel.snapshot()._replace(ipv6_forwarding=False)
    [finding] = find_probe_obstacles(HostRoutingConfig(probe_rewrite=SETTINGS), snapshot)
    assert finding.remedy is not None
    *before, forward = finding.remedy.command.split("; ")
    assert forward == "sysctl -w net.ipv6.conf.all.forwarding=1"
    setting = "net/ipv6/conf/eth0/accept_ra"
    looks = [f'[ "$(sysctl -n {setting})" != 1 ] || sysctl -w {setting}=2']
    assert before == (looks if protocol == PROTOCOL_RA else [])


def test_probes_that_are_not_rewritten() -> None:
    """Nothing is in the way of a rewrite that is not configured."""
    snapshot = plain_vm().snapshot()._replace(ipv6_forwarding=False)
    assert list(find_probe_obstacles(HostRoutingConfig(), snapshot)) == []
