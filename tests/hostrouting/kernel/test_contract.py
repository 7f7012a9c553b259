"""The contract of RouteBackend on Linux: by netlink, and on a handle of pyroute2."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyroute2
import pytest

from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.kernel.pyroute2 import Pyroute2Backend
from hostrouting.testing.contract import ADDRESSES, RULES, BackendContract
from tests.support.commands import ports, rule_command, up
from tests.support.namespace import private_namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]


def address_command(dev: str, interface: str) -> str:
    """The command that adds an address, which is usable at once."""
    command = f"address add {interface} dev {dev}"
    return f"{command} nodad" if ":" in interface else command


HOST = [
    "link set lo up",
    *ports("eth0", "ib0", "idle0", "port0"),
    "link set idle0 down",
    # Without a delay, its port forwards at once, and nothing changes later. It is up before it has
    # a port: the other way round, Linux takes a second to report its carrier.
    "link add br0 type bridge forward_delay 0",
    *up("br0"),
    "link set port0 master br0",
    *(address_command(dev, interface) for dev, interface in ADDRESSES),
]


@contextmanager
def contract_host() -> Iterator[None]:
    """The host that the suite requires, made of veth pairs; this thread is on it."""
    with private_namespace() as namespace, namespace.inside():
        namespace.batch(HOST)
        for family in (4, 6):
            rules = [rule_command(rule) for rule in RULES if rule.family == family]
            namespace.batch(rules, family=family)
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
