"""The page of the parts is true: each file of the code is in one part, each part is as large as it says, and loads nothing unasked."""

import ast
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from hostrouting.testing import h200
from tests.support.pages import ROOT, page, tables
from tests.support.programs import completed

PARTS = {
    row[0]: (row[4].strip("`").split("`, `"), int(row[5].replace(",", ""))) for row in tables(page("parts"), "parts")
}
"""For each part, the folders and files of its code, and its lines."""
FILES = [
    path for name in ("hostrouting", "phases") for path in (ROOT / name).rglob("*") if path.suffix in {".py", ".sh"}
]
UNASKED = (
    "fleet",
    "testing",
    "tasks.guard.loop",
    "kernel.nftables",
    "host.metadata",
    "host.discovery",
    "host.image",
    "cli.commands.clean",
)
"""The modules that an ordinary configuration does not load."""
NO_VERDICT = (
    "boot",
    "tasks",
    "routes.plan",
    "config.azure_vnet",
    "kernel.marking",
    "kernel.requests",
    "phases.context",
    "datetime",
    "logging",
    "signal",
    "subprocess",
)
"""What a verdict does not need either, of Python as well."""
NO_CHANGE = ("tasks.preflight", "tasks.guard.state", "kernel.concern", "binascii", "pathlib", "shlex", "signal")
"""What a plan does not need."""
HARMLESS = {row[0] for row in tables(page("parts"), "parts") if row[3] in {"nothing", "the page that you ask for"}}
"""The parts that change nothing on the host that they are about."""
EFFECTS = {
    "files.write",
    "files.remove",
    "files.link",
    "backend.change",
    "change_rule",
    "add_neighbour",
    "delete_neighbour",
    "manager.start",
    "manager.stop",
    "manager.reload",
    "run_program",
    "Popen",
    "fetch",
}
"""Calls that change a host or leave it, by their last words."""


def lines_of(path: Path) -> int:
    """The lines without comments, docstrings and blank lines."""
    text = path.read_text(encoding="utf-8")
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)) if path.suffix == ".py" else ():
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            told.update(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = enumerate(map(str.strip, text.splitlines()), start=1)
    return sum(bool(line) and not line.startswith("#") and number not in told for number, line in lines)


def part_of(path: Path) -> str:
    """The part with the longest name of a folder or file that contains this one."""
    name = path.relative_to(ROOT).as_posix()
    found = [(len(code), part) for part, (codes, _) in PARTS.items() for code in codes if name.startswith(code)]
    assert found, f"docs/parts.md names no part for {name}"
    return max(found)[1]


def test_how_large_each_is() -> None:
    """Each part has code, and as much as the page says, give or take a quarter."""
    assert {code for codes, _ in PARTS.values() for code in codes if not (ROOT / code).exists()} == set()
    sizes: Counter[str] = Counter()
    for path in FILES:
        sizes[part_of(path)] += lines_of(path)
    told = {part: lines for part, (_, lines) in PARTS.items()}
    assert {part: sizes[part] for part in told if not 0.75 <= sizes[part] / told[part] <= 1.25} == {}


def test_what_may_change_nothing() -> None:
    """A part that may change nothing calls nothing that would. Kills: a check that deletes a marker."""
    calls = {
        (part_of(path), call)
        for path in FILES
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        for call in EFFECTS
        if f".{ast.unparse(node.func)}".endswith((f".{call}", f"_{call}"))
    }
    assert {call for _, call in calls} == EFFECTS, "a call has another name now"
    assert {(part, call) for part, call in calls if part in HARMLESS} == set()


@pytest.mark.linux
@pytest.mark.parametrize(
    ("words", "unasked", "most"),
    [
        (["check", "10.0.0.0/8"], NO_VERDICT, 73),
        (["check", "172.16.0.0/16"], NO_VERDICT, 73),
        (["plan", "--config", "agent.json"], NO_CHANGE, 104),
    ],
)
def test_nothing_is_loaded_unasked(words: list[str], unasked: tuple[str, ...], most: int, tmp_path: Path) -> None:
    """A command loads no part that neither it nor the configuration asks for, and no more modules than today.

    Kills: a module that a verdict does not need is imported where another one is loaded.
    """
    (tmp_path / "node.json").write_text(h200().snapshot().to_json())
    routes = {"enabled": True, "routes": [{"destination": "172.16.0.0/17"}]}
    (tmp_path / "agent.json").write_text(json.dumps({"staticRoutes": routes}))
    code = (
        "import sys\n"
        "from hostrouting.cli import main\n"
        f"main({[*words, '--snapshot', 'node.json']!r})\n"
        "count = len([name for name in sys.modules if name.partition('.')[0] in {'hostrouting', 'phases'}])\n"
        "print(count, *[name.removeprefix('hostrouting.') for name in sys.modules])\n"
    )
    done = completed([sys.executable, "-c", code], check=True, cwd=tmp_path)
    count, *loaded = done.stdout.splitlines()[-1].split()
    assert "model" in loaded
    assert [name for name in loaded if name.startswith((*UNASKED, *unasked))] == []
    assert int(count) <= most
