"""SystemdService: what systemd and the journal get, on sockets of the test's own."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from hostrouting.host.systemd import Line, NoService, SystemdService

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket at which systemd would listen."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(30)
        yield listening


def test_notify(manager: socket.socket, tmp_path: Path) -> None:
    """The assignments arrive as one datagram; without a socket nothing happens."""
    service = SystemdService.of({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    service.notify("RELOADING=1", "MONOTONIC_USEC=5")
    assert manager.recv(1 << 16) == b"RELOADING=1\nMONOTONIC_USEC=5"
    SystemdService.of({}).notify("READY=1")
    SystemdService.of({"NOTIFY_SOCKET": str(tmp_path / "absent")}).notify("READY=1")
    NoService().notify("READY=1")


def test_an_abstract_socket() -> None:
    """A path that begins with @ is a socket without a file."""
    name = f"hostrouting-test-{os.getpid()}"
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listening:
        listening.bind(f"\0{name}")
        listening.settimeout(30)
        SystemdService.of({"NOTIFY_SOCKET": f"@{name}"}).notify("READY=1")
        assert listening.recv(1 << 16) == b"READY=1"


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "2500000"}, 2.5),
        ({"WATCHDOG_USEC": "2500000", "WATCHDOG_PID": str(os.getpid())}, 2.5),
        ({"WATCHDOG_USEC": "2500000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_watchdog(environment: dict[str, str], seconds: float | None) -> None:
    """The watchdog counts if it is for this process."""
    assert SystemdService.of(environment).watchdog == seconds


def test_lines(manager: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line has its level and its fields; a text of two lines is preceded by its length. Without a journal it is refused."""
    monkeypatch.setattr("hostrouting.host.systemd._JOURNAL", str(tmp_path / "notify"))
    found = os.fstat(2)
    service = SystemdService.of({"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"})
    assert service.tell(Line("it was repaired", 5, {"MESSAGE_ID": "0" * 32}))
    assert manager.recv(1 << 16).splitlines() == [
        b"MESSAGE=it was repaired",
        b"PRIORITY=5",
        b"SYSLOG_IDENTIFIER=hostrouting",
        b"MESSAGE_ID=" + b"0" * 32,
    ]
    assert service.tell(Line("one\ntwo"))
    assert manager.recv(1 << 16).startswith(b"MESSAGE\n\x07\0\0\0\0\0\0\0one\ntwo\nPRIORITY=6\n")
    assert not SystemdService.of({}).tell(Line("it was repaired"))
    inherited = SystemdService.of({"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino + 1}"})
    assert not inherited.tell(Line("it was repaired")), "standard error is not the journal"
    monkeypatch.setattr("hostrouting.host.systemd._JOURNAL", str(tmp_path / "absent"))
    assert not service.tell(Line("it was repaired"))
