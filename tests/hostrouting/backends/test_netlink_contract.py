"""The promises of RouteBackend, on Linux itself, in a private network namespace for each."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.testing.contract import BackendContract
from tests.support.namespace import private_namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

HOST = [
    "link set lo up",
    *(f"link add {name} type veth peer name peer-{name}" for name in ("eth0", "ib0", "idle0")),
    *(f"link set {name} addrgenmode none" for name in ("eth0", "ib0", "idle0", "peer-eth0", "peer-ib0", "peer-idle0")),
    *(f"link set {name} up" for name in ("peer-eth0", "peer-ib0", "eth0", "ib0")),
    "address add 10.0.0.4/24 dev eth0",
    "address add 172.16.1.10/16 dev ib0",
]


class TestNetlinkBackend(BackendContract):
    """Every promise, on the real kernel."""

    @contextmanager
    def make(self) -> Iterator[NetlinkBackend]:
        """The host that the contract is about, made of veth pairs."""
        with private_namespace() as namespace:
            namespace.batch(HOST)
            with NetlinkBackend(netns=namespace.path) as backend:
                yield backend
