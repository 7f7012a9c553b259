"""`make demo`: it runs on every kind of machine, and leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import EXAMPLES, completed

ESCAPES = "OVERLAP: 172.16.64.0/24 leaves through ib0 [172.16.0.0/16 dev ib0 "
DEMO = [sys.executable, "-W", "error", str(EXAMPLES / "demo.py")]
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"

pytestmark = pytest.mark.linux


def demo(tmp_path: Path, *before: str, after: str = "--", **environment: str) -> list[str]:
    """The output lines of one run, which leaves no file or device behind: the failure, the run and
    the proof.
    """
    tmp_path.chmod(0o777)
    devices = sorted(os.listdir("/sys/class/net"))
    fixed = {
        "PATH": PATH,
        "TMPDIR": str(tmp_path),
        "LC_ALL": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = completed([*before, *DEMO, after], env={**fixed, **environment})
    assert done.stderr == ""
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []
    assert sorted(os.listdir("/sys/class/net")) == devices
    lines = done.stdout.splitlines()
    places = [
        next(at for at, text in enumerate(lines) if text.startswith(ESCAPES)),
        next(at for at, text in enumerate(lines) if text.split()[:2] == ["bootstrap", "ok"]),
        lines.index(
            "OK: every address of 172.16.64.0/24 leaves through eth0, or is this host's own"
        ),
        lines.index("For 172.16.64.9, the kernel now answers: dev eth0"),
    ]
    assert places == sorted(places)
    assert lines[-2].endswith("InfiniBand's own routes are as they were.")
    return lines


@pytest.mark.needs("root")
def test_both_families_as_root(tmp_path: Path) -> None:
    """With root, the node is a network namespace of this machine; with --dual-stack it has IPv4 and
    IPv6.
    """
    lines = demo(tmp_path, after="--dual-stack")
    assert lines[1].startswith("It is in a private network namespace")
    assert any(line.startswith("OVERLAP: fd16::/48 leaves through ib0 [") for line in lines)
    assert "OK: every address of fd16::/48 leaves through eth0, or is this host's own" in lines
    assert "For fd16::5:9, the kernel now answers: dev eth0" in lines


def test_as_anyone(tmp_path: Path) -> None:
    """Without root, the node is in a user namespace if the machine allows one, otherwise a fake
    host; the output says which.
    """
    # An unprivileged user that can read root's files: root itself, with another user id.
    before = (
        ("unshare", "--user", "--map-user=1000", "--map-group=1000") if os.geteuid() == 0 else ()
    )
    allowed = subprocess.run([*before, "true"], capture_output=True, check=False).returncode == 0
    lines = demo(tmp_path, *(before if allowed else ()))
    assert lines[1].startswith(
        ("It is in a private network namespace", "This is a fake host: the machine")
    )


def test_without_ip(tmp_path: Path) -> None:
    """Without iproute2, the node is a fake host, and the output says so."""
    lines = demo(tmp_path, PATH=str(tmp_path))
    namespace = ("unshare", "--net") if os.geteuid() == 0 else ("unshare", "--user", "--net")
    allowed = subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode == 0
    # Where no namespace can be made, that is the reason.
    reason = "ip: No such file" if allowed else ""
    assert lines[1].startswith(
        f"This is a fake host: the machine does not allow a namespace ({reason}"
    )
