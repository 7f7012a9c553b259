"""The gate of a fake host: a unit that the installed configuration refuses does not start."""

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
from tests.support.node import (
    HALVES,
    UNIT,
    FakeNodeClock,
    logged,
    marker_of,
    wanting,
    without_default,
)
from tests.support.tasks import manager_of
from tests.support.topologies import vpn_node

MACHINE = "systemd-nspawn@kube1.service"


def installed(config: HostRoutingConfig, make: Callable[[], FakeKernel] = h200) -> FakeHost:
    """A host on which this was applied: the run may have failed, and the gate is in force."""
    host = FakeHost(kernel=make())
    phases.run(Configure(config, host=host, wait=0), ctx=phases.Context())
    return host


def start(host: FakeHost, unit: str = UNIT, **options: Any) -> str:
    """Start the unit; why it has failed, or an empty text."""
    try:
        manager_of(host).start(unit, timeout=90, **options)
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


def test_an_opening() -> None:
    """It lets units start unchecked, unless the gate ignores it."""
    for reason, starts in (("a reason\n", True), ("\n", False)):
        host = installed(wanting())
        host.files.texts[HostLayout.opening_path] = reason
        assert (start(host) == "") is starts


def test_what_else_refuses() -> None:
    """What holds a unit back in every mode, and each in the words of the gate."""
    warn = wanting(mode="WARN")
    assert start(installed(warn)) == ""
    without_python = installed(warn)
    without_python.interpreter.broken = "no module json"
    assert "hostrouting: the program cannot be run: no module json" in start(without_python)
    writable = installed(warn)
    writable.files.modes[HostLayout.config_path] = 0o666
    assert "users other than root can write to /etc/hostrouting/config.json" in start(writable)
    lost = installed(warn)
    lost.files.texts.pop(HostLayout.config_path)
    assert f"hostrouting: {HostLayout.config_path} is missing" in start(lost)
    other = installed(warn)
    text = other.files.texts[HostLayout.config_path]
    other.files.texts[HostLayout.config_path] = text.replace(UNIT, "other.service")
    assert f"the configuration does not gate {UNIT}" in start(other)


def without_a_default() -> FakeKernel:
    """An H200 node before DHCP has answered."""
    return without_default(h200())


@pytest.mark.parametrize("mode", ["STRICT", "WARN"])
@pytest.mark.parametrize("routes", [(), HALVES], ids=["no routes", "repaired"])
@pytest.mark.parametrize("make", [plain_vm, h200, vpn_node, without_a_default])
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
