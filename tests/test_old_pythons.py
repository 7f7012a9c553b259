"""A Python that is too old is told so in one line, which says what to do instead, and never in a traceback."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import completed

ROOT = Path(__file__).resolve().parent.parent
LINE = "hostrouting: Python 3.10 or newer is needed, and this is Python "
REMEDY = "'hostrouting snapshot --script'"
PRETENDS = "import sys; sys.version_info = (3, 8, 18, 'final', 0); sys.path.insert(0, '.'); "


def older() -> list[str]:
    """The interpreters of this machine that are too old, which may be none."""
    names = ["python2.7", *(f"python3.{minor}" for minor in range(10))]
    found = [path for name in names if (path := shutil.which(name))]
    code = "import sys; sys.exit(sys.version_info >= (3, 10))"
    return [it for it in found if not subprocess.run([it, "-c", code], capture_output=True, check=False).returncode]


def told(*command: str) -> subprocess.CompletedProcess[str]:
    """Run it in the folder of the two packages, without leaving compiled files there."""
    return completed(command, cwd=ROOT, env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"})


# As Python starts hostrouting.pyz.
START = "import runpy; runpy.run_path('hostrouting/__main__.py', run_name='__main__')"


@pytest.mark.linux
def test_the_command() -> None:
    """The command line prints one line and ends with exit code 3, as for everything that is not possible here."""
    ways = [(python, "-c", START) for python in older()]
    ways += [(python, "-m", "hostrouting") for python in older() if not python.endswith("2.7")]
    for before, command in [(PRETENDS, (sys.executable, "-c", PRETENDS + START)), *(("", way) for way in ways)]:
        done = told(*command)
        [line] = done.stderr.splitlines()
        assert done.returncode == 3
        assert line.startswith(f"{LINE}{'3.8 (' if before else ''}")
        assert REMEDY in line


@pytest.mark.linux
def test_what_is_read_before_that() -> None:
    """With `-m`, an old Python reads the package first: its own file only, which such a Python can read."""
    code = f"{PRETENDS} import runpy, atexit; atexit.register(lambda: print(*sys.modules)); "
    done = told(sys.executable, "-c", f"{code} runpy.run_module('hostrouting', run_name='__main__')")
    assert (done.returncode, done.stderr.startswith(LINE)) == (3, True)
    assert [name for name in done.stdout.split() if name.startswith(("hostrouting", "phases"))] == ["hostrouting"]
    text = (ROOT / "hostrouting" / "__init__.py").read_text(encoding="utf-8")
    body = ast.parse(text, feature_version=(3, 6)).body
    assert not [node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
