"""`make pyz`: the program of a node as one file to copy; tests/hostrouting/boot/test_program.py has
what is in it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostrouting.testing import h200
from tests.support.compiled import compiled_program
from tests.support.programs import completed

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.linux
@pytest.mark.needs("make")
def test_the_single_file(tmp_path: Path) -> None:
    """It is what `apply` would put on a node with this Python, and any user can call it by name."""
    venv = os.path.relpath(sys.prefix, ROOT)  # make takes no file with a space in its name
    ready = f"--old-file={venv}/ready"  # this environment is as it is
    words = ["make", "pyz", ready, f"VENV={venv}", f"DIST={tmp_path}"]
    subprocess.run(words, cwd=ROOT, check=True, timeout=300)

    file = tmp_path / "hostrouting.pyz"
    assert file.read_bytes() == compiled_program(sys.executable)
    assert file.stat().st_mode & 0o777 == 0o755
    folder = os.path.dirname(sys.executable)  # where `env` finds a python3
    check = [str(file), "check", "--snapshot", "-", "172.16.0.0/16"]
    done = completed(check, cwd="/", input=h200().snapshot().to_json(), env={"PATH": folder})
    assert done.stderr == ""
    assert done.returncode == 1
    assert "172.16.0.0/16 leaves through ib0" in done.stdout
    assert f"  {file} repair 172.16.0.0/16 | {file} apply --config -\n" in done.stdout
    other = tmp_path / "python3.99"  # the python3 of PATH may be too old
    other.symlink_to(os.path.realpath(sys.executable))
    done = completed([str(other), *check], cwd="/", input=h200().snapshot().to_json())
    assert f"  {other} {file} repair 172.16.0.0/16 | {other} {file} apply" in done.stdout
