"""The wheel that users install: nothing is missing from it, nothing else is in it, and the tests pass on it."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import hostrouting
from tests.support.examples import LONG

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the files of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    # Written by way of a copy, so that nothing that happens to lie about in the checkout's root gets in.
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE", "hostrouting", "phases"):
        origin = ROOT / name
        if origin.is_dir():
            shutil.copytree(origin, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(origin, source / name)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=source,
        check=True,
        capture_output=True,
    )
    [built] = folder.glob("*.whl")
    return built


@pytest.mark.processes
def test_contents(wheel: Path) -> None:
    """Each file of the two packages is in the wheel, those of `share` also as data, and nothing else but metadata."""
    packed = set(zipfile.ZipFile(wheel).namelist())
    meta = f"hostrouting-{hostrouting.__version__}.dist-info/"
    ours = {
        str(path.relative_to(ROOT))
        for package in ("hostrouting", "phases")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    data = f"hostrouting-{hostrouting.__version__}.data/data/"
    shared = {f"{data}{name.removeprefix('hostrouting/cli/')}" for name in ours if "/share/" in name}
    assert {name for name in packed if not name.startswith(meta)} == ours | shared
    assert f"{data}share/man/man1/hostrouting.1" in shared
    assert {"hostrouting/py.typed", "phases/py.typed"} <= ours


@pytest.mark.processes
def test_metadata(wheel: Path) -> None:
    """The metadata says licence, Python version, dependencies and extras."""
    archive = zipfile.ZipFile(wheel)
    [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
    found = email.message_from_bytes(archive.read(name))
    assert (found["Name"], found["License-Expression"], found["Requires-Python"]) == ("hostrouting", "MIT", ">=3.10")
    required = found.get_all("Requires-Dist") or []
    assert [line for line in required if "extra ==" not in line] == [
        "attrs>=23.2",
        "exceptiongroup>=1.2; python_version < '3.11'",
        "pyroute2<0.10,>=0.9.7",
    ]
    assert found.get_all("Provides-Extra") == ["docs", "test", "tty"]


@pytest.mark.processes
def test_commands(wheel: Path) -> None:
    """The wheel brings the command `hostrouting`."""
    archive = zipfile.ZipFile(wheel)
    [name] = [name for name in archive.namelist() if name.endswith("/entry_points.txt")]
    assert archive.read(name).decode().split("\n")[:2] == ["[console_scripts]", "hostrouting = hostrouting.cli:main"]


@pytest.mark.processes
def test_the_tests_pass_on_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """The runner, the tasks and what they write pass their tests on the unpacked wheel, and not on the checkout."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tests" / "test_where.py").write_text(
        "import hostrouting, phases\n"
        "def test_where():\n"
        f"    assert hostrouting.__file__.startswith({str(tmp_path / 'site')!r})\n"
        f"    assert phases.__file__.startswith({str(tmp_path / 'site')!r})\n",
        encoding="utf-8",
    )
    some = ["phases/test_execution.py", "hostrouting/tasks/test_configure.py"]
    some = ["test_where.py", *(["phases", "hostrouting/tasks", "hostrouting/test_render.py"] if LONG else some)]
    unit_tests = ["-m", "not processes", *(f"tests/{it}" for it in some)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *unit_tests],
        cwd=tmp_path,
        # What does not work in a wheel shows with few examples as well as with many.
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site"), "HYPOTHESIS_PROFILE": "quick"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
