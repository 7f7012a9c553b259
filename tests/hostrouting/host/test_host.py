"""hostrouting.host.host: the edges of a host, and the lock on it."""

import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import phases
from hostrouting.errors import HostError, NotReady
from hostrouting.host.files import LocalFiles
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.testing import FakeFiles, FakeHost, FakeKernel
from tests.support.locks import locking
from tests.support.tasks import context

LAYOUT = HostLayout()


def test_the_lock_is_held() -> None:
    """It is held until the block ends, also by an error; whoever waits holds the turn alone, until
    its deadline.
    """
    host = FakeHost()
    with suppress(EOFError), host.locked(context()):
        assert host.files.locked == {LAYOUT.lock_path}, "the turn is given back by then"
        raise EOFError
    assert host.files.locked == set()
    assert host.files.writes == [LAYOUT.turn_path, LAYOUT.lock_path]
    with (
        host.locked(context()),
        pytest.raises(phases.DeadlineExceeded),
        context().within(5) as ctx,
        host.locked(ctx),
    ):
        pytest.fail("two at once")


def test_a_wait_is_announced_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although it is for two files: first a start of a unit holds the turn, then a change the
    lock.
    """
    host = FakeHost()
    host.files.locked.update({LAYOUT.turn_path, LAYOUT.lock_path})
    held = [LAYOUT.lock_path, LAYOUT.turn_path]

    def release_one(*_: object) -> None:
        host.files.locked.remove(held.pop())

    monkeypatch.setattr(phases.Context, "sleep", release_one)
    with caplog.at_level("INFO"), host.locked(context()):
        assert not held
    assert caplog.messages == ["this host is locked by another process; waiting up to 150 s"]


@pytest.mark.linux
@pytest.mark.parametrize("waits_for", ["lock", "turn"])
def test_who_has_locked_the_host(tmp_path: Path, waits_for: str) -> None:
    """A start that shares the lock, and not the flock(1) that took it and has ended, nor the next
    one in the queue.
    """
    host = Host(backend=FakeKernel, files=LocalFiles(tmp_path), manager=None)
    folder = tmp_path / "run/hostrouting"
    folder.mkdir(parents=True)
    with ExitStack() as processes:
        pid = processes.enter_context(locking(folder / "lock", "--shared"))
        if waits_for == "turn":
            processes.enter_context(locking(folder / "turn", "--exclusive"))
        with pytest.raises(NotReady) as caught, host.locked(context()):
            pytest.fail("two at once")
    assert str(caught.value) == (
        f"this host is still locked after 150 s, by process {pid} (sleep); "
        "wait until it is free, or stop what hangs"
    )
    assert caught.value.kind == "busy"


def test_an_image_has_no_part_of_this_machine(tmp_path: Path) -> None:
    """Neither its kernel nor its systemd is asked, whatever runs here."""
    for image in (Host.offline(tmp_path), Host(backend=None, files=LocalFiles(tmp_path))):
        assert image.backend is None
        assert image.manager is None


def test_the_lock_of_an_image(tmp_path: Path) -> None:
    """Two runs on one image exclude each other, and leave nothing in it; a mistyped name is not an
    image.
    """
    first, second, waiting = Host.offline(str(tmp_path)), Host.offline(f"{tmp_path}/"), context()
    with (
        first.locked(context()),
        pytest.raises(NotReady, match=rf"still locked after 150 s, by process {os.getpid()} \("),
        second.locked(waiting),
    ):
        pytest.fail("two at once")
    assert 150 <= waiting.clock.now() < 151
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
    """Those of an image are looked for in the image, and those of a host on this machine, wherever
    its files are.
    """
    image = Host.offline(str(tmp_path))
    assert Host.local().has_program("sh")
    assert not Host.local().has_program("no-such-program")
    assert not image.has_program("sh")
    image.files.write("/usr/bin/sh", "", mode=0o755)
    assert image.has_program("sh")


def test_a_link_to_a_program_that_is_gone(tmp_path: Path) -> None:
    """A package clean-up that takes mawk away leaves /usr/bin/awk, a link over /etc/alternatives:
    it is no program any more. In an image, the links start at its root.
    """
    image = Host.offline(str(tmp_path))
    image.files.link("/usr/bin/awk", "/etc/alternatives/awk")
    image.files.link("/etc/alternatives/awk", "../../usr/bin/mawk")
    assert not image.has_program("awk")
    image.files.write("/usr/bin/mawk", "", mode=0o644)
    assert not image.has_program("awk"), "a hardening script has taken its mode away"
    image.files.write("/usr/bin/mawk", "", mode=0o755)
    assert image.has_program("awk")
    image.files.link("/usr/bin/ip", "/usr/bin/ip")
    assert not image.has_program("ip")


@pytest.mark.parametrize(
    "path",
    [
        "config_path",
        "gate_path",
        "ok_path",
        "networkd_path",
        "/etc/systemd/system/a.service.d/00-host-routing.conf",
    ],
)
def test_one_file_is_enough_to_be_looked_at(path: str) -> None:
    """What a removal that was interrupted leaves is found:
    a script, a result or a drop-in alone.
    """
    host = FakeHost()
    assert not host.may_have_ours
    host.files.write(getattr(LAYOUT, path, path), "text")
    assert host.may_have_ours


def test_what_others_have_in_the_folders_of_systemd() -> None:
    """Their units and drop-ins are not ours."""
    host = FakeHost()
    host.files.write(LAYOUT.unit_path("a.service"), "[Service]\n")
    host.files.write(LAYOUT.unit_path("a.service.d/10-site.conf"), "[Service]\n")
    assert not host.may_have_ours


def test_a_folder_that_cannot_be_read_may_have_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the one who reads our files says why that is impossible."""
    host = FakeHost()
    monkeypatch.setattr(
        FakeFiles, "names", mock.Mock(side_effect=HostError("cannot be read", what="file"))
    )
    assert host.may_have_ours


@pytest.mark.parametrize("step", ["", "a/b", ".a", "50-licence.sh"])
def test_the_name_of_a_step(step: str) -> None:
    """The gate would not run it, or its file would be elsewhere."""
    assert HostLayout.step_path("50-licence") == "/etc/hostrouting/gate.d/50-licence.sh"
    with pytest.raises(ValueError, match="cannot be the name of a step: write one such as"):
        HostLayout.step_path(step)


def test_a_backend_is_a_function_that_connects() -> None:
    """A connected kernel is refused when the host is made, with what to write instead."""
    kernel: Any = FakeKernel()
    for kind in (Host, FakeHost):
        with pytest.raises(
            TypeError, match="not a FakeKernel; for one that is connected: backend=lambda"
        ):
            kind(backend=kernel)
