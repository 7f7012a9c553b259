"""What is printed to be typed calls hostrouting as it was called."""

import os
import shlex
import sys
from pathlib import Path

import pytest

from hostrouting.release import PROGRAM
from tests.support.cli import PLAIN
from tests.support.compiled import compiled_program
from tests.support.programs import completed

pytestmark = pytest.mark.linux

ENV = Path(sys.executable).parent
VERSIONED = ENV / "python{}.{}".format(*sys.version_info)
WAYS = {
    "in the PATH": ("hostrouting", str(ENV)),
    "by a path": ("'my env/bin/hostrouting'", ""),
    "one file": (f"{ENV}/python hostrouting.pyz", ""),
    "one file that is installed": ("hostrouting", "."),
    "one file that another Python runs": (f"{VERSIONED} hostrouting", ""),
    "a module": (f"{ENV}/python -m hostrouting", ""),
    "a module, with options": (f"{ENV}/python -I -m hostrouting", ""),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment, and with the one file."""
    folder = tmp_path_factory.mktemp("folder")
    (folder / "my env").symlink_to(ENV.parent)
    for name in (f"{PROGRAM}.pyz", PROGRAM):
        (folder / name).write_bytes(compiled_program(sys.executable))
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize("way", WAYS)
def test_a_command_is_printed_as_the_program_was_called(way: str, folder: Path) -> None:
    """It works as it stands."""
    call, path = WAYS[way]
    environment = {**os.environ, **PLAIN, "PATH": f"{path}:{os.environ['PATH']}"}

    def type_in(line: str) -> str:
        done = completed(["bash", "-c", line], cwd=folder, env=environment)
        return done.stdout + done.stderr

    *_, last = type_in(call).splitlines()
    _, _, proposed = last.partition("; all: ")
    assert proposed == f"{call} --help"
    assert f"In trouble: {call} status" in type_in(proposed)
    assert shlex.split(call)[-1] in type_in(f"{call} check --bad").splitlines()[0]
