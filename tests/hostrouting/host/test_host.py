"""hostrouting.host.host: the edges of a host, and the lock on it."""

import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import phases
from hostrouting.errors import BackendError, HostError, NotReady
from hostrouting.host.base import LockHolder
from hostrouting.host.files import LocalFiles
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.host.systemd import SystemdManager
from hostrouting.kernel.rights import Rights
from hostrouting.testing import FakeFiles, FakeHost, FakeKernel, FakeManager
from tests.support.kinds import raises
from tests.support.locks import locking, locking_in_turn, wait_until_no_thread_locks
from tests.support.tasks import context, manager_of

LAYOUT = HostLayout()
ANYBODY = "another run, the guard, or the start of a gated unit"


def test_the_lock_is_held() -> None:
    """It is held until the block ends, also by an error. The deadline of a run ends a wait."""
    host = FakeHost()
    with suppress(EOFError), host.locked(context()):
        assert host.files.locked == {LAYOUT.lock_path}
        raise EOFError
    assert host.files.locked == set()
    assert host.files.writes == [LAYOUT.lock_path]
    with (
        host.locked(context()),
        pytest.raises(phases.DeadlineExceeded),
        context().within(5) as ctx,
        host.locked(ctx),
    ):
        pytest.fail("two at once")


def test_the_turn_of_an_earlier_version() -> None:
    """Where the starts of an earlier version wait for their turn before they share the lock, a run
    waits for it, too, and gives it back as soon as it has the lock.
    """
    host = FakeHost()
    host.files.texts[LAYOUT.turn_path] = ""
    with host.locked(context()):
        assert host.files.locked == {LAYOUT.lock_path}
    assert host.files.writes == [LAYOUT.turn_path, LAYOUT.lock_path]
    host.files.locked.add(LAYOUT.turn_path)
    waiting = context()
    # Who has the turn waits for the lock itself, and is not to be ended.
    words = f"still locked after 150 s, by {ANYBODY}"
    with pytest.raises(NotReady, match=words), host.locked(waiting):
        pytest.fail("before its turn")
    assert waiting.clock.now() == 150
    assert host.files.locked == {LAYOUT.turn_path}


