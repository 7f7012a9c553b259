"""hostrouting.boot.archive: what tar makes of it is what `apply` writes."""

import io
import json
import os
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from hostrouting.boot.archive import tar_of
from hostrouting.boot.files import files_of
from hostrouting.boot.units import DROP_IN_TEXT
from hostrouting.config.settings import GateConfig, GuardConfig
from hostrouting.host.layout import HostLayout
from tests.support.cli import say
from tests.support.tasks import CIDR, REPAIR, config

WANTED = config(*REPAIR, cidrs=(CIDR,))._replace(
    guard=GuardConfig(enabled=True), manage_foreign="keep"
)
FILES = files_of(WANTED)
OWN = ("", "etc", "etc/systemd", "etc/systemd/system")
"""The folders that each host has already."""


def test_the_same_files_make_the_same_archive() -> None:
    """It depends on nothing else: no entry has a time, or a user of this machine. Each is there
    once, folders, too, and a folder comes before what is in it.
    """
    archive = tar_of(FILES)
    assert tar_of(FILES) == archive
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        entries = tar.getmembers()
    assert len(entries) > len(FILES)
    names = [entry.name for entry in entries]
    assert len(set(names)) == len(names)
    assert names.index("etc/hostrouting") < names.index("etc/hostrouting/gate.d")
    for entry in entries:
        assert entry.mtime == 0
        assert entry.uid == entry.gid == 0
        assert entry.uname == entry.gname == "root"


@pytest.mark.linux
def test_the_longest_names(tmp_path: Path) -> None:
    """A configuration may name any unit that a folder of systemd can be named after."""
    unit = f"{'a' * 243}.service"
    archive = tar_of(files_of(WANTED._replace(gate=GateConfig((unit,)))))
    subprocess.run(["tar", "-x", "-C", tmp_path], input=archive, check=True)
    drop_in = tmp_path / HostLayout.drop_in_path(unit).lstrip("/")
    assert drop_in.read_text() == DROP_IN_TEXT


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a host, as its administrator has it, with the archive unpacked."""
    root = tmp_path / "root"
    system = root / "etc/systemd/system"
    system.mkdir(parents=True)
    for folder in OWN:
        (root / folder).chmod(0o711)
    archive = tmp_path / "files.tar"
    file = tmp_path / "config.json"
    file.write_text(json.dumps(WANTED.to_mapping()))
    said = say("render", "--config", str(file), "--tar", str(archive))
    first, *_ = said.lines
    command = f"tar -xpf {archive} -C /"
    assert first == f"DONE: {len(FILES)} files; on the host, as root: {command}"
    subprocess.run(["tar", "-xpf", archive, "-C", root], check=True, umask=0)
    return root


def mode_of(path: Path) -> int:
    """The permissions of a file or folder."""
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.linux
@pytest.mark.needs("root")
def test_unpacked_as_root(root: Path) -> None:
    """Each file is root's, with its text and mode, whoever made the archive, and there are no
    others.
    """
    for wanted in FILES:
        path = root / wanted.path.lstrip("/")
        owner = path.lstat()
        assert owner.st_uid == owner.st_gid == 0
        if wanted.target:
            assert os.readlink(path) == wanted.target
        else:
            assert path.read_text() == wanted.text
            assert mode_of(path) == wanted.mode
    unpacked = [path for path in root.rglob("*") if path.is_symlink() or path.is_file()]
    assert len(unpacked) == len(FILES)


@pytest.mark.linux
@pytest.mark.needs("root")
def test_folders(root: Path) -> None:
    """Those that are new are closed to others, and what is there already stays."""
    own = {root / folder for folder in OWN}
    new = {(root / wanted.path.lstrip("/")).parent for wanted in FILES} - own
    assert {mode_of(folder) for folder in own} == {0o711}
    assert {mode_of(folder) for folder in new} == {0o755}


@pytest.mark.linux
def test_on_standard_output(tmp_path: Path) -> None:
    """The archive is all that is written there, also if the configuration comes on standard input;
    a document beside it is refused.
    """
    file = tmp_path / "config.json"
    file.write_text(json.dumps(WANTED.to_mapping()))
    command = [sys.executable, "-m", "hostrouting", "render", "--tar", "-"]
    document = file.read_bytes()
    made = subprocess.run(
        [*command, "--config", "-"], input=document, capture_output=True, check=True
    )
    words = [*command, "--config", str(file), "--json"]
    refused = subprocess.run(words, capture_output=True, text=True, check=False)
    assert made.stdout == tar_of(FILES)
    assert refused.returncode == 2
    assert "leave one of them out" in refused.stderr


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """The error names it."""
    file = tmp_path / "config.json"
    file.write_text("{}")
    said = say("render", "--config", str(file), "--tar", str(tmp_path / "none" / "x.tar"))
    assert said.code == 1
    assert f"cannot write {tmp_path}/none/x.tar: No such file or directory" in said.err


def test_the_file_of_an_empty_variable(tmp_path: Path) -> None:
    """The error shows that the name is empty."""
    file = tmp_path / "config.json"
    file.write_text("{}")
    said = say("render", "--config", str(file), "--tar", "")
    assert said.err.startswith("hostrouting: cannot write '': ")


@pytest.mark.linux
@pytest.mark.parametrize("name", ["07:50.tar", "node:1/files.tar", "node/07:50.tar", "-x.tar"])
def test_the_command_finds_the_archive(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without "./", tar would take what is before a colon for another host."""
    monkeypatch.chdir(tmp_path)
    archive = tmp_path / name
    archive.parent.mkdir(exist_ok=True)
    file = tmp_path / "config.json"
    file.write_text("{}")
    said = say("render", "--config", str(file), f"--tar={name}")
    command = said.lines[0].rpartition(": ")[2].replace("tar -xpf", "tar -tf").removesuffix(" -C /")
    subprocess.run(command, shell=True, check=True)  # noqa: S602  as an operator types it
