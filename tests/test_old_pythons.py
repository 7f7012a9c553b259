"""A Python that is too old is told so in one line, which says what to do instead, and never in a traceback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
    return subprocess.run(
        command,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


# As Python starts hostrouting.pyz.
START = "import runpy; runpy.run_path('hostrouting/__main__.py', run_name='__main__')"


@pytest.mark.linux
def test_the_command() -> None:
    """The command line prints one line and ends with exit code 3, as for everything that is not possible here."""
    for python, before in ((sys.executable, PRETENDS), *((path, "") for path in older())):
        done = told(python, "-c", before + START)
        [line] = done.stderr.splitlines()
        assert done.returncode == 3
        assert line.startswith(f"{LINE}{'3.8 (' if before else ''}")
        assert REMEDY in line
