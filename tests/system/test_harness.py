"""The systemd that the tests boot: it is a real one, it is alone, and it leaves nothing."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.systemd import PROJECT, booted, missing, wait_for

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(bool(missing()), reason=missing() or "a systemd can be booted"),
]

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
    """It sees no device and no process but its own, and files that are written in it stay in it."""
    with booted({"/etc/hello": "world\n"}) as system:
        assert system.read("/etc/hello") == "world\n"
        assert system.must("ip", "-brief", "link").split()[0] == "lo"
        assert system.must("cat", "/proc/1/comm") == "systemd\n"
        system.must("sh", "-c", "echo more > /etc/hello")
        assert system.settled() == "running"
    assert not Path("/etc/hello").exists()
    assert not remains(os.getpid())


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
