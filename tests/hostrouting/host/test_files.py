"""The edge of files: the fake is as the real one, and a file is whole or not there."""

import errno
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given, strategies as st

from hostrouting.errors import HostError
from hostrouting.host.base import Files
from hostrouting.host.files import Entry, LocalFiles
from hostrouting.host.fileset import File
from hostrouting.testing import FakeFiles
from tests.support.children import in_child
from tests.support.locks import leased_by_another_user
from tests.support.programs import completed

# The contract of Files, on a folder and on the fake

FILES, LINKS = ("/a", "/d/x", "/d/y"), ("/l", "/d/m")
PATHS = st.sampled_from([*FILES, *LINKS, "/d"])
STEPS: st.SearchStrategy[tuple[Any, ...]] = st.one_of(
    st.tuples(
        st.just("write"),
        PATHS,
        st.sampled_from(["", "text\r\n\n", "\u00e9", b"\xff\r\n\0"]),
        st.sampled_from([0o644, 0o755, 0o600]),
    ),
    st.tuples(
        st.just("link"),
        st.sampled_from([*LINKS, "/d"]),
        st.sampled_from([*FILES, "/d", "/gone", "/gone/x", "/dev/null", "x"]),
    ),
    st.just(("link", "/d/m", "../a")),  # from /l, it would lead out of the folder
    st.tuples(st.sampled_from(["remove", "read", "read_bytes", "look"]), PATHS),
    st.tuples(st.just("names"), st.sampled_from(["/d", "/gone", "/a", "/a/x"])),
)


def outcome(files: Files, root: str, verb: str, path: str, *more: Any, below: str = "") -> str:
    """What a step returns, or the sentence of its error; whoever runs the tests is root there."""
    if verb == "link" and more[0] != "/dev/null" and more[0].startswith("/"):
        more = (below + more[0],)
    mode = {"mode": more[1]} if verb == "write" else {}
    try:
        value = getattr(files, verb)(below + path, *more[:1], **mode)
    except HostError as error:
        value = str(error)
    return repr(value).replace(root, "").replace(f"owner={os.geteuid()}", "owner=0")


@given(st.lists(STEPS, max_size=12))
@example([("link", "/l", "/dev/null"), ("read", "/l")])  # as systemd masks a unit
@example([("link", "/l", "/d"), ("read", "/l"), ("read", "/d"), ("names", "/d/kept/x")])
@example([("write", "/d/x", "text", 0o644), ("link", "/d/m", "x"), ("read", "/d/m")])
@example([("link", "/l", "/a"), ("write", "/l", "text", 0o644), ("read", "/a"), ("remove", "/l")])
def test_the_fake_is_as_a_folder(steps: list[tuple[Any, ...]]) -> None:
    """Each step returns the same, or raises the same sentence, also below the root "/"."""
    with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as folder:
        fake, image, here = FakeFiles(), LocalFiles(root), LocalFiles()
        # The fake has folders while something is in them.
        for step in [("write", "/d/kept", "", 0o644), *steps]:
            expected = outcome(fake, "-", *step)
            assert outcome(image, root, *step) == expected, step
            assert outcome(here, folder, *step, below=folder) == expected, step


# An image, and what a process sees that has it as its root

NAMES = st.sampled_from(["a", "b", "c", ".", ".."])
WAYS = st.lists(NAMES, min_size=1, max_size=5).map("/".join)
TREES = st.dictionaries(
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map("/".join),
    st.none() | WAYS | WAYS.map("/".__add__),
    max_size=8,
)
"""What is at some paths: a file that has its own name in it, or a link to somewhere."""


def grow(root: Path, tree: dict[str, str | None]) -> None:
    """Make the tree; nothing is made behind a link, which may lead out."""
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

    def read() -> str | None:
        os.chroot(root)
        try:
            return os.read(os.open(path, os.O_RDONLY), 100).decode()
        except OSError:  # root is never refused for lack of rights
            return None

    return in_child(read)


