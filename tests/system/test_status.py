"""`status` as an operator meets it on a node with a real systemd. Each story is an incident: what
the page says, and that the line which it proposes, typed on the node, makes the node right again.
"""

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hostrouting.config.settings import GateConfig, GuardConfig, StaticRoute
from tests.support import gate
from tests.support.gate import HALVES, LAYOUT, gate_tests, hostrouting
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

KUBELET, K3S, GUARD = "kubelet.service", "k3s.service", LAYOUT.guard_unit
RUNS_PODS = {f"/usr/lib/systemd/system/{KUBELET}": "[Service]\nExecStart=/bin/sleep infinity\n"}
OVERRIDE = f"{LAYOUT.unit_directory}/{KUBELET}.d/50-site.conf"
BACKUP = "/root/backup.json"
AGAIN = f"hostrouting apply --config {LAYOUT.config_path}"
REPAIR = "hostrouting repair | hostrouting apply --config -"


@contextmanager
def node(*routes: StaticRoute, gated: str = KUBELET, is_guarded: bool = False) -> Iterator[System]:
    """A booted node with these routes, which checks this unit; without routes, addresses escape."""
    settings = gate.config(*routes, mode="STRICT")
    settings = settings._replace(gate=GateConfig((gated,)), guard=GuardConfig(is_guarded))
    with gate.host(settings, more=RUNS_PODS, machines=()) as system:
        yield system


def status(system: System, *, code: int = 1) -> str:
    """The page of `status`, which must end with this exit code."""
    done = hostrouting(system, "status")
    assert done.returncode == code
    return done.stdout


def assert_right(system: System) -> str:
    """Nothing differs, nothing escapes, kubelet runs, and a guard that is enabled, too; the page
    that says so.
    """
    page = status(system, code=0)
    assert page.startswith("IN FORCE: this host matches")
    assert f"  {KUBELET} runs, and was checked" in page or K3S in page
    assert f"  {GUARD} runs" in page or "the guard is not enabled" in page
    return page


def proposed(page: str, words: str) -> str:
    """The line to type that begins with these words; the page has no other that does."""
    lines = re.findall(rf"(?:as root: |^  )({re.escape(words)}.*)", page, re.MULTILINE)
    [line] = set(lines)
    return str(line)


def type_line(system: System, line: str) -> None:
    """Type a line of a page on the node, with its pipes."""
    for pipeline in line.split(" && "):
        code, output = 0, ""
        for command in pipeline.split(" | "):
            program, *words = shlex.split(command)
            if program == "hostrouting":
                done = hostrouting(system, *words, stdin=output)
            else:
                done = system.run(program, *words, stdin=output)
            code, output = done.returncode, done.stdout
        assert code == 0, line


def test_a_refused_unit() -> None:
    """Given an overlap, kubelet is refused: the page has the reason, and the repair; after the
    repair, it says that kubelet is to be started.
    """
    with node() as system:
        assert system.run("systemctl", "start", KUBELET).returncode == 1

        page = status(system)
        assert page.startswith("DIFFERS: 172.16.0.0/16 leaves through ib0")
        assert f"  {KUBELET} was refused by the gate" in page
        assert "    OVERLAP: 172.16.0.0/16 leaves through ib0" in page
        type_line(system, proposed(page, REPAIR))

        page = status(system)
        assert page.startswith(f"DIFFERS: {KUBELET} was refused, and nothing is known")
        type_line(system, proposed(page, f"systemctl start {KUBELET}"))
        assert_right(system)


def a_start_that_was_not_checked(repaired: System) -> None:
    """Given a drop-in that cancels the gate, kubelet starts unchecked: the page names the drop-in,
    and when its line is gone, the start that was not checked.
    """
    repaired.lay(OVERRIDE, "[Service]\nExecCondition=\n")
    repaired.must("systemctl", "daemon-reload")
    repaired.must("systemctl", "restart", KUBELET)

    page = status(repaired)
    assert f'OPEN: {KUBELET} starts unchecked: the line "ExecCondition=" in {OVERRIDE}' in page
    type_line(repaired, proposed(page, "sed -i"))

    page = status(repaired, code=0)
    assert f"  {KUBELET} runs, and the gate has not checked its start" in page
    type_line(repaired, proposed(page, f"systemctl restart {KUBELET}"))


def test_a_kubelet_that_is_not_gated() -> None:
    """Given a gate for k3s alone, kubelet runs: the page has the line that gates it, too."""
    with node(*HALVES, gated=K3S) as system:
        assert_right(system)
        system.must("systemctl", "start", KUBELET)

        page = status(system)
        assert page.startswith(f"OPEN: {KUBELET} runs on this host and is not gated")
        type_line(system, proposed(page, AGAIN))
        assert_right(system)

        system.must("ip", "route", "add", "172.16.0.0/18", "dev", "ib0")
        assert system.run("systemctl", "restart", KUBELET).returncode == 1


def a_broken_file(repaired: System) -> None:
    """Given a config.json that cannot be read, on a node that has lost its routes: the page still
    has the units and the guard, and the line that brings back a backup.
    """
    repaired.must("systemctl", "stop", GUARD)
    repaired.must("ip", "route", "flush", "proto", "213")
    text = repaired.read(LAYOUT.config_path) or ""
    repaired.lay(BACKUP, text)
    repaired.lay(LAYOUT.config_path, text.replace("[", "[,", 1))

    page = status(repaired, code=2)
    assert page.startswith(f"SHUT: {LAYOUT.config_path} is not JSON")
    assert f"  {KUBELET} runs, and was checked" in page
    assert re.search(f"  {GUARD} does not run.*, and is enabled\n", page)
    line = proposed(page, "hostrouting repair --config BACKUP")
    type_line(repaired, line.replace("BACKUP", BACKUP))
    assert repaired.read(LAYOUT.config_path) == text


