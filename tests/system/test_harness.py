"""The systemd that the tests boot: it is a real one, it is alone, and it leaves nothing."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hostrouting.config.values import Mode
from tests.support.agents import agents
from tests.support.gate import HALVES, LAYOUT, config, end, host, ours, pid, start
from tests.support.programs import completed
from tests.support.systemd import NEEDS, PROJECT, booted, this_tree, trees
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.boot, pytest.mark.needs(*NEEDS)]

SLEEPER = """
from tests.support.systemd import booted
with booted({}):
    print("up", flush=True)
    input()
"""


def remains(pid: int) -> list[str]:
    """The processes and directories of the systems that this process has booted."""
    prefix = f"hostrouting-test-{pid}-"
    found = [str(path) for path in Path(tempfile.gettempdir()).glob(f"{prefix}*")]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text()
        except OSError:
            continue
        if prefix in words:
            found.append(words)
    return found


def test_it_is_alone() -> None:
    """A booted tree sees only its own devices and processes, and files that are written in it stay in it."""
    with booted({"/etc/hello": "world\n"}) as system:
        assert system.read("/etc/hello") == "world\n"
        assert system.must("ip", "-brief", "link").split()[0] == "lo"
        assert system.must("cat", "/proc/1/comm") == "systemd\n"
        system.must("sh", "-c", "echo more > /etc/hello")
        assert system.settled() == "running"
    assert not Path("/etc/hello").exists()
    assert not remains(os.getpid())


@pytest.mark.nightly
@pytest.mark.releases
def test_every_tree() -> None:
    """Whatever tree it is booted from: tasks work on it from here, machines start and end in it, and it reboots."""
    with host() as system:
        with agents(system) as crew:
            done = crew.begin("Configure", config(*HALVES, mode=Mode.STRICT)).wait()
            assert done.returncode == 0, done.stdout
        assert len(ours(system)) == 2
        for _ in range(2):
            assert start(system) == 0
            assert pid(system)
            end(system)
        system.reboot()
        assert system.settled() == "running", system.must("journalctl", "--boot", "--no-pager", "--priority=warning")
        assert len(ours(system)) == 2


@pytest.mark.releases
def test_its_tree() -> None:
    """The systemd that runs is the one in the booted tree."""
    asked = ["chroot", str(this_tree()), "systemctl", "--version"]
    theirs = completed(asked, check=True).stdout.split()[1]
    with booted({}) as system:
        running = system.must("systemctl", "show", "--property=Version", "--value").strip()
    assert running.partition(".")[0] == theirs.partition(".")[0]


def test_which_trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly the named trees are booted, and the working directory of the test does not matter."""
    monkeypatch.delenv("HOSTROUTING_TREES", raising=False)
    assert trees() == []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOSTROUTING_TREES", "b:/a")
    assert trees() == [tmp_path / "b", Path("/a")]


def test_an_agent_is_killed() -> None:
    """An agent can be killed while it works: its lock is free again, and the others go on."""
    with host() as system, agents(system) as crew:
        system.must("ip", "route", "del", "default")
        waiting, other = (crew.begin("Configure", config(*HALVES), wait=30) for _ in range(2))
        wait_for("a gate", lambda: system.read(LAYOUT.gate_steps_path) is not None)
        waiting.kill()
        other.kill()
        assert (waiting.wait().returncode, other.wait().returncode) == (-9, -9)
        system.must("ip", "route", "add", "default", "via", "10.0.0.1", "dev", "eth0")
        done = crew.begin("Configure", config(*HALVES)).wait()
        assert done.returncode == 0, done.stdout
        waiting.kill()  # it has ended already


def test_an_interrupted_run_leaves_no_process() -> None:
    """When the test run is killed, everything that it booted ends with it; the next boot clears the rest away."""
    run = subprocess.Popen(
        [sys.executable, "-c", SLEEPER], cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with run:
        assert run.stdout is not None
        assert run.stdout.readline() == "up\n"
        run.kill()
    wait_for("its processes to end", lambda: not [it for it in remains(run.pid) if "nspawn" in it])
    with booted({}):
        pass
    assert not remains(run.pid)