@example({"a": "/b", "b/c": None}, "/a/c")
@example({"a/a": "../../../b", "b": None}, "/a/a")
@example({"a/a": "/b", "b": None}, "/a/a")
@example({"a": "a", "b": None}, "/a/b")
@example({"a": None}, "/a/../a")
@example({"a": "/gone"}, "/a/b")
@example({"a/b/c": None, "a/d": None}, "/a/b/../d")
@given(tree=TREES, path=WAYS.map("/".__add__))
@pytest.mark.linux
@pytest.mark.needs("root")
def test_an_image_is_as_linux_sees_it(tree: dict[str, str | None], path: str) -> None:
    """A process with this root reads the same; nothing outside is read, written or made."""
    with tempfile.TemporaryDirectory() as folder:
        outside, root = Path(folder), f"{folder}/image"
        os.mkdir(root)
        grow(Path(root), tree)
        image = LocalFiles(root)

        by_linux = linux_reads(root, path)
        read = None
        with suppress(HostError):
            read = image.read(path)
        # We forgive a way through a file or nothing and back, as `a/../b` without an `a`.
        if read is not None and by_linux is None:
            assert Path(root, read).read_text() == read
        else:
            assert read == by_linux

        expected = [by_linux]
        with suppress(HostError):
            image.write(path, "new")
            assert image.read(path) == "new"
            expected = ["new"] if by_linux else ["new", None]
        assert linux_reads(root, path) in expected
        assert os.listdir(outside) == ["image"]


def test_links_that_form_a_loop(tmp_path: Path) -> None:
    """The error names the path. Another link is followed inside the image; a file stays a file."""
    image = LocalFiles(tmp_path)
    image.link("/run", "/run")
    with pytest.raises(HostError, match=r"/run: its links form a loop; remove one of them"):
        image.write("/run/unit", "x")
    image.link("/link", "/folder")
    image.write("/folder/file", "x")
    assert image.names("/link") == ("file",)
    with pytest.raises(HostError, match="a part of the path is not a folder: remove that file"):
        image.write("/folder/file/x", "x")
    assert image.look("/folder/file") == Entry("file", 0o644)


# What only a real file system shows. This machine's own root is an image, too.

HERE = LocalFiles()
VERBS: dict[str, Callable[[str], object]] = {
    "read": HERE.read,
    "write": lambda path: HERE.write(path, "x"),
    "link": lambda path: HERE.link(path, "/nowhere"),
    "remove": HERE.remove,
}


@pytest.mark.linux
@pytest.mark.parametrize("verb", ["read", "write", "link"])
@pytest.mark.parametrize("kind", ["special file", "directory"])
def test_what_is_not_a_file(tmp_path: Path, kind: str, verb: str) -> None:
    """It is an error at once, as to open it may wait for ever, and the thing stays."""
    path = tmp_path / "it"
    if kind == "directory":
        path.mkdir()
    else:
        os.mkfifo(path)

    def try_it(verb: str = verb) -> tuple[str, str]:
        with pytest.raises(HostError) as caught:
            VERBS[verb](str(path))
        return str(caught.value), caught.value.target

    sentence = f"cannot {verb} {path}: it is a {kind}; remove it"
    assert in_child(try_it) == (sentence, str(path))
    if kind == "directory":
        assert try_it("remove") == (sentence.replace(verb, "remove", 1), str(path))
    else:
        HERE.remove(str(path))
        assert not os.path.lexists(path), "a marker can be written there again"


@pytest.mark.linux
def test_a_file_of_the_kernel(tmp_path: Path) -> None:
    """It is not opened, because to read it may wait for ever. Of a file, 16 MB at most are read."""
    (tmp_path / "it").symlink_to("/proc/version")
    assert HERE.read(str(tmp_path / "it")) == ""
    (tmp_path / "long").touch()
    os.truncate(tmp_path / "long", 1 << 40)
    assert HERE.read_bytes(f"{tmp_path}/long") == bytes(16_000_000)


