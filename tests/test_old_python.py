"""A Python that is too old says in one line what is needed: as a module, as the installed command,
and as the single file.

The files that such a Python would load are parsed as by Python 3.6, and this Python claims to be an
older one; where this machine has one from 3.6 to 3.9, that one is asked, too.
"""

import ast
import re
import shutil
import sys
from functools import cache
from pathlib import Path

import pytest

from hostrouting.host.layout import HostLayout
from hostrouting.release import OLDEST_PYTHON, REFUSED
from tests.support.compiled import compiled_program
from tests.support.programs import completed

ROOT = Path(__file__).resolve().parents[1]
LOADED_BEFORE_THE_CHECK = ("__main__.py", "__init__.py", "release.py", "node/__init__.py")
"""The files of hostrouting that Python reads before `__main__`, or `node`, has asked for its
version.
"""
TOO_OLD = range(6, 10)
LINE = re.compile(
    r"hostrouting needs Python 3\.10 or newer, and .+ is Python 3\.\d+\.\d+; "
    r"start it with a newer one, such as python3\.11, or install one\n"
)
NODE_LINE = re.compile(
    r"<3>hostrouting: Python 3\.10 or newer is needed, and /etc/hostrouting/python is Python "
    r"3\.\d+; as root: hostrouting apply --config /etc/hostrouting/config\.json\n"
)

pytestmark = pytest.mark.linux


@cache
def old_interpreters() -> list[str]:
    """The interpreters of this machine that are too old: one of each version, from the PATH."""
    interpreters: list[str] = []
    for minor in TOO_OLD:
        path = shutil.which(f"python3.{minor}")
        if path is None:
            continue
        # pyenv has a script in its place, also for what it cannot start.
        done = completed([path, "-c", "import sys; print(sys.executable)"])
        if not done.returncode:
            interpreters.append(done.stdout.strip())
    return interpreters


@pytest.mark.parametrize("name", LOADED_BEFORE_THE_CHECK)
def test_what_is_loaded_before_the_check_is_python_3_6(name: str) -> None:
    """Python 3.6 can parse it; `from __future__ import annotations` would be an
    error there, too.
    """
    oldest_that_ast_knows = (3, 7) if sys.version_info >= (3, 13) else (3, 6)
    text = (ROOT / "hostrouting" / name).read_text(encoding="utf-8")
    tree = ast.parse(text, feature_version=oldest_that_ast_knows)
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert "__future__" not in imported


CLAIMED = """
import runpy, sys
sys.version_info = (3, 9, 2, "final", 0)
sys.path.insert(0, sys.argv.pop(1))
"""
STARTS = {
    str(ROOT): (
        "runpy.run_module('hostrouting', run_name='__main__', alter_sys=True)",
        "from hostrouting.__main__ import run; sys.exit(run())",
    ),
    "hostrouting.pyz": ("runpy.run_path(sys.path[0], run_name='__main__')",),
}
"""By the place of the library: how its command is started, as a module, as it is installed, and as
the single file.
"""


def test_one_line_says_what_is_needed(tmp_path: Path) -> None:
    """The exit code is that of bad input, and there is no traceback; on real ones, too."""
    single_file(tmp_path)
    for place, starts in STARTS.items():
        for start in starts:
            claimed = [sys.executable, "-c", CLAIMED + start, place, "--help"]
            real = "import runpy, sys\nsys.path.insert(0, sys.argv.pop(1))\n" + start
            commands = [[old, "-B", "-c", real, place, "--help"] for old in old_interpreters()]
            for command in (claimed, *commands):
                done = completed(command, cwd=tmp_path)
                assert done.returncode == 2
                assert done.stdout == ""
                assert LINE.fullmatch(done.stderr), done.stderr


def test_on_a_node_whose_python_is_too_old(tmp_path: Path) -> None:
    """The gate says so in one line of the journal, and lets no unit start."""
    archive = single_file(tmp_path)
    code = HostLayout.call_code.format("gate")
    for interpreter in old_interpreters():
        words = [interpreter, "-I", "-S", "-c", code, "x", str(archive)]
        done = completed(words, cwd=tmp_path)
        assert done.returncode == REFUSED
        assert NODE_LINE.fullmatch(done.stderr), done.stderr


def single_file(folder: Path) -> Path:
    """hostrouting.pyz: the files that are loaded are also there as compiled files, which another
    Python cannot read.
    """
    path = folder / "hostrouting.pyz"
    path.write_bytes(compiled_program(sys.executable))
    return path


def test_the_version_is_that_of_the_package() -> None:
    """The package index and the message name the same version."""
    wanted = 'requires-python = ">={}.{}"'.format(*OLDEST_PYTHON)
    assert wanted in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
