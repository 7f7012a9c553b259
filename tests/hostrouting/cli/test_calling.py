"""What is printed to be typed calls hostrouting as it was called; and what Tab completes."""

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
    "one file that another Python runs": (f"{VERSIONED} hostrouting", ""),
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

    *_, last = type_in(f"{call} snapshott").splitlines()
    _, found, proposed = last.partition("did you mean: ")
    assert found
    assert proposed == f"{call} snapshot"
    assert type_in(proposed).startswith('{"schema": "hostrouting/snapshot/')
    assert f"In trouble: {call} status" in type_in(f"{call} --help")
    assert shlex.split(call)[-1] in type_in(f"{call} check --bad").splitlines()[0]


COMPLETE = """
eval "$(register-python-argcomplete hostrouting)"
COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMPREPLY=()
_python_argcomplete hostrouting
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("line", "completed_by"),
    [
        ("hostrouting ch", ["check "]),
        ("hostrouting apply --conf", ["--config", "--confirm", "--confirm-if"]),
        ("hostrouting check --ignore two", ["two-cnis "]),
        ("hostrouting plan --config new", ["new.json "]),
    ],
)
def test_tab(line: str, completed_by: list[str], tmp_path: Path) -> None:
    """A shell completes commands, options, names of findings, and files."""
    (tmp_path / "new.json").touch()
    path = f"{ENV}:{os.environ['PATH']}"
    environment = {**os.environ, **PLAIN, "PATH": path, "COMP_LINE": line}
    done = completed(["bash", "-c", COMPLETE], cwd=tmp_path, env=environment)
    assert done.stdout.splitlines() == completed_by, done.stderr
