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
from tests.support.needs import require

ROOT = Path(__file__).resolve().parents[1]

pytestmark = [pytest.mark.linux, pytest.mark.needs("make")]


def make_file(folder: Path) -> Path:
    """Have make build the file in this folder."""
    venv = os.path.relpath(sys.prefix, ROOT)  # make takes no file with a space in its name
    ready = f"--old-file={venv}/ready"  # this environment is as it is
    words = ["make", "pyz", ready, f"VENV={venv}", f"DIST={folder}"]
    subprocess.run(words, cwd=ROOT, check=True, timeout=300)
    return folder / "hostrouting.pyz"


def test_the_single_file(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """It is made once, because that takes longer than each of these."""
    file = make_file(tmp_path)
    for check in (
        works_with_the_standard_library_alone,
        is_compiled,
        has_only_what_commands_load,
        prepares_an_image,
    ):
        with subtests.test(check.__name__):
            check(file)


def command(file: Path) -> list[str]:
    """The words that run the file with the standard library alone."""
    return [sys.executable, "-I", "-S", str(file)]


def verdict(file: Path) -> str:
    """What it answers about a snapshot."""
    saved = h200().snapshot().to_json()
    check = [*command(file), "check", "--snapshot", "-", "172.16.0.0/16", "--json"]
    done = subprocess.run(
        check, input=saved, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    assert done.returncode == 1
    return str(json.loads(done.stdout)["verdict"])


def works_with_the_standard_library_alone(file: Path) -> None:
    """It judges a snapshot."""
    assert file.stat().st_mode & 0o555 == 0o555  # any user may run a check
    assert verdict(file) == "overlap"


def is_compiled(file: Path) -> None:
    """The Python that built it reads no source; another one, which passes over what it cannot
    read, does.
    """
    other = file.with_name("other.pyz")
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(other, "w") as changed:
        names = archive.namelist()
        for name in names:
            content = archive.read(name)
            if name.endswith(".pyc"):
                content = b"\0\0\r\n" + content[4:]  # no version begins its files like this
            changed.writestr(name, content)
    sources = [name for name in names if name.endswith(".py")]
    assert [name for name in sources if f"{name}c" not in names] == []
    for path, suffix in ((file, ".pyc"), (other, ".py")):
        inside = zipimport.zipimporter(f"{path}/hostrouting/cli")
        assert inside.get_filename("parser").endswith(f"parser{suffix}")
    assert verdict(other) == "overlap"


def has_only_what_commands_load(file: Path) -> None:
    """That is hostrouting without its test kits, phases and attrs."""
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
    packed = {name.split("/")[0].split("-")[0] for name in names}
    assert packed == {"__main__.py", "__main__.pyc", "hostrouting", "phases", "attr", "attrs"}
    assert [name for name in names if "testing" in name or "pyroute2" in name] == []


def prepares_an_image(file: Path) -> None:
    """It writes the boot scripts, which it reads from the archive."""
    require("root")
    folder = file.parent
    settings = {"staticRoutes": {"enabled": True, "routes": [{"destination": "10.77.0.0/16"}]}}
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "image/etc").mkdir(parents=True)
    words = ["render", "--config", "config.json", "--root", "image"]
    subprocess.run([*command(file), *words], cwd=folder, check=True, timeout=60)
    gate = folder / "image/etc/hostrouting/gate.sh"
    assert gate.read_text() == render_gate_script(required=["10-static-routes"], wanted=[])
