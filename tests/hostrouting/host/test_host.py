"""hostrouting.host.host: the edges of a host, and the lock on it."""

from pathlib import Path

import pytest

import phases
from hostrouting.errors import HostError, NotReady
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.kernel.ebtables import EbtablesProgram
from hostrouting.kernel.neighbours import KernelLinkLayer
from hostrouting.kernel.nftables import NftProgram
from hostrouting.testing import FakeHost
from phases.testing import FakeClock

LAYOUT = HostLayout()


class TestLocked:
    """The lock keeps other runs from changing the host."""

    def test_held(self) -> None:
        """It is held until the block ends, also by an error; whoever waits holds the turn alone."""
        host = FakeHost()
        with pytest.raises(ZeroDivisionError), host.locked(phases.Context()):
            _ = 1 / (host.files.locked != {LAYOUT.lock_path})
        assert host.files.locked == set()
        assert host.files.writes == [LAYOUT.turn_path, LAYOUT.lock_path]

    def test_waited_for(self) -> None:
        """The second run waits until the first has finished, or until its deadline."""
        host, clock = FakeHost(), FakeClock()
        with (
            host.locked(phases.Context()),
            phases.Context(clock=clock).within(5) as ctx,
            pytest.raises(phases.Cancelled),
            host.locked(ctx),
        ):
            pytest.fail("two at once")
        with host.locked(phases.Context(clock=clock)):
            assert host.files.locked

    @pytest.mark.parametrize("path", [LAYOUT.lock_path, LAYOUT.turn_path])
    def test_not_for_ever(self, path: str) -> None:
        """After two and a half minutes there is an error that can be retried, and starts of gated units go on."""
        host, clock = FakeHost(), FakeClock()
        host.files.locked.add(path)
        begin = clock.now()
        with (
            pytest.raises(NotReady, match="or stop it if it hangs") as caught,
            host.locked(phases.Context(clock=clock)),
        ):
            pytest.fail("two at once")
        assert 150 <= clock.now() - begin < 151
        assert caught.value.can_retry
        assert host.files.locked == {path}

    def test_an_image(self, tmp_path: Path) -> None:
        """Two runs on one image exclude each other, and leave nothing in it."""
        first, second = Host.offline(str(tmp_path)), Host.offline(f"{tmp_path}/")
        with first.locked(phases.Context()):
            ctx = phases.Context(clock=FakeClock(), observers=[])
            with pytest.raises(NotReady, match="has locked this host for more than 150 s"), second.locked(ctx):
                pytest.fail("two at once")
        with second.locked(phases.Context()):
            assert list(tmp_path.iterdir()) == []

    def test_no_image_there(self, tmp_path: Path) -> None:
        """A missing folder is not an image: nothing is created for a mistyped name."""
        image = Host.offline(f"{tmp_path}/nowhere")
        with pytest.raises(HostError, match="nowhere/: No such file or directory"), image.locked(phases.Context()):
            pytest.fail("nothing is there")
        assert list(tmp_path.iterdir()) == []


def test_edges() -> None:
    """A host has a kernel and a manager, none of which is touched before it is used, and an image has neither."""
    here, image = Host.local(), Host.offline("/mnt/image")
    edges = (type(here.nftables), type(here.ebtables), type(here.link_layer))
    assert edges == (NftProgram, EbtablesProgram, KernelLinkLayer)
    assert here.backend is not None
    assert here.manager is not None
    assert (image.backend, image.manager, image.running_manager) == (None, None, None)


def test_programs(tmp_path: Path) -> None:
    """Those of an image are looked for in the image, and those of a host on this machine, wherever its files are."""
    image = Host.offline(str(tmp_path))
    assert Host.local().has_program("sh")
    assert not Host.local().has_program("no-such-program")
    assert not image.has_program("sh")
    image.files.write("/usr/bin/sh", "")
    assert image.has_program("sh")


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
