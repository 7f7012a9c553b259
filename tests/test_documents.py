"""The README and the pages of docs: Python blocks run, commands are understood, links lead
somewhere.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from hostrouting import errors
from hostrouting.check.results import Reason
from hostrouting.cli.parser import make_parser
from hostrouting.codes import code_of
from hostrouting.config.cni import CNIS
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import HostRoutingError
from hostrouting.finding import NAMES
from hostrouting.reading import keys_of
from hostrouting.testing import FakeHost, h200, strategies
from tests.support.cli import say
from tests.support.programs import completed

ROOT = Path(__file__).resolve().parent.parent
_PATHS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "tests/README.md"])
PAGES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in _PATHS}
BLOCKS: dict[str, str] = {}
"""Every Python block by its page and line."""
for _name, _text in PAGES.items():
    for _match in re.finditer(r"^```python\n(.*?)^```", _text, re.MULTILINE | re.DOTALL):
        _line = _text.count("\n", 0, _match.start()) + 1
        BLOCKS[f"{_name}:{_line}"] = _match[1]

WITH_TESTS = {
    place: block
    for place, block in BLOCKS.items()
    if re.search(r"^ *def test_", block, re.MULTILINE)
}
PROGRAMS = {place: block for place, block in BLOCKS.items() if place not in WITH_TESTS}

CONFTEST = """\
from hypothesis import HealthCheck, settings

