"""pytest fixtures: `fake_kernel`, a kernel like that of a new network namespace, and one for each
ready-made host.

Enable them in a conftest.py::

    pytest_plugins = ["hostrouting.testing.plugin"]
"""

import pytest

from hostrouting.testing import topologies
from hostrouting.testing.kernel import FakeKernel


@pytest.fixture
def fake_kernel() -> FakeKernel:
    """A kernel like that of a new network namespace."""
    return FakeKernel()


@pytest.fixture
def h200() -> FakeKernel:
    """See `topologies.h200`; its option cannot be a fixture."""
    return topologies.h200()


plain_vm = pytest.fixture(topologies.plain_vm)
vpn_node = pytest.fixture(topologies.vpn_node)
ecmp_node = pytest.fixture(topologies.ecmp_node)
cni_node = pytest.fixture(topologies.cni_node)
