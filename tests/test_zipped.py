"""hostrouting.pyz: one file to copy to a node that has Python and nothing else."""

import json
import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest

from hostrouting.boot.gate_files import render_gate_script
from hostrouting.cli.commands import COMMANDS
from hostrouting.testing import h200, plain_vm
from tests.support.bundle import DEPENDENCIES
from tests.support.commands import ports
from tests.support.fleets import save
from tests.support.namespace import private_namespace
from tests.support.programs import completed
from tests.support.zipped import write_pyz

pytestmark = pytest.mark.linux

CONFIG = {"staticRoutes": {"enabled": True, "routes": [{"destination": "10.77.0.0/16"}]}}


@pytest.fixture(scope="module")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file."""
    path = tmp_path_factory.mktemp("pyz") / "hostrouting.pyz"
    write_pyz(path)
    return path


def ran(pyz: Path, *words: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run the file with the standard library only."""
    return completed(
        [*before, sys.executable, "-I", "-S", str(pyz), *words], env={"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]}
    )


def test_a_snapshot_is_judged(pyz: Path, tmp_path: Path) -> None:
    """Verdict and exit code are those of the installed command."""
    (tmp_path / "node.json").write_text(h200().snapshot().to_json())
    done = ran(pyz, "check", "--snapshot", str(tmp_path / "node.json"), "172.16.0.0/16", "--json")
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["verdict"] == "overlap"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot, a configuration and an image."""
    path = tmp_path_factory.mktemp("inputs")
    (path / "node.json").write_text(h200().snapshot().to_json())
    (path / "config.json").write_text(json.dumps(CONFIG))
    (path / "image" / "etc").mkdir(parents=True)
    return path


SAVED, CONFIGURED = "--snapshot {folder}/node.json", "--config {folder}/config.json"
# Arguments of each command, with which it changes nothing but the image; and its exit code.
COMMAND_LINES = {
    "check": (f"172.16.0.0/16 {SAVED}", 1),
    "explain": (f"172.16.5.9 {SAVED}", 0),
    "repair": (f"172.16.0.0/16 {SAVED}", 0),
    "plan": (f"{CONFIGURED} {SAVED}", 1),
    "render": (f"{CONFIGURED} --root {{folder}}/image", 0),
    "snapshot": ("--script", 0),
}
ABOUT_THIS_HOST = {"apply", "clean", "gate", "guard", "remove", "status"}
"""These ask or change this host, so they are not run."""


def test_every_command_is_tried() -> None:
    """A new command has a row."""
    assert set(COMMANDS) == COMMAND_LINES.keys() | ABOUT_THIS_HOST


@pytest.mark.nightly
@pytest.mark.parametrize("name", COMMAND_LINES)
def test_a_command(pyz: Path, folder: Path, name: str) -> None:
    """Every command that can be run without changing a host works from the archive."""
    words, code = COMMAND_LINES[name]
    done = ran(pyz, name, *words.format(folder=folder).split())
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout


@pytest.mark.nightly
def test_many_nodes(pyz: Path, tmp_path: Path) -> None:
    """Processes that judge snapshots start from the archive."""
    save(tmp_path / "nodes", {"gpu": h200().snapshot(), "vm": plain_vm().snapshot()})
    words = ["--snapshots", str(tmp_path / "nodes")]
    done = ran(pyz, "check", "172.16.0.0/16", "--json", *words)
    assert (done.returncode, done.stderr) == (1, "")
    assert {it["node"]: it["verdict"] for it in map(json.loads, done.stdout.splitlines())} == {
        "gpu": "overlap",
        "vm": "ok",
    }


def test_boot_files_are_written(pyz: Path, tmp_path: Path) -> None:
    """The boot scripts are read from the archive."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "image" / "etc").mkdir(parents=True)
    done = ran(pyz, "render", "--config", str(tmp_path / "config.json"), "--root", str(tmp_path / "image"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "image/etc/hostrouting/host-routing-gate.sh").read_text() == render_gate_script()


@pytest.mark.nightly
@pytest.mark.needs("root")
def test_a_kernel_is_asked(pyz: Path) -> None:
    """Netlink works from the archive, next hop objects included, for which pyroute2 is loaded."""
    with private_namespace() as namespace:
        namespace.batch(["link set lo up", *ports("eth0"), "address add 10.0.0.4/24 dev eth0"])
        namespace.batch(["nexthop add id 7 via 10.0.0.1 dev eth0", "route add default nhid 7"])
        done = ran(pyz, "check", "192.168.0.0/16", before=namespace.enter)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("OK: every address of 192.168.0.0/16 leaves by eth0")


def test_what_is_in_it(pyz: Path) -> None:
    """Everything that the project depends on is in it, and no compiled file."""
    lines = [line for line in requires("hostrouting") or () if "extra ==" not in line]
    required = {re.split(r"[<>=;! ]", line)[0] for line in lines}
    assert {"attrs", "pyroute2"} <= required
    assert required <= set(DEPENDENCIES)
    archive = zipfile.ZipFile(pyz)
    names = archive.namelist()
    assert len(set(names)) == len(names)
    assert [name for name in names if name.endswith((".pyc", ".pyi", ".so"))] == ["hostrouting/__init__.pyi"]
    assert {(info.date_time, info.external_attr) for info in archive.infolist()} == {
        ((1980, 1, 1, 0, 0, 0), 0o644 << 16)
    }


def test_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If writing fails, the file of an earlier run stays, and no temporary file is left."""
    (tmp_path / "h.pyz").write_text("earlier")

    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", fail)
    with pytest.raises(OSError, match="no space left"):
        write_pyz(tmp_path / "h.pyz")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["earlier"]
