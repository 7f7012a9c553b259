"""From the first installations, which had a drop-in for each task, to the one gate: under starting and running machines."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hostrouting.config import HostRoutingConfig, Mode, StaticRoute
from tests.support.agents import agents
from tests.support.gate import (
    HALVES,
    KUBE1,
    LAYOUT,
    begin_start,
    config,
    configure,
    end,
    gate_tests,
    has_started,
    host,
    is_starting,
    many_times,
    pid,
    run_task,
    start,
)
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

_HEADER = "# Written by hostrouting; changes are overwritten.\n"
_DROP_IN = (
    _HEADER
    + """\
[Unit]
Wants=network-online.target
After=network-online.target {unit}

[Service]
UnsetEnvironment=SYSTEMD_OFFLINE SYSTEMD_IN_CHROOT
ExecStartPre={whatever}/bin/systemctl start {unit}
"""
)
_UNIT = (
    _HEADER
    + """\
[Unit]
Description={description}
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=/bin/bash /etc/aks-flex-node/{script}
TimeoutStartSec=50
"""
)
_ENABLED = "\n[Install]\nWantedBy=multi-user.target\n"
_D = "/etc/systemd/system/systemd-nspawn@.service.d"
_ROUTES, _CHECK = f"{_D}/50-static-routes.conf", f"{_D}/60-check-route-overlap.conf"

# Commands of others, before ours, between them and after them: each says that it came, and the last of them waits.
_OTHERS = {
    f"{_D}/{it}-other.conf": f"[Service]\nExecStartPre=/bin/touch /run/other-{it}\n" for it in ("40", "55", "65", "80")
} | {f"{_D}/70-wait.conf": "[Service]\nExecStartPre=/bin/sh -c 'while [ -e /run/wait-70 ]; do sleep 0.05; done'\n"}

# The former scripts did the same work as those of today; here they wait, and then they fail or succeed.
_SCRIPT = "while [ -e /run/wait-{step} ]; do sleep 0.05; done; ! [ -e /run/refuse-{step} ]\n"

ALLOWS, REFUSES = config(*HALVES, mode=Mode.STRICT), config(StaticRoute("10.77.0.0/16"), mode=Mode.STRICT)


@contextmanager
def formerly(mode: Mode = Mode.STRICT) -> Iterator[System]:
    """A host as one of the first installations left it."""
    whatever = "-" if mode is Mode.WARN else ""
    routes = _UNIT.format(description="Static routes of this host", script="static-routes.sh")
    check = _UNIT.format(
        description="Check that expected networks leave by the expected device", script="check-route-overlap.sh"
    )
    files = {
        _ROUTES: _DROP_IN.format(unit="static-routes.service", whatever=""),
        _CHECK: _DROP_IN.format(unit="check-route-overlap.service", whatever=whatever),
        "/etc/systemd/system/static-routes.service": routes + _ENABLED,
        "/etc/systemd/system/check-route-overlap.service": check,
        "/etc/systemd/system-preset/50-hostrouting.preset": f"{_HEADER}enable static-routes.service\n",
    }
    scripts = {
        "/etc/aks-flex-node/static-routes.sh": _SCRIPT.format(step=50),
        "/etc/aks-flex-node/check-route-overlap.sh": _SCRIPT.format(step=60),
    }
    with host(more=files | _OTHERS, scripts=scripts) as system:
        system.must("systemctl", "enable", "static-routes.service")
        yield system


def are_there(system: System) -> bool:
    """Whether the former drop-ins are."""
    return all(system.outside(path).exists() for path in (_ROUTES, _CHECK))


def are_gone(system: System) -> bool:
    """Whether the former drop-ins are gone, and systemd has read that."""
    paths = set(system.show(KUBE1, "DropInPaths").split())
    return not (paths & {_ROUTES, _CHECK} or any(system.outside(path).exists() for path in (_ROUTES, _CHECK)))


def others(system: System) -> set[str]:
    """Which commands of others came."""
    return {it for it in ("40", "55", "65", "80") if system.outside(f"/run/other-{it}").exists()}


@many_times
def test_a_running_machine() -> None:
    """The former drop-ins give way to the gate under a machine that runs, which is not touched."""
    with formerly() as system:
        assert start(system) == 0
        before = pid(system)
        configure(system, ALLOWS)
        assert are_gone(system)
        assert LAYOUT.gate_drop_in_path in system.show(KUBE1, "DropInPaths").split()
        assert pid(system) == before
        assert run_task(system, "Configure", REFUSES).returncode == 1
        assert pid(system) == before
        end(system)
        assert start(system) == 1


@pytest.mark.releases
@many_times
def test_a_start_that_is_past_the_former_commands() -> None:
    """The former drop-ins stay until a start that is among the commands has gone on, which runs the commands of all."""
    with formerly() as system:
        system.lay("/run/wait-70", "")
        begin_start(system)
        wait_for("the start to come to 70", lambda: others(system) == {"40", "55", "65"})
        with agents(system) as crew:
            applying = crew.begin("Configure", ALLOWS)
            wait_for("the new steps", lambda: "check-route-overlap" in (system.read(LAYOUT.gate_steps_path) or ""))
            wait_for("the new drop-in", lambda: LAYOUT.gate_drop_in_path in system.show(KUBE1, "DropInPaths"))
            wait_for("the apply to wait", lambda: "changing" not in (system.read(LAYOUT.gate_steps_path) or ""))
            assert are_there(system)
            assert is_starting(system)
            assert not applying.has_ended()
            system.must("rm", "/run/wait-70")
            assert has_started(system)
            assert applying.wait().returncode == 0
        assert others(system) == {"40", "55", "65", "80"}
        assert are_gone(system)
        end(system)
        assert start(system) == 0


@many_times
@pytest.mark.parametrize(
    ("waits", "refuses", "mode", "after"),
    [
        pytest.param(50, 50, Mode.WARN, ALLOWS, marks=pytest.mark.nightly),
        (50, 60, Mode.STRICT, ALLOWS),
        pytest.param(60, 60, Mode.STRICT, ALLOWS, marks=pytest.mark.nightly),
        (50, 60, Mode.STRICT, REFUSES),
        pytest.param(50, 50, Mode.WARN, REFUSES, marks=pytest.mark.nightly),
        pytest.param(60, 60, Mode.STRICT, REFUSES, marks=pytest.mark.nightly),
    ],
    ids=["50 allows", "60 after 50 allows", "60 allows", "60 after 50 refuses", "50 refuses", "60 refuses"],
)
def test_a_start_that_is_at_a_former_command(waits: int, refuses: int, mode: Mode, after: HostRoutingConfig) -> None:
    """A start that is at a former command does not slip through where that refuses, whatever the new steps come to."""
    with formerly(mode) as system:
        system.settled()
        system.lay(f"/run/refuse-{refuses}", "")
        system.lay(f"/run/wait-{waits}", "")
        begin_start(system)
        unit = LAYOUT.routes_unit if waits == 50 else LAYOUT.check_unit
        wait_for("the command", lambda: system.show(unit, "SubState") == "start")
        assert run_task(system, "Configure", after).returncode == (0 if after is ALLOWS else 1)
        assert not has_started(system)
        assert are_gone(system)
        assert start(system) == (0 if after is ALLOWS else 1)


@many_times
def test_a_former_check_in_warn() -> None:
    """A start that is at the former check in WARN goes on, with the commands of all others, and nothing holds it back."""
    with formerly(Mode.WARN) as system:
        system.lay("/run/wait-60", "")
        begin_start(system)
        wait_for("the command", lambda: system.show(LAYOUT.check_unit, "SubState") == "start")
        configure(system, config(mode=Mode.WARN))
        assert has_started(system)
        assert others(system) == {"40", "55", "65", "80"}
        assert are_gone(system)


def test_remove_of_a_former_installation() -> None:
    """Remove takes a former installation away whole, and leaves a running machine alone."""
    with formerly() as system:
        assert start(system) == 0
        before = pid(system)
        assert run_task(system, "Remove", config()).returncode == 0
        assert are_gone(system)
        assert pid(system) == before
        assert system.run("systemctl", "cat", LAYOUT.routes_unit, LAYOUT.check_unit).returncode != 0
        end(system)
        assert start(system) == 0
