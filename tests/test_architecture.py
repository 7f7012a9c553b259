"""The rooms as docs/architecture.md lists them: which may import which. An arrow that its table does not have fails."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.cases import for_each

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ROOMS: dict[str, set[str]] = {
    room: set(re.findall(r"\w+", others))
    for room, others in re.findall(r"^\| `(\w+)/` \|[^|]*\|([^|]*)\|$", PAGE, re.MULTILINE)
}
# The files at the top, and what of ours each may import besides `phases`. Every room may import the first seven.
FILES: dict[str, set[str]] = {
    "errors": {"finding"},
    "finding": set(),
    "text": set(),
    "release": set(),
    "inputs": {"errors"},
    "installation": {"errors"},
    "arguments": {"errors", "model", "text"},
    "__init__": set(ROOMS) - {"testing", "cli"} | {"errors", "finding", "installation", "release"},
    "__main__": {"cli"},
}
OPEN_TO_ALL = set(list(FILES)[:7])

# Third-party packages, and the only modules that may import them. A slow one is loaded when it is used, except by the test kit.
FOREIGN = {
    "attrs": {"*"},
    "rich": {"phases.live"},
    "exceptiongroup": {"phases.errors"},
    "pyroute2": {"hostrouting.kernel.netlink.read", "hostrouting.kernel.neighbours"},
    "pytest": {"hostrouting.testing.contract", "hostrouting.testing.plugin"},
}
SLOW = {"rich", "pyroute2", "pytest", "asyncio", "typing_extensions"}
KIT = FOREIGN["pytest"]


def modules(folder: str) -> list[str]:
    """Every module below the folder, with dots; a folder's own under `__init__`."""
    return sorted(".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / folder).rglob("*.py"))


ALL = modules("phases") + modules("hostrouting")


@cache
def imports(module: str) -> list[tuple[str, bool]]:
    """The modules that a module imports, each with whether it is loaded as soon as the module is."""
    path = ROOT / (module.replace(".", "/") + ".py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if (stub := path.with_suffix(".pyi")).exists():  # what it names is loaded when it is used
        tree.body.append(ast.If(ast.Name("TYPE_CHECKING"), ast.parse(stub.read_text(encoding="utf-8")).body, []))
    found: list[tuple[str, bool]] = []

    def visit(node: ast.AST, *, at_once: bool) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            at_once = False
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            at_once = False
        if isinstance(node, ast.Import):
            found.extend((_file(alias.name) or alias.name, at_once) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            home = node.module or ""
            found.extend((_file(f"{home}.{alias.name}") or _file(home) or home, at_once) for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child, at_once=at_once)

    visit(tree, at_once=True)
    return found


@cache
def _file(name: str) -> str | None:
    """The module that has this name; a folder's own is its `__init__`."""
    return next((module for module in (name, f"{name}.__init__") if module in ALL), None)


def room(module: str) -> str:
    """Where in the house a module is: `phases`, a folder of hostrouting, or a file at its top."""
    package, name = module.split(".")[:2]
    return package if package == "phases" else name


def is_ours(module: str) -> bool:
    """Whether the module belongs to one of our packages."""
    return module.partition(".")[0] in {"hostrouting", "phases"}


@pytest.mark.parametrize("name", [*ROOMS, *FILES, "phases"])
def test_a_room_imports_what_the_table_says(name: str) -> None:
    """Imports for annotations and inside functions count; a right that nobody uses leaves the table."""
    found = {room(other) for module in ALL if room(module) == name for other, _ in imports(module) if is_ours(other)}
    if name == "phases":
        assert found == {"phases"}
    elif name in FILES:
        assert found - {"phases"} <= FILES[name]
    else:
        assert found - {name, "phases"} - OPEN_TO_ALL == ROOMS[name]


def test_every_room_is_in_the_table() -> None:
    """A new folder or file at the top is given its place; the rows stand above those that import from them."""
    assert {room(module) for module in ALL} == {*ROOMS, *FILES, "phases"}
    assert len(ROOMS) <= 12
    above: set[str] = set()
    for name, others in ROOMS.items():
        assert others <= above, name
        above.add(name)


@for_each("module", [module for module in ALL if module.endswith(".__init__")])
def test_a_list_of_files_is_whole(module: str) -> None:
    """A package whose docstring lists its files lists each, and nothing else.

    Kills: a new file that the list lacks.
    """
    package = (ROOT / (module.replace(".", "/") + ".py")).parent
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    files = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    listed = set(re.findall(r"^([a-z_]+)  +\S", text, re.MULTILINE))
    assert listed.isdisjoint(files) or listed == {name for name in files if not name.startswith("_")}


@for_each("module", ALL)
def test_no_modules_in_a_circle(module: str) -> None:
    """What a module loads when it is loaded does not load it in turn."""
    seen, ahead = set[str](), [module]
    while ahead:
        for other, at_once in imports(ahead.pop()):
            if at_once and is_ours(other) and other not in seen:
                assert other != module
                seen.add(other)
                ahead.append(other)


@for_each("module", ALL)
def test_foreign_packages_have_one_door(module: str) -> None:
    """A third-party package is imported only by the modules above, and a slow one only when it is used."""
    for name, at_once in imports(module):
        top = name.split(".")[0]
        assert FOREIGN.get(top, {"*"}) & {"*", module}, f"{module} imports {top}"
        assert not (at_once and top in SLOW and module not in KIT), f"{module} loads {top} when it is imported"