pytest_plugins = ["hostrouting.testing.plugin"]
settings.register_profile(
    "patient", deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")
"""


@pytest.mark.linux
@pytest.mark.parametrize("block", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program(block: str, tmp_path: Path) -> None:
    """It runs as it is, away from the repository."""
    (tmp_path / "program.py").write_text(block)
    done = completed([sys.executable, "-W", "error", "program.py"], cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.linux
def test_blocks_with_tests(tmp_path: Path) -> None:
    """They pass as a reader's own, away from the repository, with the plugin.

    One pytest runs them all: it takes longer to start than each of them.
    """
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for place, block in WITH_TESTS.items():
        name = re.sub(r"\W", "_", place)
        (tmp_path / f"test_{name}.py").write_text(block)
    how = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = completed([sys.executable, "-W", "error", *how], cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", PAGES)
def test_shown_commands(name: str) -> None:
    """Each whole command line of `hostrouting` that a page shows, after `$` or as root after `#`,
    is understood.
    """
    for typed in re.findall(
        r"^[$#] (?:\S*/|ssh node )?hostrouting ([^#>|\n]+)", PAGES[name], re.MULTILINE
    ):
        words = typed.split()
        make_parser(words).parse_args(words)


def test_the_first_answer() -> None:
    """The README shows what the command answers on the node that it shows."""
    command, answer = re.findall(
        r"^\$ hostrouting ([^\n]+)\n(OVERLAP[^`]*)", PAGES["README.md"], re.MULTILINE
    )[0]
    assert say(*command.split(), host=FakeHost(kernel=h200())).out == answer


def test_promises() -> None:
    """Each promise names tests that exist."""
    rows = re.findall(r"^\| .* \| (`.*`) \|$", PAGES["tests/README.md"], re.MULTILINE)
    assert len(rows) == PAGES["tests/README.md"].count("\n| ") - 1  # all rows but the heading
    for name in re.findall(r"`([^`]+)`", " ".join(rows)):
        assert (ROOT / "tests" / name).exists(), name


@pytest.mark.parametrize("name", PAGES)
def test_links(name: str) -> None:
    """Each link leads to a file that is there, and to a heading that it has."""
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", PAGES[name]):
        path, _, anchor = target.partition("#")
        there = ROOT / name if not path else (ROOT / name).parent / path
        assert there.exists(), target
        headings = (
            re.findall(r"^##+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            if anchor
            else []
        )
        anchors = {
            re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings
        }
        assert not anchor or anchor in anchors, target


def test_documents() -> None:
    """docs/operators.md has every key of each document that a golden page shows, and none that is
    never there.
    """
    text = (ROOT / "tests/hostrouting/cli/__snapshots__/test_pages.ambr").read_text(
        encoding="utf-8"
    )
    printed: dict[str, set[str]] = {}
    with_inner: dict[str, set[str]] = {}
    for line in re.findall(r"^  = \d+ (\{.*)$", text, re.MULTILINE):
        document = json.loads(line)
        schema = document.pop("schema")
        printed.setdefault(schema, set()).update(document)
        with_inner.setdefault(schema, set()).update(re.findall(r'"(\w+)": ', line))
    rows = re.findall(
        r"^\| `(hostrouting/\w+/\d)` \| (.*) \|$", PAGES["docs/operators.md"], re.MULTILINE
    )
    shown = {schema: {*re.findall(r"`(\w+)`", keys)} for schema, keys in rows}
    assert shown.keys() == {
        *printed,
        "hostrouting/nodes/1",
    }  # tests/hostrouting/test_fleet.py prints that
    for schema, keys in printed.items():
        assert keys <= shown[schema] <= with_inner[schema], schema


def test_exit_codes() -> None:
    """docs/findings.md has the exit code of each error."""
    rows = re.findall(
        r"^\| `(\w+)` \| (?:`([\w-]+)`)? \|.*\| (yes|no) \| (\d) \|$",
        PAGES["docs/findings.md"],
        re.MULTILINE,
    )
    assert {name for name, *_ in rows} == {
        kind.__name__ for kind in HostRoutingError.__subclasses__()
    }
    for name, kind, again, code in rows:
        error = getattr(errors, name).__new__(getattr(errors, name))
        HostRoutingError.__init__(error, kind=kind)
        vars(error).update(
            errno=None, can_retry=name in {"ApplyError", "NotReady"} or error.can_retry
        )
        assert (code_of(error), error.can_retry) == (int(code), again == "yes"), (name, kind)


def test_findings() -> None:
    """docs/findings.md explains each finding, and no other, with a line as an example."""
    sections = re.findall(
        r"^### ([^\n]*)(.*?)(?=^##)", PAGES["docs/findings.md"], re.MULTILINE | re.DOTALL
    )
    assert sorted(name for name, _ in sections) == sorted(NAMES)
    assert [name for name, text in sections if "\n> `" not in text] == []


def test_reasons_why_no_route_repairs() -> None:
    """docs/findings.md explains each, and no other."""
    explained = PAGES["docs/findings.md"].partition("### unsafe\n")[2].partition("\n### ")[0]
    assert re.findall(r"^- `([\w-]+)`:", explained, re.MULTILINE) == [*get_args(Reason)]


def keys_in(section: type[Any], path: str = "") -> Iterator[str]:
    """The paths of all settings below this section of a configuration."""
    for key, kind in zip(keys_of(section), get_type_hints(section).values(), strict=True):
        inner = [part for part in (kind, *get_args(kind)) if hasattr(part, "json_keys")]
        here = f"{path}{key}[]" if get_origin(kind) is tuple else f"{path}{key}"
        if inner:
            yield from keys_in(inner[0], f"{here}.")
        else:
            yield here.removesuffix("[]")


def test_settings() -> None:
    """docs/configuration.md has a row for each setting."""
    rows = re.findall(r"^\| `([\w.\[\]]+)` \|", PAGES["docs/configuration.md"], re.MULTILINE)
    assert {*keys_in(HostRoutingConfig)}.difference(rows) == set()


def test_cnis() -> None:
    """The page of limits has each CNI whose devices are allowed."""
    rows = [line.split("|") for line in PAGES["docs/limits.md"].splitlines() if line[:1] == "|"]
    systems = "\n".join(cells[1] for cells in rows if "allowed" in cells[2])
    assert [cni.name for cni in CNIS if cni.name not in systems] == []


def test_strategies() -> None:
    """docs/library.md lists every public strategy, and no other."""
    public = {
        name
        for name, value in vars(strategies).items()
        if getattr(value, "__module__", "") == strategies.__name__ and name[0].islower()
    }
    table = PAGES["docs/library.md"].partition("| strategy |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| (.*?) \|", table, re.MULTILINE)
    assert {*re.findall(r"`(\w+)\(", " ".join(listed))} == public


def test_which_package_imports_which() -> None:
    """The table of docs/design.md has every package, and all that each imports."""
    known: dict[str, set[str]] = {}
    for package, imports in re.findall(
        r"^\| `(\w+)/?` \| .* \| (.*) \|$", PAGES["docs/design.md"], re.MULTILINE
    ):
        known[package] = {*re.findall(r"\w+", imports)}
    for package, imports in known.items():
        folder = ROOT / "hostrouting" / package
        files = [*folder.rglob("*.py")] or [folder.with_suffix(".py")]
        text = "\n".join(path.read_text(encoding="utf-8") for path in files)
        used = {*re.findall(r"^ *from hostrouting(?:\.| import )(\w+)", text, re.MULTILINE)}
        assert imports == (used & known.keys()) - {package}, package
