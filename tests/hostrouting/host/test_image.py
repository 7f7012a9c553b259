"""The files of an image: never out of it, and where its own links lead once it has booted."""

import ctypes
import errno
import os
import sys
import tempfile
from pathlib import Path

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import HostError, NotReady
from hostrouting.host.host import Host
from hostrouting.host.image import ImageFiles
from hostrouting.tasks.configure import Configure
from tests.support.children import as_nobody, running
from tests.support.programs import completed
from tests.support.tasks import failure_of

NAMES = st.sampled_from(["a", "b", "c", ".", ".."])
PATHS = st.lists(NAMES, min_size=1, max_size=5).map("/".join)
TREES = st.dictionaries(
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map("/".join),
    st.none() | PATHS | PATHS.map("/".__add__),
    max_size=8,
)
"""What is at some paths: a file that has its own name in it, or a link to somewhere."""


def grow(root: Path, tree: dict[str, str | None]) -> None:
    """Make the tree; of two that need one place, the first has it. Nothing is made behind a link, which may lead out."""
    for path, target in tree.items():
        place = root / path
        if any(folder.is_symlink() for folder in place.parents if root in folder.parents):
            continue
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if target is None:
                place.write_text(path, encoding="utf-8")
            else:
                place.symlink_to(target)
        except OSError:
            continue


def linux_reads(root: str, path: str) -> str | None:
    """What Linux reads there for a process with `root` as its root; None without a file."""

    class How(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint64) for name in ("flags", "mode", "resolve")]

    openat2, in_root = 437, 0x10
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    how = How(os.O_RDONLY, 0, in_root)
    libc, descriptor = ctypes.CDLL(None, use_errno=True), -1
    for _ in range(100):
        descriptor = libc.syscall(openat2, folder, path.encode(), ctypes.byref(how), ctypes.sizeof(how))
        # A rename or mount anywhere on this machine makes the kernel unsure of a "..", and it says so.
        if descriptor >= 0 or ctypes.get_errno() != errno.EAGAIN:
            break
    os.close(folder)
    if descriptor < 0:
        assert ctypes.get_errno() in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
        return None
    try:
        return os.read(descriptor, 100).decode()
    except IsADirectoryError:
        return None
    finally:
        os.close(descriptor)


def reads(files: ImageFiles, path: str) -> str | None:
    """What our code reads there; None if the file does not exist."""
    try:
        return files.read(path)
    except HostError:
        return None


@example({"a": "/b", "b/c": None}, "/a/c")
@example({"a/a": "../../../b", "b": None}, "/a/a")
@example({"a": "a", "b": None}, "/a/b")
@example({"a": None}, "/a/../a")
@given(tree=TREES, path=PATHS.map("/".__add__))
def test_as_linux_reads_it(tree: dict[str, str | None], path: str) -> None:
    """Whatever links there are: what is read is what a process reads whose root the image is."""
    with tempfile.TemporaryDirectory() as root:
        grow(Path(root), tree)
        found = linux_reads(root, path)
        if found is not None:
            assert reads(ImageFiles(root), root + path) == found
        elif (said := reads(ImageFiles(root), root + path)) is not None:
            # We forgive a way that leads through a file or nothing and back, as `a/../b` without an `a`.
            assert (Path(root) / said).read_text(encoding="utf-8") == said


