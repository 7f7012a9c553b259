"""hostrouting.pyz: one file to copy to a node that has Python and nothing else."""

import json
import os
import subprocess
import sys
import zipfile
import zipimport
from pathlib import Path

import pytest

from hostrouting.boot.scripts import render_gate_script
from hostrouting.testing import h200

ROOT = Path(__file__).resolve().parents[1]


def built(folder: Path) -> list[str]:
    """The file, made in this folder; the words that run it with the standard library alone."""
    venv = os.path.relpath(sys.prefix, ROOT)  # make takes no file with a space in its name
    ready = f"--old-file={venv}/ready"  # this environment is as it is
    words = ["make", "pyz", ready, f"VENV={venv}", f"DIST={folder}"]
    subprocess.run(words, cwd=ROOT, check=True, timeout=300)
    return [sys.executable, "-I", "-S", str(folder / "hostrouting.pyz")]


def verdict(program: list[str]) -> str:
    """What it answers about a snapshot."""
    saved = h200().snapshot().to_json()
    check = [*program, "check", "--snapshot", "-", "172.16.0.0/16", "--json"]
    done = subprocess.run(
        check, input=saved, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (1, "")
    return str(json.loads(done.stdout)["verdict"])


@pytest.mark.linux
@pytest.mark.needs("make")
def test_the_single_file_works_with_the_standard_library_alone(tmp_path: Path) -> None:
    """It judges a snapshot."""
    program = built(tmp_path)
    assert (
        tmp_path / "hostrouting.pyz"
    ).stat().st_mode & 0o555 == 0o555  # any user may run a check
    assert verdict(program) == "overlap"


@pytest.mark.linux
@pytest.mark.needs("make")
def test_the_single_file_is_compiled(tmp_path: Path) -> None:
    """The Python that built it reads no source; another one, which passes over what it cannot
    read, does.
    """
    *interpreter, file = built(tmp_path)
    other = tmp_path / "other.pyz"
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(other, "w") as changed:
        names = archive.namelist()
        for name in names:
            content = archive.read(name)
            if name.endswith(".pyc"):
                content = b"\0\0\r\n" + content[4:]  # no version begins its files like this
            changed.writestr(name, content)
    sources = [name for name in names if name.endswith(".py")]
    assert [name for name in sources if f"{name}c" not in names] == []
    for path, suffix in ((file, ".pyc"), (str(other), ".py")):
        inside = zipimport.zipimporter(f"{path}/hostrouting/cli")
        assert inside.get_filename("parser").endswith(f"parser{suffix}")
    assert verdict([*interpreter, str(other)]) == "overlap"


@pytest.mark.linux
@pytest.mark.needs("make")
def test_the_single_file_has_only_what_commands_load(tmp_path: Path) -> None:
    """That is hostrouting without its test kits, phases and attrs."""
    *_, file = built(tmp_path)
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {
        *("__main__.py", "__main__.pyc", "hostrouting", "phases", "attr", "attrs")
    }
    assert [name for name in names if "testing" in name or "pyroute2" in name] == []


@pytest.mark.linux
@pytest.mark.needs("make", "root")
def test_the_single_file_prepares_an_image(tmp_path: Path) -> None:
    """It writes the boot scripts, which it reads from the archive."""
    program = built(tmp_path)
    settings = {"staticRoutes": {"enabled": True, "routes": [{"destination": "10.77.0.0/16"}]}}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    (tmp_path / "image/etc").mkdir(parents=True)
    words = ["render", "--config", "config.json", "--root", "image"]
    subprocess.run([*program, *words], cwd=tmp_path, check=True, timeout=60)
    gate = tmp_path / "image/etc/hostrouting/gate.sh"
    assert gate.read_text() == render_gate_script(["10-static-routes"], [])
