"""hostrouting.host.lock: the lock of a file on this machine, and that of the fake."""

import errno
import fcntl
import os
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from threading import Event, enumerate as threads
from unittest.mock import Mock

import pytest

from hostrouting.errors import HostError
from hostrouting.host.base import Files
from hostrouting.host.files import LocalFiles
from hostrouting.host.layout import HostLayout
from hostrouting.host.process_lock import ProcessLock
from hostrouting.testing import FakeFiles
from tests.support.children import in_child
from tests.support.locks import wait_until_no_thread_locks
from tests.support.waiting import wait_for


@pytest.mark.parametrize("path", ["/run/lock", "/"])
@pytest.mark.parametrize("make", [lambda _: FakeFiles(), LocalFiles], ids=["fake", "local"])
def test_several_that_lock_a_file(tmp_path: Path, path: str, make: Callable[[Path], Files]) -> None:
    """The next has it as soon as it is free; who waits no longer keeps it from nobody."""
    files = make(tmp_path)
    woken = Event()
    first = files.lock(path, list)
    assert first.is_held()
    files.lock(path, list).release()
    third = files.lock(path, woken.set)
    assert not third.is_held()
    assert not woken.is_set()
    keep_a_process = [each.name for each in threads() if not each.daemon]
    first.release()
    assert woken.wait(10)
    assert third.is_held()
    third.release()
    wait_until_no_thread_locks()
    assert "hostrouting-lock" not in keep_a_process


@pytest.mark.linux
@pytest.mark.parametrize("name", ["run/lock", ""])
def test_a_lock_is_that_of_flock(tmp_path: Path, name: str) -> None:
    """flock(1) and we exclude each other; only its owner can open the file of a lock."""
    files, place = LocalFiles(str(tmp_path)), tmp_path / name
    take = ["flock", "--nonblock", str(place), "true"]
    for _ in range(2):
        ours = files.lock(f"/{name}", list)
        assert ours.is_held()
        assert subprocess.run(take, check=False).returncode == 1
        ours.release()
        assert in_child(lambda: subprocess.run(take, check=False).returncode) == 0
        assert not name or stat.S_IMODE(place.stat().st_mode) == 0o600
        place.chmod(0o777)


@pytest.mark.linux
@pytest.mark.parametrize("is_free", [True, False])
def test_the_lock_of_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_free: bool
) -> None:
    """It keeps out flock(1), and another process as this one, also if it had to be awaited."""
    place = str(tmp_path / "lock")
    monkeypatch.setattr(HostLayout, "lock_path", place)
    lines: list[str] = []
    other = LocalFiles().lock(place, list)
    if is_free:
        other.release()

    def let_it_in(level: int, line: str) -> None:
        lines.append(f"<{level}>{line}")
        other.release()

    def give_up(_level: int, line: str) -> None:
        raise TimeoutError(line)

    def enter() -> None:
        with ProcessLock(give_up):
            pass

    with ProcessLock(let_it_in):
        share = ["flock", "--shared", "--nonblock", place, "true"]
        assert subprocess.run(share, check=False).returncode == 1
        with pytest.raises(TimeoutError, match="waiting for "):
            in_child(enter)
    in_child(enter)
    assert lines == ([] if is_free else [f"<6>waiting for {place} (to see who has it: lslocks)"])


def test_a_process_without_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on, and warns once."""
    monkeypatch.setattr(HostLayout, "lock_path", f"{tmp_path}/file/lock")
    monkeypatch.setattr(ProcessLock, "_has_warned", False)
    (tmp_path / "file").touch()
    say = Mock()
    for _ in range(2):
        with ProcessLock(say):
            pass
    assert [call.args[0] for call in say.mock_calls] == [4]


@pytest.mark.linux
def test_a_process_that_was_forked_meanwhile(tmp_path: Path) -> None:
    """It has the open file, but neither gives the lock back nor keeps it."""
    ours = LocalFiles(tmp_path).lock("/lock", list)
    in_child(ours.release)
    other = LocalFiles(tmp_path).lock("/lock", list)
    assert not other.is_held()
    other.release()
    child = os.fork()
    if not child:
        signal.pause()
    try:
        ours.release()
        next_one = LocalFiles(tmp_path).lock("/lock", list)
        wait_for("the lock", next_one.is_held)  # the thread of `other` may have it for a moment
        next_one.release()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    wait_until_no_thread_locks()


def test_a_lock_that_cannot_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link is not followed. Some network file systems have no locks."""
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    sentence = f"cannot lock {tmp_path}/link: Too many levels of symbolic links; the path is a link"
    with pytest.raises(HostError, match=sentence):
        LocalFiles(tmp_path).lock("/link", list)
    refuses = Mock(side_effect=OSError(errno.ENOLCK, "No locks available"))
    monkeypatch.setattr(fcntl, "flock", refuses)
    with pytest.raises(HostError, match=r"cannot lock .*/lock: No locks available"):
        LocalFiles(tmp_path).lock("/lock", list)
