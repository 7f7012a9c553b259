"""The README and the pages of docs: blocks run, commands are understood, links lead somewhere."""

import ast
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from hostrouting import errors
from hostrouting.boot.units import NETWORKD_TEXT
from hostrouting.check.results import Reason
from hostrouting.cli.parser import make_parser
from hostrouting.config.cni import CNIS
from hostrouting.config.settings import MACHINES, HostRoutingConfig
from hostrouting.errors import HostRoutingError
from hostrouting.finding import NAMES
from hostrouting.gate import unit_states
from hostrouting.model import Link, Route
from hostrouting.status import status
from hostrouting.testing import FakeHost, h200
from tests.support.cli import say
from tests.support.programs import completed

ROOT = Path(__file__).resolve().parent.parent
_PATHS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "tests/README.md"])
PAGES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in _PATHS}


def blocks_of(language: str) -> dict[str, str]:
    """Every block in this language by its page and number."""
    blocks: dict[str, str] = {}
    for name, text in PAGES.items():
        for number, block in enumerate(re.findall(rf"(?ms)^```{language}\n(.*?)^```", text)):
            blocks[f"{name}:{number}"] = block
    return blocks


CONFIGS = blocks_of("json")
WITH_TESTS: dict[str, str] = {}
PROGRAMS: dict[str, str] = {}
for _place, _block in blocks_of("python").items():
    has_tests = re.search(r"^ *def test_|^class Test", _block, re.MULTILINE)
    (WITH_TESTS if has_tests else PROGRAMS)[_place] = _block

CODE = {path: path.read_text(encoding="utf-8") for path in (ROOT / "hostrouting").rglob("*.py")}

CONFTEST = """\
from hypothesis import HealthCheck, settings

settings.register_profile(
    "patient", deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")
"""


def write_blocks(blocks: dict[str, str], folder: Path, kind: str) -> list[str]:
    names: list[str] = []
    for place, block in blocks.items():
        names.append(f"{kind}_{re.sub(r'[^a-z0-9]', '_', place)}.py")
        (folder / names[-1]).write_text(block)
    return names


# To load the library takes longer than each of the programs.
EACH_IN_A_FORK = """\
import os, runpy, sys
import hostrouting.testing, phases.testing
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        runpy.run_path(name, run_name="__main__")
        sys.exit()
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{name} failed")
"""


