"""What changes while a machine starts: the start is judged by what was before or by what is after, and always ends."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hostrouting.config.settings import HostRoutingConfig, StaticRoute
from hostrouting.config.values import Mode
from tests.support.agents import agents
from tests.support.examples import LONG
from tests.support.gate import (
    CIDR,
    HALVES,
    KUBE1,
    LAYOUT,
    await_start,
    begin_start,
    config,
    configure,
    end,
    gate_tests,
    has_started,
    host,
    is_starting,
    many_times,
    ours,
    run_task,
    start,
)
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

ALLOWS, REFUSES = config(*HALVES, mode=Mode.STRICT), config(StaticRoute("10.77.0.0/16"), mode=Mode.STRICT)
# By its check the one refuses, and by its routes the other; the routes of the one and the check of the other do not.
HALF, CONFLICT = config(HALVES[0], mode=Mode.STRICT), config(StaticRoute(CIDR), mode=Mode.WARN)
BY_HAND = StaticRoute("172.16.0.0/17", gateway="10.0.0.1", dev="eth0")  # needs no default route
# Stands in for systemctl: whoever has units read anew is kept waiting.
SLOW = """\
#!/bin/sh
case "$*" in *daemon-reload*) touch /run/waits; while [ ! -e /run/go ]; do sleep 0.02; done ;; esac
exec /usr/bin/systemctl.real "$@"
"""
# Another, which keeps whoever stops the gate waiting afterwards.
SLOW_STOP = f"""\
#!/bin/sh
case "$*" in *" stop "*{LAYOUT.gate_unit}) ;; *) exec /usr/bin/systemctl.real "$@" ;; esac
/usr/bin/systemctl.real "$@"
touch /run/waits
while [ ! -e /run/go ]; do sleep 0.02; done
"""
KEEPER = {"/etc/systemd/system/keeps-it-loaded.target": f"[Unit]\nAfter={KUBE1}\n"}
MOMENTS = 5 if LONG else 3
OTHER = {
    "/etc/systemd/system/systemd-nspawn@.service.d/70-other.conf": "[Service]\nExecStartPre=/bin/touch /run/other\n"
}


@contextmanager
def halfway(system: System, after: HostRoutingConfig, wait: int) -> Iterator[None]:
    """Apply a configuration, which is half applied when the block begins; `wait` is another than before, so there is a new unit."""
    system.must("mv", "/usr/bin/systemctl", "/usr/bin/systemctl.real")
    system.lay("/usr/bin/systemctl", SLOW, mode=0o755)
    with agents(system) as crew:
        applying = crew.begin("Configure", after, wait=wait)
        wait_for("the apply to be halfway through", lambda: system.outside("/run/waits").exists())
        yield
        applying.wait()
    system.must("mv", "/usr/bin/systemctl.real", "/usr/bin/systemctl")
    system.must("rm", "/run/waits", "/run/go")


def is_held(system: System) -> bool:
    """Whether a run of the gate waits while /run/held is there."""
    return "sleep" in system.run("systemctl", "status", "--no-pager", LAYOUT.gate_unit).stdout


def settings_of(system: System) -> set[str]:
    """Every file below /etc."""
    return set(system.must("find", "/etc", "-xdev", "-not", "-type", "d").splitlines())


def reloads(system: System) -> int:
    """How often systemd has read its units again since the boot."""
    system.must("journalctl", "--sync")
    said = system.must("journalctl", "--quiet", "--boot", "--output=cat", "_PID=1")
    return sum(line.startswith(("Reloading.", "Reloading requested")) for line in said.splitlines())


@pytest.mark.releases
def test_a_start_during_an_apply() -> None:
    """A start that falls together with an apply waits for it, and is judged by the new configuration alone."""
    with host() as system:
        assert run_task(system, "Configure", REFUSES).returncode == 1
        for wait, after in ((1, ALLOWS), (2, REFUSES)):
            with halfway(system, after, wait):
                begin_start(system)
                wait_for("the start", lambda: is_starting(system))
                time.sleep(0.3)
                assert is_starting(system)
                system.lay("/run/go", "")
                assert has_started(system) is (after is ALLOWS)
            assert len(ours(system)) == len(after.static_routes.routes)
            end(system)
            assert start(system) == (0 if after is ALLOWS else 1), "after it, as during it"
            end(system)


@many_times
def test_a_start_that_waits_for_what_is_replaced() -> None:
    """An apply does not wait for a start that waits for a default route: that asks again, and finds what is new."""
    with host(config(*HALVES), wait=30) as system:
        system.must("ip", "route", "del", "default")
        begin_start(system)
        wait_for("the gate", lambda: system.show(LAYOUT.gate_unit, "SubState") == "start")
        time.sleep(0.3)  # the script is waiting by now
        assert run_task(system, "Configure", config(BY_HAND)).returncode == 0
        assert has_started(system)
        assert "gave up after" not in system.journal(LAYOUT.gate_unit)
        assert ours(system) == ["172.16.0.0/17"]
        assert start(system) == 0


@many_times
def test_a_start_is_not_judged_by_a_mixture() -> None:
    """A start that is between the old steps when they change takes none of the new ones in their place."""
    with host() as system:
        assert run_task(system, "Configure", HALF).returncode == 1
        system.lay("/run/wait", "")
        system.must("sed", "-i", "3i while [[ -e /run/wait ]]; do sleep 0.05; done", LAYOUT.routes_script_path)
        begin_start(system)
        wait_for("its first step", lambda: LAYOUT.routes_script in system.run("pgrep", "-af", "static-routes").stdout)
        assert run_task(system, "Configure", CONFLICT).returncode == 1
        system.must("rm", "/run/wait")
        assert not has_started(system)
        assert f"[{CIDR} dev ib0 " in system.journal(LAYOUT.gate_unit)


@pytest.mark.parametrize(
    ("before", "after", "script", "place"),
    [
        pytest.param(HALF, CONFLICT, LAYOUT.routes_script_path, "3", marks=pytest.mark.nightly),
        (CONFLICT, HALF, LAYOUT.gate_script_path, "/ in .*all/"),
    ],
    ids=["in its first step", "before its first step"],
)
def test_no_mixture_where_nobody_can_lock(
    before: HostRoutingConfig, after: HostRoutingConfig, script: str, place: str
) -> None:
    """With a read-only /run, a start that has read the old list takes none of the new steps, nor does one that comes later."""
    with host(before) as system:
        system.must("mkdir", "--parents", LAYOUT.runtime_directory)
        system.must("mount", "-t", "tmpfs", "-o", "ro,mode=755", "none", LAYOUT.runtime_directory)
        system.lay("/run/held", "")
        system.must("sed", "-i", f"{place}i while [[ -e /run/held ]]; do sleep 0.02; done", script)
        system.must("mv", "/usr/bin/systemctl", "/usr/bin/systemctl.real")
        system.lay("/usr/bin/systemctl", SLOW_STOP, mode=0o755)
        begin_start(system)
        wait_for("the start to be held", lambda: is_held(system))
        with agents(system) as crew:
            applying = crew.begin("Configure", after)
            stopped = system.outside("/run/waits")
            wait_for("the gate to be stopped", lambda: stopped.exists() or applying.has_ended())
            wait_for("the machine to ask again", lambda: not is_starting(system) or is_held(system))
            system.lay("/run/go", "")
            assert applying.wait().returncode == 1
            assert system.read(LAYOUT.lock_path) is None
            system.must("rm", "/run/held")
            assert not has_started(system)
            assert "changing" not in (system.read(LAYOUT.gate_steps_path) or "")
            assert start(system) == 1
            assert crew.begin("Configure", ALLOWS).wait().returncode == 0
            assert start(system) == 0


@pytest.mark.releases
def test_from_warn_to_strict_takes_no_reload() -> None:
    """No unit contains the configuration: a change of mode holds at once, without a daemon-reload."""
    with host(more=KEEPER) as system:
        system.must("systemctl", "start", "keeps-it-loaded.target")
        configure(system, config(mode=Mode.WARN))
        before = reloads(system)
        for mode, code in ((Mode.STRICT, 1), (Mode.WARN, 0), (Mode.STRICT, 1)):
            assert run_task(system, "Configure", config(mode=mode)).returncode == code
            assert start(system) == code
            end(system)
        assert reloads(system) == before > 0


@pytest.mark.releases
@many_times
@pytest.mark.parametrize("machine", ["loaded", pytest.param("not loaded", marks=pytest.mark.nightly)])
def test_remove_during_a_start(machine: str) -> None:
    """A start during Remove succeeds, with the commands of all other drop-ins; nothing of ours is left."""
    with host(more=KEEPER | OTHER) as system:
        if machine == "loaded":
            system.must("systemctl", "start", "keeps-it-loaded.target")
        before = settings_of(system)
        configure(system, config(*HALVES, mode=Mode.STRICT), wait=30)
        system.must("ip", "route", "del", "default")
        system.must("ip", "route", "flush", "proto", "213")
        begin_start(system)
        wait_for("the gate", lambda: system.show(LAYOUT.gate_unit, "SubState") == "start")
        assert run_task(system, "Remove", config()).returncode == 0
        assert has_started(system)
        assert system.read("/run/other") is not None
        assert settings_of(system) == before
        assert not ours(system)
        assert not system.run("pgrep", "-f", LAYOUT.config_directory).stdout


@pytest.mark.releases
@many_times
@pytest.mark.parametrize(
    "settings", [pytest.param(ALLOWS, marks=pytest.mark.nightly), REFUSES], ids=["allows", "refuses"]
)
def test_systemd_executes_itself_anew(settings: HostRoutingConfig, again: int) -> None:
    """A start outlasts a daemon-reexec at any of its moments: it is let through or refused as without one."""
    chance = random.Random(again)  # noqa: S311  no secret
    with host(machines=("kube1", "kube2")) as system:
        run_task(system, "Configure", settings)
        since = time.monotonic()
        start(system, "kube2")
        length = time.monotonic() - since
        for part in range(MOMENTS):
            begin = time.monotonic()
            begin_start(system)
            moment = length * (part + chance.random()) / MOMENTS
            time.sleep(moment)
            system.run("systemctl", "daemon-reexec")
            await_start(system)
            # Whether the machine was executed, not whether it is running: a daemon-reexec while its own systemd begins can end
            # it, also without hostrouting, because that systemd then cannot create its cgroup.
            executed = int(system.show(KUBE1, "ExecMainStartTimestampMonotonic")) > begin * 1e6
            assert executed is (settings is ALLOWS), f"daemon-reexec after {moment:.3f} s"
            end(system)


@pytest.mark.nightly  # on a busy machine it takes half a minute; one daemon-reexec in each phase of a start is tried by day
@pytest.mark.releases
def test_systemd_executes_itself_anew_again_and_again() -> None:
    """A start outlasts a daemon-reexec every 0.3 s, which cuts off whoever waits for systemd; it is judged as without."""
    storm = "while [ ! -e /run/calm ]; do systemctl daemon-reexec & sleep 0.3; done; wait; rm /run/calm"
    with host() as system:
        for settings in (REFUSES, ALLOWS) * (10 if LONG else 1):
            run_task(system, "Configure", settings)
            begin = time.monotonic()
            system.must("systemd-run", "--quiet", "/bin/sh", "-c", storm)
            wait_for("the start", lambda: system.run("systemctl", "start", "--no-block", KUBE1).returncode == 0)
            await_start(system)
            system.must("touch", "/run/calm")
            wait_for("the storm to end", lambda: system.read("/run/calm") is None)
            executed = int(system.show(KUBE1, "ExecMainStartTimestampMonotonic")) > begin * 1e6
            assert executed is (settings is ALLOWS), system.journal(KUBE1)
            end(system)