@pytest.mark.parametrize(
    ("holders", "who", "remedy"),
    [
        ((LockHolder(7, "tar"),), "process 7 (tar)", "; if that hangs, as root: kill 7"),
        ((), f"{ANYBODY} (to see the process: lslocks)", ""),
    ],
)
def test_who_is_waited_for(
    holders: tuple[LockHolder, ...],
    who: str,
    remedy: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Who has the lock is named before the wait, and after it with the command that ends it. No
    process is found in another pid namespace.
    """
    host = FakeHost()
    host.files.locked.add(LAYOUT.lock_path)
    monkeypatch.setattr(FakeFiles, "lock_holders", lambda *_: holders)
    with caplog.at_level("INFO"), pytest.raises(NotReady) as caught, host.locked(context()):
        pytest.fail("two at once")
    assert caplog.messages == [f"this host is locked by {who}; waiting up to 150 s"]
    still_locked = f"this host is still locked after 150 s, by {who}; wait until it is free"
    assert str(caught.value) == f"{still_locked}{remedy}"
    assert caught.value.kind == "busy"


def test_a_manager_that_runs() -> None:
    """In a container there may be none, and an image has none."""
    host = FakeHost()
    assert host.running_manager is host.manager
    manager_of(host).running = False
    assert host.running_manager is None
    assert FakeHost.image().running_manager is None


@pytest.mark.linux
def test_a_cancelled_wait(tmp_path: Path) -> None:
    """Whoever waits for the lock is cancelled from another thread at once, and then keeps it from
    nobody.
    """
    host = Host(backend=FakeKernel, files=LocalFiles(tmp_path), manager=None)
    ctx = phases.Context(observers=[])
    lock = tmp_path / LAYOUT.lock_path.lstrip("/")
    lock.parent.mkdir(parents=True)
    with locking(lock, "--exclusive"):
        canceller = threading.Timer(0.1, ctx.cancel, ["Ctrl-C"])
        canceller.start()
        with pytest.raises(phases.Cancelled, match="Ctrl-C"), host.locked(ctx):
            pytest.fail("two at once")
        canceller.join()
    wait_until_no_thread_locks()
    with host.locked(context()):
        pass


@pytest.mark.linux
def test_a_host_that_is_locked_again_and_again(tmp_path: Path) -> None:
    """A run has its turn beside two processes that take the lock again and again, as many starts at
    once do. A run that asked for the lock every 0.1 s got it once in a second or two.
    """
    host = Host(backend=FakeKernel, files=LocalFiles(tmp_path), manager=None)
    lock = tmp_path / LAYOUT.lock_path.lstrip("/")
    lock.parent.mkdir(parents=True)
    ctx = phases.Context(observers=[])
    with locking_in_turn(lock, 2), ctx.within(20) as soon:
        for _ in range(50):
            with host.locked(soon):
                pass


def test_an_image(tmp_path: Path) -> None:
    """Neither the kernel nor the systemd of this machine is asked. Two runs on one image exclude
    each other, and leave nothing in it; a mistyped name is not an image.
    """
    for image in (Host.offline(tmp_path), Host(backend=None, files=LocalFiles(tmp_path))):
        assert (image.backend, image.manager) == (None, None)
        with raises(BackendError, "unavailable", match="an image has no kernel; use a snapshot"):
            image.open_kernel()
    manager = FakeManager()
    assert Host(backend=None, files=LocalFiles(tmp_path), manager=manager).manager is manager
    assert Host.offline(tmp_path, rights=Rights).rights is Rights
    assert Host.local().manager is not None
    first, second, waiting = Host.offline(str(tmp_path)), Host.offline(f"{tmp_path}/"), context()
    with (
        first.locked(context()),
        pytest.raises(NotReady, match=rf"still locked after 150 s, by process {os.getpid()} \("),
        second.locked(waiting),
    ):
        pytest.fail("two at once")
    assert waiting.clock.now() == 150
    wait_until_no_thread_locks()
    with second.locked(context()):
        assert list(tmp_path.iterdir()) == []
    image = Host.offline(f"{tmp_path}/nowhere")
    with (
        pytest.raises(HostError, match="nowhere/: No such file or directory"),
        image.locked(context()),
    ):
        pytest.fail("nothing is there")
    assert list(tmp_path.iterdir()) == []


def test_programs(tmp_path: Path) -> None:
    """Those of an image are looked for in the image, and those of a host on this machine. A link
    over /etc/alternatives may stay when the package is removed: it is no program any more.
    """
    image = Host.offline(tmp_path)
    assert Host.local().has_program("sh")
    assert not Host.local().has_program("no-such-program")
    assert not image.has_program("sh")
    image.files.link("/usr/bin/sh", "/etc/alternatives/sh")
    image.files.link("/etc/alternatives/sh", "../../usr/bin/dash")
    assert not image.has_program("sh")
    image.files.write("/usr/bin/dash", "", mode=0o644)
    assert not image.has_program("sh"), "a hardening script has taken its mode away"
    image.files.write("/usr/bin/dash", "", mode=0o755)
    assert image.has_program("sh")
    image.files.link("/usr/bin/bash", "/usr/bin/bash")
    assert not image.has_program("bash")
    image.files.write("/usr/bin/python3.99", "")
    assert image.interpreter.find() == "/usr/bin/python3.99"
    assert Host(files=image.files).interpreter.find() != "/usr/bin/python3.99"


@pytest.mark.parametrize(
    ("path", "is_ours"),
    [
        (LAYOUT.config_path, True),
        (LAYOUT.ok_path, True),
        (LAYOUT.networkd_path, True),
        (LAYOUT.drop_in_path("a.service"), True),
        (LAYOUT.unit_path("a.service"), False),
        (LAYOUT.unit_path("a.service.d/10-site.conf"), False),
    ],
)
def test_what_has_to_be_looked_at(path: str, *, is_ours: bool) -> None:
    """What a removal that was interrupted leaves is found: one file is enough. Units and drop-ins
    of others are not ours.
    """
    host = FakeHost()
    assert not host.may_have_ours
    host.files.write(path, "text")
    assert host.may_have_ours is is_ours


def test_what_cannot_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of ours may be there."""
    denied = HostError("Permission denied", what="file")
    monkeypatch.setattr(FakeFiles, "names", Mock(side_effect=denied))
    assert FakeHost().may_have_ours


WRONG: Any = 5
WRONG_MODE: Any = "5"
MISTAKES: dict[str, Callable[[], object]] = {
    "root is '//', which is this machine: use Host.local": lambda: Host.offline("//"),
    "backend must be a function that connects, not a FakeKernel; ": lambda: Host(
        backend=FakeKernel()  # type: ignore[arg-type]  # the mistake
    ),
    "content is 5; it must be a str or bytes": lambda: LocalFiles().write("/a", WRONG),
    "mode is 600; it must be from 0 to 0o777": lambda: LocalFiles().write("/a", "", mode=600),
    "mode is '5'; it must be from 0 to": lambda: LocalFiles().write("/a", "", mode=WRONG_MODE),
    "names is 'Id'; it must be a tuple of properties: ('Id',)": lambda: SystemdManager().show("Id"),
    **{
        f"unit is {name!r}; it must be the name of a unit": partial(SystemdManager().stop, name)
        for name in (WRONG, "", "a/b", "a\n")
    },
}
"""What no edge of a host takes, by what it says."""


@pytest.mark.parametrize("said", MISTAKES)
def test_a_mistake(said: str) -> None:
    """It is refused before anything is done."""
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(said)}"):
        MISTAKES[said]()