@pytest.mark.linux
def test_blocks_without_tests(tmp_path: Path) -> None:
    names = write_blocks(PROGRAMS, tmp_path, "program")
    words = [sys.executable, "-W", "error", "-c", EACH_IN_A_FORK, *names]
    done = completed(words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.linux
def test_blocks_with_tests(tmp_path: Path) -> None:
    """They pass as a reader's own, away from the repository."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").touch()  # else settings of a folder above would count
    write_blocks(WITH_TESTS, tmp_path, "test")
    how = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = completed([sys.executable, "-W", "error", *how], cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", PAGES)
def test_shown_commands(name: str) -> None:
    """Each that a page shows, after a prompt or in a sentence, is understood."""
    called = r"(?:\bhostrouting|/etc/hostrouting/hostrouting\.pyz)"
    lines = re.findall(r"^ *[$#] (.*)$", PAGES[name], re.MULTILINE)
    lines += re.findall(r"`([^`\n]*)`", PAGES[name])
    for line in lines:
        for typed in re.findall(rf"{called} ([a-z][^|#>\n\\]*)", line):
            words = shlex.split(typed.partition("&&")[0])
            make_parser().parse_args(words)


@pytest.mark.parametrize("name", ["README.md", "docs/devices.md"])
def test_answers(name: str, tmp_path: Path) -> None:
    """From its first line on, on an H200 with a private device of WireGuard."""
    kernel = h200()
    kernel.add_link(Link(name="wg0", index=0, kind="wireguard", type=65534))
    kernel.ip_route("add", Route.to("172.20.0.0/24", dev="wg0", protocol=3))
    config = tmp_path / "new.json"
    config.write_text(CONFIGS.get(f"{name}:0", ""))

    shown = re.findall(r"(?ms)^```text\n\$ hostrouting (.*?)\n(.*?)^```", PAGES[name])
    assert shown
    for command, answer in shown:
        words = command.replace("new.json", str(config)).split()
        assert say(*words, host=FakeHost(kernel=kernel)).out.startswith(answer)


@pytest.mark.parametrize("name", CONFIGS)
def test_configurations(name: str) -> None:
    """Each can be used, if not alone, then as a part of one that has CIDRs."""
    sections = {"routeOverlap": {"expectedCidrs": ["172.16.64.0/24"]}, **json.loads(CONFIGS[name])}
    HostRoutingConfig.from_mapping(sections)


@pytest.mark.linux
@pytest.mark.parametrize(
    ("body", "metrics"), [("echo new; exit 1", "new\n"), ("exit 127", "old\n")]
)
def test_the_line_for_cron(body: str, metrics: str, tmp_path: Path) -> None:
    """The metrics of a host with a problem are new, and those of one that has no answer stay."""
    [line] = re.findall(r"^\* \* \* \* \* root (.*)$", PAGES["docs/fleet.md"], re.MULTILINE)
    program = tmp_path / "hostrouting"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    (tmp_path / "hostrouting.prom").write_text("old\n")
    line = line.replace("/usr/local/bin/hostrouting", str(program))
    completed(["sh", "-c", line.replace("/var/lib/prometheus/node-exporter", str(tmp_path))])
    assert (tmp_path / "hostrouting.prom").read_text() == metrics


def test_promises() -> None:
    rows = re.findall(r"^\| .* \| (`.*`) \|$", PAGES["tests/README.md"], re.MULTILINE)
    assert len(rows) == PAGES["tests/README.md"].count("\n| ") - 1  # all rows but the heading
    for name in re.findall(r"`([^`]+)`", " ".join(rows)):
        assert (ROOT / "tests" / name).exists(), name


@pytest.mark.parametrize("name", PAGES)
def test_links(name: str) -> None:
    """Each link leads to a file that is there, and to a heading that it has."""
    for path in re.findall(r"`((?:examples|tests)/[\w./]*)`", PAGES[name]):
        assert (ROOT / path).exists(), path
    page = ROOT / name
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", PAGES[name]):
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), target
        if anchor:
            assert anchor in anchors_of(there), target


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/design.md"])
def test_modules(name: str) -> None:
    modules = re.findall(r"`(?!tests/)(\w+/\w+(?:/\w+)*)(?:\.py)?`", PAGES[name])
    assert modules
    for module in modules:
        package = ROOT if module.startswith(("phases/", "hostrouting/")) else ROOT / "hostrouting"
        assert (package / f"{module}.py").exists(), module


def anchors_of(page: Path) -> list[str]:
    """What leads to each heading of the page."""
    anchors: list[str] = []
    for heading in re.findall(r"^##+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        without_signs = re.sub(r"[^\w -]", "", heading.lower())
        anchors.append(without_signs.replace(" ", "-"))
    return anchors


GOLDEN = (ROOT / "tests/hostrouting/cli/__snapshots__/test_pages.ambr").read_text(encoding="utf-8")
DOCUMENTS = re.findall(r"^  = \d+ (\{.*)$", GOLDEN, re.MULTILINE)
"""The documents that commands print, as text."""


def test_documents() -> None:
    """docs/scripts.md has every key of each document of a golden page, and no other."""
    printed: dict[str, set[str]] = {}
    with_inner: dict[str, set[str]] = {}
    for line in DOCUMENTS:
        document = json.loads(line)
        schema = document.pop("schema")
        printed.setdefault(schema, set()).update(document)
        with_inner.setdefault(schema, set()).update(re.findall(r'"(\w+)": ', line))

    groups = dict(re.findall(r"^- (\*\w+\*): (.*)$", PAGES["docs/scripts.md"], re.MULTILINE))
    shown: dict[str, set[str]] = {}
    for schema, keys in rows_of("docs/scripts.md", r"`(hostrouting/\w+/\d)` \| (.*)"):
        with_groups = re.sub(r"\*\w+\*", lambda name: groups[name[0]], keys)
        shown[schema] = set(re.findall(r"`(\w+)`", with_groups))
    of_many_nodes = "hostrouting/nodes/1"  # tests/hostrouting/test_fleet.py prints that
    assert shown.keys() == {*printed, of_many_nodes}
    for schema, always in printed.items():
        assert always <= shown[schema], schema
        assert shown[schema] <= with_inner[schema], schema


def rows_of(page: str, pattern: str) -> list[Any]:
    return re.findall(rf"^\| {pattern} \|$", PAGES[page], re.MULTILINE)


def test_exit_codes() -> None:
    """Of each error, docs/scripts.md has it, and whether to try again."""
    rows = rows_of("docs/scripts.md", r"`(\w+)` \| ([^|]*) \|.*\| (yes|no) \| (\d)")
    outside_errors = "".join(text for path, text in CODE.items() if path.name != "errors.py")
    named = {name for name, *_ in rows}
    assert named == {cls.__name__ for cls in HostRoutingError.__subclasses__()}
    for name, kinds, again, code in rows:
        cls = getattr(errors, name)
        for kind in re.findall(r"[\w-]+", kinds) or [""]:
            assert f'"{kind}"' in outside_errors
            error = cls.__new__(cls)
            HostRoutingError.__init__(error, kind=kind)
            error.errno = error.report = None
            if name in {"ApplyError", "NotReady"}:
                error.can_retry = True
            assert error.exit_code == int(code), (name, kind)
            assert error.can_retry == (again == "yes"), (name, kind)


def test_first_words() -> None:
    """docs/incident.md has each first word of `status` and of `status UNIT`, and no other."""
    section = PAGES["docs/incident.md"].partition("## What status says")[2].partition("\n## ")[0]
    states = (*get_args(status.HostState), *get_args(unit_states.State))
    assert {*re.findall(r"`([A-Z ]+)`", section)} == {state.upper() for state in states}


def test_findings() -> None:
    """docs/findings.md has a section for each finding, and no other, and the facts of overlaps."""
    headings = re.findall(r"^### (.*)$", PAGES["docs/findings.md"], re.MULTILINE)
    assert sorted(headings) == sorted(NAMES)
    printed: set[str] = set()
    for line in DOCUMENTS:
        for finding in json.loads(line).get("findings", ()):
            if finding["name"] == "overlap":
                printed.update(finding["facts"])
    shown = PAGES["docs/findings.md"].partition("`facts` has")[2].partition("\n\n")[0]
    assert {*re.findall(r"`(\w+)`", shown), "mayAllow"} == printed


def sentences_in_code() -> Iterator[str]:
    """Each text in the library, with … for what is filled in."""
    for code in CODE.values():
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.JoinedStr):
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "…"
                    for part in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.sub(r"\{\w*\}", "…", node.value)


def test_messages() -> None:
    """docs/findings.md has the words of each message, and each reason why no route repairs."""
    texts = "\n".join(sentences_in_code())
    quoted: list[str] = []
    for section in PAGES["docs/findings.md"].split("\n### ")[1:]:
        quotes = re.findall(r'"([^"]+)"', section.split("\n\n")[1])
        assert quotes, section
        quoted += "…".join(quotes).split("…")
    assert [words for words in quoted if words.strip(" […];:") not in texts] == []
    explained = PAGES["docs/findings.md"].partition("### unsafe\n")[2].partition("\n### ")[0]
    assert re.findall(r"^- `([\w-]+)`:", explained, re.MULTILINE) == [*get_args(Reason)]


def defaults_in(section: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The settings below this section of a configuration, each with its default as JSON."""
    kinds = get_type_hints(section).items()
    for key, (name, kind) in zip(section.json_keys, kinds, strict=True):
        inner = [part for part in (kind, *get_args(kind)) if hasattr(part, "json_keys")]
        here = f"{path}{key}[]" if get_origin(kind) is tuple else f"{path}{key}"
        if inner:
            yield from defaults_in(inner[0], f"{here}.")
        elif name not in section._field_defaults:
            yield here.removesuffix("[]"), "required"
        else:
            default = section._field_defaults[name]
            shown = json.dumps("" if default is None else default, default=str)
            yield here.removesuffix("[]"), f"`{shown}`"


def test_settings() -> None:
    """docs/configuration.md has each setting with its default, and no other."""
    rows = re.findall(
        r"^\| `([\w.\[\]]+)` \| (.*?) \|", PAGES["docs/configuration.md"], re.MULTILINE
    )
    defaults = dict(defaults_in(HostRoutingConfig))
    units = json.dumps([MACHINES])
    defaults["gate.units"] = f"if `gate` is missing: `{units}`"
    assert defaults == dict(rows)


def test_cnis() -> None:
    """The page of limits has each CNI whose devices are allowed."""
    allowed: list[str] = []
    for system, verdict in rows_of("docs/limits.md", r"([^|]*) \| ([^|]*)(?: \| .*)?"):
        if "allowed" in verdict:
            allowed.append(system)
    systems = "\n".join(allowed)
    for cni in CNIS:
        assert cni.name in systems


def test_what_networkd_keeps() -> None:
    """docs/incident.md has each key: a test with an older systemd-networkd would not miss all."""
    keys = r"ManageForeign\w+=no"
    assert re.findall(f"`({keys})`", PAGES["docs/incident.md"]) == re.findall(keys, NETWORKD_TEXT)


def test_packages() -> None:
    rows = rows_of("docs/design.md", r"`(\w+)/` \| .*")
    packages = {path.parent.name for path in (ROOT / "hostrouting").glob("*/__init__.py")}
    assert packages - {"__pyinstaller"} == {*rows}
