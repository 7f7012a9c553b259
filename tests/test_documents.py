"""The README's blocks and the examples: all of them run."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import hostrouting

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def python(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run the interpreter of the tests with warnings as errors."""
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.processes
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[-1][:40])
def test_readme_block(block: str, tmp_path: Path) -> None:
    """Each Python block of the README runs as it stands, away from the repository."""
    done = python("-c", block, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_there_are_blocks() -> None:
    """The blocks are found."""
    assert len(BLOCKS) >= 2


def test_files_that_the_readme_names_are_there() -> None:
    """Every file that the README names exists."""
    for name in re.findall(r"`((?:tests|examples)/[\w/.]+)`", README) + re.findall(r"\]\((?!http)([^)]+)\)", README):
        assert (ROOT / name).exists(), name


def test_make_targets_are_those_of_the_readme() -> None:
    """Every make target that the README names is in the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make (\w+)", README):
        assert f"\n{target}:" in makefile, target


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_every_example_says_what_it_shows(path: Path) -> None:
    """An example begins with what it shows, and importing it does nothing."""
    assert (runpy.run_path(str(path)).get("__doc__") or "").strip()


@pytest.mark.processes
def test_the_output_in_the_readme() -> None:
    """What the README shows of the example is what it prints, but for the times."""
    done = python("examples/bootstrap.py")
    assert done.returncode == 0, done.stderr
    shown = README.split("<!-- the output of examples/bootstrap.py -->\n```text\n")[1].split("```")[0]
    printed, in_readme = (re.sub(r" +(\d+ (ms|µs)|\d\.\d\d s)", "", text) for text in (done.stdout, shown))
    assert printed == in_readme


def test_changelog_has_this_version() -> None:
    """The CHANGELOG has an entry for the version that the package has."""
    assert f"\n## {hostrouting.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
