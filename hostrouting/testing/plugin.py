"""pytest fixtures: `fake_kernel`, a kernel like that of a new network namespace, and one for each
ready-made host.

Enable them in a conftest.py::

    pytest_plugins = ["hostrouting.testing.plugin"]
"""

import pytest

from hostrouting.testing import topologies
from hostrouting.testing.kernel import FakeKernel

fake_kernel = pytest.fixture(name="fake_kernel")(lambda: FakeKernel())  # noqa: PLW0108  a class is not a fixture
plain_vm = pytest.fixture(topologies.plain_vm)
vpn_node = pytest.fixture(topologies.vpn_node)
ecmp_node = pytest.fixture(topologies.ecmp_node)
cni_node = pytest.fixture(topologies.cni_node)

h200 = pytest.fixture(name="h200")(lambda: topologies.h200())  # noqa: PLW0108  its option is not a fixture
