"""hostrouting in a frozen program: as a zipapp, and by PyInstaller, which works for a minute, so
only CI makes a program with it. Its hooks are tested everywhere.
"""

import compileall
import os
import runpy
import shutil
import sys
import zipapp
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attr
import pytest

from hostrouting.boot.program import PACKAGES, Program
from hostrouting.cli.parser import COMMANDS
from hostrouting.host.files import LocalFiles
from hostrouting.host.layout import HostLayout
from tests.support.programs import completed

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "hostrouting"

AGENT = """\
import sys

import phases
from hostrouting import Configure, Host, HostRoutingConfig
from hostrouting.cli import main
from hostrouting.testing import FakeHost, h200

config = HostRoutingConfig.from_json('{"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"]}}')
report = phases.run(Configure(config, host=Host.offline(sys.argv[1])))
print(report)
sys.exit(main(["check", "172.16.0.0/16"], host=FakeHost(kernel=h200())) if report.ok else 70)
"""
"""It needs its own sources, which are read, and a command, which is loaded by its name."""


def answers(words: Sequence[str | Path], image: Path) -> None:
    """The agent puts the program of its library into an image, and a command finds what escapes."""
    image.mkdir()
    done = completed([*words, image], cwd="/", env={"PATH": os.environ["PATH"]})
    assert "Traceback" not in done.stderr  # it has the warnings, as no logging is configured
    assert done.returncode == 1
    assert "install-files            ok" in done.stdout
    assert "172.16.0.0/16 leaves through ib0" in done.stdout
    assert LocalFiles(image).read_bytes(HostLayout.program_path) == Program().content()


@pytest.mark.linux
def test_a_zipapp(tmp_path: Path) -> None:
    """An agent in an archive works with the standard library alone."""
    packed = tmp_path / "agent"
    for package in PACKAGES:
        [place] = import_module(package).__path__
        shutil.copytree(place, packed / package, ignore=shutil.ignore_patterns("__pycache__"))
    (packed / "__main__.py").write_text(AGENT)
    compileall.compile_dir(packed, quiet=1, legacy=True)
    zipapp.create_archive(packed, tmp_path / "agent.pyz")
    answers([sys.executable, "-I", "-S", tmp_path / "agent.pyz"], tmp_path / "image")


@pytest.mark.linux
@pytest.mark.freezes
@pytest.mark.skipif(find_spec("PyInstaller") is None, reason="it needs PyInstaller, from pip")
def test_pyinstaller(tmp_path: Path) -> None:
    """`pyinstaller --onefile agent.py` makes an agent that works, without any other option."""
    (tmp_path / "agent.py").write_text(AGENT)
    words = [sys.executable, "-m", "PyInstaller", "--onefile", "agent.py"]
    cache = {"PYINSTALLER_CONFIG_DIR": str(tmp_path / "cache")}
    done = completed(words, cwd=tmp_path, env=os.environ | cache)
    if "PythonLibraryNotFoundError" in done.stderr:
        pytest.skip("it needs the shared library of Python: on Debian, the package libpython3-dev")
    assert done.returncode == 0, done.stderr
    answers([tmp_path / "dist/agent"], tmp_path / "image")


def hook_for(module: str) -> dict[str, Any]:
    """What PyInstaller reads when a program imports this module."""
    (folder,) = import_module("hostrouting.__pyinstaller").get_hook_dirs()
    return runpy.run_path(f"{folder}/hook-{module}.py")


def test_the_hooks() -> None:
    """Each package that a node needs is there, and each command, which is loaded by its name."""
    places = {name: Path(source) for source, name in hook_for("hostrouting.boot.program")["datas"]}
    assert {*places} == {*PACKAGES}
    assert places["hostrouting"] == PACKAGE
    assert places["attr"] == Path(attr.__file__).parent
    wanted = {f"hostrouting.cli.commands.{name}" for name in COMMANDS}
    assert wanted <= {*hook_for("hostrouting.cli.parser")["hiddenimports"]}
