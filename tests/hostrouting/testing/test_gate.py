"""The gate of a fake host: a unit that the installed configuration refuses does not start."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import HostError
from hostrouting.host.layout import HostLayout
from hostrouting.node.start import decide
from hostrouting.release import PASSED
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeHost, FakeKernel, h200, plain_vm
from hostrouting.testing.gate import why_refused
from tests.support.node import HALVES, UNIT, FakeNodeClock, before_dhcp, logged, marker_of, wanting
from tests.support.tasks import manager_of
from tests.support.topologies import vpn_node

MACHINE = "systemd-nspawn@kube1.service"


def installed(config: HostRoutingConfig, make: Callable[[], FakeKernel] = h200) -> FakeHost:
    """A host on which this was applied: the run may have failed, and the gate is in force."""
    host = FakeHost(kernel=make())
    phases.run(Configure(config, host=host, wait=0), ctx=phases.Context())
    return host


def start(host: FakeHost, unit: str = UNIT) -> str:
    try:
        manager_of(host).start(unit, timeout=90)
    except HostError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("unit", "gated"),
    [(UNIT, UNIT), ("kubelet", UNIT), (MACHINE, "systemd-nspawn@.service"), (MACHINE, MACHINE)],
)
def test_a_unit_that_is_refused(unit: str, gated: str) -> None:
    """The error has what the gate logs, and the unit has failed."""
    host = installed(wanting(units=(gated,)))
    said = start(host, unit)
    assert " failed (exit-code): hostrouting: OVERLAP: 172.16.0.0/16 " in said
    assert "was refused: see the lines above; see `journalctl -u " in said
    assert manager_of(host).states.popitem()[1] == "failed"
    assert start(host, "containerd.service") == ""  # it is not gated


def test_what_else_refuses() -> None:
    """What holds a unit back in every mode, and each in the words of the gate."""
    warn = wanting(mode="WARN")
    host = installed(warn)
    host.faults.fail("snapshot", errno.EIO, nth=2)
    assert start(host) == "", "WARN lets it start although the check has failed"
    host = installed(warn)
    host.interpreter.broken = "no module json"
    assert "hostrouting: the program cannot be run: no module json" in start(host)
    host.interpreter.broken = ""
    path = HostLayout.config_path
    host.files.modes[path] = 0o666
    assert f"users other than root can change {path}" in start(host)
    host.files.modes[path] = 0o600
    host.files.texts[path] = host.files.texts[path].replace(UNIT, "other.service")
    assert f"the configuration does not gate {UNIT}" in start(host)
    host.files.texts.pop(path)
    host.files.write(HostLayout.opening_path, "", mode=0o600)  # ignored: it has no reason
    assert f"hostrouting: {path} is missing" in start(host)
    host.files.write(HostLayout.opening_path, "incident 7\n", mode=0o600)
    assert start(host) == "", "the gate is open"


@pytest.mark.parametrize("mode", ["STRICT", "WARN"])
@pytest.mark.parametrize("routes", [(), HALVES], ids=["no routes", "repaired"])
@pytest.mark.parametrize("make", [plain_vm, h200, vpn_node, before_dhcp])
def test_the_gate_of_a_node(
    make: Callable[[], FakeKernel], routes: Any, mode: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """It lets the same units pass, leaves the same marker, and gives the same reasons."""
    config = wanting(*routes, mode=mode)
    fake, real = installed(config, make), installed(config, make)
    reasons = why_refused(fake, UNIT)
    status = decide(UNIT, real, clock=FakeNodeClock())
    assert (reasons == ()) is (status == PASSED)
    errors = [line.removeprefix("3 ") for line in logged(capfd) if line.startswith("3 ")]
    assert [*reasons] == [f"hostrouting: {error}" for error in errors]
    assert marker_of(fake) == marker_of(real)
    assert fake.kernel.snapshot() == real.kernel.snapshot()