@pytest.mark.linux
@pytest.mark.needs("root")
def test_a_file_that_its_owner_has_leased(tmp_path: Path) -> None:
    """It is an error at once: Linux lets who opens it wait for the end of the lease, for 45 s."""
    path = tmp_path / "it"
    path.write_text("text")
    for try_it in (HERE.read, lambda path: HERE.lock(path, list)):
        with (
            leased_by_another_user(path),
            pytest.raises(HostError, match=f"{path}: Resource temporarily unavailable"),
        ):
            try_it(str(path))


@pytest.mark.needs("root")
def test_a_file_of_another_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner could change it at any time, so it is replaced; in an image it may stay."""
    path, file = tmp_path / "script", File(str(tmp_path / "script"), "text")

    def is_open_to_others() -> bool:
        entry = HERE.look(file.path)
        return entry is not None and entry.is_open_to_others

    file.write(HERE)
    assert not is_open_to_others()
    path.chmod(0o664)
    assert is_open_to_others()
    path.chmod(0o644)
    os.chown(path, 65534, 65534)
    assert file.differs(HERE)
    assert is_open_to_others()
    assert File("/script", "text").differs(LocalFiles(tmp_path))
    with monkeypatch.context() as as_owner:
        as_owner.setattr(os, "geteuid", lambda: 65534)
        assert file.differs(HERE)
        assert not File("/script", "text").differs(LocalFiles(tmp_path))
    file.write(HERE)
    assert path.stat().st_uid == 0
    assert not file.differs(HERE)


def test_mode(tmp_path: Path) -> None:
    """The mode is the requested one; folders are their owner's alone, whatever the umask."""
    folder = tmp_path / "one" / "two"
    opened = os.listdir("/proc/self/fd")
    before = os.umask(0o077)
    try:
        HERE.write(f"{folder}/script", "#!/bin/sh\n", mode=0o755)
        HERE.write(f"{folder}/text", "a text\n")
        HERE.read(f"{folder}/text")
        HERE.lock(f"{tmp_path}/lock", list).release()
    finally:
        os.umask(before)
    assert os.listdir("/proc/self/fd") == opened, "the guard runs for years"
    paths = (folder.parent, folder, folder / "script", folder / "text")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in paths]
    assert modes == [0o755, 0o755, 0o755, 0o644]


@pytest.mark.linux
def test_nobody_else_can_write_at_any_moment(tmp_path: Path) -> None:
    """Not even between two calls of the system: what others make or open there first is theirs."""

    def places_of_others() -> set[str]:
        places: set[str] = set()
        is_looking = False

        def look(*_: object) -> None:
            nonlocal is_looking
            if is_looking:  # what looks is audited, too
                return
            is_looking = True
            for place in tmp_path.rglob("*"):
                if stat.S_IMODE(place.lstat().st_mode) & 0o022 and not place.is_symlink():
                    places.add(str(place))
            is_looking = False

        os.umask(0)
        sys.addaudithook(look)
        HERE.write(f"{tmp_path}/etc/ours/text", "a text\n")
        HERE.write(f"{tmp_path}/etc/ours/text", "another\n")
        HERE.link(f"{tmp_path}/units/wants/link", "/nowhere")
        HERE.lock(f"{tmp_path}/run/ours/lock", list).release()
        return places

    assert in_child(places_of_others) == set()


