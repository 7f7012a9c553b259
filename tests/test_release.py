"""`make dist`: what is released is the same bytes each time, and complete;
tests/hostrouting/boot/test_program.py has what is in hostrouting.pyz.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from hostrouting.boot.program import sources_of_program
from hostrouting.cli.parser import COMMANDS, module_of
from hostrouting.release import __version__
from hostrouting.testing import h200
from tests.support.programs import completed

ROOT = Path(__file__).resolve().parents[1]
AT = "1700000000"
PINNED = (ROOT / ".github/release/requirements.txt").read_text(encoding="utf-8")


def build(folder: Path, dist: Path, **environment: str) -> None:
    """Make the release of this folder. The environment of the tests has what that needs."""
    venv = os.path.relpath(sys.prefix, folder)  # make takes no file with a space in its name
    words = ["make", "dist", f"--old-file={venv}/ready", f"RELEASE={venv}", f"DIST={dist}"]
    env = os.environ | {"SOURCE_DATE_EPOCH": AT} | environment
    subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=300, env=env)


@pytest.mark.linux
@pytest.mark.freezes
@pytest.mark.needs("make", "dpkg-deb")
def test_a_release(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """The sdist alone gives the same release, in another folder, time zone and umask."""
    dist = tmp_path / "dist"
    build(ROOT, dist)
    with tarfile.open(dist / f"hostrouting-{__version__}.tar.gz") as sdist:
        sdist.extractall(tmp_path, filter="data")
    again = tmp_path / "again"
    umask = os.umask(0o077)
    try:
        build(tmp_path / f"hostrouting-{__version__}", again, TZ="Asia/Tokyo", PYTHONHASHSEED="1")
    finally:
        os.umask(umask)
    made = {path.name: path.read_bytes() for path in dist.iterdir()}
    differ = [path.name for path in again.iterdir() if made.pop(path.name) != path.read_bytes()]
    assert (differ, made) == ([], {})

    for part in (the_sums, the_wheel, the_single_file, the_bill_of_materials, the_package):
        with subtests.test(part.__name__):
            part(dist)


def the_sums(dist: Path) -> None:
    done = completed(["sha256sum", "--check", "SHA256SUMS"], cwd=dist)
    checked = {line.partition(":")[0] for line in done.stdout.splitlines()}
    assert done.returncode == 0
    assert {*checked, "SHA256SUMS"} == {path.name for path in dist.iterdir()}


def the_wheel(dist: Path) -> None:
    """It has each file of the packages, and a manual page with the options of each command."""
    [path] = dist.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        packed = {name for name in names if not re.search(r"\.(dist-info|data)/", name)}
        [entry_points] = [name for name in names if name.endswith("/entry_points.txt")]
        commands = wheel.read(entry_points).decode().splitlines()
        [manual] = [name for name in names if ".data/" in name]
        page = wheel.read(manual).decode()
    assert manual.endswith(".data/data/share/man/man1/hostrouting.1")
    assert page.startswith('.TH HOSTROUTING "1" "2023\\-11\\-14" ')
    for name, (_, arguments) in COMMANDS.items():
        _, _, section = page.partition(f"'hostrouting {name}'")
        options, _, _ = section.partition(".SH COMMAND")
        assert (module_of(name).__doc__ or "").split()[-1] in options
        for argument in arguments:
            assert argument.replace("-", r"\-") in options or not argument.startswith("-"), name
    files: set[str] = set()
    for path in [*(ROOT / "hostrouting").rglob("*"), *(ROOT / "phases").rglob("*")]:
        if path.is_file() and "__pycache__" not in path.parts:
            files.add(str(path.relative_to(ROOT)))
    assert packed == files
    assert commands[:2] == ["[console_scripts]", "hostrouting = hostrouting.__main__:run"]


def the_single_file(dist: Path) -> None:
    """It has each source, and what this Python compiles of it. Any user can call it by name."""
    file = dist / "hostrouting.pyz"
    with zipfile.ZipFile(file) as archive:
        assert {*archive.namelist()} == {
            path for name in sources_of_program() for path in (name, f"{name}c")
        }
    assert file.stat().st_mode & 0o777 == 0o755
    folder = os.path.dirname(sys.executable)  # where `env` finds a python3
    check = [str(file), "check", "--snapshot", "-", "172.16.0.0/16"]
    done = completed(check, cwd="/", input=h200().snapshot().to_json(), env={"PATH": folder})
    assert done.stderr == ""
    assert done.returncode == 1
    assert "172.16.0.0/16 leaves through ib0" in done.stdout
    assert f"  {file} repair 172.16.0.0/16 | {file} apply --config -\n" in done.stdout
    other = dist / "python3.99"  # the python3 of PATH may be too old
    other.symlink_to(os.path.realpath(sys.executable))
    done = completed([str(other), *check], cwd="/", input=h200().snapshot().to_json())
    other.unlink()
    assert f"  {other} {file} repair 172.16.0.0/16 | {other} {file} apply" in done.stdout


def the_bill_of_materials(dist: Path) -> None:
    """It is valid, and names what hostrouting.pyz contains beside hostrouting: attrs."""
    text = (dist / "hostrouting.cdx.json").read_text(encoding="utf-8")
    # To import it takes two seconds, which all tests would wait for.
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    [component] = bill["components"]
    assert component["name"] == "attrs"
    assert component["version"] == version("attrs")
    assert component["licenses"] == [{"license": {"id": "MIT"}}]
    [digest] = bill["metadata"]["component"]["hashes"]
    assert f"{digest['content']}  hostrouting.pyz\n" in (dist / "SHA256SUMS").read_text()


def the_package(dist: Path) -> None:
    """The .deb has the same hostrouting.pyz, no script, and no file of a configuration."""
    [path] = dist.glob("*.deb")
    tree = dist.parent / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", path, tree], check=True)
    lib = tree / "usr/lib/hostrouting/hostrouting.pyz"
    assert lib.read_bytes() == (dist / "hostrouting.pyz").read_bytes()
    command = tree / "usr/bin/hostrouting"
    assert command.resolve() == lib
    assert {path.name for path in (tree / "DEBIAN").iterdir()} == {"control", "md5sums"}
    assert {path.name for path in tree.iterdir()} == {"DEBIAN", "usr"}
    done = completed([sys.executable, command, "status"])
    assert "hostrouting check CIDR" in done.stdout


def test_what_makes_it_is_pinned() -> None:
    """The hashes are those of the versions in pyproject.toml."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    [extra] = re.findall(r"^release = \[(.*)\]$", project, re.MULTILINE)
    for pinned in re.findall(r'"([^"]+)"', extra):
        assert f"\n{pinned} \\\n    --hash=sha256:" in PINNED
    assert len(re.findall(r"^\S+==\S+ \\$", PINNED, re.MULTILINE)) == PINNED.count("# via")
