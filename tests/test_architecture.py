"""The house as docs/architecture.md draws it: which module may import which. An arrow that is not drawn there fails."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.support.cases import for_each

ROOT = Path(__file__).resolve().parent.parent

# Each room is loaded with lines above its own only; rooms on one line do not know each other. A room is a module or a
# folder; what is inside a folder has a drawing of its own.
DRAWINGS: dict[str, str] = dict(
    re.findall(
        r"^```house (\S+)\n(.*?)^```$",
        (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
)
FLOORS = {
    folder: {room: floor for floor, line in enumerate(drawing.strip().split("\n")) for room in line.split()}
    for folder, drawing in DRAWINGS.items()
}

# Third-party packages, and the only modules that may import them.
FOREIGN = {
    "attrs": {"*"},
    "rich": {"phases.live"},
    "exceptiongroup": {"phases.python310"},
    "pyroute2": {"hostrouting.backends.netlink.nexthops", "hostrouting.neighbours.kernel"},
    "pytest": {"hostrouting.testing.contract", "hostrouting.testing.plugin"},
    "hypothesis": {
        "hostrouting.testing.strategies",
        "hostrouting.testing.config_strategies",
        "hostrouting.testing.nftables_strategies",
    },
}
# Never loaded by an import of ours, only by a use; but a module of the test kit that is made of one loads it.
# typing_extensions is for type checkers, and is not installed with us.
SLOW = {"rich", "pyroute2", "pytest", "hypothesis", "asyncio", "typing_extensions"}
KIT = FOREIGN["pytest"] | FOREIGN["hypothesis"]


def modules(folder: str) -> list[str]:
    """Every module below the folder, with dots; a folder's own under `__init__`."""
    return sorted(
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / folder.replace(".", "/")).rglob("*.py")
        if "__pycache__" not in path.parts
    )


ALL = [module for folder in DRAWINGS if "." not in folder for module in modules(folder)]


@cache
def imports(module: str) -> list[tuple[str, bool]]:
    """The modules that a module imports, each with whether it is loaded as soon as the module is."""
    tree = ast.parse((ROOT / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8"))
    found: list[tuple[str, bool]] = []

    def visit(node: ast.AST, *, at_once: bool) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            at_once = False
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            at_once = False
        if isinstance(node, ast.Import):
            found.extend((alias.name, at_once) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            home = node.module or ""
            found.extend(
                (f"{home}.{alias.name}" if f"{home}.{alias.name}" in ALL else home, at_once) for alias in node.names
            )
        for child in ast.iter_child_nodes(node):
            visit(child, at_once=at_once)

    visit(tree, at_once=True)
    return found


@cache
def rooms_on_the_way(module: str) -> list[tuple[str, str]]:
    """Each folder that the module is in, outermost first, and the room in it that leads to the module."""
    parts = module.split(".")
    if module not in ALL:
        parts.append("__init__")  # a folder's name stands for its __init__
    return [(".".join(parts[:depth]), parts[depth]) for depth in range(1, len(parts))]


def arrows(folder: str) -> dict[str, set[str]]:
    """Which rooms of a folder each of its rooms imports from, at whatever moment and for whatever reason."""
    found: dict[str, set[str]] = {room: set() for room in FLOORS[folder]}
    for module in ALL:
        here = dict(rooms_on_the_way(module)).get(folder)
        for name, _ in imports(module) if here is not None else ():
            there = dict(rooms_on_the_way(name)).get(folder)
            if here is not None and there not in {None, here}:
                found[here].add(str(there))
    return found


@for_each("folder", DRAWINGS)
def test_every_room_is_drawn(folder: str) -> None:
    """A new room has to be given its floor, and one that is gone leaves the drawing."""
    depth = folder.count(".") + 1
    assert {module.split(".")[depth] for module in modules(folder)} == set(FLOORS[folder])


def test_every_folder_has_a_drawing() -> None:
    """A folder with modules of its own has a drawing of its own."""
    assert {module.rpartition(".")[0] for module in ALL} == set(DRAWINGS)


@for_each("module", ALL)
def test_imports_point_down(module: str) -> None:
    """A module loads only what stands below it; names for annotations may come from anywhere in its package."""
    for name, at_once in imports(module):
        if not at_once or name.split(".")[0] != module.split(".", maxsplit=1)[0]:
            continue
        for (folder, here), (folder_there, there) in zip(
            rooms_on_the_way(module), rooms_on_the_way(name), strict=False
        ):
            if folder == folder_there and here != there:
                assert FLOORS[folder][there] < FLOORS[folder][here], f"{module} imports {name}, which is not below it"


@for_each("folder", DRAWINGS)
def test_no_rooms_in_a_circle(folder: str) -> None:
    """No two rooms need each other to be understood: imports for annotations and inside functions count here."""
    seen_from = arrows(folder)
    for middle, seen in seen_from.items():
        for room in seen_from:
            if middle in seen_from[room]:
                seen_from[room] |= seen
    circles = {
        frozenset(other for other in seen_from if other in seen_from[room] and room in seen_from[other])
        for room in seen_from
        if room in seen_from[room]
    }
    assert not circles


@for_each("module", modules("phases"))
def test_phases_has_never_heard_of_networks(module: str) -> None:
    """Phases imports nothing of hostrouting, not even for an annotation."""
    assert not [name for name, _ in imports(module) if name.split(".")[0] == "hostrouting"]


@for_each("module", ALL)
def test_foreign_packages_have_one_door(module: str) -> None:
    """A third-party package is imported only where the drawing says, and a slow one only when it is used."""
    for name, at_once in imports(module):
        top = name.split(".")[0]
        if top in FOREIGN:
            assert FOREIGN[top] & {"*", module}, f"{module} imports {top}"
        assert not (at_once and top in SLOW and module not in KIT), f"{module} loads {top} when it is imported"
