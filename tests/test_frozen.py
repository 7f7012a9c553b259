"""hostrouting in a frozen program: PyInstaller is told by the package itself what it cannot see in
the code.
"""

import runpy
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from hostrouting.boot.scripts import asset
from hostrouting.errors import HostError

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "hostrouting"


def hook_for(module: str) -> dict[str, Any]:
    """What PyInstaller reads when a program imports this module."""
    (folder,) = import_module("hostrouting.__pyinstaller").get_hook_dirs()
    return runpy.run_path(f"{folder}/hook-{module}.py")


def test_pyinstaller_finds_the_hooks() -> None:
    """It asks each installed package by this entry point."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = "[project.entry-points.pyinstaller40]"
    _, _, section = text.partition(named)
    assert 'hook-dirs = "hostrouting.__pyinstaller:get_hook_dirs"' in section.partition("[")[0]


def test_the_scripts_are_in_a_frozen_program() -> None:
    """Every file of the package that is not Python goes along with the module that reads it, to the
    same place.
    """
    (pair,) = hook_for("hostrouting.boot.scripts")["datas"]
    source, destination = pair
    assert ROOT / destination == Path(source)
    others = {
        path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}
    }
    assert others == {*Path(source).iterdir(), PACKAGE / "py.typed"}


def test_the_commands_are_in_a_frozen_program() -> None:
    """The command line loads them by name, so PyInstaller does not see them."""
    commands = {path.stem for path in (PACKAGE / "cli/commands").glob("*.py")} - {"__init__"}
    wanted = {f"hostrouting.cli.commands.{name}" for name in commands}
    assert {*hook_for("hostrouting.cli.parser")["hiddenimports"]} == wanted


def test_a_script_that_is_missing() -> None:
    """The error names the file, and says how it comes into a frozen program."""
    with pytest.raises(
        HostError, match=r"assets/gone\.sh, a part of hostrouting: No such file"
    ) as caught:
        asset("gone.sh")
    assert caught.value.target == str(PACKAGE / "boot/assets/gone.sh")
    assert "install hostrouting with pip" in str(caught.value)
