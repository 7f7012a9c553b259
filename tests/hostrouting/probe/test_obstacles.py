"""What keeps probes from the pods although the table is in force."""

import pytest

from hostrouting.config.settings import HostRoutingConfig, ProbeRewriteConfig
from hostrouting.probe.obstacles import find_probe_obstacles
from hostrouting.testing import plain_vm


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
    probes = ProbeRewriteConfig(enabled=True, interfaces=("eth0",))
    snapshot = plain_vm().snapshot()._replace(ipv6_forwarding=forwarding)
    findings = find_probe_obstacles(HostRoutingConfig(probe_rewrite=probes), snapshot)
    assert [finding.target for finding in findings] == targets


def test_probes_that_are_not_rewritten() -> None:
    """Nothing is in the way of a rewrite that is not configured."""
    snapshot = plain_vm().snapshot()._replace(ipv6_forwarding=False)
    assert list(find_probe_obstacles(HostRoutingConfig(), snapshot)) == []