@pytest.mark.parametrize(
    ("step", "number", "remedy"),
    [
        ("fsync", errno.ENOSPC, "free some space, or inodes (df -i)"),
        ("replace", errno.EACCES, "run as root; if root is denied as well, "),
        ("replace", errno.EPERM, "run as root; if root is denied as well, "),
    ],
)
def test_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, number: int, remedy: str
) -> None:
    """If writing fails half way, the old text stays, and no temporary file is left."""
    path = str(tmp_path / "file")
    HERE.write(path, "old")
    other = "" if step == "fsync" else f"{path}.new"
    fails = mock.Mock(side_effect=OSError(number, os.strerror(number), other or None))
    monkeypatch.setattr(os, step, fails)
    reason = re.escape(f"{other and f'{other}: '}{os.strerror(number)}; {remedy}")
    with pytest.raises(HostError, match=f"cannot write {path}: {reason}") as caught:
        HERE.write(path, "new")
    assert caught.value.errno == number
    assert HERE.read(path) == "old"
    assert os.listdir(tmp_path) == ["file"]

    # After an error of the disk, it can no longer be written.
    monkeypatch.setattr(os, "unlink", mock.Mock(side_effect=OSError(errno.EROFS, "Read-only")))
    with pytest.raises(HostError, match=os.strerror(number)):
        HERE.write(str(tmp_path / "other"), "new")


def test_a_folder_that_is_empty(tmp_path: Path) -> None:
    """Only such a folder is removed; and a link to it stays."""
    folder, link = tmp_path / "folder", tmp_path / "link"
    link.symlink_to(folder)
    HERE.write(f"{folder}/file", "text")
    HERE.remove_empty(str(folder))
    HERE.remove(f"{folder}/file")
    HERE.remove_empty(str(link))
    assert folder.is_dir()
    HERE.remove_empty(str(folder))
    HERE.remove_empty(str(folder))
    assert os.listdir(tmp_path) == ["link"]


def test_what_a_killed_run_left(tmp_path: Path) -> None:
    """A temporary file, or an attacker's link, goes with the next write or with the file."""
    path, left, victim = str(tmp_path / "file"), tmp_path / "file.new", tmp_path / "victim"
    victim.write_text("precious")
    for verb in ("write", "link", "remove"):
        left.symlink_to(victim)
        VERBS[verb](path)
        assert not left.is_symlink()
    assert victim.read_text() == "precious"


def test_power_that_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is on the disk before its name, and both when the call returns."""
    flushed: list[object] = []

    def fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        flushed.append("folder" if stat.S_ISDIR(status.st_mode) else status.st_size)

    monkeypatch.setattr(os, "fsync", fsync)
    path, link = str(tmp_path / "file"), str(tmp_path / "link")
    in_new_folders = str(tmp_path / "new" / "newer" / "file")
    steps: list[tuple[Callable[[], object], list[object]]] = [
        (lambda: HERE.write(in_new_folders, "text"), ["folder", "folder", 4, "folder"]),
        (lambda: HERE.write(path, "text"), [4, "folder"]),
        (lambda: HERE.link(link, path), ["folder"]),
        (lambda: HERE.remove(path), ["folder"]),
        (lambda: HERE.remove(path), []),
    ]
    for step, expected in steps:
        step()
        assert flushed == expected
        flushed.clear()


CODE = """if True:
    import os, sys
    from hostrouting.errors import HostError
    from hostrouting.host.files import LocalFiles
    files = LocalFiles(sys.argv[1])
    files.remove("/absent")
    assert files.lock("/", list).is_held()
    for change in (
        lambda: files.write("/file", "x"),
        lambda: files.link("/link", "/x"),
        lambda: files.lock("/lock", list),
    ):
        try:
            change()
        except HostError as error:
            print(error)
"""


@pytest.mark.linux
@pytest.mark.needs("root")
def test_a_file_system_that_is_read_only(tmp_path: Path) -> None:
    """It refuses each change with the remedy; to remove what is absent changes nothing."""
    script = f'mount -t tmpfs -o mode=755,ro none {tmp_path} && "$@"'
    words = [sys.executable, "-c", CODE, str(tmp_path)]
    done = completed(["unshare", "--mount", "sh", "-c", script, "sh", *words], check=True)
    reason = "Read-only file system; remount the file system writable"
    assert [line.endswith(reason) for line in done.stdout.splitlines()] == [True] * 3
