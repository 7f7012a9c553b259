"""The house as it is drawn: which module may import which. An arrow that is not drawn here fails."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Each module imports only from lines above its own; modules on one line do not know each other.
PHASES = """
text clock interrupts
errors
scope events tasks
logs report selection
context live
steps preview
groups wrappers undoing signals
program testing
__init__
"""
HOSTROUTING = """
errors
__init__
"""
FLOORS = {
    package: {module: floor for floor, line in enumerate(drawing.split("\n")) for module in line.split()}
    for package, drawing in {"phases": PHASES, "hostrouting": HOSTROUTING}.items()
}

# Third-party packages, and the only modules that may import them.
FOREIGN = {
    "attrs": {"*"},
    "rich": {"phases.live"},
    "pyroute2": {"hostrouting.backends.netlink"},
    "pytest": {"hostrouting.testing"},
    "hypothesis": {"hostrouting.testing"},
}
SLOW = {"rich", "pyroute2", "pytest", "hypothesis", "asyncio"}  # never loaded by an import of ours, only by a use


def modules(package: str) -> list[str]:
    """Every module of the package, with dots; a package's __init__ under that name."""
    return sorted(
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / package).rglob("*.py")
        if "__pycache__" not in path.parts
    )


def imports(module: str) -> list[tuple[str, bool]]:
    """The absolute names that a module imports, each with whether it is loaded as soon as the module is."""
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
            found.append((node.module or "", at_once))
        for child in ast.iter_child_nodes(node):
            visit(child, at_once=at_once)

    visit(tree, at_once=True)
    return found


def place(name: str) -> str:
    """The word under which a module stands in the drawing: the part below its package."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


@pytest.mark.parametrize("package", ["phases", "hostrouting"])
def test_every_module_is_drawn(package: str) -> None:
    """A new module has to be given its floor, and one that is gone leaves the drawing."""
    assert {place(module) for module in modules(package)} == set(FLOORS[package])


@pytest.mark.parametrize("module", modules("phases") + modules("hostrouting"))
def test_imports_point_down(module: str) -> None:
    """A module loads only what stands below it; names for annotations may come from anywhere in its package."""
    package, floors = module.split(".", maxsplit=1)[0], FLOORS[module.split(".", maxsplit=1)[0]]
    for name, at_once in imports(module):
        if name.split(".")[0] == package and at_once and place(name) != place(module):
            assert floors[place(name)] < floors[place(module)], f"{module} imports {name}, which is not below it"


@pytest.mark.parametrize("module", modules("phases"))
def test_phases_has_never_heard_of_networks(module: str) -> None:
    """Phases imports nothing of hostrouting, not even for an annotation."""
    assert not [name for name, _ in imports(module) if name.split(".")[0] == "hostrouting"]


@pytest.mark.parametrize("module", modules("phases") + modules("hostrouting"))
def test_foreign_packages_have_one_door(module: str) -> None:
    """A third-party package is imported only where the drawing says, and a slow one only when it is used."""
    for name, at_once in imports(module):
        top = name.split(".")[0]
        if top in FOREIGN:
            assert FOREIGN[top] & {"*", module}, f"{module} imports {top}"
        assert not (at_once and top in SLOW), f"{module} loads {top} when it is imported"
