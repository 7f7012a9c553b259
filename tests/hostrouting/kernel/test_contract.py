"""The contract of RouteBackend on Linux: by netlink, and on a handle of pyroute2."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyroute2  # type: ignore[import-untyped]  # it has no types
import pytest

from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.kernel.pyroute2 import Pyroute2Backend
from hostrouting.testing.contract import BackendContract
from tests.support.commands import ports
from tests.support.namespace import private_namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

HOST = [
    "link set lo up",
    *ports("eth0", "ib0", "idle0"),
    "link set idle0 down",
    "address add 10.0.0.4/24 dev eth0",
    "address add 172.16.1.10/16 dev ib0",
    "address add 2001:db8::4/64 dev eth0 nodad",
]


@contextmanager
def contract_host() -> Iterator[None]:
    """The host that the suite requires, made of veth pairs; this thread is on it."""
    with private_namespace() as namespace, namespace.inside():
        namespace.batch(HOST)
        yield


class TestNetlinkBackend(BackendContract):
    """Every promise, by netlink."""

    @contextmanager
    def make(self) -> Iterator[NetlinkBackend]:
        """A backend on such a host."""
        with contract_host(), NetlinkBackend() as backend:
            yield backend


class TestPyroute2Backend(BackendContract):
    """Every promise, on a handle of pyroute2."""

    @contextmanager
    def make(self) -> Iterator[Pyroute2Backend]:
        """A backend on such a host."""
        with contract_host(), pyroute2.IPRoute() as handle, Pyroute2Backend(handle) as backend:
            yield backend
