"""Whatever breaks on the way to a machine's start: in STRICT the gate stays shut, in WARN the check holds nobody back."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hostrouting.config.settings import HostRoutingConfig, StaticRoute
from hostrouting.config.values import Mode
from tests.support.agents import agents
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
    ours,
    pid,
    run_task,
    start,
)
from tests.support.inside import answering, statuses, told_in
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

_MASK = ["ln", "--symbolic", "--force", "/dev/null"]


def shut_by(system: System, *command: str) -> None:
    """Break what the last word names, see that no machine starts, and mend it."""
    path = command[-1]
    system.must("cp", "--archive", path, "/root/kept")
    system.must(*command)
    system.must("systemctl", "daemon-reload")
    assert start(system) == 1, command
    assert not pid(system), command
    system.run("rm", "-f", path)
    system.must("cp", "--archive", "/root/kept", path)
    system.run("systemctl", "reset-failed", KUBE1)  # systemd refuses more than a few starts in ten seconds


def breaks(script: str) -> list[list[str]]:
    """Ways to break a script; that one that is cut anywhere fails is shown without systemd."""
    return [["rm", script], ["sed", "-i", "3i if", script]]


def test_whatever_breaks_keeps_the_gate_shut() -> None:
    """Routes that cannot be installed, a check that cannot be made in STRICT: no break opens the gate."""
    with host(config(*HALVES)) as system:
        awk, ip = (system.must("readlink", "--canonicalize", f"/usr/bin/{name}").strip() for name in ("awk", "ip"))
        if awk != "/usr/bin/mawk":
            system.run("rm", "-f", "/usr/bin/mawk")  # which the scripts would take as well
        for command in (*breaks(LAYOUT.routes_script_path), ["rm", awk], ["rm", ip]):
            shut_by(system, *command)
        system.must("systemctl", "daemon-reload")
        assert start(system) == 0, "all of it was mended"
        end(system)
        system.must("ip", "address", "del", "172.16.1.5/16", "dev", "ib0")
        configure(system, config(mode=Mode.STRICT))
        for command in (*breaks(LAYOUT.check_script_path), ["rm", awk], ["rm", ip]):
            shut_by(system, *command)
        system.must("systemctl", "daemon-reload")
        assert start(system) == 0, "all of it was mended"


def test_in_warn_nothing_about_the_check_holds_a_machine_back() -> None:
    """In WARN the task passes and the machine starts: with an overlap, and if the check hangs, fails, is missing or masked."""
    script = LAYOUT.check_script_path
    with host() as system:
        overlap = f"OVERLAP: expected CIDR {CIDR} (172.16.0.0–172.16.255.255)"  # noqa: RUF001  a dash between addresses
        assert overlap in configure(system, config(mode=Mode.WARN))
        system.must("rm", LAYOUT.detected_path)
        assert start(system) == 0
        assert pid(system)
        end(system)
        detected = system.read(LAYOUT.detected_path) or ""
        assert detected.startswith(overlap)
        assert detected in system.journal(LAYOUT.gate_unit)
        gate = system.must("cat", LAYOUT.gate_script_path)
        for command, said in (
            (["sed", "-i", "3i sleep 60", script], "did not end in time"),
            (["sed", "-i", "3i trap '' TERM", script], "did not end in time"),
            (["sed", "-i", "3i exit 1", script], "failed"),
            ([*_MASK, LAYOUT.check_unit_path], "failed"),
            (["rm", LAYOUT.check_unit_path, script], "failed"),
        ):
            system.must(*command)
            # What the step has is a second here.
            is_slow = said != "failed"
            system.lay(LAYOUT.gate_script_path, gate.replace("patience + 5", "1") if is_slow else gate, mode=0o755)
            system.must("systemctl", "daemon-reload")
            assert start(system) == 0, command
            assert pid(system)
            end(system)
            last = system.journal(LAYOUT.gate_unit).rpartition("Starting ")[2]
            assert f"check-route-overlap.sh {said}; {LAYOUT.machine_unit} may start anyway" in last


ALLOWS, REFUSES = config(*HALVES, mode=Mode.STRICT), config(StaticRoute("10.77.0.0/16"), mode=Mode.STRICT)
# Stands in for systemctl: whoever has units read anew is kept waiting.
SLOW = """\
#!/bin/sh
case "$*" in *daemon-reload*) touch /run/waits; while [ ! -e /run/go ]; do sleep 0.02; done ;; esac
exec /usr/bin/systemctl.real "$@"
"""
# Another, which at a reload ends whoever asks.
DEADLY = """\
#!/bin/sh
case "$*" in *daemon-reload*) kill -9 $PPID; exit 1 ;; esac
exec /usr/bin/systemctl.real "$@"
"""
# Another's unit keeps the template loaded, so that only a reload has systemd look for drop-ins anew.
WANTED_BY = {"/etc/systemd/system/keeps-it-loaded.target": f"[Unit]\nWants={KUBE1}\n"}


@contextmanager
def systemctl(system: System, text: str) -> Iterator[None]:
    """Have this script stand in the place of systemctl."""
    system.must("mv", "/usr/bin/systemctl", "/usr/bin/systemctl.real")
    system.lay("/usr/bin/systemctl", text, mode=0o755)
    yield
    system.must("mv", "/usr/bin/systemctl.real", "/usr/bin/systemctl")


@contextmanager
def halfway(system: System, after: HostRoutingConfig, wait: int) -> Iterator[None]:
    """Apply a configuration, which is half applied when the block begins; `wait` is another than before, so there is a new unit."""
    with systemctl(system, SLOW), agents(system) as crew:
        applying = crew.begin("Configure", after, wait=wait)
        wait_for("the apply to be halfway through", lambda: system.outside("/run/waits").exists())
        yield
        applying.wait()
    system.must("rm", "/run/waits", "/run/go")


def killed_at_the_reload(system: System, name: str, settings: HostRoutingConfig) -> None:
    """Run the task, and have it killed after it wrote or removed its files."""
    with systemctl(system, DEADLY):
        assert run_task(system, name, settings).returncode == -9


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


def test_killed_before_the_reload() -> None:
    """An agent that is killed between its files and the reload is made up for by the next run, in both directions."""
    with host(more=WANTED_BY) as system:
        system.must("systemctl", "start", "keeps-it-loaded.target")
        wait_for("the machine", lambda: system.show(KUBE1, "ActiveState") == "active")
        killed_at_the_reload(system, "CheckRouteOverlap", config(mode=Mode.STRICT))
        end(system)
        assert run_task(system, "CheckRouteOverlap", config(mode=Mode.STRICT)).returncode == 1
        assert start(system) == 1
        assert not pid(system)
        killed_at_the_reload(system, "Remove", config())
        assert run_task(system, "Remove", config()).returncode == 0
        assert start(system) == 0


def test_a_command_before_ours() -> None:
    """If a foreign command before ours is removed while it runs, the gate is skipped; status names that."""
    first = f"/etc/systemd/system/{LAYOUT.machine_unit}.d/00-first.conf"
    waits = "[Service]\nExecStartPre=/bin/sh -c 'while [ -e /run/wait ]; do sleep 0.02; done'\n"
    with host(config(mode=Mode.STRICT)) as system, statuses(system) as status:
        system.lay(first, waits)
        system.must("systemctl", "daemon-reload")
        assert start(system) == 1, "while it stays, machines ask"
        found = status()
        assert found["code"] == 1
        [told] = told_in(found, "gate-open")
        assert told.startswith(f"{LAYOUT.machine_unit} runs another ExecStartPre= before the gate: ")
        assert told.endswith(f"; see {first}")
        system.lay("/run/wait", "")
        begin_start(system)
        wait_for("its first command", lambda: is_starting(system))
        system.must("rm", first)
        system.must("systemctl", "daemon-reload")
        system.must("rm", "/run/wait")
        await_start(system)
        # On a busy machine its own systemd may fail afterwards, because this one has changed the control groups meanwhile.
        assert re.search(r"^Started (systemd-nspawn@kube1|Container kube1)", system.journal(KUBE1), re.MULTILINE)
        end(system)
        assert start(system) == 1


_CONFIG = "/root/config.json"
_UNITS = "/etc/systemd/system"
_OPEN = "A gated unit that is started now is NOT held back: "
_REFUSED = "The mode is STRICT: systemd-nspawn@.service cannot start until the check passes."

_CLI = """\
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from hostrouting.cli import main
for line in sys.stdin:
    with redirect_stdout(io.StringIO()) as said, redirect_stderr(io.StringIO()):
        code = main(json.loads(line))
    print(json.dumps([code, said.getvalue()]), flush=True)
