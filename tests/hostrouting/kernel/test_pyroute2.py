"""What differs from NetlinkBackend; test_contract.py proves that a handle keeps the contract."""

import errno
import socket
import time
from typing import Any
from unittest import mock

import pyroute2
import pytest

from hostrouting.errors import BackendError
from hostrouting.kernel.netlink.host import IFNAME, LINK
from hostrouting.kernel.netlink.numbers import RTM_GETLINK
from hostrouting.kernel.netlink.socket import HEADER, NLM_F_DUMP_INTR, attribute
from hostrouting.kernel.pyroute2 import Pyroute2Backend
from tests.support.kinds import raises


def test_a_handle_that_fails() -> None:
    """An error of its socket is one of the backend; and so is a call after `close`."""
    lost = OSError(errno.ENOBUFS, "x")
    handle = mock.Mock(nlm_request_batch=mock.Mock(side_effect=lost))
    with Pyroute2Backend(handle) as backend, raises(BackendError, "unsettled", match="were lost"):
        backend.snapshot()
    with raises(BackendError, "unusable", match="this backend was closed"):
        backend.snapshot()


class OneDevice:
    """A handle of a kernel without IPv6, which lists one device and nothing else."""

    def __init__(self, torn: int = 0, number: int = errno.EAFNOSUPPORT) -> None:
        """Let the list change at its first readings; IPv6 is refused with this number."""
        self.left = torn
        self.number = number
        self.device = b"eth0\0"

    def nlm_request_batch(self, requests: list[Any]) -> tuple[Any, ...]:
        [request] = requests
        request["header"]["sequence_number"] = 1
        request.encode()
        if request["header"]["type"] == RTM_GETLINK:
            self.left -= 1
            data = bytes(HEADER.size) + LINK.pack(1, 2, 0) + attribute(IFNAME, self.device)
            device = mock.MagicMock(data=data, offset=0, length=len(data))
            device.__getitem__.return_value = {"flags": NLM_F_DUMP_INTR * (self.left >= 0)}
            return (device,)
        if request.data[16] == socket.AF_INET6:
            raise pyroute2.NetlinkError(self.number)
        return ()


def test_a_list_that_is_refused() -> None:
    """It is an error: the host is not read as one without IPv6."""
    backend = Pyroute2Backend(OneDevice(number=errno.ENOMEM))
    with backend, pytest.raises(BackendError) as caught:
        backend.snapshot()
    assert caught.value.errno == errno.ENOMEM
    assert caught.value.kernel == "Cannot allocate memory"


@pytest.mark.parametrize(("torn", "is_restless"), [(0, False), (2, False), (3, True)])
def test_a_list_that_changes_while_it_is_read(torn: int, *, is_restless: bool) -> None:
    """The host is read again, up to three times in all; then the snapshot is restless."""
    with Pyroute2Backend(OneDevice(torn)) as backend:
        snapshot = backend.snapshot()
    assert [link.name for link in snapshot.links] == ["eth0"]
    assert snapshot.restless is is_restless


def test_a_short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last pause is no longer than the wait; a change may have come before it."""
    monkeypatch.setattr("hostrouting.kernel.pyroute2._BETWEEN_READINGS", 9.0)
    handle = OneDevice()
    with Pyroute2Backend(handle) as backend, backend.watch() as watch:
        began = time.monotonic()
        assert watch.wait(0.01) is False
        assert time.monotonic() - began < 9
        handle.device = b"eth1\0"
        assert watch.wait(0.01) is True
