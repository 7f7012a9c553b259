"""The host of the tests of netlink: a namespace of its own with four devices, and a backend there."""

from collections.abc import Iterator

import pytest

from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.model.snapshot import Link
from hostrouting.testing.strategies import DEVICES
from tests.support.commands import furnish
from tests.support.namespace import Namespace, private_namespace


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    """eth0 with 10.0.0.4/24 and fd00:99::4/64, and three devices without addresses; eth1 is in group 7."""
    links = [Link(name=name, index=0, group=7 * (name == "eth1")) for name in DEVICES]
    with private_namespace() as made:
        furnish(made, links, set())
        yield made


@pytest.fixture
def backend(namespace: Namespace) -> Iterator[NetlinkBackend]:
    """A backend in that namespace."""
    with namespace.inside(), NetlinkBackend() as made:
        yield made
