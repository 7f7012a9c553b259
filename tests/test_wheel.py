"""The sdist and the wheel that users install: nothing is missing, nothing else is in them, and the tests pass on the wheel."""

import email
import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.message import Message
from pathlib import Path

import pytest

import hostrouting
from tests.support.examples import LONG
from tests.support.package_hook import addresses, readme_elsewhere, repository_of
from tests.support.programs import completed
from tests.support.published import ROOT, build, copy_checkout

META = f"hostrouting-{hostrouting.__version__}.dist-info/"


@pytest.fixture(scope="module")
def wheel(published: dict[str, Path]) -> Path:
    """The wheel."""
    return published[".whl"]


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    """The metadata of the wheel."""
    return email.message_from_bytes(zipfile.ZipFile(wheel).read(f"{META}METADATA"))


@pytest.mark.nightly
@pytest.mark.linux
def test_contents(wheel: Path) -> None:
    """Each file of the two packages is in the wheel, and nothing else but metadata."""
    archive = zipfile.ZipFile(wheel)
    packed = set(archive.namelist())
    ours = {
        str(path.relative_to(ROOT))
        for package in ("hostrouting", "phases")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in packed if not name.startswith(META)} == ours
    assert {"hostrouting/py.typed", "phases/py.typed"} <= ours


@pytest.mark.nightly
@pytest.mark.linux
def test_sdist(published: dict[str, Path], tmp_path: Path) -> None:
    """The sdist has every file of the repository, and the wheel that is built from it is the same."""
    subprocess.run(["tar", "-xzf", str(published[".gz"]), "-C", str(tmp_path)], check=True)
    [source] = tmp_path.iterdir()
    packed, present = (
        {str(path.relative_to(top)) for path in top.rglob("*") if path.is_file()}
        for top in (source, copy_checkout(tmp_path / "copy"))
    )
    listed = ["git", "-c", "safe.directory=*", "ls-files"]
    done = completed(listed, cwd=ROOT)
    tracked = present if done.returncode else set(done.stdout.splitlines())  # an unpacked sdist has no git
    assert tracked <= packed <= present | {"PKG-INFO"}
    assert build(source, only_wheel=True)[".whl"].read_bytes() == published[".whl"].read_bytes()


@pytest.mark.nightly
@pytest.mark.linux
def test_the_same_bytes(published: dict[str, Path], tmp_path: Path) -> None:
    """Another directory, umask, day, locale, time zone and order of sets: what is built is the same, byte for byte."""
    source = copy_checkout(tmp_path / "a directory of another length", closed=True)
    again = build(source, TZ="Asia/Kolkata", LC_ALL="C", PYTHONHASHSEED="7", HOME="/nonexistent")
    assert set(published) == {".whl", ".gz", ".pyz", ".deb"}
    assert {end: path.read_bytes() == published[end].read_bytes() for end, path in again.items()} == dict.fromkeys(
        published, True
    )


@pytest.mark.nightly
@pytest.mark.linux
def test_metadata(metadata: Message) -> None:
    """The metadata says licence, Python version, dependencies and extras."""
    found = metadata
    assert (found["Name"], found["License-Expression"], found["Requires-Python"]) == ("hostrouting", "MIT", ">=3.10")
    required = found.get_all("Requires-Dist") or []
    assert [line for line in required if "extra ==" not in line] == [
        "attrs>=23.2",
        "exceptiongroup>=1.2; python_version < '3.11'",
        "pyroute2<0.10,>=0.9.7",
    ]
    assert found.get_all("Provides-Extra") == ["docs", "fuzz", "release", "test", "testing", "tty"]
    kits = [line.partition(";")[0] for line in required if line.endswith("extra == 'testing'")]
    assert [re.split("[<>=]", line)[0] for line in kits] == ["pytest"]


@pytest.mark.nightly
@pytest.mark.linux
def test_page_of_an_index(metadata: Message) -> None:
    """The page of an index is the README, and no link on it leads nowhere."""
    assert metadata["Description-Content-Type"] == "text/markdown"
    page = str(metadata.get_payload())
    assert page.startswith("# hostrouting\n")
    assert not re.findall(r"\]\((?!https://)", page)
    assert dict(line.split(", ", 1) for line in metadata.get_all("Project-URL") or []) == addresses(
        repository_of(ROOT), hostrouting.__version__
    )


def test_links_elsewhere() -> None:
    """With an address, each link of the README leads to the file in the repository; without one, it is only its text.

    A picture is fetched from there, and not its page; without an address, there is none.
    """
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    here = re.findall(r"(!?)\[[^\]]+\]\(([^)]+)\)", text)
    assert len(here) > 20
    assert here[0][0] == "!"
    there = re.findall(r"!?\[[^\]]+\]\(([^)]+)\)", readme_elsewhere(text, "https://example.org/h", "1.2"))
    assert there == [f"https://example.org/h/{'raw' if mark else 'blob'}/v1.2/{path}" for mark, path in here]
    assert readme_elsewhere("# h\n\n![a route](docs/a.svg)\n\nA [b](c.md).\n", "", "1") == "# h\n\nA b.\n"
    assert (
        readme_elsewhere("see [the\nguard](docs/a.md#b), [x](https://y.z)", "", "1")
        == "see the\nguard, [x](https://y.z)"
    )
    for address in addresses("https://example.org/h", "1.2").values():
        path = address.removeprefix("https://example.org/h").partition("/blob/v1.2/")[2]
        assert (ROOT / path).exists()
    assert addresses("", "1.2") == {}


@pytest.mark.parametrize("line", ["", 'repository = "git@example.org:h"', 'repository = "https://example.org/"'])
def test_an_address_with_a_fault(line: str, tmp_path: Path) -> None:
    """An address that is missing, or not one of a page, is refused, with what to write."""
    (tmp_path / "pyproject.toml").write_text(f"[tool.hostrouting]\n# It is here.\n{line}\n")
    with pytest.raises(ValueError, match=r"pyproject.toml: \[tool.hostrouting\] must have one line with the address"):
        repository_of(tmp_path)


@pytest.mark.nightly
@pytest.mark.linux
def test_commands(wheel: Path) -> None:
    """The wheel brings the command `hostrouting`."""
    archive = zipfile.ZipFile(wheel)
    lines = archive.read(f"{META}entry_points.txt").decode().split("\n")
    assert lines[:2] == ["[console_scripts]", "hostrouting = hostrouting.cli:run"]


@pytest.mark.nightly
@pytest.mark.linux
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
    some = ["phases/test_running.py", "hostrouting/tasks/test_configure.py"]
    some = [
        "test_where.py",
        *(["phases", "hostrouting/tasks", "hostrouting/boot/test_boot_files.py"] if LONG else some),
    ]
    unit_tests = ["-m", "unit", *(f"tests/{it}" for it in some)]
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
