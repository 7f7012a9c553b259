"""The edge of files: what is promised holds for the real one and for the double."""

import errno
import os
import re
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hostrouting.errors import HostError
from hostrouting.host.files import Files, LocalFiles
from hostrouting.testing import FakeFiles
from tests.support.children import in_child, running
from tests.support.needs import require
from tests.support.programs import completed


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

    @pytest.mark.parametrize("mode", [0o600, 0o644, 0o440, 0o044, 0o622, 0o664, 0o755, 0o4600])
    def test_protected(self, files: Files, tmp_path: Path, mode: int) -> None:
        """A file that only its owner can write, and that nobody can run, is protected; a link or a folder is not.

        Kills: each digit of PROTECTED with one bit less.
        """
        path, link = str(tmp_path / "file"), str(tmp_path / "link")
        files.write(path, "one", mode=mode)
        files.link(link, path)
        assert files.is_protected(path) == (mode in {0o600, 0o644, 0o440})
        assert not any(map(files.is_protected, (link, str(tmp_path), str(tmp_path / "absent"))))

    def test_remove(self, files: Files, tmp_path: Path) -> None:
        """remove() returns whether the file existed."""
        path = str(tmp_path / "file")
        files.write(path, "x")
        assert files.remove(path)
        assert not files.remove(path)
        assert not files.remove(str(tmp_path / "no" / "folder" / "file"))

    def test_an_empty_folder(self, files: Files, tmp_path: Path) -> None:
        """A folder with a file stays, and so does what is not a folder; one that is empty is gone afterwards."""
        folder, path = str(tmp_path / "folder"), str(tmp_path / "folder" / "file")
        files.write(path, "x")
        assert not files.remove_empty(folder)
        assert not files.remove_empty(path)
        assert files.read(path) == "x"
        files.remove(path)
        files.remove_empty(folder)
        assert not files.is_there(folder)
        assert not files.remove_empty(folder)

    def test_links(self, files: Files, tmp_path: Path) -> None:
        """A link is made, changed, found where it leads nowhere, and removed; nothing is written through it."""
        path = str(tmp_path / "wants" / "unit")
        assert files.link(path, "/nowhere/unit")
        assert not files.link(path, "/nowhere/unit")
        assert files.link(path, "/elsewhere/unit")
        assert files.is_there(path)
        with pytest.raises(HostError, match="is a link to /elsewhere/unit, and nothing is written through a link"):
            files.write(path, "x")
        assert files.remove(path)

    def test_a_link_that_leads_nowhere(self, files: Files, tmp_path: Path) -> None:
        """Below a link to a missing folder, nothing can be written; the link and the remedy are named."""
        link = str(tmp_path / "a")
        files.link(link, str(tmp_path / "gone"))
        told = (
            "No such file or directory; a part of the path is a link to a missing file or directory: remove that link"
        )
        with pytest.raises(HostError, match=rf"^cannot write {link}/x: ({link}.*: )?{told}$"):
            files.write(f"{link}/x", "text")


VERBS: dict[str, Callable[[Files, str], object]] = {
    "read": lambda files, path: files.read(path),
    "read again": lambda files, path: files.holds(path, "x"),
    "write": lambda files, path: files.write(path, "x"),
    "link": lambda files, path: files.leads(path, "/nowhere"),
    "link again": lambda files, path: files.link(path, "/nowhere"),
    "lock": lambda files, path: files.try_lock(path),
}


