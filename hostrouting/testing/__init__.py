"""Test kit for code that uses hostrouting: a fake kernel, ready-made hosts, and contract suites.

    FakeKernel         a fake kernel in memory that behaves like Linux
    FaultyBackend      any backend, with the faults that a test sets
    FakeNftables …     fake nftables, ebtables (FakeEbtables) and MAC addresses (FakeLinkLayer)
    FakeHost           the fake kernel with files and a service manager; `.image()` is an image
    topologies         ready-made hosts: plain_vm(), h200()
    contract           the contract suite of RouteBackend: subclass `contract.BackendContract`

pytest is not a dependency.
"""

from hostrouting.testing.azure_vnet import FakeEbtables, FakeLinkLayer
from hostrouting.testing.faults import FaultyBackend
from hostrouting.testing.files import FakeFiles
from hostrouting.testing.host import FakeHost
from hostrouting.testing.kernel import FakeKernel
from hostrouting.testing.nftables import FakeNftables
from hostrouting.testing.systemd import FakeManager
from hostrouting.testing.topologies import h200, plain_vm

__all__ = [
    "FakeKernel",
    "FakeNftables",
    "FakeEbtables",
    "FakeLinkLayer",
    "FaultyBackend",
]  # kernels, with faults
__all__ += ["FakeHost", "FakeFiles", "FakeManager"]  # a host in memory, and its parts
__all__ += ["plain_vm", "h200"]  # the kernels of ready-made hosts
