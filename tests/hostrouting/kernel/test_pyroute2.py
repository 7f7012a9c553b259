"""What cannot be the handle of a Pyroute2Backend, and a handle with a bug. That a real one keeps
the contract is proven in test_contract.py.
"""

import asyncio
import errno
import socket
from typing import Any

import pyroute2
import pytest

from hostrouting.errors import BackendError
from hostrouting.kernel.pyroute2 import Pyroute2Backend
from hostrouting.model.snapshot import Snapshot


@pytest.mark.parametrize("handle", ["netns", None, pyroute2.IPRoute])
def test_what_is_no_handle(handle: object) -> None:
    """The error names what is missing, before anything is asked."""
    with pytest.raises(TypeError, match=r"must be a pyroute2\.IPRoute; a (str|NoneType|type) "):
        Pyroute2Backend(handle)


@pytest.mark.linux
def test_an_asynchronous_handle() -> None:
    """Its methods would return coroutines."""

    async def use() -> None:
        async with pyroute2.AsyncIPRoute() as handle:
            with pytest.raises(TypeError, match=r"pass a pyroute2\.IPRoute, not an AsyncIPRoute"):
                Pyroute2Backend(handle)

    asyncio.run(use())


class Buggy:
    """A handle whose method takes other arguments."""

    def nlm_request_batch(self) -> tuple[()]:
        """Takes no message."""
        return ()


def test_a_handle_with_a_bug() -> None:
    """It is not an error of the kernel, and trying again would not help."""
    with Pyroute2Backend(Buggy()) as backend, pytest.raises(BackendError) as caught:
        backend.snapshot()
    assert caught.value.kind == "unusable"
    assert not caught.value.can_retry
    assert "the handle cannot read the host's routes: TypeError: " in str(caught.value)


class NoIpv6:
    """A handle of a kernel without IPv6: the lists are empty, and those of IPv6 do not exist."""

    def nlm_request_batch(self, requests: list[Any]) -> tuple[()]:
        """Refuses what is about IPv6."""
        [request] = requests
        request["header"]["sequence_number"] = 1
        request.encode()
        if request.data[16] == socket.AF_INET6:
            raise pyroute2.NetlinkError(errno.EAFNOSUPPORT)
        return ()


def test_a_kernel_without_ipv6() -> None:
    """What it does not have is empty."""
    with Pyroute2Backend(NoIpv6()) as backend:
        assert backend.snapshot() == Snapshot(links=(), addresses=(), rules=(), routes=())
