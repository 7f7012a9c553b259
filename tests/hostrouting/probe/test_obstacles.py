"""What keeps probes from the pods although the table is in force."""

import pytest

from hostrouting.config.settings import HostRoutingConfig, ProbeRewriteConfig
from hostrouting.model.route import PROTOCOL_RA, Route
from hostrouting.probe.obstacles import find_probe_obstacles
from hostrouting.testing import plain_vm

SETTINGS = ProbeRewriteConfig(enabled=True, interfaces=("eth0",), ensure_route=False)


@pytest.mark.parametrize(
    ("settings", "forwarding", "targets"),
    [
        (SETTINGS, False, ["net.ipv6.conf.all.forwarding"]),
        (SETTINGS, True, []),
        (SETTINGS, None, []),  # it cannot be read on a remote host
        (ProbeRewriteConfig(), False, []),
    ],
)
def test_forwarding_of_probes(
    settings: ProbeRewriteConfig, targets: list[str], *, forwarding: bool | None
) -> None:
    """A host that does not forward is named, if it rewrites; what is not known is not."""
    snapshot = plain_vm().snapshot()._replace(ipv6_forwarding=forwarding)
    findings = find_probe_obstacles(HostRoutingConfig(probe_rewrite=settings), snapshot)
    assert [finding.target for finding in findings] == targets


@pytest.mark.parametrize("protocol", [PROTOCOL_RA, 4])
def test_forwarding_keeps_an_advertised_default_route(protocol: int) -> None:
    """Linux would delete it if accept_ra stayed 1, so the line that is typed looks."""
    kernel = plain_vm()
    route = Route.to("::/0", dev="eth0", gateway="fe80::1", protocol=protocol)
    for metric in (1024, 1025):  # two routers
        kernel.ip_route("add", route._replace(metric=metric))
    snapshot = kernel.snapshot()._replace(ipv6_forwarding=False)
    [finding] = find_probe_obstacles(HostRoutingConfig(probe_rewrite=SETTINGS), snapshot)
    assert finding.remedy is not None
    *before, forward = finding.remedy.command.split("; ")
    assert forward == "sysctl -w net.ipv6.conf.all.forwarding=1"
    setting = "net/ipv6/conf/eth0/accept_ra"
    looks = [f'[ "$(sysctl -n {setting})" != 1 ] || sysctl -w {setting}=2']
    assert before == (looks if protocol == PROTOCOL_RA else [])
