"""hostrouting.host.host: the edges of a host, and the lock on it."""

from pathlib import Path

import pytest

import phases
from hostrouting.errors import HostError, NotReady
from hostrouting.host.files import LocalFiles
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.host.systemd import SystemdManager
from hostrouting.testing import FakeHost
from phases.testing import FakeClock


class TestLocked:
    """The lock keeps other runs from changing the host."""

    def test_once_for_several(self) -> None:
        """The yielded host takes no lock again, and the lock is held until the block that took it ends."""
        host = FakeHost()
        path = host.layout.lock_path
        with host.locked(phases.Context()) as locked:
            assert (locked.is_locked, host.is_locked) == (True, False)
            assert locked.files is host.files
            with locked.locked(phases.Context()) as again:
                assert again is locked
            assert host.files.locked == {path}
        assert host.files.locked == set()
        assert host.files.writes == [host.layout.turn_path, path]

    def test_waited_for(self) -> None:
        """The second run waits until the first has finished."""
        host = FakeHost()
        clock = FakeClock()
        with host.locked(phases.Context()):
            ctx = phases.Context(clock=clock, deadline=5)
            with pytest.raises(phases.Cancelled), host.locked(ctx):
                pytest.fail("two at once")
        with host.locked(phases.Context(clock=clock)):
            assert host.files.locked

    def test_not_for_ever(self) -> None:
        """After two and a half minutes of waiting a retryable error names the process that holds the lock."""
        host, clock = FakeHost(), FakeClock()
        host.files.locked.add(host.layout.lock_path)
        begin = clock.now()
        with pytest.raises(NotReady) as caught, host.locked(phases.Context(clock=clock)):
            pytest.fail("two at once")
        assert 150 <= clock.now() - begin < 151
        holder = f"process 4711 (hostrouting) has locked {host.layout.lock_path}"
        sentence = f"the host was not free within 150 s: {holder}; wait for it, or stop it if it hangs"
        assert (str(caught.value), caught.value.can_retry) == (sentence, True)
        assert host.layout.turn_path not in host.files.locked, "starts of gated units go on"

    def test_let_go_after_a_failure(self) -> None:
        """An error in the block is raised, and the lock is released."""
        host = FakeHost()
        with pytest.raises(HostError, match="broken"), host.locked(phases.Context()):
            raise HostError("broken", what="file", target="/x")
        assert host.files.locked == set()


def test_local() -> None:
    """Host.local() has kernel, files and manager, and does not touch any of them."""
    host = Host.local()
    assert host.backend is not None
    assert isinstance(host.files, LocalFiles)
    assert isinstance(host.manager, SystemdManager)
    assert host.layout == HostLayout()


def test_offline() -> None:
    """An image has files below its root, but no kernel and no manager."""
    host = Host.offline("/mnt/image")
    assert (host.backend, host.manager) == (None, None)
    assert host.layout == HostLayout(root="/mnt/image")


LAYOUT = HostLayout()


@pytest.mark.parametrize(
    "path",
    [
        LAYOUT.config_path,
        LAYOUT.step_path(LAYOUT.check_step),
        LAYOUT.ok_path,
        LAYOUT.networkd_path,
        LAYOUT.drop_in_path("kubelet.service"),
    ],
)
def test_one_file_is_enough_to_be_looked_at(path: str) -> None:
    """What a removal that was interrupted leaves is found: a script, a result or a drop-in alone."""
    host = FakeHost()
    assert not host.may_have_ours
    host.files.write(path, "text")
    assert host.may_have_ours


def test_a_folder_that_cannot_be_read_may_have_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the one who reads our files says why that is impossible."""
    host = Host.offline(str(tmp_path))

    def refuse(folder: str) -> tuple[str, ...]:
        raise HostError(f"{folder} cannot be read", what="file", target=folder)

    monkeypatch.setattr(host.files, "names", refuse)
    assert host.may_have_ours
