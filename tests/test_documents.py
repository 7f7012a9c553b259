"""The README: its blocks run, its outputs are what is printed, its files are there. And every example runs.

Its tables have a file of their own, test_reference.py.
"""

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
    assert len(BLOCKS) >= 7


@pytest.mark.processes
def test_tests_in_the_readme(tmp_path: Path) -> None:
    """What the README shows as tests passes as a reader's own, with the plugin switched on as it says."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["hostrouting.testing.plugin"]\n')
    shown = [block for block in BLOCKS if re.search(r"^ *def test_|^class Test", block, re.MULTILINE)]
    for number, block in enumerate(shown):
        (tmp_path / f"test_{number}.py").write_text(block)
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert len(shown) == 2


def test_files_that_the_readme_names_are_there() -> None:
    """Every file that the README names exists."""
    for name in re.findall(r"`((?:tests|examples)/[\w/.]+)`", README) + re.findall(r"\]\((?!http|#)([^)]+)\)", README):
        assert (ROOT / name).exists(), name
    for name in re.findall(r"`(test_\w+\.py)`", README):
        assert list((ROOT / "tests").rglob(name)), name


def test_links_within_the_readme() -> None:
    """Every link to a section leads to one."""
    headings = re.findall(r"^##+ (.*)$", README, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", README)) <= anchors


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
def test_locale_of_the_suite() -> None:
    """Whatever the locale of whoever runs the tests, programs that a test starts speak UTF-8, and the test hears it."""
    show = "import sys; from hostrouting.cli.terminal import Terminal; print(Terminal().style.unicode, '→')"
    assert python("-c", show).stdout == "True →\n"


def masked(text: str) -> list[str]:
    """The lines of an output, but for the times."""
    return [re.sub(r" +(\d+ (ms|µs)|\d\.\d\d s)", "", line) for line in text.strip().splitlines()]


def shown_after(comment: str) -> str:
    """The block of text that follows a comment of the README."""
    return README.split(f"<!-- {comment}", maxsplit=1)[1].split("```text\n")[1].split("```")[0]


@pytest.mark.processes
def test_output_of_the_agent() -> None:
    """What the README shows of its ten-line agent is what it prints, but for the times; and it has ten lines."""
    [agent] = [block for block in BLOCKS if "raise SystemExit" in block]
    done = python("-c", agent)
    assert done.returncode == 0, done.stderr
    assert masked(shown_after("its output")) == masked(done.stdout)
    assert len([line for line in agent.splitlines() if line and "import" not in line]) <= 10


@pytest.mark.processes
def test_output_of_the_demo() -> None:
    """What the README shows of the demo is what it prints, but for the times and for what it leaves out."""
    done = python("examples/demo.py")
    assert done.returncode == 0, done.stderr
    printed, at = masked(done.stdout), 0
    for part in shown_after("the output of examples/demo.py").split("\n…\n"):
        lines = masked(part)
        at = next((n for n in range(at, len(printed)) if printed[n : n + len(lines)] == lines), -1)
        assert at >= 0, part
        at += len(lines)


def test_changelog_has_this_version() -> None:
    """The CHANGELOG has an entry for the version that the package has."""
    assert f"\n## {hostrouting.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
