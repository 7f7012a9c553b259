"""pytest fixtures: a new fake kernel for every test, and one fixture for each ready-made host.

Enable them in a conftest.py::

    pytest_plugins = ["hostrouting.testing.plugin"]
"""

import pytest

from hostrouting.testing import topologies
from hostrouting.testing.kernel import FakeKernel


@pytest.fixture
def fake_kernel() -> FakeKernel:
    """A kernel like that of a new network namespace: lo, which is down, and the default rules."""
    return FakeKernel()


@pytest.fixture
def plain_vm() -> FakeKernel:
    """One Ethernet device with a default route."""
    return topologies.plain_vm()


@pytest.fixture
def h200() -> FakeKernel:
    """A plain VM whose ib0 … ib7 are all connected to 172.16.0.0/16."""
    return topologies.h200()


@pytest.fixture
def vpn_node() -> FakeKernel:
    """A plain VM that sends all packets by wg0."""
    return topologies.vpn_node()


@pytest.fixture
def ecmp_node() -> FakeKernel:
    """Two uplinks that share the default route."""
    return topologies.ecmp_node()


@pytest.fixture
def cni_node() -> FakeKernel:
    """A plain VM with pods on a bridge, and routes to other nodes' pods by its uplink."""
    return topologies.cni_node()
