"""The host of the tests of netlink: a namespace with four devices, and a backend there."""

from collections.abc import Iterator

import pytest

from hostrouting.kernel.netlink import NetlinkBackend
from tests.support.commands import furnish
from tests.support.namespace import Namespace, private_namespace


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    """eth0 with an address of each family, and three devices without; eth1 is in group 7."""
    with private_namespace() as made:
        furnish(made)
        yield made


@pytest.fixture
def backend(namespace: Namespace) -> Iterator[NetlinkBackend]:
    with namespace.inside(), NetlinkBackend() as made:
        yield made
