"""The gate as a condition of a unit, under a real systemd: whatever the unit and its manager do, a
refusal refuses.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.gate import gate_tests
from tests.support.inline_gate import MAY, STEP, STEPS, gate_files
from tests.support.systemd import System, booted
from tests.support.waiting import wait_for

pytestmark = gate_tests

_RUNS = "ExecStart=/bin/sleep infinity\n"
_EVIL = (
    "BASH_ENV=/etc/evil SHELLOPTS=noexec SECONDS=-9999 POSIXLY_CORRECT=1 LD_LIBRARY_PATH=/nowhere"
)
KINDS = {
    "plain": "",
    "user": "User=nobody\n",
    "dynamic": "DynamicUser=yes\nPrivateTmp=yes\n",
    "network": "PrivateNetwork=yes\n",
    "namespace": "NetworkNamespacePath=/run/netns/other\n",
    "paths": "ProtectSystem=strict\nInaccessiblePaths=/etc/hostrouting -/run/hostrouting\nTemporaryFileSystem=/usr/sbin\n",
    "calls": "NoNewPrivileges=yes\nCapabilityBoundingSet=\nSystemCallFilter=~@network-io @mount\n",
    "users": "PrivateUsers=yes\nPermissionsStartOnly=yes\n",
    "environment": f"Environment={_EVIL}\n",
    "statuses": "SuccessExitStatus=1 2 127 143 254 SIGTERM SIGKILL\n",
    "proc": "ProtectProc=invisible\nProcSubset=pid\nProtectControlGroups=yes\nProtectKernelTunables=yes\n",
    "log": "StandardError=null\nIgnoreSIGPIPE=no\n",
    "notify": "Type=notify\nNotifyAccess=all\nExecStart=\nExecStart=/bin/sh -c 'systemd-notify --ready; sleep infinity'\n",
    "once": "Type=oneshot\nRemainAfterExit=yes\nExecStart=\nExecStart=/bin/true\n",
}
FILES = {
    f"/etc/systemd/system/{kind}.service": f"[Service]\n{_RUNS}{text}"
    for kind, text in KINDS.items()
}
# What a drop-in that comes later may do to the lists of commands.
FILES["/etc/systemd/system/plain.service.d/90-own.conf"] = (
    "[Service]\nExecStartPre=\nExecStartPre=/bin/true\n"
)
FILES["/etc/evil"] = "exit 0\n"
SLOW = f"echo >>/run/began; until [[ -e /run/go ]]; do sleep 0.05; done\n{STEP}"


@contextmanager
def system_with(*units: str, steps: dict[str, str], required: str = "10-a") -> Iterator[System]:
    """A booted system in which these units are gated."""
    names = [f"{name}.service" for name in units]
    with booted({**FILES, **gate_files(*names, steps=steps, required=required)}) as system:
        system.settled()
        yield system


def await_end(system: System, *units: str) -> dict[str, str]:
    """Wait until no start of these units is under way; the state of each."""
    states: dict[str, str] = {}

    def has_ended() -> bool:
        shown = system.must(
            "systemctl",
            "show",
            "--value",
            "-p",
            "ActiveState",
            *(f"{unit}.service" for unit in units),
        )
        states.update(zip(units, shown.split(), strict=True))
        return {*states.values()} <= {"active", "inactive", "failed"} and "No jobs" in system.run(
            "systemctl", "list-jobs"
        ).stdout

    wait_for("all starts to end", has_ended)
    return states


def begin(system: System, *units: str) -> None:
    """Have systemd start these units at the same moment, without waiting."""
    system.must("systemctl", "start", "--no-block", *(f"{unit}.service" for unit in units))


def test_every_kind_of_unit() -> None:
    """No setting of a unit or of its manager opens the gate, and none keeps it shut; the steps see
    the host's network.
    """
    step = f"readlink /proc/self/ns/net >>/run/seen\nid -u >>/run/seen\n{STEP}"
    with system_with(*KINDS, steps={"10-a": step}) as system:
        system.must("ip", "netns", "add", "other")
        system.must("systemctl", "set-environment", *_EVIL.split()[:3])
        begin(system, *KINDS)
        assert set(await_end(system, *KINDS).values()) == {"failed"}
        for kind in KINDS.keys() - {"log"}:
            journal = system.journal(f"{kind}.service")
            assert f"{kind}.service was not started: step 10-a failed (exit 1), " in journal
            assert "nothing is checked) until /run/hostrouting/gate" in journal
        system.lay(MAY, "")
        system.must("systemctl", "reset-failed")
        begin(system, *KINDS)
        assert set(await_end(system, *KINDS).values()) == {"active"}
        assert set((system.read("/run/seen") or "").split()) == {
            "0",
            system.must("readlink", "/proc/1/ns/net").strip(),
        }


def test_commands_that_vanish() -> None:
    """A foreign command that sorts first and vanishes in the middle of a start takes no other list
    with it.
    """
    first = "/etc/systemd/system/plain.service.d/00-a.conf"
    with system_with("plain", steps={"10-a": SLOW}) as system:
        system.lay(first, "[Service]\nExecStartPre=/bin/sleep 0.5\n")
        system.must("systemctl", "daemon-reload")
        begin(system, "plain")
        wait_for("the step", lambda: system.read("/run/began"))
        system.must("rm", first)
        system.must("systemctl", "daemon-reload")
        system.lay("/run/go", "")
        assert await_end(system, "plain") == {"plain": "failed"}


def test_signals() -> None:
    """A gate that a signal ends refuses at once, though the unit counts that signal
    as a success.
    """
    with system_with("statuses", steps={"10-a": SLOW}) as system:
        for name in ("TERM", "HUP", "INT", "QUIT", "USR1"):
            let_count_as_success(system, f"SIG{name}")
            for number, whom in enumerate(("all", "control"), start=1):
                begin_slowly(system)
                how = (f"--kill-who={whom}", f"--signal={name}")
                system.must("systemctl", "kill", *how, "statuses.service")
                assert await_end(system, "statuses") == {"statuses": "failed"}, (name, whom)
                refusal = f"was not started: SIG{name} ended the gate while step 10-a ran"
                assert system.journal("statuses.service").count(refusal) == number, whom
                wait_for("the step to end", lambda: system.run("pgrep", "-f", "10-a.sh").returncode)
                system.must("systemctl", "reset-failed", "statuses.service")


def test_a_gate_that_is_killed() -> None:
    """The unit starts only if it counts SIGKILL as a success, which nothing can prevent."""
    with system_with("statuses", steps={"10-a": SLOW}) as system:
        for statuses, end in (
            ("1 SIGTERM", "Failed to start statuses.service"),
            ("SIGKILL", "Started statuses.service"),
        ):
            let_count_as_success(system, statuses)
            begin_slowly(system)
            system.must("systemctl", "kill", "--signal=KILL", "statuses.service")
            # systemd 257 may also kill what it has just started.
            await_in_journal(system, end)
            counted = system.show("statuses.service", "SuccessExitStatus").split()
            assert ("KILL" in counted) is end.startswith("Started")


def await_in_journal(system: System, words: str) -> None:
    """Wait until systemd has logged these words about the unit."""
    wait_for(words, lambda: words in system.journal("statuses.service"))


def let_count_as_success(system: System, statuses: str) -> None:
    """Have the unit count these exit statuses as a success, and no others."""
    unit = "/etc/systemd/system/statuses.service"
    system.lay(unit, f"[Service]\n{_RUNS}SuccessExitStatus={statuses}\n")
    system.must("systemctl", "daemon-reload")


def begin_slowly(system: System) -> None:
    """Begin a start of the unit, and wait until its step runs."""
    system.run("rm", "-f", "/run/began")
    begin(system, "statuses")
    wait_for("the step", lambda: system.read("/run/began"))


def test_files_that_change() -> None:
    """A start that meets a writer waits for it and runs the new steps, never a mixture; other
    starts cannot starve it.
    """
    write = f"""
    exec 8<>/run/hostrouting/turn 9<>/run/hostrouting/lock
    flock -x 8; flock -x -w 30 9 || exit; flock -u 8
    for step in 10-a 20-b; do echo "echo $1 >>/run/ran; exit 0" >{STEPS}/new; mv {STEPS}/new {STEPS}/$step.sh; sleep $2; done
    """
    slow = {f"{step}": "sleep 0.3; exit 0\n" for step in ("10-a", "20-b")}
    again = "[Service]\nExecStart=\nExecStart=/bin/true\nRestart=always\nRestartSec=10ms\n[Unit]\nStartLimitIntervalSec=0\n"
    busy = ("user", "dynamic", "network", "users")
    with system_with("plain", *busy, steps=slow, required="10-a 20-b") as system:
        for unit in busy:
            system.lay(f"/etc/systemd/system/{unit}.service.d/50.conf", again)
        system.must("systemctl", "daemon-reload")
        begin(system, *busy)
        wait_for("restarts", lambda: int(system.show("user.service", "NRestarts")) > 1)
        system.must("bash", "-c", write, "bash", "first", "0")
        system.must("systemctl", "stop", *(f"{unit}.service" for unit in busy))
        system.must("rm", "-f", "/run/ran")
        system.must(
            "systemd-run",
            "--no-block",
            "bash",
            "-c",
            write.replace("$", "$$"),
            "bash",
            "second",
            "0.4",
        )
        wait_for("the first file", lambda: "second" in (system.read(f"{STEPS}/10-a.sh") or ""))
        begin(system, "plain")
        assert await_end(system, "plain") == {"plain": "active"}
        assert (system.read("/run/ran") or "").split() == ["second"] * 2


def test_starts_at_once() -> None:
    """Starts at the same moment all get the same answer, also where /run is read-only or has no
    room.
    """
    units = [kind for kind in KINDS if kind != "namespace"][:4]
    with system_with(*units, steps={"10-a": f"sleep 0.2\n{STEP}"}) as system:
        for obstacle in ("", "ro", "nr_inodes=1"):
            if obstacle:
                system.must(
                    "mount", "-t", "tmpfs", "-o", f"mode=755,{obstacle}", "none", "/run/hostrouting"
                )
            for state in ("failed", "active"):
                system.run("rm", "-f", MAY) if state == "failed" else system.lay(MAY, "")
                begin(system, *units)
                assert set(await_end(system, *units).values()) == {state}
                system.must("systemctl", "stop", *(f"{unit}.service" for unit in units))
                system.must(
                    "systemctl", "reset-failed"
                )  # systemd refuses a sixth start in ten seconds