@pytest.mark.linux
class TestWhatIsNotAFile:
    """Something else in the place of a file is an error at once, for to open it may wait for ever."""

    def put(self, files: Files, path: str, kind: str) -> None:
        """Put it there, in the world that these files are of."""
        if isinstance(files, FakeFiles):
            files.strange[path] = kind
        elif kind == "a fifo":
            os.mkfifo(path)
        elif kind == "a directory":
            os.mkdir(path)
        elif kind == "a socket":
            with socket.socket(socket.AF_UNIX) as end:
                end.bind(path)
        else:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))

    @pytest.mark.parametrize("verb", VERBS)
    @pytest.mark.parametrize("kind", ["a fifo", "a directory", "a socket", "a device"])
    def test_refused(self, files: Files, tmp_path: Path, kind: str, verb: str) -> None:
        """The error names the path, what exists there, and the remedy; the file stays."""
        if kind == "a device":
            require("root")
        path = str(tmp_path / "it")
        self.put(files, path, kind)
        with pytest.raises(HostError) as caught:
            in_child(lambda: VERBS[verb](files, path), seconds=10)
        assert (
            str(caught.value) == f"cannot {verb.removesuffix(' again')} {path}: there is {kind} in its place; remove it"
        )
        assert caught.value.target == path
        assert files.is_there(path)

    @pytest.mark.parametrize("kind", ["a fifo", "a socket"])
    def test_removed(self, files: Files, tmp_path: Path, kind: str) -> None:
        """Removing a fifo does not open it, so that a marker can be written at its path again."""
        path = str(tmp_path / "it")
        self.put(files, path, kind)
        assert in_child(lambda: files.remove(path), seconds=10)

    def test_a_fifo_under_the_temporary_name(self, tmp_path: Path) -> None:
        """A fifo where the next text is prepared is not written into."""
        os.mkfifo(tmp_path / "file.new")
        assert in_child(lambda: LocalFiles().write(str(tmp_path / "file"), "x"), seconds=10)
        assert [path.name for path in tmp_path.iterdir()] == ["file"]


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

    @pytest.mark.needs("root")
    def test_owner(self, tmp_path: Path) -> None:
        """A file that another user owns is a difference, because that user could change it at any time."""
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
        with pytest.raises(HostError, match="the unit is masked: systemctl unmask it"):
            LocalFiles().write(str(path), "x")
        assert path.is_symlink()

    def test_whole_or_not_at_all(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """If writing fails half way, the old text stays, and no temporary file is left."""
        path = tmp_path / "file"
        LocalFiles().write(str(path), "old")

        def full(_descriptor: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(HostError, match=r"cannot write .*/file: No space left on device; free some space"):
            LocalFiles().write(str(path), "new")
        assert path.read_text(encoding="utf-8") == "old"
        assert [it.name for it in tmp_path.iterdir()] == ["file"]

    def test_a_folder_in_its_place(self, tmp_path: Path) -> None:
        """A folder where a file should be is an error that names it."""
        (tmp_path / "file").mkdir()
        with pytest.raises(HostError, match=r"cannot write .*/file: there is a directory in its place; remove it$"):
            LocalFiles().write(str(tmp_path / "file"), "x")
        with pytest.raises(HostError, match=r"cannot remove .*/file: there is a directory in its place; remove it$"):
            LocalFiles().remove(str(tmp_path / "file"))

    def test_a_folder_in_the_place_of_the_temporary_name(self, tmp_path: Path) -> None:
        """The error names the path that should be written and the path that is in the way."""
        (tmp_path / "file.new").mkdir()
        steps: list[Callable[[str], object]] = [
            lambda path: LocalFiles().write(path, "x"),
            lambda path: LocalFiles().link(path, "/nowhere"),
        ]
        for step in steps:
            with pytest.raises(
                HostError, match=r"cannot (write|link) .*/file: .*/file\.new: Is a directory; .*remove it"
            ):
                step(str(tmp_path / "file"))

    def test_a_fifo_on_the_way(self, tmp_path: Path) -> None:
        """Something else in the place of a folder is named."""
        os.mkfifo(tmp_path / "folder")
        path = f"{tmp_path}/folder/file"
        assert LocalFiles().read(path) is None
        assert not LocalFiles().remove(path)
        with pytest.raises(HostError, match=r"/folder.* Not a directory; a part of the path is not a directory"):
            LocalFiles().write(path, "x")

    def test_masked(self, tmp_path: Path) -> None:
        """What a link to /dev/null leads to is read as the empty text that systemd reads there."""
        (tmp_path / "unit").symlink_to("/dev/null")
        assert LocalFiles().read(str(tmp_path / "unit")) == ""

    def test_a_device_without_an_end(self, tmp_path: Path) -> None:
        """No other device is opened, because a read could have an effect or never end."""
        (tmp_path / "unit").symlink_to("/dev/zero")
        with pytest.raises(HostError, match=r"cannot read .*/unit: there is a device in its place; remove it"):
            LocalFiles().read(str(tmp_path / "unit"))

    def test_a_huge_file(self, tmp_path: Path) -> None:
        """A file far larger than any of ours is not read, and is overwritten at the path of one of ours."""
        path = tmp_path / "file"
        with path.open("wb") as stream:
            stream.truncate(1 << 40)
        with pytest.raises(
            HostError,
            match=r"cannot read .*/file: it is larger than 256 MiB, so it is not a file that hostrouting wrote",
        ):
            LocalFiles().read(str(path))
        assert not LocalFiles().holds(str(path), "text")
        assert LocalFiles().write(str(path), "text")
        assert path.stat().st_size == 4

    def test_a_temporary_file_that_was_left(self, tmp_path: Path) -> None:
        """A temporary file that an interrupted run or an attacker left there is not written through."""
        victim = tmp_path / "victim"
        victim.write_text("precious", encoding="utf-8")
        (tmp_path / "file.new").symlink_to(victim)
        assert LocalFiles().write(str(tmp_path / "file"), "x")
        assert victim.read_text(encoding="utf-8") == "precious"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "victim"]

    def test_what_a_killed_run_left(self, tmp_path: Path) -> None:
        """The temporary file of a killed run is removed with the next write, or with the file."""
        files, left = LocalFiles(), tmp_path / "file.new"
        for wanted in (True, False):
            left.write_text("half")
            if wanted:
                files.write(str(tmp_path / "file"), "x")
            else:
                files.remove(str(tmp_path / "file"))
            assert not left.exists()

    def test_power_that_is_lost(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """After write, link and remove return, file and folder entry are on the disk."""
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

    @pytest.mark.parametrize("there", [False, True])
    def test_a_lock_is_for_its_owner(self, tmp_path: Path, *, there: bool) -> None:
        """Only the owner can open the file of the lock, because a process that can open it can hold it."""
        path = tmp_path / "lock"
        if there:
            path.touch(0o666)
        lock = LocalFiles().try_lock(str(path))
        assert lock
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        lock.release()

    @pytest.mark.needs("root")
    def test_a_lock_that_belongs_to_another_user(self, tmp_path: Path) -> None:
        """A file that another user has created before is refused: this user could keep it open, whatever its mode."""
        path = tmp_path / "lock"
        path.touch(0o600)
        os.chown(path, 65534, 65534)
        with pytest.raises(HostError, match=r"/lock: it belongs to user 65534, who could hold it forever; remove it"):
            LocalFiles().try_lock(str(path))

    @pytest.mark.needs("root")
    def test_a_lock_in_the_folder_of_another_user(self, tmp_path: Path) -> None:
        """A folder in which another user could replace the lock is refused, with the command that mends it."""
        folder = tmp_path / "run"
        folder.mkdir(0o755)
        os.chown(folder, 65534, 65534)
        remedy = f"chown root: {folder}"
        with pytest.raises(HostError, match=rf"belongs to user 65534, who could remove the lock; {remedy}$"):
            LocalFiles().try_lock(f"{folder}/lock")
        os.chown(folder, 0, 65534)
        for mode in (0o757, 0o775):
            folder.chmod(mode)
            with pytest.raises(HostError, match=rf"can be written by other users, .*; chmod go-w {folder}$"):
                LocalFiles().try_lock(f"{folder}/lock")
        folder.chmod(0o1777)
        lock = LocalFiles().try_lock(f"{folder}/lock")
        assert lock, "nobody takes away what is another's there"
        lock.release()

    def test_a_lock_that_was_removed(self, tmp_path: Path) -> None:
        """Processes exclude each other even after the file of the lock is removed."""
        path = tmp_path / "lock"
        locks = []
        for _ in range(2):
            locks.append(LocalFiles().try_lock(str(path)))
            assert LocalFiles().try_lock(str(path)) is None
            path.unlink()
        for lock in locks:
            assert lock
            lock.release()

    @pytest.mark.linux
    def test_who_holds_a_lock(self, tmp_path: Path) -> None:
        """The process is named, with the words of a terminal that it may try to steer; where none is, the command."""
        path = tmp_path / "lock"
        assert LocalFiles().holder(str(path)) == f"to see who has locked {path}: fuser {path}"
        code = "import fcntl, time; open('/proc/self/comm', 'w').write('\\x1b[31m'); lock = open(%r, 'w')"
        code += "; fcntl.flock(lock, fcntl.LOCK_EX); print(flush=True); time.sleep(60)"
        with running(sys.executable, "-c", code % str(path)) as (_, stdout):
            stdout.readline()
            said = LocalFiles().holder(str(path))
        assert re.fullmatch(rf"process \d+ \('\\x1b\[31m'\) has locked {path}", said)

    def test_two_that_hold_a_lock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Both are named."""
        monkeypatch.setattr(LocalFiles, "_holders", lambda *_: ("process 1 (a)", "process 2 (b)"))
        assert LocalFiles().holder("/run/x") == "process 1 (a) and process 2 (b) have locked /run/x"

    def test_a_lock_that_is_a_link(self, tmp_path: Path) -> None:
        """A link in the place of the lock is not followed."""
        (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(HostError, match="the path is a link: remove it"):
            LocalFiles().try_lock(str(tmp_path / "lock"))


@pytest.mark.linux
@pytest.mark.needs("root")
def test_root_that_is_denied(tmp_path: Path) -> None:
    """Root that is denied is not told to run as root, but what can deny something to root."""
    path = tmp_path / "file"
    path.touch(mode=0)
    os.chown(path, 65534, 65534)
    os.chown(tmp_path, 65534, 65534)
    tmp_path.chmod(0o555)
    code = f"""if True:
        from hostrouting.host.files import LocalFiles
        try:
            LocalFiles().read({str(path)!r})
        except Exception as error:
            print(error)
    """
    caps = "-dac_override,-dac_read_search"
    command = ["setpriv", f"--bounding-set={caps}", f"--inh-caps={caps}", sys.executable, "-c", code]
    done = completed(command, check=True)
    remedy = "root is denied too: look for an immutable file (lsattr), at SELinux, and at the container's capabilities"
    assert done.stdout == f"cannot read {path}: Permission denied; {remedy}\n"
