"""hostrouting.node.boot: the services at boot, each of which makes one part of a pass."""

import signal

import pytest

from hostrouting.config.settings import PARTS, PassPart
from hostrouting.errors import HostError
from hostrouting.host.layout import HostLayout
from hostrouting.model.route import OURS
from hostrouting.node.boot import make_part
from hostrouting.node.ending import Stopped
from hostrouting.testing import FakeHost
from tests.support.node import (
    PROBES,
    REPAIRED,
    FakeNodeClock,
    logged,
    marker_of,
    node,
    wanting,
    without_default,
)

ALL = REPAIRED._replace(probe_rewrite=PROBES)


def make(part: PassPart, host: FakeHost, clock: FakeNodeClock | None = None) -> int:
    return make_part(part, host, clock=clock or FakeNodeClock())


def done_on(host: FakeHost) -> set[PassPart]:
    done: set[PassPart] = set()
    if any(route.protocol == OURS for route in host.kernel.snapshot().routes):
        done.add("static_routes")
    if host.nftables.tables:
        done.add("probe_rewrite")
    if marker_of(host):
        done.add("route_overlap")
    return done


@pytest.mark.parametrize("part", PARTS)
def test_each_part(part: PassPart) -> None:
    """A service makes its part, and no other. Without the routes, the check fails."""
    host = node(ALL)
    assert make(part, host) == (1 if part == "route_overlap" else 0)
    assert done_on(host) == {part}
    assert make(part, node(wanting(mode="WARN"))) == 0, "what is found there holds no unit back"


def test_the_table_for_probes_cannot_be_loaded(capfd: pytest.CaptureFixture[str]) -> None:
    """It holds no unit back, but the service has failed, so systemd tries again."""
    host = node(ALL)
    host.nftables.fail(HostError("nft is not installed", what="nft", kind="missing"))
    assert make("probe_rewrite", host) == 1
    assert logged(capfd) == ["4 PROBE-REWRITE: nft is not installed"]
    assert make("probe_rewrite", host) == 0
    assert logged(capfd)[0].startswith("6 create nftables table ip6 hostrouting_slb")
    assert done_on(host) == {"probe_rewrite"}


def test_it_is_interrupted(capfd: pytest.CaptureFixture[str]) -> None:
    """It has failed, and the journal says why. What another process has found meanwhile stays."""
    alarms: list[float] = []
    host = node(ALL, without_default(node().kernel))
    clock = FakeNodeClock()
    clock.at(2.5, lambda: host.files.write(HostLayout.ok_path, "ok\n"))
    clock.at(2.5, lambda: alarms.extend(signal.getitimer(signal.ITIMER_REAL)))
    clock.raise_at(3, Stopped("SIGTERM"))
    assert make("static_routes", host, clock) == 1
    assert logged(capfd)[-1].startswith("3 SIGTERM ended this; ")
    assert marker_of(host) == "ok"
    assert 70 < alarms[0] <= 75, "after which it would have ended by itself"
