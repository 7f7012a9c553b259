"""Test kit for code that uses hostrouting: a fake kernel, ready-made hosts, a contract suite.

FakeKernel         a fake kernel in memory that behaves like Linux
FaultyBackend      any backend, with the faults that a test sets
FakeEbtables …     fake ebtables and MAC addresses (FakeLinkLayer)
FakeHost           the fake kernel with files and a service manager; `.image()` is an image
plain_vm, h200     the kernels of ready-made hosts
contract, linux    the suite of RouteBackend (subclass `contract.BackendContract`), and its host
"""

from hostrouting.testing.azure_vnet import FakeEbtables, FakeLinkLayer
from hostrouting.testing.faults import FaultyBackend
from hostrouting.testing.files import FakeFiles
from hostrouting.testing.host import FakeHost
from hostrouting.testing.kernel import FakeKernel
from hostrouting.testing.nftables import FakeNftables
from hostrouting.testing.systemd import FakeManager
from hostrouting.testing.topologies import h200, plain_vm

__all__ = ["FakeKernel", "FakeNftables", "FaultyBackend", "FakeHost", "FakeFiles", "FakeManager"]
__all__ += ["FakeEbtables", "FakeLinkLayer", "plain_vm", "h200"]
