"""A Python that is too old says in one line what is needed: as a module, as the installed command,
as the single file, and on a node. This Python claims to be one.
"""

import ast
import re
import sys
from pathlib import Path

import pytest

from hostrouting.release import OLDEST_PYTHON
from tests.support.compiled import compiled_program
from tests.support.programs import completed

ROOT = Path(__file__).resolve().parents[1]
LOADED_BEFORE_THE_CHECK = ("__main__.py", "__init__.py", "release.py", "node/__init__.py")
"""The files of hostrouting that Python reads before `__main__`, or `node`, has asked for its
version.
"""
LINE = re.compile(
    r"hostrouting needs Python 3\.10 or newer, and .+ is Python 3\.\d+\.\d+; "
    r"start it with a newer one, such as python3\.11, or install one\n"
)
pytestmark = pytest.mark.linux


@pytest.mark.parametrize("name", LOADED_BEFORE_THE_CHECK)
def test_what_is_loaded_before_the_check_is_python_3_6(name: str) -> None:
    """Python 3.6 can parse it, so `from __future__ import annotations` is not there."""
    oldest_that_ast_knows = (3, 7) if sys.version_info >= (3, 13) else (3, 6)
    text = (ROOT / "hostrouting" / name).read_text(encoding="utf-8")
    tree = ast.parse(text, feature_version=oldest_that_ast_knows)
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert "__future__" not in imported


@pytest.mark.parametrize(
    ("place", "start"),
    [
        (str(ROOT), "runpy.run_module('hostrouting', run_name='__main__', alter_sys=True)"),
        (str(ROOT), "from hostrouting.__main__ import run; sys.exit(run())"),
        ("hostrouting.pyz", "runpy.run_path(sys.path[0], run_name='__main__')"),
    ],
)
def test_one_line_says_what_is_needed(place: str, start: str, tmp_path: Path) -> None:
    """The exit code is that of bad input, and there is no traceback."""
    (tmp_path / "hostrouting.pyz").write_bytes(compiled_program(sys.executable))
    claim = "import runpy, sys\nsys.version_info = (3, 9, 2, 'final', 0)\n"
    code = f"{claim}sys.path.insert(0, {place!r}); {start}"
    done = completed([sys.executable, "-c", code, "--help"], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert LINE.fullmatch(done.stderr), done.stderr


def test_the_version_is_that_of_the_package() -> None:
    """The package index and the message name the same version."""
    wanted = 'requires-python = ">={}.{}"'.format(*OLDEST_PYTHON)
    assert wanted in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
