"""hostrouting.pyz: one file to copy to a node that has Python and nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostrouting.boot.scripts import render_gate_script
from hostrouting.testing import h200

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.linux
@pytest.mark.needs("make")
def test_the_single_file_works_with_the_standard_library_alone(tmp_path: Path) -> None:
    """It judges a snapshot, and writes the boot scripts, which it reads from the archive."""
    venv = os.path.relpath(sys.prefix, ROOT)  # make takes no file with a space in its name
    ready = f"--old-file={venv}/ready"  # this environment is as it is
    words = ["make", "pyz", ready, f"VENV={venv}", f"DIST={tmp_path}"]
    subprocess.run(words, cwd=ROOT, check=True, timeout=300)
    assert (tmp_path / "hostrouting.pyz").stat().st_mode & 0o555 == 0o555  # any user may run a check
    program = [sys.executable, "-I", "-S", str(tmp_path / "hostrouting.pyz")]
    saved = h200().snapshot().to_json()
    check = [*program, "check", "--snapshot", "-", "172.16.0.0/16", "--json"]
    done = subprocess.run(check, input=saved, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["verdict"] == "overlap"
    (tmp_path / "config.json").write_text(
        '{"staticRoutes": {"enabled": true, "routes": [{"destination": "10.77.0.0/16"}]}}'
    )
    (tmp_path / "image/etc").mkdir(parents=True)
    subprocess.run(
        [*program, "render", "--config", "config.json", "--root", "image"], cwd=tmp_path, check=True, timeout=60
    )
    gate = tmp_path / "image/etc/hostrouting/gate.sh"
    assert gate.read_text() == render_gate_script(["10-static-routes"], [])
