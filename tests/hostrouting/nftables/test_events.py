"""Events of nftables: heard from the kernel in a private namespace, and from the fake."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from hostrouting.errors import NftNotPermitted
from hostrouting.host import Host
from hostrouting.nftables import MemoryNftables, Table
from hostrouting.nftables.events import hearing_nftables
from tests.support.namespace import private_namespace
from tests.support.nft import needs_nft

if TYPE_CHECKING:
    import socket
    from pathlib import Path


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
