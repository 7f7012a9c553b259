"""A Python that is too old is told so in one line, which says what to do instead, and never in a traceback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINE = "needs Python 3.10 or newer, and this is Python "
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


@pytest.mark.linux
def test_one_line() -> None:
    """An import prints one line and fails; a program can catch it as an ImportError."""
    done = told(sys.executable, "-c", PRETENDS + "import hostrouting")
    [line] = done.stderr.splitlines()
    assert line.startswith(f"hostrouting {LINE}3.8 (")
    assert REMEDY in line
    assert done.returncode == 1
    caught = "\ntry: import hostrouting\nexcept ImportError as error: print(error)\nraise RuntimeError('mine')"
    done = told(sys.executable, "-c", PRETENDS + caught)
    assert done.stdout == f"{line}\n"
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("RuntimeError: mine\n")


# The ways to start the command line: as Python starts each, after `import sys`.
STARTS = {
    "module": "import runpy; sys.argv = ['-m']; runpy.run_module('hostrouting', run_name='__main__')",
    "pyz": "import runpy; sys.argv = ['/tmp/h.pyz']; runpy.run_path('hostrouting/__main__.py', run_name='__main__')",
    "script": "sys.argv = ['/usr/bin/hostrouting', 'check']; from hostrouting.cli import main",
}


@pytest.mark.linux
@pytest.mark.parametrize("start", STARTS)
def test_the_command(start: str) -> None:
    """The command line ends with exit code 3, as for everything that is not possible here, however it is started."""
    done = told(sys.executable, "-c", PRETENDS + STARTS[start])
    [line] = done.stderr.splitlines()
    assert done.returncode == 3
    assert line.startswith(f"hostrouting {LINE}")


@pytest.mark.linux
def test_the_other_package() -> None:
    """The runner alone says which Python it needs."""
    done = told(sys.executable, "-c", PRETENDS + "import phases")
    assert done.stderr.splitlines()[-1] == f"ImportError: phases {LINE}3.8"


@pytest.mark.linux
def test_older_interpreters() -> None:
    """Every older interpreter that there is can read as far as the line."""
    for python in older():
        done = told(python, "-c", "import hostrouting")
        assert done.returncode == 1
        assert [line for line in done.stderr.splitlines() if LINE in line and REMEDY in line] == [done.stderr.strip()]
        for start in ("pyz", "script"):
            done = told(python, "-c", f"import sys; {STARTS[start]}")
            assert (done.returncode, LINE in done.stderr, done.stderr.count("\n")) == (3, True, 1), start
        assert told(python, "-c", "import phases").stderr.splitlines()[-1].startswith(f"ImportError: phases {LINE}")
