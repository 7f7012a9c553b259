"""hostrouting.host.host: the edges of a host, and the lock on it."""

import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

import phases
from hostrouting.errors import BackendError, HostError, NotReady
from hostrouting.host.files import LocalFiles
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.testing import FakeHost, FakeKernel, FakeManager
from tests.support.kinds import raises
from tests.support.locks import locking, wait_until_no_thread_locks
from tests.support.tasks import context, manager_of

LAYOUT = HostLayout()


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


def test_who_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """That the host is locked is said before the wait, and after it."""
    host = FakeHost()
    host.files.locked.add(LAYOUT.lock_path)
    with caplog.at_level("INFO"), pytest.raises(NotReady) as caught, host.locked(context()):
        pytest.fail("two at once")
    anybody = "another run, the guard, or the start of a gated unit"
    locked = f"this host is locked by {anybody} (to see the process: lslocks)"
    assert caplog.messages == [f"{locked}; waiting up to 150 s"]
    assert str(caught.value) == f"{locked}, still after 150 s"
    assert caught.value.kind == "busy"


def test_kernel_and_manager() -> None:
    """In a container there may be no manager, and an image has none."""
    host = FakeHost()
    assert host.take_snapshot() == host.kernel.snapshot()
    assert host.running_manager is host.manager
    manager_of(host).running = False
    assert host.running_manager is None
    assert FakeHost.image().running_manager is None


@pytest.mark.linux
def test_a_cancelled_wait(tmp_path: Path) -> None:
    """A wait for the lock is cancelled at once, and then keeps the lock from nobody."""
    host = Host(backend=FakeKernel, files=LocalFiles(tmp_path), manager=None)
    ctx = phases.Context()
    lock = tmp_path / LAYOUT.lock_path.lstrip("/")
    lock.parent.mkdir(parents=True)
    with locking(lock):
        began = time.monotonic()
        canceller = threading.Timer(0.1, ctx.cancel, ["Ctrl-C"])
        canceller.start()
        with pytest.raises(phases.Cancelled, match="Ctrl-C"), host.locked(ctx):
            pytest.fail("two at once")
        canceller.join()
        assert time.monotonic() - began < 30, "the other process ends after 60 s"
    wait_until_no_thread_locks()
    with host.locked(context()):
        pass


def test_an_image(tmp_path: Path) -> None:
    """Nothing here is asked. Two runs on one image exclude each other, and leave nothing."""
    image, manager = Host.offline(tmp_path), FakeManager()
    assert (image.backend, image.manager) == (None, None)
    with raises(BackendError, "unavailable", match="an image has no kernel; for a check, use"):
        image.open_kernel()
    assert Host(backend=None, manager=manager).manager is manager
    assert Host.local().manager is not None
    second, waiting = Host.offline(f"{tmp_path}/"), context()
    with image.locked(context()), pytest.raises(NotReady), second.locked(waiting):
        pytest.fail("two at once")
    assert waiting.clock.now() == 150
    wait_until_no_thread_locks()
    with second.locked(context()):
        assert list(tmp_path.iterdir()) == []
    absent = Host.offline(f"{tmp_path}/nowhere")
    with pytest.raises(HostError, match="a part of the path is missing"), absent.locked(context()):
        pytest.fail("nothing is there")
    assert list(tmp_path.iterdir()) == []
    for root in ("//", ""):
        with pytest.raises(ValueError, match=f"root is {root!r}, and not an image"):
            Host.offline(root)
