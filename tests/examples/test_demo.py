"""`make demo`: it runs on every kind of machine, and leaves nothing behind."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.programs import EXAMPLES, completed

STORY = [
    "OVERLAP: 172.16.64.0/24 leaves through ib0 [172.16.0.0/16 dev ib0 ",
    "bootstrap   ",
    "OK: every address of 172.16.64.0/24 leaves through eth0, or is this host's own",
    "For 172.16.64.9, the kernel now answers: dev eth0",
    "4. All of this was undone: ",
]


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.parametrize(
    ("before", "place"),
    [
        ([], "It is in a private network namespace"),
        # Another user could not read root's files: this is root without its rights.
        (["setpriv", "--bounding-set=-all", "--inh-caps=-all"], "This is a fake host: a namespace"),
    ],
)
def test_the_demonstration(before: list[str], place: str, tmp_path: Path) -> None:
    """The failure, the repair and the proof, on Linux or, without root's rights, on a fake host."""
    tmp_path.chmod(0o777)
    devices = sorted(os.listdir("/sys/class/net"))
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "TMPDIR": str(tmp_path),
        "LC_ALL": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    demo = [sys.executable, "-W", "error", str(EXAMPLES / "demo.py")]
    done = completed([*before, *demo], env=environment)
    assert done.stderr == ""
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []
    assert sorted(os.listdir("/sys/class/net")) == devices
    lines = iter(done.stdout.splitlines())
    for beginning in [place, *STORY]:
        assert any(line.startswith(beginning) for line in lines), beginning
