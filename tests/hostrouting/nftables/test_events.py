"""Events of nftables: heard from the kernel in a private namespace, and from the fake."""

from __future__ import annotations

import errno
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from hostrouting.errors import NftNotPermitted
from hostrouting.host import Host
from hostrouting.nftables import MemoryNftables, Table
from hostrouting.nftables.events import hearing_nftables
from tests.support.namespace import private_namespace
from tests.support.nft import needs_nft

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Broken(socket.socket):
    """A socket that has failed."""

    def recv(self, *_: object) -> bytes:
        """Fail."""
        raise OSError(errno.EIO, "Input/output error")


@needs_nft
@pytest.mark.processes
def test_of_the_kernel(tmp_path: Path) -> None:
    """Another program's change is heard; after the block nothing is."""
    with private_namespace() as namespace:
        host = Host.sandbox(str(tmp_path), netns=namespace.path)
        heard = threading.Event()
        assert host.nft_events is not None
        with host.nft_events(heard.set):
            assert not heard.wait(0.1)
            namespace.run("nft", "add", "table", "ip6", "someone")
            assert heard.wait(30)
            heard.clear()
            namespace.run("nft", "flush", "ruleset")
            assert heard.wait(30)
            # What comes after the change itself, such as the end of its transaction.
            while heard.wait(0.5):
                heard.clear()
        namespace.run("nft", "add", "table", "ip6", "someone")
        assert not heard.wait(0.1)
        assert not [it for it in threading.enumerate() if it.name == "nftables events"]


def test_a_socket_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new one is opened, as soon as that is possible; what came before it may have been missed, so it counts as heard."""
    monkeypatch.setattr("hostrouting.nftables.events._AGAIN", 0.01)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    later, sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    failed = OSError(errno.EMFILE, "Too many open files")
    sockets: Iterator[socket.socket | OSError] = iter([Broken(fileno=ours.detach()), failed, later])

    def make() -> socket.socket:
        made = next(sockets)
        if isinstance(made, OSError):
            raise made
        return made

    heard = threading.Semaphore(0)
    with theirs, sender, hearing_nftables(heard.release, open_socket=make):
        theirs.send(b"x")
        assert heard.acquire(timeout=30)
        assert not heard.acquire(timeout=0.1)
        sender.send(b"x")
        assert heard.acquire(timeout=30)
    assert later.fileno() < 0


def test_the_block_ends_while_no_socket_can_be_opened() -> None:
    """The end of the block does not wait for a new one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    failed = Broken(fileno=ours.detach())

    def make() -> socket.socket:
        if failed.fileno() < 0:
            raise OSError(errno.EMFILE, "Too many open files")
        return failed

    with theirs, hearing_nftables(list, open_socket=make):
        theirs.send(b"x")
        while failed.fileno() >= 0:
            time.sleep(0.01)


def test_of_the_fake() -> None:
    """Each change by a method is heard while the block runs."""
    nft, heard = MemoryNftables(), list[str]()
    with nft.hearing(lambda: heard.append("change")):
        nft.replace(Table("one"))
        nft.remove("one")
        nft.flush()
    nft.replace(Table("one"))
    assert heard == ["change"] * 3


def test_not_permitted() -> None:
    """A process that may not listen is told so."""

    def refused() -> socket.socket:
        raise PermissionError

    with pytest.raises(NftNotPermitted, match="run it as root"), hearing_nftables(list, open_socket=refused):
        pass
