"""hostrouting.boot.archive: what tar makes of it is what `apply` writes."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hostrouting.boot.archive import tar_of
from hostrouting.boot.files import files_of
from hostrouting.config.settings import GuardConfig
from tests.support.cli import say
from tests.support.tasks import CIDR, REPAIR, config

WANTED = config(*REPAIR, cidrs=(CIDR,))._replace(
    guard=GuardConfig(enabled=True), manage_foreign="keep"
)


def test_the_same_files_make_the_same_archive() -> None:
    """It depends on nothing else: no time, no user, no folder."""
    assert tar_of(files_of(WANTED)) == tar_of(files_of(WANTED))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a host, as its administrator has it, with the archive unpacked."""
    archive, root, file = (tmp_path / name for name in ("files.tar", "root", "config.json"))
    system = root / "etc/systemd/system"
    system.mkdir(parents=True)
    system.chmod(0o711)
    file.write_text(json.dumps(WANTED.to_mapping()))
    said = say("render", "--config", str(file), "--tar", str(archive))
    assert said.lines[0] == (
        f"DONE: {len(files_of(WANTED))} files; on the host, as root: tar -xpf {archive} -C /"
    )
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
    for wanted in files_of(WANTED):
        path = root / wanted.path.lstrip("/")
        assert (path.lstat().st_uid, path.lstat().st_gid) == (0, 0)
        if wanted.target:
            assert os.readlink(path) == wanted.target
        else:
            assert path.read_text() == wanted.text
            assert mode_of(path) == wanted.mode
    files = [path for path in root.rglob("*") if path.is_symlink() or path.is_file()]
    assert len(files) == len(files_of(WANTED))


@pytest.mark.linux
@pytest.mark.needs("root")
def test_folders(root: Path) -> None:
    """Those that are new are closed to others, and what is there already stays."""
    system = root / "etc/systemd/system"
    folders = {(root / wanted.path.lstrip("/")).parent for wanted in files_of(WANTED)}
    assert {mode_of(folder) for folder in folders - {system}} == {0o755}
    assert mode_of(system) == 0o711


@pytest.mark.linux
def test_on_standard_output(tmp_path: Path) -> None:
    """The archive is all that is written there, also if the configuration comes on standard input;
    a document beside it is refused.
    """
    file = tmp_path / "config.json"
    file.write_text(json.dumps(WANTED.to_mapping()))
    words = [sys.executable, "-m", "hostrouting", "render", "--config", "-", "--tar", "-"]
    made = subprocess.run(words, input=file.read_bytes(), capture_output=True, check=True)
    assert made.stdout == tar_of(files_of(WANTED))
    words[words.index("-")] = str(file)
    refused = subprocess.run([*words, "--json"], capture_output=True, text=True, check=False)
    assert (refused.returncode, "leave one of them out" in refused.stderr) == (2, True)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """The error names it."""
    file = tmp_path / "config.json"
    file.write_text("{}")
    said = say("render", "--config", str(file), "--tar", str(tmp_path / "none" / "x.tar"))
    assert said.code == 1
    assert f"cannot write {tmp_path}/none/x.tar: No such file or directory" in said.err
