"""The README and the pages of docs: blocks run, outputs are what is printed, links lead somewhere. Every example runs.

Their tables have a file of their own, test_reference.py, and so have the messages, test_messages.py.
"""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import hostrouting
import phases
from hostrouting import HostRoutingConfig
from hostrouting.cli.commands import COMMANDS
from hostrouting.cli.entry_point import make_parser
from tests.support.pages import BLOCK, PAGES, ROOT
from tests.support.programs import completed

README = PAGES["README.md"]
BLOCKS = {
    f"{name}:{text[: match.start()].count(chr(10)) + 1}": (match[1], match[2])
    for name, text in PAGES.items()
    for match in BLOCK.finditer(text)
}
"""Every block of every page, by page and line: its language and its text."""
PYTHON = {at: text for at, (language, text) in BLOCKS.items() if language == "python"}
TESTS = {at: text for at, text in PYTHON.items() if re.search(r"^ *def test_|^class Test", text, re.MULTILINE)}
PROGRAMS = {at: text for at, text in PYTHON.items() if at not in TESTS}
SHOWN = re.findall(r"^```text\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
"""The outputs in the README: of the demo, with … where something is left out, and of the agent."""
SVG = "{http://www.w3.org/2000/svg}"
every_page = pytest.mark.parametrize("name", PAGES)


def python(*arguments: str, cwd: Path = ROOT, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run the interpreter of the tests with warnings as errors."""
    return completed([sys.executable, "-W", "error", *arguments], cwd=cwd, input=given)


@pytest.mark.linux
def test_every_block_runs(tmp_path: Path) -> None:
    """Each Python block of each page, except for the tests, runs as it is, away from the repository.

    The README's agent has ten lines, and prints what is shown below it; only the times may differ.
    """
    done = python(str(ROOT / "tests/support/run_blocks.py"), cwd=tmp_path, given=json.dumps(PROGRAMS))
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert not {at: it["failure"] for at, it in outcomes.items() if it["failure"]}
    [(at, agent)] = [(at, block) for at, block in PROGRAMS.items() if "raise SystemExit" in block]
    assert masked(SHOWN[1]) == masked(outcomes[at]["printed"])
    assert len([line for line in agent.splitlines() if line and "import" not in line]) <= 10


def test_there_are_blocks() -> None:
    """The blocks are found."""
    assert len(PYTHON) >= 8
    assert len(BLOCKS) >= 30


@pytest.mark.linux
def test_tests_on_the_pages(tmp_path: Path) -> None:
    """What a page shows as tests passes as a reader's own, with the plugin switched on as it says."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["hostrouting.testing.plugin"]\n')
    for number, block in enumerate(TESTS.values()):
        (tmp_path / f"test_{number}.py").write_text(block)
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert len(TESTS) == 3


def test_shown_configurations() -> None:
    """Each JSON block is a configuration."""
    shown = [text for language, text in BLOCKS.values() if language == "json"]
    assert len(shown) == 7
    for text in shown:
        HostRoutingConfig.from_json(text)


@every_page
def test_shown_commands(name: str) -> None:
    """Each command that a page names is there, and each whole command line that it shows is understood."""
    text, names = PAGES[name], set(COMMANDS)
    typed = re.findall(r"`(?:ssh node )?hostrouting ([a-z][^`>|]*?)(?: [>|][^`]*)?`", text)
    for block in (block for _, block in BLOCK.findall(text)):
        typed += re.findall(r"^\$ (?:\S*/|ssh node )?hostrouting ([^#>|\n]+)", block, re.MULTILINE)
    for words in map(str.split, typed):
        assert words[0] in names
        if len(words) > 1 and not {"ADDRESS", "FILE"} & set(words):
            make_parser("0").parse_args(words)


@every_page
def test_links(name: str) -> None:
    """Each link leads to a file that is there, and to a heading that it has; each test that is named exists."""
    text, folder = PAGES[name], (ROOT / name).parent
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        there = (folder / path).resolve() if path else ROOT / name
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there.read_text(encoding="utf-8")), target
    for path in re.findall(r"`((?:tests|examples|hostrouting|phases)/[\w/]+\.py)`", text):
        assert (ROOT / path).exists(), path
    for test in re.findall(r"`(test_\w+\.py)`", text):
        assert list((ROOT / "tests").rglob(test)), test


