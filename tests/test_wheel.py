"""The wheel has all that users install."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hostrouting.cli.parser import COMMANDS, command_of

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.linux
def test_the_wheel_is_complete(tmp_path: Path) -> None:
    """Each file of the two packages is in the wheel, and it brings the command `hostrouting` with a
    manual page, which has each command with its options.
    """
    words = ["hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, check=True, capture_output=True, timeout=300
    )
    [path] = tmp_path.iterdir()
    with zipfile.ZipFile(path) as wheel:
        packed = {name for name in wheel.namelist() if not re.search(r"\.(dist-info|data)/", name)}
        [commands] = [
            wheel.read(name).decode()
            for name in wheel.namelist()
            if name.endswith("/entry_points.txt")
        ]
        [manual] = [name for name in wheel.namelist() if ".data/" in name]
        page = wheel.read(manual).decode()
    assert manual.endswith(".data/data/share/man/man1/hostrouting.1")
    assert page.startswith('.TH HOSTROUTING "1" ')
    for name, (_, arguments) in COMMANDS.items():
        _, _, section = page.partition(f"'hostrouting {name}'")
        options, _, _ = section.partition(".SH COMMAND")
        assert (command_of(name).__doc__ or "").split()[-1] in options
        for argument in arguments:
            assert argument.replace("-", r"\-") in options or not argument.startswith("-"), name
    files: set[str] = set()
    for path in [*(ROOT / "hostrouting").rglob("*"), *(ROOT / "phases").rglob("*")]:
        if path.is_file() and "__pycache__" not in path.parts:
            files.add(str(path.relative_to(ROOT)))
    assert packed == files
    assert commands.split("\n")[:2] == [
        "[console_scripts]",
        "hostrouting = hostrouting.__main__:run",
    ]
