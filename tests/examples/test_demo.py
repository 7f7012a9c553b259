"""`make demo`: it runs on every kind of machine, and leaves nothing behind."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.programs import EXAMPLES, completed

ESCAPES = "OVERLAP: 172.16.64.0/24 leaves through ib0 [172.16.0.0/16 dev ib0 "
DEMO = [sys.executable, "-W", "error", str(EXAMPLES / "demo.py")]

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]


def demo(tmp_path: Path, *before: str) -> str:
    """Where the node is, as one run says, which leaves nothing behind."""
    tmp_path.chmod(0o777)
    devices = sorted(os.listdir("/sys/class/net"))
    fixed = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "TMPDIR": str(tmp_path),
        "LC_ALL": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = completed([*before, *DEMO], env=fixed)
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
    return lines[1]


def test_as_root(tmp_path: Path) -> None:
    """The node is a network namespace of this machine."""
    assert demo(tmp_path).startswith("It is in a private network namespace")


def test_as_anyone(tmp_path: Path) -> None:
    """Without root, the node is a fake host, and the output says so."""
    # Another user could not read root's files: this is root without its rights.
    without_rights = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    assert demo(tmp_path, *without_rights).startswith("This is a fake host: a namespace cannot")
