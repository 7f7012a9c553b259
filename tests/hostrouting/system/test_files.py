"""The edge of files: what is promised holds for the real one and for the double."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

import pytest

from hostrouting.errors import FileError
from hostrouting.system import Files, LocalFiles
from hostrouting.testing import FakeFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(params=["real", "fake"])
def files(request: pytest.FixtureRequest) -> Files:
    """The files of this machine, and their double."""
    return LocalFiles() if request.param == "real" else FakeFiles()


class TestBoth:
    """The promises of Files."""

    def test_write_and_read(self, files: Files, tmp_path: Path) -> None:
        """What is written is read back; folders on the way are made; None is read where there is nothing."""
        path = str(tmp_path / "a" / "b" / "file")
        assert files.read(path) is None
        assert not files.is_there(path)
        assert files.write(path, "text\n", mode=0o755)
        assert files.read(path) == "text\n"
        assert files.is_there(path)

    def test_unchanged(self, files: Files, tmp_path: Path) -> None:
        """The same text and mode again is no change; another text, or another mode, is one."""
        path = str(tmp_path / "file")
        assert files.write(path, "one")
        assert not files.write(path, "one")
        assert files.write(path, "one", mode=0o755)
        assert files.write(path, "two", mode=0o755)

    def test_told_before(self, files: Files, tmp_path: Path) -> None:
        """Whether writing or linking would do anything can be asked first, to the mode and the target of a link."""
        path, link = str(tmp_path / "file"), str(tmp_path / "link")
        assert not files.holds(path, "one")
        assert not files.leads(link, path)
        files.write(path, "one", mode=0o755)
        files.link(link, path)
        assert files.holds(path, "one", mode=0o755)
        assert files.leads(link, path)
        assert not files.holds(path, "two", mode=0o755)
        assert not files.holds(path, "one", mode=0o644)
        assert not files.leads(link, "/elsewhere")
        assert not files.leads(path, path)
        assert not files.holds(link, "one", mode=0o755), "nothing is written through a link"

    def test_remove(self, files: Files, tmp_path: Path) -> None:
        """Removing says whether there was anything."""
        path = str(tmp_path / "file")
        files.write(path, "x")
        assert files.remove(path)
        assert not files.remove(path)
        assert not files.remove(str(tmp_path / "no" / "folder" / "file"))

    def test_links(self, files: Files, tmp_path: Path) -> None:
        """A link is made, changed, found where it leads nowhere, and removed; nothing is written through it."""
        path = str(tmp_path / "wants" / "unit")
        assert files.link(path, "/nowhere/unit")
        assert not files.link(path, "/nowhere/unit")
        assert files.link(path, "/elsewhere/unit")
        assert files.is_there(path)
        with pytest.raises(FileError, match="is a link to /elsewhere/unit, and nothing is written through a link"):
            files.write(path, "x")
        assert files.remove(path)

    def test_modified(self, files: Files, tmp_path: Path) -> None:
        """A file that is not there was never written; of one that is, the time can be known."""
        path = str(tmp_path / "file")
        assert files.modified(path) is None
        files.write(path, "one")
        if isinstance(files, FakeFiles):
            files.times[path] = 1767225600.0
        else:
            os.utime(path, (0, 1767225600.0))
        assert files.modified(path) == 1767225600.0
        files.remove(path)
        assert files.modified(path) is None

    def test_lock(self, files: Files, tmp_path: Path) -> None:
        """A lock is had by one at a time, and by the next when it is released."""
        path = str(tmp_path / "run" / "lock")
        lock = files.try_lock(path)
        assert lock is not None
        assert files.try_lock(path) is None
        lock.release()
        again = files.try_lock(path)
        assert again is not None
        again.release()


class TestLocalFiles:
    """What only a real file system shows."""

    def test_untouched(self, tmp_path: Path) -> None:
        """A file that is as it should be is not touched: inode and times stay."""
        path = tmp_path / "file"
        LocalFiles().write(str(path), "text")
        os.utime(path, (1, 1))
        before = path.stat()
        assert not LocalFiles().write(str(path), "text")
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    @pytest.mark.skipif(os.geteuid() != 0, reason="giving a file away takes root")
    def test_owner(self, tmp_path: Path) -> None:
        """A file that somebody else owns, who could change it at any time, is not as it should be."""
        path = tmp_path / "script"
        LocalFiles().write(str(path), "text")
        os.chown(path, 65534, 65534)
        assert not LocalFiles().holds(str(path), "text")
        assert LocalFiles().write(str(path), "text")
        assert path.stat().st_uid == 0

    @pytest.mark.parametrize("umask", [0o000, 0o077])
    def test_mode(self, tmp_path: Path, umask: int) -> None:
        """The mode is the one that was asked for, and folders are their owner's alone to write, whatever the umask."""
        path = tmp_path / "one" / "two" / "script"
        before = os.umask(umask)
        try:
            LocalFiles().write(str(path), "#!/bin/sh\n", mode=0o755)
        finally:
            os.umask(before)
        assert {stat.S_IMODE(it.stat().st_mode) for it in (path, path.parent, path.parent.parent)} == {0o755}

    def test_masked_unit(self, tmp_path: Path) -> None:
        """A unit that an administrator masked stays masked, and the error says how to unmask it."""
        path = tmp_path / "static-routes.service"
        path.symlink_to("/dev/null")
        with pytest.raises(FileError, match="the unit is masked: systemctl unmask it"):
            LocalFiles().write(str(path), "x")
        assert path.is_symlink()

    def test_whole_or_not_at_all(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """When writing fails half way the old text stands, and nothing is left beside it."""
        path = tmp_path / "file"
        LocalFiles().write(str(path), "old")

        def full(_descriptor: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(FileError, match=r"cannot write .*/file: No space left on device; make room"):
            LocalFiles().write(str(path), "new")
        assert path.read_text(encoding="utf-8") == "old"
        assert [it.name for it in tmp_path.iterdir()] == ["file"]

    def test_what_is_no_text(self, tmp_path: Path) -> None:
        """Bytes that are no text are not what we wrote, and are written over; the rest of it can be read."""
        path = tmp_path / "file"
        path.write_bytes(b"ours \xff")
        assert (LocalFiles().read(str(path)) or "").startswith("ours ")
        assert LocalFiles().write(str(path), "text")

    def test_a_folder_in_its_place(self, tmp_path: Path) -> None:
        """A folder where a file should be is an error that names it."""
        (tmp_path / "file").mkdir()
        with pytest.raises(FileError, match=r"/file: Is a directory; there is a folder in its place: remove it"):
            LocalFiles().write(str(tmp_path / "file"), "x")
        with pytest.raises(FileError, match="cannot remove"):
            LocalFiles().remove(str(tmp_path / "file"))

    def test_a_temporary_file_that_was_left(self, tmp_path: Path) -> None:
        """What an interrupted run left beside the file, or somebody planted there, is not written through."""
        victim = tmp_path / "victim"
        victim.write_text("precious", encoding="utf-8")
        (tmp_path / "file.new").symlink_to(victim)
        assert LocalFiles().write(str(tmp_path / "file"), "x")
        assert victim.read_text(encoding="utf-8") == "precious"
        assert sorted(it.name for it in tmp_path.iterdir()) == ["file", "victim"]

    def test_what_a_killed_run_left(self, tmp_path: Path) -> None:
        """What a run left that was killed while it wrote goes with the next write, or with the file."""
        files, left = LocalFiles(), tmp_path / "file.new"
        for wanted in (True, False):
            left.write_text("half")
            if wanted:
                files.write(str(tmp_path / "file"), "x")
            else:
                files.remove(str(tmp_path / "file"))
            assert not left.exists()

    def test_power_that_is_lost(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What was written, linked or removed is on the disk, its folder's entry too, when it is said to be done."""
        flushed: list[bool] = []
        real = os.fsync

        def fsync(descriptor: int) -> None:
            flushed.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
            real(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)
        files, path, link = LocalFiles(), str(tmp_path / "file"), str(tmp_path / "link")
        steps: dict[str, tuple[Callable[[], object], list[bool]]] = {
            "write": (lambda: files.write(path, "x"), [False, True]),
            "link": (lambda: files.link(link, path), [True]),
            "remove": (lambda: files.remove(path), [True]),
            "nothing": (lambda: files.remove(path), []),
        }
        for name, (step, expected) in steps.items():
            flushed.clear()
            step()
            assert flushed == expected, name

    def test_a_temporary_link_that_was_left(self, tmp_path: Path) -> None:
        """What an interrupted run left beside a link is in nobody's way."""
        (tmp_path / "link.new").symlink_to("/nowhere")
        assert LocalFiles().link(str(tmp_path / "link"), "/somewhere")
        assert [(it.name, os.readlink(it)) for it in tmp_path.iterdir()] == [("link", "/somewhere")]

    @pytest.mark.parametrize("there", [False, True])
    def test_a_lock_is_for_its_owner(self, tmp_path: Path, *, there: bool) -> None:
        """Nobody else can open the file of the lock, for whoever can open it can hold it."""
        path = tmp_path / "lock"
        if there:
            path.touch(0o666)
        lock = LocalFiles().try_lock(str(path))
        assert lock
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        lock.release()

    def test_a_lock_that_is_a_link(self, tmp_path: Path) -> None:
        """A link in the place of the lock is not followed."""
        (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(FileError, match="there is a link in its place"):
            LocalFiles().try_lock(str(tmp_path / "lock"))


def test_a_read_only_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be written, the remedy is a command that an operator can type."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(FileError, match=r"Read-only file system; remount it writable$"):
        LocalFiles().write(str(tmp_path / "file"), "text")
