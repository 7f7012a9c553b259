"""hostrouting.host.lock: the lock of a file on this machine, and that of the fake."""

import errno
import fcntl
import os
import re
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from threading import Event
from unittest.mock import Mock

import pytest

from hostrouting.errors import HostError
from hostrouting.host import lock
from hostrouting.host.base import Files, LockHolder, command_to_end, in_words
from hostrouting.host.files import LocalFiles
from hostrouting.host.layout import HostLayout
from hostrouting.host.lock import service_of
from hostrouting.testing import FakeFiles
from tests.support.children import in_child
from tests.support.locks import locking, wait_until_no_thread_locks
from tests.support.waiting import wait_for


@pytest.mark.parametrize("path", ["/run/lock", "/"])
@pytest.mark.parametrize("make", [lambda _: FakeFiles(), LocalFiles], ids=["fake", "local"])
def test_several_that_lock_a_file(tmp_path: Path, path: str, make: Callable[[Path], Files]) -> None:
    """The next has the lock as soon as the first has released it, and is woken. Whoever waits no
    longer does not have it, and keeps it from nobody.
    """
    files = make(tmp_path)
    woken = Event()
    first = files.lock(path, list)
    assert first.is_held()
    files.lock(path, list).release()
    third = files.lock(path, woken.set)
    assert not third.is_held()
    assert not woken.is_set()
    first.release()
    assert woken.wait(10)
    assert third.is_held()
    assert len(files.lock_holders(path)) == 1
    third.release()
    wait_until_no_thread_locks()
    assert files.lock_holders(path) == ()


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


def test_how_to_end_those_who_have_a_lock() -> None:
    """A service of ours is stopped, because systemd starts the guard again, and so is one of which
    each process has the lock: its processes may be others by now. Of any other, only the process
    ends: an agent, or a shell of somebody (ssh.service, without pam_systemd), may be in it.
    """
    guard = LockHolder(7, "python3", HostLayout.guard_unit)
    tar = LockHolder(8, "tar", "ssh.service")
    assert command_to_end([guard, guard]) == f"systemctl stop {HostLayout.guard_unit}"
    others = [guard, tar, LockHolder(9, "flock")]
    assert command_to_end(others) == f"systemctl stop {HostLayout.guard_unit} && kill 8 9"
    assert command_to_end([tar]) == "kill 8"
    assert command_to_end([]) == ""
    script = LockHolder(5, "archive", "archive.service", is_of_all=True)
    sleep = LockHolder(6, "sleep", "archive.service", is_of_all=True)
    assert command_to_end([tar, script, sleep]) == "systemctl stop archive.service && kill 8"
    by = "process 8 (tar) of ssh.service and process 5 (archive) of archive.service"
    assert in_words([tar, script, sleep]) == by


def test_a_lock_that_is_a_link(tmp_path: Path) -> None:
    """A link in the place of the lock is not followed."""
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HostError, match="the path is a link: remove it"):
        LocalFiles(tmp_path).lock("/lock", list)


def test_a_lock_that_linux_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on some network file systems; the file does not stay open."""
    refuses = Mock(side_effect=OSError(errno.ENOLCK, "No locks available"))
    monkeypatch.setattr(fcntl, "flock", refuses)
    opened = os.listdir("/proc/self/fd")
    with pytest.raises(HostError, match=r"cannot lock .*/lock: No locks available"):
        LocalFiles(tmp_path).lock("/lock", list)
    assert os.listdir("/proc/self/fd") == opened


@pytest.mark.linux
def test_who_has_a_lock(tmp_path: Path) -> None:
    """The process in which the locked file is open; not one that waits, nor one that has locked
    another file of that name; also one that shares the lock, as the starts of an earlier version
    do.
    """
    files, place = LocalFiles(str(tmp_path)), tmp_path / "lock"
    service = service_of(Path("/proc/self/cgroup").read_text())  # that of this test, if any
    assert files.lock_holders("/lock") == ()
    (tmp_path / "other").mkdir()
    with locking(tmp_path / "other/lock", "--exclusive"), locking(place, "--shared") as pid:
        assert files.lock_holders("/lock") == (LockHolder(pid, "sleep", service),)
    with locking(place, "--exclusive") as pid, subprocess.Popen(["flock", place, "true"]) as next_:
        waits = re.compile(f"-> .*:{place.stat().st_ino} ")
        wait_for("the next one", lambda: bool(waits.search(Path("/proc/locks").read_text())))
        assert files.lock_holders("/lock") == (LockHolder(pid, "sleep", service),)
        next_.kill()
    assert files.lock_holders("/lock") == ()


@pytest.mark.linux
def test_a_service_that_has_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether each process of the service has it; none is known without a unified control group."""
    files, place = LocalFiles(str(tmp_path)), tmp_path / "lock"
    monkeypatch.setattr(lock, "service_of", lambda _: "a.service")
    with locking(place, "--exclusive") as pid:
        for processes, is_of_all in (([pid], True), ([pid, 1], False), ([], False)):
            texts = [*map(str, processes)]
            monkeypatch.setattr(lock, "_processes_in", lambda _, texts=texts: texts)
            [holder] = files.lock_holders("/lock")
            assert holder == LockHolder(pid, "sleep", "a.service", is_of_all)
        monkeypatch.setattr(lock, "service_of", lambda _: "")
        monkeypatch.setattr(lock, "_processes_in", lambda _: [str(pid)])
        assert files.lock_holders("/lock") == (LockHolder(pid, "sleep"),)


@pytest.mark.parametrize(
    ("groups", "service"),
    [
        ("0::/system.slice/kubelet.service\n", "kubelet.service"),
        ("0::/system.slice/docker.service/.control\n", "docker.service"),
        ("5:cpu:/\n1:name=systemd:/system.slice/a@b.service\n0::/\n", "a@b.service"),
        ("0::/user.slice/user-0.slice/session-3.scope\n", ""),
        ("0::/system.slice/containerd.service/kubepods/1234\n", ""),
        ("0::/\n", ""),
        ("", ""),
    ],
)
def test_the_service_of_a_process(groups: str, service: str) -> None:
    """The gate is a process of the unit that it holds back: its number says nothing to an operator.
    A process of a session, or of a container, is not its service.
    """
    assert service_of(groups) == service
    if "0::" not in groups:
        assert lock._processes_in(groups) == []