def a_guard_that_is_masked(repaired: System) -> None:
    """The line of the page takes the mask away, and starts it."""
    repaired.must("ln", "-sf", "/dev/null", LAYOUT.unit_path(GUARD))
    repaired.must("systemctl", "daemon-reload")
    repaired.must("systemctl", "stop", GUARD)

    page = status(repaired)
    assert f"  {GUARD} is masked" in page
    type_line(repaired, proposed(page, f"systemctl unmask {GUARD} && {AGAIN}"))


def a_kubelet_that_is_masked(repaired: System) -> None:
    """The page has the command that unmasks it, and nothing for apply to do: of a masked unit with
    drop-ins, systemd says at all times that it has not read its files.
    """
    repaired.must("systemctl", "mask", "--now", KUBELET)

    page = status(repaired, code=0)
    assert page.startswith("IN FORCE: ")
    assert f"  {KUBELET} is masked" in page
    type_line(repaired, proposed(page, f"systemctl unmask {KUBELET}"))
    repaired.must("systemctl", "start", KUBELET)


LIMITED = "[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=1\n[Service]\nRestartSec={}\n"
WITHOUT_NETLINK = "RestrictAddressFamilies=\nRestrictAddressFamilies=AF_UNIX\n"


def a_guard_that_is_restarted(repaired: System) -> None:
    """Between two starts, the line of the page starts it at once."""
    end_guard(repaired, LIMITED.format("1h"), "auto-restart")

    page = status(repaired)
    assert f"\n  {GUARD} fails by itself (signal, exit status 9)" in page
    assert_apply_starts_the_guard(repaired, page)


def a_guard_that_has_failed(repaired: System) -> None:
    """When systemd has given up, the page has what the guard has logged since its last start. When
    that is mended, the line of the page starts it, although the limit of starts is reached.
    """
    end_guard(repaired, LIMITED.format("100ms") + WITHOUT_NETLINK, "failed")

    page = status(repaired)
    assert f"\n  {GUARD} fails by itself (exit-code, exit status 1)" in page
    assert "Address family not supported by protocol" in page
    override_guard(repaired, LIMITED.format("100ms"))
    assert_apply_starts_the_guard(repaired, page)


def end_guard(system: System, override: str, state: str) -> None:
    """Kill the guard, and give it these settings, until systemd shows this state."""
    override_guard(system, override)
    system.must("systemctl", "kill", "--signal=KILL", GUARD)
    wait_for(f"the guard to be in {state}", lambda: system.show(GUARD, "SubState") == state)


def override_guard(system: System, override: str) -> None:
    """Give the guard these settings."""
    system.lay(f"{LAYOUT.unit_directory}/{GUARD}.d/50-site.conf", override)
    system.must("systemctl", "daemon-reload")


def assert_apply_starts_the_guard(system: System, page: str) -> None:
    """The line of the page starts the guard."""
    type_line(system, proposed(page, AGAIN))
    assert system.show(GUARD, "ActiveState") == "active"
    system.must("rm", f"{LAYOUT.unit_directory}/{GUARD}.d/50-site.conf")
    system.must("systemctl", "daemon-reload")


def break_glass(repaired: System) -> None:
    """Given a gate that somebody has opened, the page has the reason, and the line that ends it."""
    repaired.lay(LAYOUT.opening_path, "a disk is replaced\n")

    page = status(repaired)
    assert f"lets {KUBELET} start unchecked until the next boot: a disk is replaced" in page
    type_line(repaired, proposed(page, f"rm {LAYOUT.opening_path}"))


def a_unit_that_waits_for_a_lock(repaired: System) -> None:
    """Given a service that has locked the node, kubelet waits in the gate: the page names its
    process, and when that has ended, kubelet starts.
    """
    script = f"exec 9<>{LAYOUT.lock_path}; flock 9; exec sleep infinity"
    repaired.must("systemd-run", "--quiet", "--unit=backup", "bash", "-c", script)
    shared = ("flock", "--shared", "--nonblock", LAYOUT.lock_path, "true")
    wait_for("the service to lock", lambda: repaired.run(*shared).returncode)
    process = f"process {repaired.show('backup.service', 'MainPID')} (sleep) of backup.service"
    locked = f"    {LAYOUT.lock_path} is locked by {process}"
    repaired.must("systemctl", "restart", "--no-block", KUBELET)
    wait_for("the page to name it", lambda: locked in hostrouting(repaired, "status").stdout)

    type_line(repaired, proposed(hostrouting(repaired, "status").stdout, "kill "))
    wait_for("kubelet", lambda: repaired.show(KUBELET, "ActiveState") == "active")


INCIDENTS = (
    a_start_that_was_not_checked,
    a_unit_that_waits_for_a_lock,
    a_broken_file,
    a_guard_that_is_masked,
    a_kubelet_that_is_masked,
    a_guard_that_is_restarted,
    a_guard_that_has_failed,
    break_glass,
)


def test_incidents_on_a_guarded_node(subtests: pytest.Subtests) -> None:
    """One incident after the other. Each begins on a node from which no address escapes and whose
    kubelet runs, and makes it right again.
    """
    with node(*HALVES, is_guarded=True) as system:
        system.must("systemctl", "start", KUBELET)
        for incident in INCIDENTS:
            with subtests.test(incident.__name__):
                incident(system)
            # If it is not, the other incidents would fail for no reason of their own.
            assert "not checked its start" not in assert_right(system)
