"""`status` as an operator meets it on a node with a real systemd. Each story is an incident: what
the page says, and that the line which it proposes, typed on the node, makes the node right again.
"""

import re
import shlex

import pytest

from hostrouting.config.settings import GateConfig, GuardConfig
from tests.support import gate
from tests.support.gate import LAYOUT, gate_tests, hostrouting
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

KUBELET, GUARD = "kubelet.service", LAYOUT.guard_unit
RUNS_PODS = {
    f"/usr/lib/systemd/system/{KUBELET}": "[Unit]\nStartLimitIntervalSec=0\n"
    "[Service]\nExecStart=/bin/sleep infinity\n",
    # systemd keeps what it knows of a unit that another one names, such as an enabled one.
    f"{LAYOUT.unit_directory}/multi-user.target.d/50-site.conf": f"[Unit]\nAfter={KUBELET}\n",
}
REPAIR = "hostrouting repair | hostrouting apply --config -"


def status(system: System, *unit: str, code: int = 1) -> str:
    """The page of `status`, which must end with this exit code."""
    done = hostrouting(system, "status", *unit)
    assert done.returncode == code
    return done.stdout


def assert_right(system: System) -> None:
    """Nothing differs, nothing escapes, the guard and kubelet run."""
    page = status(system, code=0)
    assert page.startswith("IN FORCE: this host matches")
    assert f"  {KUBELET} runs" in page
    assert f"  {GUARD} runs" in page


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


def a_refused_unit(escaping: System) -> None:
    """After the repair, kubelet is to be started, although the limit of starts is reached."""
    escaping.load(OVERRIDE, LIMITED)
    assert escaping.run("systemctl", "start", KUBELET).returncode == 1

    reason = "    its last start said: hostrouting: OVERLAP: 172.16.0.0/16 leaves through ib0"
    escaping.journal(KUBELET)  # journald may be later than systemd
    page = status(escaping)
    assert reason in page
    assert page.startswith("DIFFERS: 172.16.0.0/16 leaves through ib0")
    assert f"  {KUBELET} has failed, and systemd does not start it again" in page

    def is_limited() -> bool:
        escaping.run("systemctl", "start", KUBELET)
        return "repeated too quickly" in escaping.journal(KUBELET)

    wait_for("the limit of starts", is_limited)
    type_line(escaping, proposed(page, REPAIR))

    page = status(escaping)
    assert page.startswith(f"DIFFERS: {KUBELET} has failed, and systemd does not start it again")
    type_line(escaping, proposed(page, f"systemctl reset-failed {KUBELET}"))
    escaping.unload(OVERRIDE)
    assert_right(escaping)


# systemd refuses the second start in another second than the first.
LIMITED = "[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=1\n[Service]\nRestartSec=1100ms\n"
WITHOUT_NETLINK = "RestrictAddressFamilies=\nRestrictAddressFamilies=AF_UNIX\n"


def a_guard_that_has_failed(repaired: System) -> None:
    """The line of the page starts it, although the limit of starts is reached."""
    override = f"{LAYOUT.unit_directory}/{GUARD}.d/50-site.conf"
    repaired.load(override, LIMITED + WITHOUT_NETLINK)
    repaired.must("systemctl", "kill", "--signal=KILL", GUARD)
    wait_for("the guard to fail", lambda: repaired.show(GUARD, "SubState") == "failed")

    repaired.journal(GUARD)
    page = status(repaired)
    assert page.startswith(f"DIFFERS: {GUARD} has failed")
    assert "Address family not supported by protocol" in page
    repaired.load(override, LIMITED)
    type_line(repaired, proposed(page, f"hostrouting apply --config {LAYOUT.config_path}"))
    assert_right(repaired)


def a_unit_that_waits_for_a_lock(repaired: System) -> None:
    """Given a service that has locked the node, kubelet waits until it is stopped."""
    gate.lock(repaired)
    repaired.must("systemctl", "restart", "--no-block", KUBELET)
    reason = f"waiting for {LAYOUT.lock_path}"
    wait_for("kubelet", lambda: reason in repaired.journal(KUBELET))
    page = hostrouting(repaired, "status").stdout
    assert f"WAITING: {KUBELET} waits in the gate" in page
    line = proposed(page.replace("see: ", "as root: "), "journalctl")
    assert reason in repaired.must(*line.split())
    repaired.must("systemctl", "stop", "holder.service")
    wait_for("kubelet", lambda: repaired.show(KUBELET, "ActiveState") == "active")


OVERRIDE = f"{LAYOUT.unit_directory}/{KUBELET}.d/50-site.conf"
HANGS = "[Service]\nType=oneshot\nExecStart=/bin/sleep infinity\n"
WAITS_FOR_IT = "[Unit]\nWants=hangs.service\nAfter=hangs.service\n"