"""

# Meanwhile systemd may create a file in /run, and then there are fewer inodes than are used.
_NO_INODE = """\
for _ in 1 2 3 4 5 6 7 8 9; do
  mount -o remount,nr_inodes=$(df --output=iused /run | tail -n 1 | tr -d ' ') /run && exit
  sleep 0.1
done
exit 1
"""

# What is in the way, how it goes, and how the last line of apply begins.
OBSTACLES = {
    "full /etc": (
        f"mount -t tmpfs -o size=4k,mode=755 none {_UNITS}; cat /dev/zero >{_UNITS}/all 2>&1; true",
        f"umount {_UNITS}",
        _OPEN,
    ),
    "read-only /etc": (f"mount -t tmpfs -o ro,mode=755 none {_UNITS}", f"umount {_UNITS}", _OPEN),
    "no inode left in /run": (
        f"rm -rf {LAYOUT.state_directory} {LAYOUT.runtime_directory}; {_NO_INODE}",
        "mount -o remount,nr_inodes=800k /run",
        _REFUSED,
    ),
}


def test_what_the_last_line_says_is_true() -> None:
    """An apply that cannot write says in its last line whether a machine starts now; without the obstacle all is well."""
    with host() as system, answering(system, _CLI) as cli:
        system.lay(_CONFIG, config(mode=Mode.STRICT).to_json())
        for name, (before, after, last) in OBSTACLES.items():
            system.must("sh", "-c", before)
            system.must("systemctl", "daemon-reload")
            code, said = cli(["apply", "--config", _CONFIG])
            assert code == 1, name
            assert said.splitlines()[-1].startswith(last), name
            assert start(system) == (0 if last == _OPEN else 1), name
            assert bool(pid(system)) == (last == _OPEN), name
            end(system)
            system.must("sh", "-c", after)
            system.must("systemctl", "daemon-reload")
            code, said = cli(["apply", "--config", _CONFIG])
            assert said.splitlines()[-1] == _REFUSED, name
            assert start(system) == 1, name
            assert run_task(system, "Remove", config()).returncode == 0, name
