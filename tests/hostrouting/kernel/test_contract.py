"""The contract of RouteBackend on Linux: by netlink, and on a handle of pyroute2."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyroute2
import pytest

from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.kernel.pyroute2 import Pyroute2Backend
from hostrouting.testing.contract import BackendContract
from hostrouting.testing.linux import linux_host

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]


class TestNetlinkBackend(BackendContract):
    @contextmanager
    def make(self) -> Iterator[NetlinkBackend]:
        with linux_host(), NetlinkBackend() as backend:
            yield backend


class TestPyroute2Backend(BackendContract):
    @contextmanager
    def make(self) -> Iterator[Pyroute2Backend]:
        with linux_host(), pyroute2.IPRoute() as handle, Pyroute2Backend(handle) as backend:
            yield backend


def test_the_host_is_another_one() -> None:
    network = Path("/proc/thread-self/ns/net")
    home = network.readlink()
    with linux_host():
        assert network.readlink() != home
    assert network.readlink() == home