def anchors(text: str) -> set[str]:
    """The names by which the headings of a page are linked to."""
    headings = re.findall(r"^##+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_on_the_site() -> None:
    """Each page has its place in the site's navigation."""
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {name.removeprefix("docs/") for name in PAGES if name.startswith("docs/")}
    assert set(re.findall(r"[\w-]+\.md", navigation)) == pages | {"index.md"}


def test_the_readme_is_short() -> None:
    """The README is read in one go: what is longer has a page of its own."""
    assert len(README.splitlines()) <= 100


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "docs").glob("*.svg")))
def test_pictures(name: str) -> None:
    """A picture is well-formed, without which browsers show nothing; a page has it, and its description tells all that it shows."""
    assert any(re.search(rf"!\[[^\]]+\]\((docs/)?{name}\)", text) for text in PAGES.values())
    picture = ET.fromstring((ROOT / "docs" / name).read_text(encoding="utf-8"))  # noqa: S314  our own file
    assert picture.findtext(f"{SVG}title")
    assert "prefers-color-scheme: dark" in (picture.findtext(f"{SVG}style") or "")
    told = " ".join((picture.findtext(f"{SVG}desc") or "").split())
    codes = [it.text or "" for it in picture.iter() if "code" in it.get("class", "").split()]
    assert len(codes) >= 5
    assert [code for code in codes if code not in told] == []


def test_the_tree_of_a_run() -> None:
    """A run ends as the picture on the page of phases shows it."""

    def pull(_ctx: phases.Context) -> None:
        raise RuntimeError

    tasks = {name: phases.task(name)(lambda _ctx: None) for name in ("download", "start-machine")}
    unpack, images = phases.task("unpack")(lambda ctx: ctx.sleep(60)), phases.task("pull-images")(pull)
    prepare = phases.parallel(unpack, images, name="prepare")
    report = phases.run(
        phases.serial(tasks["download"], prepare, tasks["start-machine"], name="bootstrap"), observers=[]
    )
    picture = ET.fromstring((ROOT / "docs/tree.svg").read_text(encoding="utf-8"))  # noqa: S314  our own file
    texts = [(it.get("class", "").split(), it.text) for it in picture.iter(f"{SVG}text")]
    names = [text for kinds, text in texts if "code" in kinds]
    statuses = [text for kinds, text in texts if "name" in kinds]
    assert list(zip(names, statuses, strict=True)) == [(node.name, node.status.value) for node in report.walk()]


@every_page
def test_make_targets(name: str) -> None:
    """Every make target that a page names is in the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:`|\$ )make (\w+)", PAGES[name]):
        assert f"\n{target}:" in makefile, target


def test_oldest_python() -> None:
    """The oldest version of Python that runs this is the same for pip, mypy, ruff, the README and the operator's page."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    [oldest] = re.findall(r'^requires-python = ">=3\.(\d+)"$', project, re.MULTILINE)
    assert re.findall(r'^python_version = "3\.(\d+)"', project, re.MULTILINE) == [oldest]
    assert re.findall(r'^target-version = "py3(\d+)"', project, re.MULTILINE) == [oldest]
    assert re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', project)[0] == oldest
    assert f"You need make, git, Python 3.{oldest} or newer," in README
    assert f"If the node has Python 3.{oldest} or newer" in PAGES["docs/operators.md"]
    assert f"| Python | 3.{oldest} |" in PAGES["docs/limits.md"]


def test_oldest_dependencies() -> None:
    """The oldest versions of the dependencies are the same for pip and on the page of versions."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name in ("attrs", "pyroute2"):
        [oldest] = re.findall(rf'^ *"{name}>=([\d.]+)', project, re.MULTILINE)
        assert f"| {name} | {oldest}" in PAGES["docs/limits.md"]


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_every_example_says_what_it_shows(path: Path) -> None:
    """An example begins with what it shows, and importing it does nothing."""
    assert (runpy.run_path(str(path)).get("__doc__") or "").strip()


@pytest.mark.linux
def test_locale_of_the_suite() -> None:
    """Programs that a test starts print UTF-8, and the test reads it, in any locale."""
    show = "import sys; from hostrouting.cli.terminal import Terminal; print(Terminal(sys.stdout).unicode, '→')"
    assert python("-c", show).stdout == "True →\n"


def masked(text: str) -> list[str]:
    """The lines of an output, without the times."""
    return [re.sub(r" +(\d+ (ms|µs)|\d\.\d\d s)", "", line) for line in text.strip().splitlines()]


@pytest.mark.linux
def test_output_of_the_demo() -> None:
    """The demo prints what the README shows of it. The times may differ, and the README may leave lines out."""
    done = python("examples/demo.py")
    assert done.returncode == 0, done.stderr
    printed, at = masked(done.stdout), 0
    for part in SHOWN[0].split("\n…\n"):
        lines = masked(part)
        at = next((n for n in range(at, len(printed)) if printed[n : n + len(lines)] == lines), -1)
        assert at >= 0, part
        at += len(lines)


def test_changelog_has_this_version() -> None:
    """The CHANGELOG has an entry for the version that the package has."""
    assert f"\n## {hostrouting.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