def a_start_that_waits_for_another_unit(repaired: System) -> None:
    """Given a network-online.target that is never reached, kubelet does not get to the gate."""
    network = f"{LAYOUT.unit_directory}/network-online.target.d/50-site.conf"
    repaired.lay(f"{LAYOUT.unit_directory}/hangs.service", HANGS)
    repaired.load(network, WAITS_FOR_IT)
    repaired.must("systemctl", "stop", "network-online.target")
    repaired.must("systemctl", "restart", "--no-block", KUBELET)
    wait_for("kubelet", lambda: repaired.show(KUBELET, "ActiveState") == "inactive")

    page = status(repaired, code=3)
    assert page.startswith(f"WAITING: {KUBELET} does not run: its start waits for another unit")
    assert "to see which: systemctl list-jobs" in page
    assert "hangs.service" in repaired.must("systemctl", "list-jobs")
    repaired.outside(network).unlink()
    repaired.must("systemctl", "stop", "hangs.service")
    wait_for("kubelet", lambda: repaired.show(KUBELET, "ActiveState") == "active")


SKIPS = (
    ("[Unit]\nConditionPathExists=/root/joined\n", "ConditionPathExists=/root/joined"),
    ("[Service]\nExecCondition=/bin/false\n", "ExecCondition=/bin/false"),
)
"""What makes systemd skip a start that the gate lets pass, and what it shows of that."""


def a_start_that_is_skipped(repaired: System) -> None:
    """Given a condition other than the gate that is not met, the page does not blame the routes."""
    for text, reason in SKIPS:
        repaired.load(OVERRIDE, text)
        repaired.must("systemctl", "restart", KUBELET)

        page = status(repaired, KUBELET)
        assert page.startswith(f"SKIPPED: {KUBELET} does not run: systemd skipped its start")
        assert f"see: systemctl status {KUBELET}" in page
        assert reason in repaired.run("systemctl", "status", KUBELET).stdout
    repaired.unload(OVERRIDE)
    repaired.must("systemctl", "start", KUBELET)


def a_unit_that_another_one_holds_back(repaired: System) -> None:
    """Given a failed unit that kubelet requires, the page says where the reason is."""
    fails = "[Service]\nType=oneshot\nExecStart=/bin/false\n"
    repaired.lay(f"{LAYOUT.unit_directory}/fails.service", fails)
    repaired.load(OVERRIDE, "[Unit]\nRequires=fails.service\nAfter=fails.service\n")
    assert repaired.run("systemctl", "restart", KUBELET).returncode == 1

    page = status(repaired, KUBELET, code=0)
    assert page.startswith(f"STOPPED: {KUBELET} does not run")
    assert f"see: systemctl status {KUBELET}" in page
    repaired.journal(KUBELET)  # journald may be later than systemd
    assert "Dependency failed" in repaired.run("systemctl", "status", KUBELET).stdout
    repaired.unload(OVERRIDE)
    repaired.must("systemctl", "start", KUBELET)


def a_drop_in_that_would_open_the_gate(repaired: System) -> None:
    """Given one that systemd has not read, nothing is proposed that would have it read."""
    for folder in (f"{KUBELET}.d", "service.d"):
        path = f"{LAYOUT.unit_directory}/{folder}/60-other.conf"
        repaired.lay(path, "[Service]\n\tExecCondition=\n")
        page = status(repaired)
        assert page.startswith(f"DIFFERS: once systemd is reloaded, {KUBELET} starts unchecked")
        assert f"{path} takes the ExecCondition= of the gate away" in page
        assert "hostrouting apply" not in page
        assert hostrouting(repaired, "apply", "--config", LAYOUT.config_path).returncode == 1
        assert "gate" in repaired.show(KUBELET, "ExecCondition")
        repaired.outside(path).unlink()


INCIDENTS = (
    a_refused_unit,
    a_unit_that_waits_for_a_lock,
    a_guard_that_has_failed,
    a_start_that_waits_for_another_unit,
    a_start_that_is_skipped,
    a_unit_that_another_one_holds_back,
    a_drop_in_that_would_open_the_gate,
)


def test_incidents(subtests: pytest.Subtests) -> None:
    """One incident after the other; each ends on a node on which all is right."""
    settings = gate.config(mode="STRICT")
    settings = settings._replace(gate=GateConfig((KUBELET,)), guard=GuardConfig(enabled=True))
    with gate.host(settings, more=RUNS_PODS, machines=()) as system:
        for incident in INCIDENTS:
            with subtests.test(incident.__name__):
                incident(system)
