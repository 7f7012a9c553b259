"""The programs of a node on a fake host: clock, lock, what is installed, and the log."""

import heapq
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from unittest import mock

import pytest

from hostrouting.boot.files import render_config
from hostrouting.config.settings import HostRoutingConfig, Mode, ProbeRewriteConfig
from hostrouting.host.layout import HostLayout
from hostrouting.model.route import PROTOCOL_DHCP, Route
from hostrouting.testing import FakeHost, FakeKernel, h200, plain_vm
from phases.testing import FakeClock
from tests.support.tasks import CIDR, REPAIR, document
from tests.support.topologies import marked_vm

HALVES = REPAIR
"""The static routes that repair an H200 node."""
PROBES = ProbeRewriteConfig(enabled=True, interfaces=("eth0",), ensure_route=False)
UNIT = "kubelet.service"
DEFAULT = Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", protocol=PROTOCOL_DHCP, metric=100)
"""The default route of an H200 node."""


class FakeNodeClock(FakeClock):
    """A fake clock as the programs of a node need it, on which other programs act meanwhile."""

    def __init__(self, lock: "FakeLock | None" = None) -> None:
        super().__init__()
        self.locked = lock or FakeLock()
        self._acts: list[tuple[float, int, Callable[[], object]]] = []
        self._order = count()

    @property
    def for_watch(self) -> FakeClock:
        return self

    def processor_time(self) -> float:
        """See hostrouting.node.clock. What takes time here is work."""
        return self.now()

    def sleep(self, seconds: float) -> None:
        self.wait(lambda: False, self.now() + seconds)

    def at(self, moment: float, act: Callable[[], object]) -> None:
        """Call this at that moment, while somebody waits."""
        heapq.heappush(self._acts, (moment, next(self._order), act))

    def raise_at(self, moment: float, error: BaseException) -> None:
        self.at(moment, mock.Mock(side_effect=error))

    def wait(self, done: Callable[[], bool], until: float = math.inf) -> None:
        while self._acts and self._acts[0][0] <= until and not done():
            moment, _, act = heapq.heappop(self._acts)
            super().wait(done, moment)
            act()
        super().wait(done, until)


class FakeLock:
    """A lock of the host that is always free; what a test wants to happen comes before it."""

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self.is_held = False
        self.times = 0
        """How often it was taken."""
        self._before = before

    @contextmanager
    def __call__(self) -> Iterator[None]:
        assert not self.is_held
        self._before()
        self.is_held = True
        self.times += 1
        try:
            yield
        finally:
            self.is_held = False


def wanting(
    *destinations: str,
    cidrs: tuple[str, ...] = (CIDR,),
    mode: Mode = "STRICT",
    units: tuple[str, ...] = (UNIT,),
    **sections: Any,
) -> HostRoutingConfig:
    """These static routes and CIDRs, for these gated units; without CIDRs, in WARN."""
    gate = {"units": units}
    mapping = document(*destinations, cidrs=cidrs, mode=mode, gate=gate)
    return HostRoutingConfig.from_mapping(mapping)._replace(**sections)


REPAIRED = wanting(*HALVES)
"""What repairs an H200 node, in mode STRICT."""


def node(
    config: HostRoutingConfig | str = REPAIRED, kernel: FakeKernel | None = None, **parts: Any
) -> FakeHost:
    """A host with this config.json, by default an H200 node. No route is set yet."""
    text = config if isinstance(config, str) else render_config(config)
    host = FakeHost(kernel=kernel or h200(), **parts)
    host.files.texts[HostLayout.config_path] = text
    return host


def without_default(kernel: FakeKernel) -> FakeKernel:
    kernel.ip_route("delete", DEFAULT)
    return kernel


def before_dhcp() -> FakeKernel:
    return without_default(h200())


KERNELS = {"ok": plain_vm, "overlap": h200, "no-default-route": before_dhcp, "undecided": marked_vm}
"""A node with each verdict."""
MARKERS = {
    "ok": "ok",
    "overlap": "detected",
    "no-default-route": "detected",
    "undecided": "undecided",
}
"""By verdict: the name of its marker."""


def marker_of(host: FakeHost) -> str:
    """The name of the only marker, such as "ok"; empty if there is none."""
    markers = [path for path in HostLayout.markers if path in host.files.texts]
    assert len(markers) <= 1
    return "".join(path.rpartition(".")[2] for path in markers)


def logged(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that were logged since the last call: each has a level, and the name of ours."""
    lines: list[str] = []
    for line in capfd.readouterr().err.splitlines():
        level, name, words = line.partition("hostrouting: ")
        assert name, line
        assert level in {"<3>", "<4>", "<5>", "<6>"}, line
        lines.append(f"{level[1]} {words}")
    return lines
