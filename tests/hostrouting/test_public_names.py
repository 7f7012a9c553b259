"""The public names: complete, loaded when used, and seen by type checkers."""

import ast
import importlib
import inspect
import pathlib
import sys

import pytest

import hostrouting
from tests.support.programs import completed

ROOT = pathlib.Path(hostrouting.__file__).parent
NAMES = set(hostrouting.__all__)


def test_every_name_leads_to_its_module() -> None:
    """Each name is that of its module; dir(), help() and type checkers show it."""
    for name in sorted(NAMES):
        value = getattr(hostrouting, name)
        assert value.__name__ == name
        assert value.__module__.startswith("hostrouting.")
        assert not hasattr(hostrouting, f"{name}s")
    assert len(NAMES) <= 40
    assert {*dir(hostrouting)} == NAMES
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    block = next(statement for statement in tree.body if isinstance(statement, ast.If))
    imports = [statement for statement in block.body if isinstance(statement, ast.ImportFrom)]
    seen: dict[str | None, str | None] = {}
    for statement in imports:
        seen |= {alias.asname: statement.module for alias in statement.names}
    assert seen == {name: f"hostrouting.{module}" for name, module in hostrouting._MODULES.items()}


def test_a_task_is_made_from_its_configuration_and_keywords() -> None:
    """So a call says what each further argument is, and one can be added anywhere."""
    tasks = [value for value in map(hostrouting.__getattr__, NAMES) if hasattr(value, "do")]
    assert len(tasks) == 6
    for task in tasks:
        parameters = inspect.signature(task).parameters
        for name, value in parameters.items():
            assert name == "config" or value.kind is value.KEYWORD_ONLY


@pytest.mark.parametrize(
    "package", ["check", "config", "fib", "host", "kernel", "model", "testing"]
)
def test_the_catalogue_of_a_package(package: str) -> None:
    """`__all__` has each value once, and the library's docstring names the package."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))
    names: list[str] = []
    for statement in ast.walk(tree):
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("host"):
            names += [alias.name for alias in statement.names]
    module = importlib.import_module(f"hostrouting.{package}")
    assert sorted(module.__all__) == sorted(names)
    assert [name for name in names if not hasattr(module, name)] == []
    assert f"`hostrouting.{package}`" in (hostrouting.__doc__ or "")


@pytest.mark.linux
def test_import_loads_nothing() -> None:
    """It loads none of its packages, and pyroute2 only when that is used."""
    code = """if True:
        import sys, hostrouting
        print([name for name in sys.modules if name.startswith("hostrouting.")])
        hostrouting.Pyroute2Backend
        print("pyroute2" in sys.modules)
    """
    done = completed([sys.executable, "-c", code], cwd=ROOT.parent)
    assert done.stdout.splitlines() == ["['hostrouting.release']", "False"]


@pytest.mark.linux
def test_what_sets_and_checks_routes_loads_little() -> None:
    """The start of each gated unit waits for these imports: they load neither attrs, which takes as
    long as half of all others, nor what only a run or a program needs.
    """
    code = """if True:
        import sys
        import hostrouting.check.check, hostrouting.kernel.netlink.backend, hostrouting.routes.apply
        print(*sys.modules, sep="\\n")
    """
    done = completed([sys.executable, "-S", "-c", code], cwd=ROOT.parent)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "hostrouting" in loaded
    assert loaded.isdisjoint({"attr", "attrs", "phases", "logging", "subprocess"})