class TestImage:
    """What a link of the image does to what is written there."""

    def test_an_absolute_link(self, tmp_path: Path) -> None:
        """The link is followed as in the booted image, so the machine that builds the image is not touched."""
        image, here = tmp_path / "image", tmp_path / "here"
        (image / "etc").mkdir(parents=True)
        here.mkdir()
        (image / "etc" / "systemd").symlink_to(here)
        files, path = ImageFiles(str(image)), f"{image}/etc/systemd/unit"
        assert files.write(path, "text", mode=0o755)
        assert (image / str(here)[1:] / "unit").read_text(encoding="utf-8") == "text"
        assert files.holds(path, "text", mode=0o755)
        assert files.is_there(path)
        assert files.remove(path)
        assert not files.is_there(path)
        assert files.link(path, "/elsewhere")
        assert files.leads(path, "/elsewhere")
        with pytest.raises(HostError, match="is a link to /elsewhere"):
            files.write(path, "text")
        assert list(here.iterdir()) == []

    def test_a_circle(self, tmp_path: Path) -> None:
        """Links that lead nowhere but to each other are named."""
        (tmp_path / "etc").symlink_to("/run")
        (tmp_path / "run").symlink_to("etc")
        with pytest.raises(HostError, match=r"/etc: its links form a loop; remove one of them"):
            ImageFiles(str(tmp_path)).write(f"{tmp_path}/etc/unit", "x")

    def test_the_root_itself(self, tmp_path: Path) -> None:
        """The root of this machine is an image, too, for a build in a chroot."""
        path = tmp_path / "folder" / "file"
        assert ImageFiles("/").write(str(path), "text")
        assert path.read_text(encoding="utf-8") == "text"

    @pytest.mark.needs("root")
    def test_the_lock_of_the_root_itself(self) -> None:
        """The lock is a file in the root folder, where only root may create one."""
        lock = ImageFiles("/").try_lock("/run/hostrouting/lock")
        assert lock
        lock.release()

    def test_what_a_killed_run_left(self, tmp_path: Path) -> None:
        """The lock file of a killed run does not hinder the next one, which removes it."""
        (tmp_path / ".hostrouting.lock").touch()
        lock = ImageFiles(str(tmp_path)).try_lock("/run/hostrouting/lock")
        assert lock
        lock.release()
        assert list(tmp_path.iterdir()) == []

    def test_a_lock_that_was_released_meanwhile(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A process that opened the lock file before its removal does not hold the lock of the next one."""
        files = ImageFiles(str(tmp_path))
        first = files.try_lock("/run/hostrouting/lock")
        assert first
        opened = os.open

        def late(path: str, *rest: int) -> int:
            descriptor = opened(path, *rest)
            first.release()
            return descriptor

        with monkeypatch.context() as patch:
            patch.setattr(os, "open", late)
            assert files.try_lock("/run/hostrouting/lock") is None
        again = files.try_lock("/run/hostrouting/lock")
        assert again
        again.release()

    @pytest.mark.linux
    @pytest.mark.needs("root")
    def test_a_user_who_may_only_look(self) -> None:
        """No lock of an unprivileged process keeps root from working on an image."""
        with tempfile.TemporaryDirectory(dir="/tmp") as name:  # the folder for tests is closed to other users
            root = Path(name)
            root.chmod(0o755)
            host = attrs.evolve(Host.offline(name), lock_wait=0.0)
            with as_nobody(f"exec flock {root} sh -c 'echo locked; sleep 60'") as (_, stdout):
                assert stdout.readline() == "locked\n"
                phases.execute(Configure(HostRoutingConfig(None, {"expectedCidrs": ["10.0.0.0/8"]}), host=host))
            assert (root / "etc/hostrouting/gate.d/20-check-route-overlap.sh").exists()
            with (
                host.locked(phases.Context()),
                as_nobody(f"exec flock -n {root}/.hostrouting.lock true 2>&1") as (_, out),
            ):
                assert "Permission denied" in out.read()

    @pytest.mark.linux
    def test_who_has_locked_it(self, tmp_path: Path) -> None:
        """An image that another process works on is an error after a while, with that process and the file."""
        lock = tmp_path / ".hostrouting.lock"
        with running("flock", str(lock), "sh", "-c", "echo $PPID; sleep 60") as (_, stdout):
            pid = stdout.readline().strip()
            host = attrs.evolve(Host.offline(str(tmp_path)), lock_wait=0.2)
            with pytest.raises(NotReady) as caught, host.locked(phases.Context(observers=[])):
                pytest.fail("two at once")
        assert f"within 0.2 s: process {pid} (flock) has locked {lock}; wait for it" in str(caught.value)

    @pytest.mark.linux
    @pytest.mark.needs("root")
    @pytest.mark.parametrize("there", [False, True])
    def test_an_image_that_is_read_only(self, tmp_path: Path, *, there: bool) -> None:
        """A read-only image can be compared with the configuration; still one run at a time."""
        code = f"""if True:
            from hostrouting.host.image import ImageFiles
            files = ImageFiles({str(tmp_path)!r})
            lock = files.try_lock("/run/hostrouting/lock")
            assert lock
            assert (files.try_lock("/run/hostrouting/lock") is None) == {there}
            lock.release()
        """
        mount = f"mount -t tmpfs none {tmp_path} && {'touch' if there else ': '} {tmp_path}/.hostrouting.lock"
        script = f'{mount} && mount -o remount,ro {tmp_path} && exec "$@"'
        done = completed(["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", code])
        assert done.returncode == 0, done.stderr

    def test_behind_a_link(self, tmp_path: Path) -> None:
        """The image may be where a link leads; by either name it is one image, and locked as one."""
        (tmp_path / "image").mkdir()
        (tmp_path / "current").symlink_to("image")
        link, root = f"{tmp_path}/current", f"{tmp_path}/image"
        lock = ImageFiles(link).try_lock(f"{link}/run/lock")
        assert lock
        assert ImageFiles(root).try_lock(f"{root}/run/lock") is None
        lock.release()
        assert ImageFiles(link).write(f"{link}/etc/unit", "text")
        assert ImageFiles(root).read(f"{root}/etc/unit") == "text"

    def test_no_image_there(self, tmp_path: Path) -> None:
        """A missing folder is not an image: nothing is created for a mistyped name."""
        config = HostRoutingConfig({}, {"expectedCidrs": ["172.16.0.0/16"]})
        failure_of(
            phases.execute,
            Configure(config, host=Host.offline(f"{tmp_path}/nowhere")),
            match="/nowhere: No such file or directory; mount the image there first",
        )
        assert not list(tmp_path.iterdir())
